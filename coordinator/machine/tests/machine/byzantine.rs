//! A byzantine worker among correct ones: a seed changes, delays or repeats each of its messages. No correct worker is dropped, no pod is
//! preempted needlessly, no node is overcommitted, and in the end every pod that fits is placed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    class::{AffinityTerm, PodInfo},
    evaluation::{Evaluation, Offer, Refused},
    node::NodeId,
    shard::{FromWorker, Reply},
    status::{Code, Refusal},
    testing::{node, pod},
};
use flotilla_machine::event::{Event, WorkerId};

use crate::{
    simulation::{Seed, assert_all_parked_pods_really_do_not_fit},
    world::{World, preempting},
};

/// Prefix of byzantine workers' names; there is one at a time.
const LIAR: &str = "liar";

/// Free capacity per node and the time since it grew: a search for victims uses the state of its begin.
#[derive(Default)]
struct FreeCapacity {
    taken: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    freed_ms: BTreeMap<Arc<str>, u64>,
}

/// Maximum duration of a search: a few requests to workers of 100 ms each.
const SEARCH_MS: u64 = 2_000;

impl FreeCapacity {
    /// Records the nodes with less usage than at the last call.
    fn look(&mut self, world: &World) {
        let mut taken: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let binding = world.binds.iter().map(|bind| (&bind.node, &bind.uid));
        let there = world
            .api
            .values()
            .flat_map(|pod| pod.node_name.iter().chain(&pod.nominated_node_name).map(move |node| (node, &pod.uid)));
        for (node, uid) in there.chain(binding) {
            taken.entry(Arc::clone(node)).or_default().insert(Arc::clone(uid));
        }
        for (node, pods) in std::mem::replace(&mut self.taken, taken) {
            let left = self.taken.get(&node);
            if pods.iter().any(|pod| left.is_none_or(|left| !left.contains(pod))) {
                self.freed_ms.insert(node, world.now_ms);
            }
        }
    }

    fn is_new(&self, node: &str, now_ms: u64) -> bool {
        self.freed_ms.get(node).is_some_and(|freed_ms| now_ms < freed_ms + SEARCH_MS)
    }
}

/// Effects of the byzantine messages.
#[derive(Default)]
struct Lies {
    old: Vec<FromWorker>,
    told: usize,
}

fn any_offer<'a>(seed: &mut Seed, evaluation: &'a mut Evaluation) -> Option<&'a mut Offer> {
    let offers = evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.offers);
    let mut offers: Vec<&mut Offer> = offers.collect();
    let at = seed.below(offers.len().max(1) as u64) as usize;
    (at < offers.len()).then(|| offers.swap_remove(at))
}

fn distort(seed: &mut Seed, evaluation: &mut Evaluation) {
    const EXTREMES: [i64; 6] = [i64::MIN, i64::MAX, -1, 0, 1_000, 1 << 40];
    let extreme = EXTREMES[seed.below(6) as usize];
    // The most harmful case is the most frequent: no node is feasible.
    match seed.below(24) {
        0 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.node = NodeId(u32::MAX)),
        // Usually a node of another worker.
        1 => {
            let other = NodeId(1 + seed.below(8) as u32);
            any_offer(seed, evaluation).into_iter().for_each(|offer| offer.node = other);
        }
        2 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.base = extreme),
        3 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.base += 1),
        4 => evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.offers).for_each(|offer| offer.base += 7),
        5 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.rank ^= 1),
        6 => evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.raws).for_each(|raw| *raw = extreme),
        7 | 8 | 14..=23 => refuse(evaluation, Code::Unschedulable),
        9 => refuse(evaluation, Code::UnschedulableAndUnresolvable),
        10 => refuse(evaluation, Code::Error),
        11 => evaluation.tallies.iter_mut().flat_map(|tally| tally.0.values_mut()).for_each(|count| *count = extreme),
        12 => evaluation.strata.iter_mut().for_each(|stratum| stratum.domains.iter_mut().for_each(|it| *it = None)),
        _ => *evaluation = Evaluation { covered: evaluation.covered, ..Evaluation::default() },
    }
}

fn refuse(evaluation: &mut Evaluation, code: Code) {
    let strata: Vec<_> = evaluation.strata.drain(..).collect();
    for stratum in strata {
        let refusal = Refusal { code, detail: 2 };
        evaluation.refused.push(Refused { order: 6, refusal, domains: Vec::new(), count: stratum.size });
    }
}

impl World {
    fn liar(&self) -> Option<WorkerId> {
        self.workers.iter().find(|(_, worker)| worker.name.starts_with(LIAR)).map(|(id, _)| *id)
    }

