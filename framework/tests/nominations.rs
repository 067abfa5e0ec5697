//! Nominations make a view equal one without the nominated nodes, and leave no trace.

use std::collections::BTreeMap;

use flotilla_framework::{
    class::ClassId,
    diagnosis,
    evaluation::Refused,
    extension::Facts,
    matches::Matches,
    node::NodeId,
    prepared::{NodeResult, Order, Prepared},
    registry::Registry,
    select::{Best, Nominations, View},
    snapshot::Snapshot,
    status::Refusal,
    testing::{
        node, pod, profile,
        storage::{claim, standing, stored},
    },
    volumes::{
        mounts::{Disk, Inline, Mount},
        objects::{AccessModes, Claim, StorageObject},
    },
};
use proptest::{collection::vec, option, prelude::*};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{World, any_world, best_by_hand, placed};

fn any_nominations() -> impl Strategy<Value = Nominations> {
    let beside = proptest::collection::btree_map(0..16_u32, vec((0..4_u64).prop_map(ClassId), 1..4), 0..6);
    (beside, option::of((0..20_u32).prop_map(NodeId))).prop_map(|(beside, own)| {
        let pods = |(node, classes): (u32, Vec<ClassId>)| classes.into_iter().map(move |class| (NodeId(node), class));
        Nominations::new(own, beside.into_iter().rev().flat_map(pods))
    })
}

fn refusal(prepared: &Prepared, nodes: &Snapshot, node: NodeId, pods: &[ClassId]) -> Option<(Order, Refusal)> {
    let (slot, mut nodes) = (nodes.slot(node)?, nodes.clone());
    pods.iter().for_each(|&class| assert!(nodes.class(class).is_none() || nodes.add_pod(node, class)));
    match prepared.judge(&nodes, slot) {
        NodeResult::Refused(order, refusal) => Some((order, refusal)),
        NodeResult::Feasible(_) => None,
    }
}

/// The nodes that are feasible only without nominations, and all refusals with nominations, computed naively.
fn by_hand(prepared: &Prepared, nodes: &Snapshot, nominations: &Nominations) -> (Vec<NodeId>, BTreeMap<String, u32>) {
    let (mut kept, mut refused) = (Vec::new(), BTreeMap::new());
    for node in nodes.live().filter_map(|slot| nodes.id(slot)) {
        let beside = nominations.nodes().iter().find(|(known, _)| *known == node);
        let first = beside.and_then(|(_, pods)| refusal(prepared, nodes, node, pods));
        let second = refusal(prepared, nodes, node, &[]);
        if first.is_some() && second.is_none() {
            kept.push(node);
        }
        if let Some(refusal) = first.or(second) {
            *refused.entry(format!("{refusal:?}")).or_default() += 1;
        }
    }
    (kept, refused)
}

fn counts(refused: &[Refused]) -> BTreeMap<String, u32> {
    refused.iter().map(|group| (format!("{:?}", (group.order, group.refusal)), group.count)).collect()
}

fn view(world: &World, prepared: &Prepared, owners: &[usize]) -> View {
    View::new(prepared, world.answers(Registry::built_in(), owners, 3, 64))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nodes_that_are_kept_free_are_no_choice_and_count_as_refused(
        world in any_world(16),
        owners in vec(0..3_usize, 16),
        first in any_nominations(),
        second in any_nominations(),
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none() && !prepared.is_wide());
        let mut view = view(&world, &prepared, &owners);
        let plain = (placed(view.best(&prepared, None)), counts(view.refused()));
        // One pod after the other: nominations of the previous pod leave no trace.
        for mut nominations in [first, second] {
            nominations.own = None;
            view.lay_over(&prepared, &mut nodes, &Matches::default(), &nominations, None);
            let (kept, refused) = by_hand(&prepared, &nodes, &nominations);
            let mut choice = nodes.clone();
            kept.into_iter().for_each(|node| choice.remove_node(node));
            let expected = best_by_hand(Registry::built_in(), &world.profile, &prepared, &choice);
            prop_assert_eq!(placed(view.best(&prepared, None)), Ok(expected));
            prop_assert_eq!(counts(&view.refused_now()), refused);
            prop_assert!(view.is_untouched());
        }
        prop_assert_eq!(view.lay_over(&prepared, &mut nodes, &Matches::default(), &Nominations::default(), None), None);
        prop_assert_eq!((placed(view.best(&prepared, None)), counts(&view.refused_now())), plain);
    }

    #[test]
    fn the_own_nominated_node_is_taken_where_it_passes_both_times(
        world in any_world(16),
        owners in vec(0..3_usize, 16),
        nominations in any_nominations(),
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        prop_assume!(prepared.refusal().is_none() && !prepared.is_wide() && prepared.restricting().is_empty());
        let mut view = view(&world, &prepared, &owners);
        let taken = view.lay_over(&prepared, &mut nodes, &Matches::default(), &nominations, None);
        let passes = |node: &NodeId| {
            let beside = nominations.nodes().iter().find(|(known, _)| known == node);
            let first = beside.and_then(|(_, pods)| refusal(&prepared, &nodes, *node, pods));
            nodes.slot(*node).is_some() && first.or_else(|| refusal(&prepared, &nodes, *node, &[])).is_none()
        };
        prop_assert_eq!(taken, nominations.own.filter(passes));
    }
}

