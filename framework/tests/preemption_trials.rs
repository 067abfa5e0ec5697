//! Preemption trials equal naive ones on one node of a whole cluster, and leave the snapshot unchanged.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    explain::{self, Explanation},
    matches::Matches,
    node::NodeId,
    preemption::{DryRunResult, Trial, dry_run, is_local},
    prepared::Prepared,
    registry::Registry,
    snapshot::Snapshot,
    status::Code,
    testing::pod,
};
use proptest::{collection::vec, prelude::*, sample::select as one_of};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{World, any_world, pages};

fn wishing(class: &Class, wishes: &[(u8, &str, &str)]) -> Class {
    let mut other = pod("p");
    for (wish, key, app) in wishes {
        other = match wish {
            0 => other.near(key, ("app", app)),
            1 => other.far(key, ("app", app)),
            skew => other.spread(i32::from(skew - 1), key, ("app", app)),
        };
    }
    let (other, mut class) = (other.into_class(), class.clone());
    class.spread = other.spread.clone();
    class.pod_affinity = other.pod_affinity.clone();
    class
}

type Wishes = Vec<(u8, &'static str, &'static str)>;

fn any_wishes() -> impl Strategy<Value = Wishes> {
    vec((0..4_u8, one_of(&["zone", "size", "kubernetes.io/hostname"][..]), one_of(&["web", "db"][..])), 0..3)
}

fn any_wide_world(most: usize) -> impl Strategy<Value = World> {
    (any_world(most), any_wishes(), vec(any_wishes(), 8)).prop_map(|(mut world, own, others)| {
        world.class = wishing(&world.class, &own);
        for (class, wishes) in world.classes.iter_mut().zip(others) {
            *class = Arc::new(wishing(class, &wishes));
        }
        world
    })
}

/// The refusal of a node, with the counts of all nodes.
fn refusal(world: &World, prepared: &Prepared, nodes: &Snapshot, node: NodeId) -> Option<(Code, Vec<String>)> {
    let explanation = Explanation::new(prepared, &world.profile, &pages(prepared, nodes, 100));
    match explanation.nodes.get(&node) {
        Some(explain::NodeExplanation::Refused { code, reasons, .. }) => Some((*code, reasons.to_vec())),
        Some(explain::NodeExplanation::Feasible { .. }) | None => None,
    }
}

/// The refusal with the pods nominated to the node, or without them.
fn both(
    world: &World,
    prepared: &Prepared,
    nodes: &Snapshot,
    node: NodeId,
    beside: &[ClassId],
) -> Option<(Code, Vec<String>)> {
    let mut with = nodes.clone();
    beside.iter().for_each(|&class| assert!(with.add_pod(node, class)));
    refusal(world, prepared, &with, node).or_else(|| refusal(world, prepared, nodes, node))
}

type Found = Result<(Vec<u32>, u32), (Code, Vec<String>)>;

fn by_hand(world: &World, prepared: &Prepared, nodes: &Snapshot, trial: &Trial) -> Found {
    let Trial { node, victims, units, beside } = trial;
    let wide;
    let units = match units.is_empty() {
        true => {
            wide = vec![1; victims.len()];
            &wide
        }
        false => units,
    };
    let mut nodes = nodes.clone();
    victims.iter().for_each(|(class, _)| assert!(nodes.remove_pod(*node, *class)));
    if let Some(refusal) = both(world, prepared, &nodes, *node, beside) {
        return Err(refusal);
    }
    let (mut gone, mut violations) = (Vec::new(), 0);
    let mut parties: Vec<Vec<(u32, ClassId, bool)>> = Vec::new();
    let mut left = (0_u32..).zip(victims).map(|(index, (class, violates))| (index, *class, *violates));
    for &length in units {
        parties.push(left.by_ref().take(length as usize).collect());
    }
    let violates = |party: &Vec<(u32, ClassId, bool)>| party.iter().any(|(_, _, violates)| *violates);
    let turn = |wanted: bool| parties.iter().filter(move |party| violates(party) == wanted);
    for party in turn(true).chain(turn(false)) {
        party.iter().for_each(|(_, class, _)| assert!(nodes.add_pod(*node, *class)));
        if both(world, prepared, &nodes, *node, beside).is_some() {
            for (index, class, violates) in party {
                nodes.remove_pod(*node, *class);
                gone.push(*index);
                violations += u32::from(*violates);
            }
        }
    }
    gone.sort_unstable();
    Ok((gone, violations))
}

