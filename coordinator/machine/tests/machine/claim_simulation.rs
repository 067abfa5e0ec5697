//! Pod groups with a shared ResourceClaim, under faults: writes fail partly or completely, pods are deleted, binds fail, claims are
//! deallocated. No device is allocated twice, no pod is bound without its claim, and in the end all pods are placed.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    devices::{claimed::ClaimSource, model::claim::DeviceClaim, objects::DeviceObject},
    testing::{self, node},
};
use flotilla_machine::{
    action::PreBind,
    event::{BindFailure, Event, WorkerId},
};

use crate::{
    devices::{claim, pod_with, slice, with_groups},
    simulation::Seed,
    world::World,
};

/// A group of two to four pods with one claim.
fn any_gang(world: &mut World, seed: &mut Seed, index: u64) {
    let (group, shared) = (format!("g{index}"), format!("shared-{index}"));
    let members = 2 + seed.below(3);
    world.store_device(claim(&shared, None, 1 + seed.below(2) as i64).into());
    let minimum = 1 + seed.below(members) as u32;
    world.tell(Event::PodGroupApplied(Arc::new(testing::pod_group(&group, Some(minimum)))));
    for member in 0..members {
        let pod = pod_with(&format!("{group}-{member}"), ClaimSource::Named(shared.as_str().into()));
        world.pod(PodInfo { scheduling_group: Some(group.as_str().into()), ..pod });
    }
}

fn any_node(world: &mut World, seed: &mut Seed, name: &str) {
    world.store_device(slice(name, 1 + seed.below(4) as usize).into());
    world.node(node(name).build());
}

/// The API server performs some writes of a pod, and the answer may be lost.
fn any_answer(world: &mut World, seed: &mut Seed) {
    let Some(pre_bind) = world.pre_binds.pop_front() else { return };
    let kept = seed.below(pre_bind.writes.len() as u64 + 1) as usize;
    let some = PreBind { writes: pre_bind.writes[..kept].to_vec(), ..pre_bind };
    let (versions, mut failure) = world.write_claims(&some);
    if kept < pre_bind.writes.len() {
        failure = failure.or_else(|| Some("refused".to_owned()));
    }
    world.tell(Event::Written { uid: some.uid, id: some.id, versions, failure });
}

fn claims(world: &World) -> Vec<DeviceClaim> {
    let claims = world.devices.values().filter_map(|object| match object {
        DeviceObject::Claim(claim) => Some(DeviceClaim::clone(claim)),
        _ => None,
    });
    claims.collect()
}

/// The resource claim controller removes reservations of finished pods, and allocations without reservations.
fn run_claim_controller(world: &mut World) {
    for claim in claims(world) {
        let is_there = |uid: &Arc<str>| world.api.contains_key(uid);
        let reserved_for: Vec<_> =
            claim.reserved_for.iter().filter(|consumer| is_there(&consumer.uid)).cloned().collect();
        let allocation = claim.allocation.clone().filter(|_| !reserved_for.is_empty());
        if (&reserved_for, &allocation) != (&claim.reserved_for, &claim.allocation) {
            world.store_device(DeviceClaim { reserved_for, allocation, ..claim }.into());
        }
    }
}

fn step(world: &mut World, seed: &mut Seed, index: u64) {
    let workers: Vec<WorkerId> = world.workers.keys().copied().collect();
    match seed.below(16) {
        0 | 1 => any_gang(world, seed, index),
        2 => any_node(world, seed, &format!("n{index}")),
        3 => {
            let uids: Vec<Arc<str>> = world.api.keys().cloned().collect();
            if let Some(uid) = seed.pick(&uids) {
                world.delete_pod(&uid);
            }
        }
        4 | 5 => any_answer(world, seed),
        6 | 7 => drop(world.run_pre_bind()),
        8 => {
            if let Some(failed) = world.binds.pop_front() {
                let failure = BindFailure::Error("timeout".to_owned());
                world.tell(Event::BindFailed { uid: failed.uid, failure });
            }
        }
        9 => run_claim_controller(world),
        10 => world.advance(1_500),
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
    // The writes take milliseconds, and a pod is retried after a second.
    world.apply_unreserves();
}

fn check_claims(world: &World, seed: u64) {
    world.allocated();
    let claims = claims(world);
    for pod in world.api.values() {
        let Some(on) = &pod.node_name else { continue };
        let devices = pod.class.devices.as_ref().expect("each pod has a claim");
        for (name, _) in devices.names() {
            let claim = claims.iter().find(|claim| claim.name == *name).expect("no claim is deleted");
            let is_reserved = claim.reserved_for.iter().any(|consumer| consumer.uid == pod.uid);
            assert!(is_reserved, "seed {seed}: {} is bound, and {name} is not reserved for it", pod.name);
            let results = claim.allocation.iter().flat_map(|allocation| &allocation.results);
            assert!(results.clone().count() > 0, "seed {seed}: {} is bound, and {name} is not allocated", pod.name);
            let elsewhere = results.filter(|result| result.device.pool != *on).count();
            assert_eq!(elsewhere, 0, "seed {seed}: {} is on {on}, and {name} is not", pod.name);
        }
    }
}

#[test]
fn pods_that_share_a_claim_never_get_a_device_twice_and_in_the_end_all_that_can_land_has() {
    for number in 0..40 {
        let mut seed = Seed(number);
        let mut world = with_groups(&["first"]);
        for index in 0..120 {
            step(&mut world, &mut seed, index);
            check_claims(&world, number);
        }
        for index in 0..60 {
            world.store_device(slice(&format!("late-{index}"), 2).into());
            world.node(node(&format!("late-{index}")).build());
        }
        for _ in 0..6 {
            world.settle();
            world.apply_unreserves();
            run_claim_controller(&mut world);
            world.advance(400_000);
        }
        check_claims(&world, number);
        let left: Vec<&PodInfo> = world.api.values().filter(|pod| pod.node_name.is_none()).collect();
        let waits = |pod: &&&PodInfo| {
            // A gang with deleted pods may be too small.
            let group = pod.scheduling_group.as_deref();
            let members = world.api.values().filter(|other| other.scheduling_group.as_deref() == group).count();
            members >= 4
        };
        let left: Vec<&str> = left.iter().filter(waits).map(|pod| &*pod.name).collect();
        assert!(left.is_empty(), "seed {number}: {left:?} could have landed");
    }
}