/// Source: `AddPod` of VolumeRestrictions, which the first pass of `RunFilterPluginsWithNominatedPods` calls.
#[test]
fn a_claim_for_one_pod_is_in_use_where_a_nominated_pod_names_it_too() {
    let exclusive = Claim { access_modes: AccessModes::READ_WRITE_ONCE_POD, ..claim("data") };
    let storage = stored([StorageObject::Claim(exclusive)]);
    let disk = Disk::AwsElasticBlockStore { volume: "disk".into() };
    let class = pod("p").claim("data").mount(Mount::Inline(Inline { disk: Some(disk), in_tree: None })).into_class();
    let mut nodes = Snapshot::new(0);
    nodes.upsert_node(NodeId(0), &node("a").build());
    nodes.upsert_node(NodeId(1), &node("b").build());
    nodes.register_class(ClassId(7), pod("q").claim("data").into_class().into());
    let mut profile = profile();
    profile.plugins.pre_filter.retain(|name| name == "VolumeRestrictions");
    profile.plugins.filter.retain(|name| name == "VolumeRestrictions");
    let volumes = storage.facts(&class, &standing(&storage, []));
    let facts = Facts { volumes, ..Facts::default() };
    let prepared = Prepared::new(Registry::built_in(), &profile, &class, &facts, &nodes);
    let mut view = View::new(&prepared, vec![cluster::evaluate(&prepared, &nodes, 2)]);
    let nominations = Nominations::new(None, [(NodeId(0), ClassId(7))]);
    view.lay_over(&prepared, &mut nodes, &Matches::default(), &nominations, None);
    let words: Vec<String> =
        view.refused_now().iter().flat_map(|group| prepared.reasons(group.order, group.refusal.detail)).collect();
    let expected = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
                    another pod";
    assert_eq!(words, [expected]);
    assert!(matches!(view.best(&prepared, None), Best::Node { offer, .. } if offer.node == NodeId(1)));
}

#[test]
fn a_node_that_names_leave_out_is_told_by_what_its_filters_say_where_the_pod_is_nominated_to_it() {
    let class = pod("p").request("cpu", "2").require_node("named").into_class();
    let mut nodes = Snapshot::new(0);
    nodes.upsert_node(NodeId(0), &node("named").capacity("cpu", "1").build());
    nodes.upsert_node(NodeId(1), &node("tainted").taint("gpu", "", "NoSchedule").build());
    let prepared = Prepared::new(Registry::built_in(), &profile(), &class, &Facts::default(), &nodes);
    let mut view = View::new(&prepared, vec![cluster::evaluate(&prepared, &nodes, 1)]);
    let message = |view: &View| diagnosis::of_nodes(&prepared, &view.refused_now(), 2).message;
    let plain = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert_eq!(message(&view), plain);
    let nominations = Nominations::new(Some(NodeId(1)), []);
    assert_eq!(view.lay_over(&prepared, &mut nodes, &Matches::default(), &nominations, None), None);
    let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).";
    assert_eq!(message(&view), expected);
    // The filter that refuses the pod's own nominated node is named with those that excluded the others.
    let nominations = Nominations::new(Some(NodeId(0)), []);
    assert_eq!(view.lay_over(&prepared, &mut nodes, &Matches::default(), &nominations, None), None);
    let expected = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity \
                    NodeResourcesFit].";
    assert_eq!(message(&view), expected);
    view.lay_over(&prepared, &mut nodes, &Matches::default(), &Nominations::default(), None);
    assert_eq!(message(&view), plain);
}