fn seen(nodes: &Snapshot) -> String {
    let accounts = &nodes.accounts;
    let of = |slot: u32| {
        let at = slot as usize;
        let nonzero = (accounts.nonzero_milli_cpu[at], accounts.nonzero_memory[at], accounts.pods[at]);
        let charged = (accounts.requested(slot), nonzero);
        let mut ports = nodes.ports(slot).to_vec();
        ports.sort_unstable();
        format!("{:?} {ports:?} {} {charged:?}", nodes.tenants(slot), nodes.changed(slot))
    };
    let all: Vec<String> = nodes.live().map(of).collect();
    format!("{} {all:?}", nodes.stamp())
}

fn trial(world: &World, place: usize, marks: &[(u16, bool)], beside: &[u64]) -> Trial {
    let place = place % world.nodes.len();
    let mut victims: Vec<(u16, ClassId, bool)> = world.standing[place]
        .iter()
        .zip(marks)
        .map(|(&class, &(order, violates))| (order, ClassId(class), violates))
        .collect();
    victims.sort_unstable();
    let known = world.classes.len() as u64;
    Trial {
        node: NodeId(u32::try_from(place).expect("a small cluster")),
        victims: victims.into_iter().map(|(_, class, violates)| (class, violates)).collect(),
        units: Vec::new(),
        beside: beside.iter().map(|class| ClassId(class % known)).collect(),
    }
}

fn check(world: &World, trial: &Trial) -> Result<(), TestCaseError> {
    let mut nodes = world.whole();
    let prepared = world.prepare(Registry::built_in(), &mut nodes);
    prop_assume!(prepared.refusal().is_none() && prepared.error().is_none() && prepared.restricting().is_empty());
    let mut matches = Matches::default();
    matches.refresh(&prepared, &nodes);
    let before = seen(&nodes);
    let found = dry_run(&prepared, &mut nodes, &matches, trial);
    prop_assert_eq!(seen(&nodes), before);
    if is_local(&prepared) {
        let mut shard = world.snapshot([trial.node.0 as usize]);
        prop_assert_eq!(
            &dry_run(&world.prepare(Registry::built_in(), &mut shard), &mut shard, &matches, trial),
            &found
        );
    }
    let found = match found {
        DryRunResult::NoVictims => {
            prop_assert!(trial.victims.is_empty());
            return Ok(());
        }
        DryRunResult::Victims { indexes, violations } => Ok((indexes, violations)),
        DryRunResult::Needless => Ok((Vec::new(), 0)),
        DryRunResult::Refused(order, refusal) => Err((refusal.code, prepared.reasons(order, refusal.detail))),
        DryRunResult::Stale => return Err(TestCaseError::fail("everything is where the trial has it")),
    };
    prop_assert_eq!(found, by_hand(world, &prepared, &nodes, trial));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn victims_on_one_node_are_those_that_cannot_be_put_back(
        world in any_world(8),
        place in 0..8_usize,
        marks in vec((any::<u16>(), any::<bool>()), 4),
        beside in vec(0..4_u64, 0..3),
    ) {
        check(&world, &trial(&world, place, &marks, &beside))?;
    }

    #[test]
    fn pods_that_go_together_are_all_victims_or_none_of_them(
        world in any_world(8),
        place in 0..8_usize,
        marks in vec((any::<u16>(), any::<bool>()), 4),
        cuts in vec(any::<bool>(), 4),
    ) {
        let mut trial = trial(&world, place, &marks, &[]);
        for (index, _) in trial.victims.iter().enumerate() {
            match trial.units.last_mut().filter(|_| index > 0 && !cuts[index % cuts.len()]) {
                Some(unit) => *unit += 1,
                None => trial.units.push(1),
            }
        }
        check(&world, &trial)?;
    }

    #[test]
    fn victims_are_the_same_by_the_counts_of_the_whole_cluster(
        world in any_wide_world(8),
        place in 0..8_usize,
        marks in vec((any::<u16>(), any::<bool>()), 4),
    ) {
        check(&world, &trial(&world, place, &marks, &[]))?;
    }
}
