//! Shares equal parts of objects: classes of pods, names of nodes, images, labels.
//!
//! Pods of one workload differ only in name and UID, or also in a label, and nodes share images. Sharing before the queue also bounds its
//! memory.

use std::{collections::HashSet, hash::Hash, sync::Arc};

use flotilla_framework::{
    class::{Class, Common, PodInfo, Toleration},
    node::NodeInfo,
};
use flotilla_machine::event::Event;

/// Values that are kept before the first sweep.
const FEW: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Sharing {
    texts: Pool<str>,
    classes: Pool<Class>,
    commons: Pool<Common>,
}

impl Sharing {
    pub(super) fn share(&mut self, event: &mut Event) {
        match event {
            Event::PodApplied(pod) => Arc::get_mut(pod).into_iter().for_each(|pod| self.pod(pod)),
            Event::NodeApplied(node) => Arc::get_mut(node).into_iter().for_each(|node| self.node(node)),
            _ => {}
        }
    }

    fn pod(&mut self, pod: &mut PodInfo) {
        let Self { texts, classes, commons } = self;
        // StatefulSets and indexed Jobs give each pod a label, and thus a class before its labels are reduced.
        classes.share_new(&mut pod.class, |class| {
            class.labels.shrink_to_fit();
            let labels = class.labels.iter_mut().flat_map(|(key, value)| [key, value]);
            labels.chain([&mut class.namespace]).for_each(|text| texts.share(text));
            commons.share_new(&mut class.common, |common| share_texts(texts, common));
        });
        let condition = pod.condition.iter_mut().flat_map(|condition| [&mut condition.reason, &mut condition.message]);
        let names = pod.extended_resources.iter_mut().chain(&mut pod.gates).chain(&mut pod.node_name);
        names.chain([&mut pod.scheduler_name]).chain(condition).for_each(|text| self.texts.share(text));
    }

    fn node(&mut self, node: &mut NodeInfo) {
        let labels = node.labels.iter_mut().flat_map(|(key, value)| [key, value]);
        let taints = node.taints.iter_mut().flat_map(|taint| [&mut taint.key, &mut taint.value, &mut taint.effect]);
        let images = node.images.iter_mut().flat_map(|(names, _)| names);
        labels.chain(taints).chain(images).for_each(|text| self.texts.share(text));
    }
}

/// Shares the texts of fields that no other pod has.
fn share_texts(texts: &mut Pool<str>, common: &mut Common) {
    // A vector that grew holds up to twice its length.
    common.node_selector.shrink_to_fit();
    common.tolerations.shrink_to_fit();
    common.images.shrink_to_fit();
    let pairs = common.node_selector.iter_mut().flat_map(|(key, value)| [key, value]);
    let resources = [&mut common.requests, &mut common.score_requests, &mut common.accounted];
    let resources = resources.into_iter().flat_map(|resources| resources.scalars.iter_mut().map(|(name, _)| name));
    let tolerations = common.tolerations.iter_mut().flat_map(|toleration| {
        let Toleration { key, operator, value, effect } = toleration;
        [key, operator, value, effect]
    });
    let ports = common.host_ports.iter_mut().flat_map(|port| [&mut port.ip, &mut port.protocol]);
    let owner = common.owner.iter_mut().map(|owner| &mut owner.name);
    let all = pairs.chain(resources).chain(tolerations).chain(ports).chain(&mut common.images).chain(owner);
    all.for_each(|text| texts.share(text));
}

/// Values that are shared while others reference them.
#[derive(Debug)]
struct Pool<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Size at which unreferenced values are removed.
    bound: usize,
}

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self { values: HashSet::new(), bound: FEW }
    }
}

impl<T: ?Sized + Eq + Hash> Pool<T> {
    fn share(&mut self, value: &mut Arc<T>) {
        if !self.find(value) {
            self.insert(value);
        }
    }

    /// Replaces a value by an equal one. `false`: there is none.
    fn find(&self, value: &mut Arc<T>) -> bool {
        let kept = self.values.get(value);
        kept.map(|kept| *value = Arc::clone(kept)).is_some()
    }

    fn insert(&mut self, value: &Arc<T>) {
        if self.values.len() >= self.bound {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.bound = FEW.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(value));
    }
}

