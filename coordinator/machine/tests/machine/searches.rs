//! Remembered searches for victims: each pod preempts as on a new machine, which searches all nodes for the first time.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    preemption::Budget,
    testing::{self, PodBuilder, node, pod},
};
use flotilla_machine::event::Event;
use proptest::{collection::vec, prelude::*};

use crate::world::{World, preempting};

const NODES: usize = 6;

/// A change between two pods that preempt.
#[derive(Debug, Clone)]
enum Change {
    Nothing,
    /// A pod is bound to a node by another scheduler: node, priority, start time.
    Placed(usize, i32, i64),
    /// A pod on a node starts at another time.
    Started(usize, i64),
    Deleted(usize),
    /// A node gets other resources.
    Resized(usize, usize),
    Added(usize),
    Removed(usize),
    /// A pod that never preempts is nominated to a node: node, priority.
    Nominated(usize, i32),
    Budget(i32),
    NoBudget,
}

fn any_change() -> impl Strategy<Value = Change> {
    let (node, priority, time) = (|| 0..NODES, || 0..8_i32, || 0..1_000_i64);
    prop_oneof![
        3 => Just(Change::Nothing),
        6 => (node(), priority(), time()).prop_map(|(node, priority, time)| Change::Placed(node, priority, time)),
        8 => (0..40_usize, time()).prop_map(|(pod, time)| Change::Started(pod, time)),
        2 => (0..40_usize).prop_map(Change::Deleted),
        1 => (node(), 0..3_usize).prop_map(|(node, size)| Change::Resized(node, size)),
        1 => (NODES..NODES + 2).prop_map(Change::Added),
        1 => (NODES..NODES + 2).prop_map(Change::Removed),
        2 => (node(), 5..12_i32).prop_map(|(node, priority)| Change::Nominated(node, priority)),
        2 => (0..2_i32).prop_map(Change::Budget),
        1 => Just(Change::NoBudget),
    ]
}

fn asks(name: &str, cpus: &str, priority: i32) -> PodBuilder {
    pod(name).request("cpu", cpus).request("memory", "1Mi").priority(priority)
}

fn sized(index: usize, size: usize) -> Event {
    let node = node(&format!("n{index}")).capacity("cpu", ["1", "2", "3"][size]).capacity("pods", "20").build();
    Event::NodeApplied(Arc::new(node))
}

/// The cluster, with the objects for a new machine.
struct Cluster {
    world: World,
    workers: usize,
    budget: Option<Event>,
    pods: usize,
}

impl Cluster {
    fn new(workers: usize) -> Self {
        let mut world = World::with_workers(workers, preempting());
        (0..NODES).for_each(|index| world.tell(sized(index, index % 3)));
        let mut cluster = Self { world, workers, budget: None, pods: 0 };
        for index in 0..NODES * 3 {
            cluster.change(&Change::Placed(index % NODES, (index % 5) as i32, index as i64));
        }
        cluster
    }

    /// The placed pods, in the order of their names.
    fn placed(&self, at: usize) -> Option<PodInfo> {
        let mut placed: Vec<&PodInfo> = self.world.api.values().filter(|pod| pod.node_name.is_some()).collect();
        placed.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        placed.get(at % placed.len().max(1)).copied().cloned()
    }

    fn change(&mut self, change: &Change) {
        self.pods += 1;
        let name = format!("p{}", self.pods);
        match *change {
            Change::Nothing => {}
            Change::Placed(node, priority, time) => {
                let placed = asks(&name, ["250m", "500m"][self.pods % 2], priority).started(time).label("app", "x");
                self.world.pod(placed.on(&format!("n{node}")).build());
            }
            Change::Started(at, time) => {
                if let Some(placed) = self.placed(at) {
                    self.world.pod(PodInfo { started_ns: Some(time * 1_000_000_000), ..placed });
                }
            }
            Change::Deleted(at) => self.placed(at).into_iter().for_each(|pod| self.world.delete_pod(&pod.uid)),
            Change::Resized(node, size) => self.world.tell(sized(node, size)),
            Change::Added(node) => self.world.tell(sized(node, node % 3)),
            Change::Removed(node) => self.world.tell(Event::NodeDeleted { name: format!("n{node}").into() }),
            Change::Nominated(node, priority) => {
                let nominated = asks(&name, "500m", priority).node_selector("no", "node").never_preempts();
                self.world.pod(nominated.nominated(&format!("n{node}")).build());
            }
            Change::Budget(allowed) => {
                let selector = testing::selecting(("app", "x"));
                let (namespace, name) = ("default".into(), "x".into());
                let budget = Budget { namespace, name, selector, disruptions_allowed: allowed, disrupted: vec![] };
                self.budget = Some(Event::BudgetApplied(Arc::new(budget)));
                self.budget.iter().for_each(|budget| self.world.tell(budget.clone()));
            }
            Change::NoBudget => {
                self.budget = None;
                self.world.tell(Event::BudgetDeleted { namespace: "default".into(), name: "x".into() });
            }
        }
        self.world.settle();
    }

    /// A new machine with the current objects.
    fn renewed(&self) -> World {
        let mut world = World::with_workers(self.workers, preempting());
        self.world.known_nodes().into_iter().for_each(|node| world.tell(Event::NodeApplied(node)));
        self.world.api.values().for_each(|pod| world.pod(pod.clone()));
        self.budget.iter().for_each(|budget| world.tell(budget.clone()));
        // Pods in backoffQ would preempt first.
        world.advance(10_000);
        world
    }
}

/// A pod, the node where it preempts, and the victims.
type Evicted = (String, String, Vec<String>);

/// The victims of a pod, and the message about it.
fn preempts(world: &mut World, pod: &PodInfo) -> (Vec<Evicted>, Option<String>) {
    world.evicted.clear();
    world.pod(pod.clone());
    world.settle();
    let own = world.evicted.iter().filter(|(preemptor, ..)| **preemptor == *pod.name).cloned().collect();
    (own, world.whole_message_of(&pod.name).map(str::to_owned))
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn a_pod_preempts_after_other_pods_of_its_class_as_if_it_were_the_first(
        workers in 0..2_usize,
        rounds in vec((vec(any_change(), 0..3), 0..2_usize), 4..14),
    ) {
        let mut cluster = Cluster::new(workers);
        for (number, (changes, size)) in rounds.iter().enumerate() {
            changes.iter().for_each(|change| cluster.change(change));
            cluster.world.advance(10_000);
            let preemptor = asks(&format!("high{number}"), ["500m", "1"][*size], 6).build();
            let mut renewed = cluster.renewed();
            let expected = preempts(&mut renewed, &preemptor);
            prop_assert_eq!(preempts(&mut cluster.world, &preemptor), expected, "pod {}", number);
        }
    }
}
