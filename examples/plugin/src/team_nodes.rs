//! TeamNodes: nodes of a team accept only its pods.
//!
//! A label names the team of a node, and the label with the same key that of a pod. Nodes without the label accept every pod.

use std::sync::Arc;

use flotilla_framework::{
    class::Class,
    extension::{ClusterEvent, Filter, NodeFilter, Plugin, PodField, Point, Preparation},
    node::NodeInfo,
    profile::{Args, ArgsError, read_args},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
};
use serde::Deserialize;

const NAME: &str = "TeamNodes";

/// The plugin.
#[derive(Debug)]
pub struct TeamNodes;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TeamNodesArgs {
    /// The label key of the team.
    #[serde(default = "default_label")]
    label: String,
}

fn default_label() -> String {
    "example.com/team".to_owned()
}

impl Default for TeamNodesArgs {
    fn default() -> Self {
        Self { label: default_label() }
    }
}

fn key(args: &Args) -> String {
    args.of::<TeamNodesArgs>(NAME).unwrap_or_default().label
}

impl Plugin for TeamNodes {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Filter]
    }

    fn check_args(&self, args: &serde_json::Value) -> Result<(), ArgsError> {
        match read_args::<TeamNodesArgs>(args)?.label.as_str() {
            "" => Err(ArgsError::at("label", "found an empty text, expected the key of a label")),
            _ => Ok(()),
        }
    }

    fn pod_fields(&self, args: &Args) -> Vec<PodField> {
        vec![PodField::label(&key(args))]
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let key = key(preparation.args);
        let team = team(preparation.class, &key).map(|team| preparation.symbols.number(team));
        let key = preparation.symbols.number(&key);
        Some(Filter::Node(Box::new(OfTeam { key, team })))
    }

    fn events(&self) -> &'static [&'static str] {
        &["NodeAdd", "NodeUpdateNodeLabel", "TargetPodUpdatePodLabel"]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, args: &Args) -> bool {
        let key = key(args);
        match event {
            ClusterEvent::NodeAdded(node) => takes(node, class, &key),
            ClusterEvent::NodeUpdated { old, new } => !takes(old, class, &key) && takes(new, class, &key),
            ClusterEvent::TargetUpdated { old, new } => team(old, &key) != team(new, &key),
            _ => false,
        }
    }
}

fn team<'a>(class: &'a Class, key: &str) -> Option<&'a str> {
    class.field(&PodField::label(key))
}

fn takes(node: &NodeInfo, class: &Class, key: &str) -> bool {
    let is_key = |label: &&(Arc<str>, Arc<str>)| *label.0 == *key;
    node.labels.iter().find(is_key).is_none_or(|(_, owner)| team(class, key) == Some(owner))
}

/// Texts are interned, so that a node takes two comparisons.
struct OfTeam {
    key: Symbol,
    team: Option<Symbol>,
}

impl NodeFilter for OfTeam {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let owner = nodes.label(self.key, slot);
        let is_free = owner == Symbol::NONE || self.team == Some(owner);
        // Preemption cannot help, so it skips the node.
        if is_free { Ok(()) } else { Err(Refusal::unresolvable(0)) }
    }

    fn reasons(&self, _detail: u64) -> Vec<String> {
        vec!["node(s) belonged to another team".to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing::{
        checks::{alone_of, unresolvable},
        node, pod,
    };
    use serde_json::json;

    use super::*;

    const TEAM: &str = "example.com/team";

    #[test]
    fn a_node_of_a_team_takes_its_pods_alone() {
        let other = || unresolvable(&["node(s) belonged to another team"]);
        let (red, nobody) = (pod("p").label(TEAM, "red"), pod("p"));
        let cases = [
            (&red, node("n").label(TEAM, "red"), Ok(())),
            (&red, node("n").label(TEAM, "blue"), other()),
            (&red, node("n"), Ok(())),
            (&nobody, node("n"), Ok(())),
            (&nobody, node("n").label(TEAM, "red"), other()),
        ];
        for (pod, node, expected) in cases {
            assert_eq!(alone_of(TeamNodes).filter(pod, &node, &[]), expected, "{pod:?} {node:?}");
        }
    }

    #[test]
    fn the_label_is_an_argument() {
        let args = json!({ "label": "owner" });
        let alone = alone_of(TeamNodes).args(|all| _ = all.own.insert(NAME.to_owned(), args));
        let (red, node) = (pod("p").label("owner", "red"), node("n").label("owner", "blue").label(TEAM, "red"));
        assert!(alone.filter(&red, &node, &[]).is_err());
        let error = TeamNodes.check_args(&json!({ "label": "" })).expect_err("no key");
        assert_eq!(error.to_string(), "found an empty text, expected the key of a label");
    }

    #[test]
    fn a_pod_is_tried_again_once_a_node_may_take_it() {
        let (red, alone) = (pod("p").label(TEAM, "red"), alone_of(TeamNodes));
        let [of_red, of_blue] = ["red", "blue"].map(|team| node("n").label(TEAM, team).build());
        assert!(alone.wakes(ClusterEvent::NodeAdded(&of_red), &red));
        assert!(!alone.wakes(ClusterEvent::NodeAdded(&of_blue), &red));
        assert!(alone.wakes(ClusterEvent::NodeUpdated { old: &of_blue, new: &of_red }, &red));
        assert!(!alone.wakes(ClusterEvent::NodeUpdated { old: &of_red, new: &of_red }, &red));
        assert!(!alone.wakes(ClusterEvent::NodeRemoved(&of_red), &red));
    }
}
