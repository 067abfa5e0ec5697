//! Roots, readiness, order and victims of trees of groups.

use std::collections::BTreeMap;

use super::*;
use crate::testing::pod_group;

/// Groups with the number of their pods.
#[derive(Default)]
struct Known(BTreeMap<GroupKey, (Option<PodGroup>, Vec<GroupKey>, usize)>);

impl Known {
    fn with(mut self, group: PodGroup, pods: usize) -> Self {
        let key = group.group_key();
        if let Some(parent) = group.parent_key() {
            self.0.entry(parent).or_default().1.push(key.clone());
        }
        let entry = self.0.entry(key).or_default();
        (entry.0, entry.2) = (Some(group), pods);
        self
    }
}

impl Hierarchy for Known {
    fn object(&self, key: &GroupKey) -> Option<&PodGroup> {
        self.0.get(key)?.0.as_ref()
    }

    fn children(&self, key: &GroupKey) -> impl Iterator<Item = &GroupKey> {
        self.0.get(key).into_iter().flat_map(|(_, children, _)| children)
    }

    fn pods(&self, key: &GroupKey) -> usize {
        self.0.get(key).map_or(0, |(.., pods)| *pods)
    }
}

fn leaf(name: &str, parent: &str, min_count: Option<u32>) -> PodGroup {
    PodGroup { parent: Some(parent.into()), ..pod_group(name, min_count) }
}

fn composite(name: &str, parent: Option<&str>, min_count: Option<u32>) -> PodGroup {
    PodGroup { api: GroupApi::Composite, parent: parent.map(Into::into), ..pod_group(name, min_count) }
}

fn key(name: &str, api: GroupApi) -> GroupKey {
    PodGroup { api, ..pod_group(name, None) }.group_key()
}

#[test]
fn a_group_without_a_parent_is_its_own_root_and_its_only_leaf() {
    let known = Known::default().with(pod_group("g", Some(2)), 2);
    let own = key("g", GroupApi::Kubernetes);
    assert_eq!(known.root(&own), Ok(own.clone()));
    assert_eq!(known.leaves(&own), [own]);
}

#[test]
fn a_tree_without_a_root_names_the_group_that_is_missing() {
    let own = key("g", GroupApi::Kubernetes);
    let known = Known::default().with(leaf("g", "c", None), 1);
    let text = "failed to build hierarchy snapshot: composite pod group object not found in state for \
                compositepodgroup/default/c";
    assert_eq!(known.root(&own), Err(text.to_owned()));
    let known = known.with(composite("c", Some("top"), None), 0).with(composite("top", None, None), 0);
    assert_eq!(known.root(&own), Ok(key("top", GroupApi::Composite)));
    let cycle = Known::default()
        .with(leaf("g", "a", None), 1)
        .with(composite("a", Some("b"), None), 0)
        .with(composite("b", Some("a"), None), 0);
    let error = cycle.root(&own).unwrap_err();
    assert!(error.contains("or a cycle, above podgroup/default/g"), "{error}");
    assert_eq!(cycle.leaves(&key("a", GroupApi::Composite)).len(), 2, "each group is reached at each level");
}

#[test]
fn a_tree_is_ready_if_enough_of_its_groups_are() {
    for (first, second, min_count, expected) in [
        (2, 2, Some(2), true),
        (2, 1, Some(2), false),
        (2, 1, Some(1), true),
        (2, 1, None, true),
        (1, 1, None, false),
        (2, 0, Some(0), true),
    ] {
        let known = Known::default()
            .with(leaf("one", "c", Some(2)), first)
            .with(leaf("two", "c", Some(2)), second)
            .with(composite("c", None, min_count), 0);
        let is_ready = known.is_ready(&key("c", GroupApi::Composite));
        assert_eq!(is_ready, expected, "{first} and {second} pods, minGroupCount {min_count:?}");
    }
    let basic = Known::default().with(leaf("one", "c", None), 0).with(composite("c", None, None), 0);
    assert!(!basic.is_ready(&key("c", GroupApi::Composite)), "a basic group needs a pod");
}

#[test]
fn groups_are_tried_in_the_order_of_their_creation_and_then_of_their_names() {
    let at = |name: &str, created_s| PodGroup { created_s, ..leaf(name, "c", None) };
    let known = Known::default()
        .with(at("b", 5), 1)
        .with(at("a", 5), 1)
        .with(at("z", 1), 1)
        .with(composite("c", None, None), 0);
    let parent = key("c", GroupApi::Composite);
    let names: Vec<&str> = known.ordered(&parent).into_iter().map(|leaf| &*leaf.name).collect();
    assert_eq!(names, ["z", "a", "b"]);
    assert_eq!(known.leaves(&parent).len(), 3);
}

#[test]
fn the_root_gives_the_priority_of_victims_and_the_highest_group_with_mode_all_their_unit() {
    let own = key("g", GroupApi::Kubernetes);
    let group = |disrupted_whole, object: PodGroup, priority| PodGroup { disrupted_whole, priority, ..object };
    for (leaf_whole, middle_whole, top_whole, whole, kind) in [
        (false, false, false, None, UnitKind::PodGroup),
        (true, false, false, Some(own.clone()), UnitKind::PodGroup),
        (true, true, false, Some(key("c", GroupApi::Composite)), UnitKind::CompositePodGroup),
        (false, true, true, Some(key("top", GroupApi::Composite)), UnitKind::CompositePodGroup),
    ] {
        let known = Known::default()
            .with(group(leaf_whole, leaf("g", "c", None), 1), 1)
            .with(group(middle_whole, composite("c", Some("top"), None), 2), 0);
        assert_eq!(known.as_victim(&own).map(|victim| victim.priority), Some(2), "up to the highest group that exists");
        let known = known.with(group(top_whole, composite("top", None, None), 3), 0);
        let victim = known.as_victim(&own).expect("a group");
        assert_eq!((victim.kind(), victim.priority, victim.whole), (kind, 3, whole));
    }
    assert_eq!(Known::default().as_victim(&own), None);
}
