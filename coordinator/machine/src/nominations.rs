//! Nominations: waiting pods with a nominated node, and changes of nominations by the machine itself.
//!
//! Source: `backend/queue/nominator.go`.

use std::sync::Arc;

use crate::{
    action::Nomination, event::TimeMs, judge::nominator::Nominated, machine::Machine, pods::Indexed, subject::Uid,
};

impl Nominated {
    pub(crate) fn of(pod: &Indexed) -> Option<Self> {
        let node = pod.nominated_node.as_ref().filter(|_| pod.stage.waits())?;
        let class = (pod.class, Arc::clone(&pod.info.class));
        Some(Self { node: Arc::clone(node), priority: pod.info.priority, class })
    }
}

impl Machine {
    /// Nominates a pod or removes its nomination. The change counts at once, until the watch shows a change. Returns the change to write.
    pub(crate) fn nominate_local(&mut self, now_ms: TimeMs, uid: &Uid, node: Option<Arc<str>>) -> Nomination {
        let Some(pod) = self.pods.get(uid) else { return Nomination::Keep };
        if pod.nominated_node() == node.as_ref() && !pod.announced {
            return Nomination::Keep;
        }
        self.edit(now_ms, uid, |pod| {
            pod.announced = false;
            pod.nominate_locally(node.clone());
        });
        node.map_or(Nomination::Clear, Nomination::To)
    }
}
