//! Pod groups under all simulated faults: no gang is bound partly, no node is overcommitted, and every pod that fits is placed after the
//! faults end.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    pod_group::PodGroup,
    testing::{node, pod, pod_group},
};
use flotilla_machine::event::{BindFailure, Event, WorkerId};

use crate::{groups::configuration, simulation::Seed, world::World};

const GROUPS: [&str; 3] = ["g0", "g1", "g2"];

/// Minimum of each gang; the last group is basic.
const MINIMUM: [Option<u32>; 3] = [Some(2), Some(4), None];

fn any_pod(seed: &mut Seed, index: u64) -> PodInfo {
    let at = seed.below(4) as usize;
    let mut builder = pod(&format!("pod-{index}")).request("cpu", &format!("{}m", 200 * (1 + seed.below(8))));
    if let Some(group) = GROUPS.get(at) {
        builder = builder.group(group);
    }
    if seed.below(4) == 0 {
        builder = builder.label("index", &index.to_string());
    }
    if seed.below(6) == 0 {
        builder = builder.label("app", "x").far("kubernetes.io/hostname", ("app", "x"));
    }
    if seed.below(12) == 0 {
        builder = builder.gate("wait");
    }
    builder.build()
}

fn group(at: usize) -> PodGroup {
    pod_group(GROUPS[at], MINIMUM[at])
}

/// Checks that a gang with a bind has enough pods bound or in flight, apart from deleted ones.
fn check_gangs(world: &World, deleted: bool, seed: u64) {
    if deleted {
        return;
    }
    for (name, minimum) in GROUPS.iter().zip(MINIMUM) {
        let of = |pod: &&PodInfo| pod.scheduling_group.as_deref() == Some(name);
        let bound = world.api.values().filter(of).filter(|pod| pod.node_name.is_some()).count();
        let on_their_way = world.binds.iter().filter(|binding| world.api.get(&binding.uid).is_some_and(|pod| of(&pod)));
        let on_their_way = on_their_way.count();
        let minimum = minimum.unwrap_or(1) as usize;
        assert!(
            on_their_way == 0 || bound + on_their_way >= minimum,
            "seed {seed}: {on_their_way} pods of {name} are on their way beside {bound}"
        );
    }
}

fn check_capacity(world: &World, nodes: &BTreeMap<String, i64>, seed: u64) {
    let mut used: BTreeMap<&str, i64> = BTreeMap::new();
    for pod in world.api.values() {
        if let Some(node) = &pod.node_name {
            *used.entry(node).or_default() += pod.class.requests.milli_cpu;
        }
    }
    for (node, milli_cpu) in used {
        assert!(
            nodes.get(node).is_none_or(|capacity| milli_cpu <= *capacity),
            "seed {seed}: {node} holds {milli_cpu}m"
        );
    }
}

/// One step; returns whether a pod was deleted, or its bind failed.
fn step(world: &mut World, seed: &mut Seed, nodes: &mut BTreeMap<String, i64>, index: u64) -> bool {
    let workers: Vec<WorkerId> = world.workers.keys().copied().collect();
    match seed.below(18) {
        0..=5 => world.pod(any_pod(seed, index)),
        6 | 7 => {
            let new = node(&format!("node-{index}")).capacity("cpu", &(1 + seed.below(4)).to_string()).build();
            nodes.insert(new.name.to_string(), new.allocatable.milli_cpu);
            world.node(new);
        }
        8 => {
            let gone = seed.below(3) as usize;
            world.tell(Event::PodGroupDeleted(group(gone).group_key()));
        }
        9 | 10 => {
            let there = seed.below(3) as usize;
            world.tell(Event::PodGroupApplied(Arc::new(group(there))));
        }
        11 => {
            let pods: Vec<Arc<str>> = world.api.keys().cloned().collect();
            if let Some(uid) = seed.pick(&pods) {
                world.delete_pod(&uid);
                return true;
            }
        }
        12 => drop(world.join(&format!("worker-{index}"))),
        13 if workers.len() > 1 => world.kill(workers[0]),
        14 => {
            if let Some(failed) = world.binds.pop_front() {
                let failure = BindFailure::Error("timeout".to_owned());
                world.tell(Event::BindFailed { uid: failed.uid, failure });
                return true;
            }
        }
        15 => {
            let held: Vec<PodInfo> = world.api.values().filter(|pod| !pod.gates.is_empty()).cloned().collect();
            if let Some(held) = seed.pick(&held) {
                world.pod(PodInfo { gates: Vec::new(), ..held });
            }
        }
        16 => world.advance(1_500),
        _ => {
            if let Some(worker) = seed.pick(&workers) {
                world.run_worker(worker);
            }
        }
    }
    match seed.below(3) {
        0 => _ = world.run_bind(),
        1 => _ = world.run_watch(),
        _ => {}
    }
    false
}

#[test]
fn no_gang_is_bound_in_part_under_any_fault_and_in_the_end_all_that_can_land_has() {
    for number in 0..30 {
        let mut seed = Seed(number);
        let mut world = World::new(number as usize % 3);
        world.tell(Event::Configured(Arc::new(configuration(2))));
        let mut nodes = BTreeMap::new();
        let mut deleted = false;
        for index in 0..150 {
            deleted |= step(&mut world, &mut seed, &mut nodes, index);
            check_gangs(&world, deleted, number);
            check_capacity(&world, &nodes, number);
        }
        for at in 0..GROUPS.len() {
            world.tell(Event::PodGroupApplied(Arc::new(group(at))));
        }
        let held: Vec<PodInfo> = world.api.values().filter(|pod| !pod.gates.is_empty()).cloned().collect();
        for pod in held {
            world.pod(PodInfo { gates: Vec::new(), ..pod });
        }
        for index in 0..40 {
            world.node(node(&format!("late-{index}")).build());
        }
        world.settle();
        for _ in 0..3 {
            world.advance(400_000);
            world.settle();
        }
        let members =
            |name: &str| world.api.values().filter(|pod| pod.scheduling_group.as_deref() == Some(name)).count();
        let waits = |pod: &&PodInfo| {
            let Some(at) = GROUPS.iter().position(|name| pod.scheduling_group.as_deref() == Some(name)) else {
                return pod.node_name.is_none();
            };
            pod.node_name.is_none() && members(GROUPS[at]) >= MINIMUM[at].unwrap_or(1) as usize
        };
        let left: Vec<&str> = world.api.values().filter(waits).map(|pod| &*pod.name).collect();
        assert!(left.is_empty(), "seed {number}: {left:?} could have landed");
    }
}
