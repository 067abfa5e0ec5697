//! Progress of the creation of pods.

use super::Gatherer;

/// Called with the number of created pods, and with an upper bound of their final number.
pub type CreatedPods = Box<dyn Fn(u64, u64)>;

/// Counts the created pods.
#[derive(Default)]
pub(super) struct Progress {
    created: Option<CreatedPods>,
    count: u64,
    most: u64,
}

impl Gatherer {
    /// Calls `created` before the first pod of a workload is created, and after each pod.
    #[must_use]
    pub fn with_progress(mut self, created: CreatedPods) -> Self {
        self.progress.created = Some(created);
        self
    }
}

impl Progress {
    /// Begins with an upper bound of the created pods.
    pub(super) fn begin(&mut self, most: u64) {
        (self.count, self.most) = (0, most);
        if most > 0 {
            self.report();
        }
    }

    pub(super) fn advance(&mut self) {
        self.count += 1;
        self.report();
    }

    fn report(&self) {
        if let Some(created) = &self.created {
            created(self.count, self.most.max(self.count));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use serde_json::json;

    use super::*;
    use crate::test_support::load;

    #[test]
    fn each_created_pod_is_counted_toward_the_bound_of_all() {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
        }});
        for (objects, expected) in [(vec![deployment], vec![(0, 3), (1, 3), (2, 3), (3, 3)]), (Vec::new(), Vec::new())]
        {
            let seen = Rc::new(RefCell::new(Vec::new()));
            let calls = Rc::clone(&seen);
            let gatherer =
                Gatherer::default().with_progress(Box::new(move |done, of| calls.borrow_mut().push((done, of))));
            load(&objects, gatherer, &[]);
            assert_eq!(*seen.borrow(), expected);
        }
    }
}