    /// The byzantine worker reads its commands and sends arbitrary messages.
    fn run_liar(&mut self, seed: &mut Seed, lies: &mut Lies) {
        let Some(id) = self.liar() else { return };
        let worker = self.workers.get_mut(&id).expect("it is there");
        let mut words = Vec::new();
        while let Some(word) = worker.inbox.pop_front() {
            words.extend(worker.replica.apply(word));
        }
        for mut word in words {
            if seed.below(3) == 0 {
                lies.told += 1;
                match (&mut word.reply, seed.below(8)) {
                    // The message is lost.
                    (_, 0) => continue,
                    (_, 1) => {
                        if let Some(old) = seed.pick(&lies.old) {
                            self.tell(Event::FromWorker { worker: id, word: old });
                        }
                    }
                    (Reply::Evaluated { evaluation, .. }, _) => distort(seed, evaluation),
                    (Reply::Applied { nodes, generation }, _) => (*nodes, *generation) = (1, seed.below(3)),
                    (Reply::DryRunResults { outcomes, .. }, _) => outcomes.reverse(),
                    _ => {}
                }
            }
            lies.old.push(word.clone());
            self.tell(Event::FromWorker { worker: id, word });
        }
    }

    /// The byzantine worker reports its nodes as infeasible; all other messages are correct.
    fn run_refuser(&mut self, lies: &mut Lies) {
        let Some(id) = self.liar() else { return };
        let worker = self.workers.get_mut(&id).expect("it is there");
        let mut words = Vec::new();
        while let Some(word) = worker.inbox.pop_front() {
            words.extend(worker.replica.apply(word));
        }
        for mut word in words {
            if let Reply::Evaluated { evaluation, .. } = &mut word.reply {
                lies.told += 1;
                refuse(evaluation, Code::Unschedulable);
            }
            self.tell(Event::FromWorker { worker: id, word });
        }
    }
}

fn any_pod(seed: &mut Seed, index: u64) -> PodInfo {
    let builder = pod(&format!("pod-{index}")).priority((seed.below(3) * 10) as i32);
    let builder = builder.request("cpu", &format!("{}m", 100 * (1 + seed.below(15))));
    let builder = builder.label("app", ["web", "db"][seed.below(2) as usize]);
    match seed.below(8) {
        0 => builder.spread(1, "zone", ("app", "web")),
        1 => builder.far("kubernetes.io/hostname", ("app", "db")),
        2 => builder.prefer_near(10, "zone", ("app", "web")),
        3 => builder.node_selector("zone", ["a", "b"][seed.below(2) as usize]),
        _ => builder,
    }
    .build()
}

/// Checks that no later preemption is for a pod with room on some node.
fn check_evictions(world: &World, room: &FreeCapacity, seen: usize, seed: u64) {
    for preemption in world.preemptions.iter().skip(seen) {
        let Some(preemptor) = world.api.get(&preemption.preemptor.uid) else { continue };
        let class = &preemptor.class;
        let is_plain = class.spread.is_empty() && class.node_selector.is_empty() && class.pod_affinity.is_empty();
        if !is_plain {
            continue;
        }
        let standing: Vec<&PodInfo> = world.api.values().collect();
        let means = |term: &AffinityTerm| term.selector.matches(&class.labels);
        let keeps_apart = standing.iter().any(|pod| pod.class.pod_affinity.required_anti.iter().any(means));
        for info in world.known_nodes() {
            let on_its_way = |pod: &PodInfo| {
                let binding = world.binds.iter().any(|bind| bind.uid == pod.uid && bind.node == info.name);
                binding || pod.nominated_node_name.as_ref() == Some(&info.name)
            };
            let is_there = |pod: &&&PodInfo| pod.node_name.as_ref() == Some(&info.name) || on_its_way(pod);
            let used: i64 = standing.iter().filter(is_there).map(|pod| pod.class.requests.milli_cpu).sum();
            let fits = used + class.requests.milli_cpu <= info.allocatable.milli_cpu;
            assert!(
                !fits || keeps_apart || room.is_new(&info.name, world.now_ms),
                "seed {seed}: {} has others evicted on {} and fits on {}",
                preemptor.name,
                preemption.place(),
                info.name
            );
        }
    }
}

fn check_capacity(world: &World, seed: u64) {
    for info in world.known_nodes() {
        let on = world.api.values().filter(|pod| pod.node_name.as_ref() == Some(&info.name));
        let used: i64 = on.map(|pod| pod.class.requests.milli_cpu).sum();
        assert!(used <= info.allocatable.milli_cpu, "seed {seed}: {} holds {used}m", info.name);
    }
}