impl<T: Eq + Hash> Pool<T> {
    /// As [`Self::share`]. `share_parts` shares the parts of a new value, and leaves it equal.
    fn share_new(&mut self, value: &mut Arc<T>, share_parts: impl FnOnce(&mut T)) {
        if !self.find(value) {
            Arc::get_mut(value).map(share_parts);
            self.insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing::{node, pod};

    use super::*;

    fn shared(sharing: &mut Sharing, pod: PodInfo) -> Arc<PodInfo> {
        let mut event = Event::PodApplied(Arc::new(pod));
        sharing.share(&mut event);
        match event {
            Event::PodApplied(pod) => pod,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pods_of_one_class_have_one_class_and_differ_where_they_differed() {
        let mut sharing = Sharing::default();
        let of = |name: &str| PodInfo { node_name: Some("n1".into()), ..pod(name).label("app", "web").build() };
        let (one, other) = (shared(&mut sharing, of("one")), shared(&mut sharing, of("other")));
        assert_eq!((&*one, &*other), (&of("one"), &of("other")), "sharing changes nothing");
        assert!(Arc::ptr_eq(&one.class, &other.class));
        assert!(Arc::ptr_eq(one.node_name.as_ref().expect("a node"), other.node_name.as_ref().expect("a node")));
        let stranger = shared(&mut sharing, pod("stranger").label("app", "db").build());
        assert!(!Arc::ptr_eq(&one.class, &stranger.class));
    }

    #[test]
    fn pods_that_differ_in_a_label_share_all_other_fields() {
        let mut sharing = Sharing::default();
        let of = |name: &str| {
            let pod = pod(name).label("app", "web").label("pod-name", name).request("example.com/gpu", "1");
            pod.image("web:1").tolerate("gpu", "Exists", "", "NoSchedule").host_port(80).build()
        };
        let (one, other) = (shared(&mut sharing, of("one")), shared(&mut sharing, of("other")));
        assert_eq!((&*one, &*other), (&of("one"), &of("other")), "sharing changes nothing");
        let (one, other) = (&one.class, &other.class);
        assert!(Arc::ptr_eq(&one.common, &other.common));
        let pairs = [
            (&one.namespace, &other.namespace),
            (&one.labels[0].0, &other.labels[0].0),
            (&one.labels[0].1, &other.labels[0].1),
            (&one.requests.scalars[0].0, &other.accounted.scalars[0].0),
            (&one.images[0], &other.images[0]),
            (&one.tolerations[0].key, &other.tolerations[0].key),
            (&one.host_ports[0].ip, &other.host_ports[0].ip),
        ];
        for (one, other) in pairs {
            assert!(Arc::ptr_eq(one, other), "{one}");
        }
    }

    #[test]
    fn nodes_share_labels_and_images() {
        let mut sharing = Sharing::default();
        let mut nodes = ["a", "b"].map(|name| {
            let mut event = Event::NodeApplied(Arc::new(node(name).label("zone", "z").image("web:1", 5).build()));
            sharing.share(&mut event);
            event
        });
        let [Event::NodeApplied(one), Event::NodeApplied(other)] = &mut nodes else { panic!("two nodes") };
        let zone = |node: &NodeInfo| node.labels.iter().find(|(key, _)| &**key == "zone").cloned().expect("a zone");
        assert!(Arc::ptr_eq(&zone(one).0, &zone(other).0) && Arc::ptr_eq(&zone(one).1, &zone(other).1));
        assert!(Arc::ptr_eq(&one.images[0].0[0], &other.images[0].0[0]));
    }

    #[test]
    fn what_nobody_has_any_more_is_not_kept_for_ever() {
        let mut pool = Pool::<str>::default();
        let mut kept: Arc<str> = Arc::from("kept");
        pool.share(&mut kept);
        for number in 0..10 * FEW {
            pool.share(&mut Arc::from(number.to_string()));
        }
        assert!(pool.values.len() <= FEW, "{}", pool.values.len());
        let mut again: Arc<str> = Arc::from("kept");
        pool.share(&mut again);
        assert!(Arc::ptr_eq(&kept, &again));
    }
}
