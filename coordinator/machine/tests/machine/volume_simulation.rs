//! Simulation as in [`crate::simulation`], with volumes: claims and volumes change, provisioners fail, writes fail or their answers are
//! wrong, storage watches lag behind those of pods. No pod may be bound before its claims; then, without faults, every pod that fits has to
//! be placed.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    testing::{node, pod},
    volumes::objects::{BindingMode, Claim, CsiNode, StorageObject, Volume},
};
use flotilla_machine::event::{BindFailure, Event, WorkerId};

use crate::{
    simulation::Seed,
    storage::{claim, class, ephemeral_pod, local_volume, profile, with_claims},
    world::World,
};

const NODES: u64 = 6;
const CLAIMS: u64 = 24;
const CLASSES: [&str; 3] = ["local", "made", "at-once"];

fn any_pod(seed: &mut Seed, index: u64) -> PodInfo {
    let name = format!("pod-{index}");
    if seed.below(10) == 0 {
        return ephemeral_pod(&name, "scratch");
    }
    let names: BTreeSet<String> = (0..seed.below(3)).map(|_| format!("data-{}", seed.below(CLAIMS))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let builder = pod(&name).request("cpu", &format!("{}m", 100 * (1 + seed.below(12)))).priority(seed.below(2) as i32);
    if names.is_empty() { builder.build() } else { with_claims(builder, &names).build() }
}

fn any_claim(seed: &mut Seed, world: &World) -> Option<Claim> {
    let name = format!("data-{}", seed.below(CLAIMS));
    let unknown = world.claim(&name).is_none();
    unknown.then(|| claim(&name, CLASSES[seed.below(3) as usize]))
}

fn claim_ephemeral(world: &mut World) {
    let owners: Vec<(Arc<str>, Arc<str>)> = world
        .api
        .values()
        .filter_map(|pod| {
            let owner = pod.class.volumes.as_ref()?.owner.as_ref()?;
            let name: Arc<str> = format!("{}-scratch", owner.name).into();
            world.claim(&name).is_none().then(|| (name, Arc::clone(&owner.uid)))
        })
        .collect();
    for (name, uid) in owners {
        world.store_claim(Claim { owner_pod: Some(uid), ..claim(&name, "made") });
    }
}

fn any_node(seed: &mut Seed, world: &mut World) {
    let name = format!("n{}", seed.below(NODES));
    if world.known_nodes().iter().any(|known| *known.name == *name) && seed.below(3) == 0 {
        world.tell(Event::NodeDeleted { name: name.as_str().into() });
    } else {
        world.node(node(&name).capacity("cpu", "4").build());
        let limit = (seed.below(2) == 0).then(|| 1 + seed.below(4) as i32);
        let drivers = vec![("example.com/disk".into(), limit)];
        world.store(StorageObject::CsiNode(CsiNode {
            name: name.as_str().into(),
            drivers,
            migrated_plugins: Vec::new(),
        }));
    }
}

/// The API server performs the oldest writes or not, and the answer may be wrong.
fn any_answer(seed: &mut Seed, world: &mut World) {
    let Some(binding) = world.pre_binds.pop_front() else { return };
    let (mut versions, mut failure) = match seed.below(4) {
        0 => (Vec::new(), Some("refused".to_owned())),
        _ => world.write(&binding),
    };
    if seed.below(5) == 0 {
        // The write succeeded, but the answer was lost.
        (versions, failure) = (Vec::new(), Some("no answer".to_owned()));
    }
    world.tell(Event::Written { uid: binding.uid, id: binding.id, versions, failure });
}

/// A provisioner fails, or a claim's volume is deleted before the bind.
fn any_refusal(seed: &mut Seed, world: &mut World) {
    let open: Vec<Claim> = world
        .storage
        .values()
        .filter_map(|object| match object {
            StorageObject::Claim(claim) if !claim.bind_completed && claim.selected_node.is_some() => {
                Some(claim.clone())
            }
            _ => None,
        })
        .collect();
    if let Some(claim) = seed.pick(&open) {
        world.store_claim(Claim { selected_node: None, ..claim });
    }
}

fn step(world: &mut World, seed: &mut Seed, index: u64) {
    let workers: Vec<WorkerId> = world.workers.keys().copied().collect();
    match seed.below(22) {
        0..=3 => world.pod(any_pod(seed, index)),
        4 | 5 => {
            if let Some(claim) = any_claim(seed, world) {
                world.store_claim(claim);
            }
        }
        6 => {
            let class = ["local", "local", "at-once"][seed.below(3) as usize];
            let volume = local_volume(&format!("disk-{index}"), &format!("n{}", seed.below(NODES)));
            world.store_volume(Volume { storage_class: class.into(), ..volume });
        }
        7 => any_node(seed, world),
        8 => {
            let uids: Vec<Arc<str>> = world.api.keys().cloned().collect();
            if let Some(uid) = seed.pick(&uids) {
                world.delete_pod(&uid);
            }
        }
        9 if workers.len() < 3 => {
            world.join(&format!("worker-{}", seed.below(4)));
        }
        10 => {
            if let Some(worker) = seed.pick(&workers) {
                world.kill(worker);
            }
        }
        11 | 12 => any_answer(seed, world),
        13 => any_refusal(seed, world),
        14 => {
            if let Some(binding) = world.binds.pop_front() {
                let failure = BindFailure::Error("try again".to_owned());
                world.tell(Event::BindFailed { uid: binding.uid, failure });
            }
        }
        15 => bind_one(world),
        16 => claim_ephemeral(world),
        17 => {
            world.run_volume_controller();
        }
        18 => {
            world.run_watch();
        }
        19 => {
            for _ in 0..seed.below(8) {
                world.run_storage_watch();
            }
        }
        20 => world.advance_lazily(seed.below(3_000)),
        _ => {
            for worker in workers {
                world.run_worker(worker);
            }
        }
    }
    if index == 150 {
        world.tell(Event::Following);
        world.tell(Event::Leading { epoch: 2 });
    }
}

/// Performs the oldest bind; the pod's claims have to be bound to volumes that its node can reach.
fn bind_one(world: &mut World) {
    if let Some(binding) = world.binds.front()
        && let Some(pod) = world.api.get(&binding.uid)
    {
        for (name, _) in pod.class.volumes.iter().flat_map(|volumes| volumes.claims()) {
            let Some(claim) = world.claim(name) else { panic!("{} is bound without its claim {name}", pod.name) };
            assert!(claim.bind_completed, "{} is bound before its claim {name}", pod.name);
            let volume = world.volume(&claim.volume_name).expect("no volume is ever deleted");
            let terms = volume.node_affinity.iter().flatten();
            let reached = terms.flat_map(|term| &term.expressions).any(|one| one.values.contains(&binding.node));
            assert!(reached, "{} is bound to {}, and its volume is elsewhere", pod.name, binding.node);
        }
    }
    world.run_bind();
}

fn check_volumes(world: &World, seed: u64) {
    let mut taken = BTreeSet::new();
    for object in world.storage.values() {
        if let StorageObject::Claim(claim) = object
            && !claim.volume_name.is_empty()
        {
            assert!(taken.insert(&claim.volume_name), "seed {seed}: {} has two claims", claim.volume_name);
        }
    }
}

fn run(seed_number: u64) {
    let mut seed = Seed(seed_number);
    let mut world = World::with_profiles(vec![profile()]);
    for (name, mode) in CLASSES.into_iter().zip([
        BindingMode::WaitForFirstConsumer,
        BindingMode::WaitForFirstConsumer,
        BindingMode::Immediate,
    ]) {
        world.store(class(name, mode));
    }
    world.storage_lags = true;
    for index in 0..300 {
        step(&mut world, &mut seed, index);
        check_volumes(&world, seed_number);
    }
    // No faults from here on. A claim with a selected node that is deleted is released, as by its provisioner.
    world.storage_lags = false;
    world.node(node("n-last").capacity("cpu", "1").build());
    claim_ephemeral(&mut world);
    let nodes: BTreeSet<Arc<str>> = world.known_nodes().iter().map(|node| Arc::clone(&node.name)).collect();
    for index in 0..CLAIMS {
        let Some(claim) = world.claim(&format!("data-{index}")).cloned() else { continue };
        if !claim.bind_completed && claim.selected_node.as_ref().is_some_and(|node| !nodes.contains(node)) {
            world.store_claim(Claim { selected_node: None, ..claim });
        }
    }
    world.controlled = true;
    world.settle();
    world.advance(60_000);
    let status = world.machine.status();
    assert_eq!(status.flushed, 0, "seed {seed_number}");
    assert_eq!(
        (status.pods_active, status.pods_backoff, status.binds_in_flight, status.preparations),
        (0, 0, 0, 0),
        "seed {seed_number}: {:?}",
        world.reports.last()
    );
    assert_eq!(status.evaluations_refuted, 0, "seed {seed_number}");
    check_volumes(&world, seed_number);
    let mut fresh = World::dormant(vec![profile()]);
    world.known_nodes().into_iter().for_each(|info| fresh.tell(Event::NodeApplied(info)));
    for object in world.storage.values() {
        fresh.tell(Event::ObjectApplied(object.clone().into()));
    }
    world.api.values().for_each(|info| fresh.pod(info.clone()));
    fresh.tell(Event::Synced);
    fresh.tell(Event::Leading { epoch: 1 });
    fresh.advance(1_000);
    let told: Vec<_> = fresh.bound.iter().map(|(pod, _)| world.message_of(pod)).collect();
    assert_eq!(fresh.bound, [], "seed {seed_number}: these would have fitted, but were told {told:?}");
    assert!(fresh.pre_binds.is_empty(), "seed {seed_number}: {:?}", fresh.pre_binds);
}

#[test]
fn no_pod_is_bound_before_its_volumes_and_none_waits_forever() {
    for seed in 0..150 {
        run(seed);
    }
}