/// A pod of the highest priority arrives on a quiet cluster, and a worker reports all its nodes as infeasible. The pod fits on one node
/// without preemption, and on others with it. Returns how often the worker was dropped because the node was its own.
fn quiet(world: &mut World, seed: &mut Seed, lies: &mut Lies, number: u64) -> usize {
    let mut found_out = 0;
    for index in 0..6 {
        if world.liar().is_none() {
            // Its quarantine may take up to five minutes.
            world.advance(300_000);
            world.join(&format!("{LIAR}-quiet-{}", seed.below(40)));
        }
        let all: Vec<Arc<str>> = world.api.keys().cloned().collect();
        all.iter().for_each(|uid| world.delete_pod(uid));
        // A different amount each time, so that workers have to be asked.
        let (free, left) = (seed.below(8), 1_000 + index * 7);
        for place in 0..8 {
            let taken = if place == free { 2_000 - left } else { 1_900 };
            let filler = pod(&format!("filler-{index}-{place}")).on(&format!("node-{place}"));
            world.pod(filler.request("cpu", &format!("{taken}m")).build());
        }
        // A correct phase: all workers are current, and no capacity is new.
        world.advance(2 * SEARCH_MS);
        if world.liar().is_none() {
            continue;
        }
        world.pod(pod(&format!("late-{index}")).priority(30).request("cpu", &format!("{left}m")).build());
        for _ in 0..8 {
            world.run_refuser(lies);
            let honest: Vec<WorkerId> = world.workers.keys().copied().filter(|id| Some(*id) != world.liar()).collect();
            for id in honest {
                world.run_worker(id);
            }
            while world.run_watch() {}
            check_evictions(world, &FreeCapacity::default(), 0, number);
        }
        world.settle();
        let place = world.place_of(&format!("late-{index}"));
        assert_eq!(place, Some(&*format!("node-{free}")), "seed {number}: late-{index}");
        check_capacity(world, number);
        found_out += usize::from(world.liar().is_none());
    }
    found_out
}

/// Returns the number of incorrect messages, of drops because of them, and of these in the quiet phase.
fn run(number: u64) -> (usize, usize, usize) {
    let mut seed = Seed(number);
    let mut world = World::with_workers(1, preempting());
    world.evicts_slowly = true;
    for index in 0..8 {
        let zone = ["a", "b", "c"][index % 3];
        world.node(node(&format!("node-{index}")).capacity("cpu", "2").label("zone", zone).build());
    }
    for index in 0..10 {
        world.pod(pod(&format!("early-{index}")).request("cpu", &format!("{}m", 900 + 100 * seed.below(4))).build());
    }
    world.settle();
    let honest: BTreeSet<WorkerId> = world.workers.keys().copied().collect();
    let (mut lies, mut room) = (Lies::default(), FreeCapacity::default());
    for index in 0..200 {
        match seed.below(10) {
            0..=3 => world.pod(any_pod(&mut seed, index)),
            4 => {
                let uids: Vec<Arc<str>> = world.api.keys().cloned().collect();
                seed.pick(&uids).into_iter().for_each(|uid| world.delete_pod(&uid));
            }
            5 => drop(world.run_bind()),
            6 => drop(world.run_watch()),
            7 => world.advance_lazily(seed.below(300)),
            // Sometimes a quarantined one reconnects.
            8 | 9 if world.liar().is_none() => drop(world.join(&format!("{LIAR}-{}", seed.below(40)))),
            _ => {}
        }
        world.run_preemption();
        // The machine catches up with the API server.
        while world.run_watch() {}
        let seen = world.preemptions.len();
        room.look(&world);
        // Correct workers answer in time.
        for id in &honest {
            world.run_worker(*id);
            check_evictions(&world, &room, seen, number);
        }
        world.run_liar(&mut seed, &mut lies);
        check_evictions(&world, &room, seen, number);
        check_capacity(&world, number);
        for id in &honest {
            assert!(
                world.workers.contains_key(id),
                "seed {number}: an honest worker was given up: {:?}",
                world.dropped
            );
        }
    }
    world.evicts_slowly = false;
    let found_out = quiet(&mut world, &mut seed, &mut lies, number);
    // From here on the byzantine worker is correct, or gone.
    if let Some(liar) = world.liar() {
        world.kill(liar);
    }
    world.settle();
    world.advance(60_000);
    check_capacity(&world, number);
    let status = world.machine.status();
    assert_eq!((status.pods_active, status.pods_backoff, status.binds_in_flight), (0, 0, 0), "seed {number}");
    assert_all_parked_pods_really_do_not_fit(&mut world, number);
    assert!(honest.iter().all(|id| world.workers.contains_key(id)), "seed {number}");
    (lies.told, world.dropped.len(), found_out)
}

#[test]
fn whatever_one_worker_says_only_its_own_place_is_at_stake() {
    let (mut told, mut dropped, mut found_out) = (0, 0, 0);
    for number in 0..60 {
        let (lies, drops, quiet) = run(number);
        (told, dropped, found_out) = (told + lies, dropped + drops, found_out + quiet);
    }
    assert!(
        told > 300 && dropped > 60 && found_out > 60,
        "{told} lies, {dropped} times given up, {found_out} times for a pod that fits"
    );
}
