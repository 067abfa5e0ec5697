//! NodeNumber: a pod prefers nodes with the same last digit in their name.
//!
//! The rule is that of the plugin NodeNumber of kube-scheduler-simulator, with scores normalized to 100.

use flotilla_framework::{
    extension::{Extremes, NodeScore, Normalize, Plugin, PodField, Point, PreScore, Preparation, Score},
    plugins::normalize::scaled,
    profile::{Args, ArgsError, read_args},
    snapshot::{Slot, Snapshot},
};
use serde::Deserialize;

const NAME: &str = "NodeNumber";

/// The score of a matching node before normalization.
const MATCH: i64 = 10;

/// The plugin.
#[derive(Debug)]
pub struct NodeNumber;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeNumberArgs {
    /// Prefer other nodes instead.
    #[serde(default)]
    reverse: bool,
}

impl Plugin for NodeNumber {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreScore, Point::Score]
    }

    fn check_args(&self, args: &serde_json::Value) -> Result<(), ArgsError> {
        read_args::<NodeNumberArgs>(args).map(|_| ())
    }

    fn pod_fields(&self, _args: &Args) -> Vec<PodField> {
        vec![PodField::Name]
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        if pod_digit(preparation).is_some() { PreScore::Continue } else { PreScore::Skip }
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let NodeNumberArgs { reverse } = preparation.args.of(NAME).unwrap_or_default();
        let digit = pod_digit(preparation)?;
        Some(Score::Node(Box::new(Matching { digit, reverse })))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(|raw: i64, extremes: Extremes| scaled(raw, extremes))
    }
}

struct Matching {
    digit: char,
    reverse: bool,
}

impl NodeScore for Matching {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        let matches = last_digit(nodes.symbols.text(nodes.name(slot))) == Some(self.digit);
        if matches != self.reverse { MATCH } else { 0 }
    }
}

fn pod_digit(preparation: &Preparation<'_>) -> Option<char> {
    last_digit(preparation.class.field(&PodField::Name)?)
}

fn last_digit(name: &str) -> Option<char> {
    name.chars().last().filter(char::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use flotilla_framework::testing::{checks::alone_of, node, pod};
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_with_the_digit_of_the_pod_score_highest() {
        let nodes = ["node-1", "node-2", "node-x"].map(|name| (node(name), vec![]));
        let cases = [
            ("pod-1", json!({}), Some(vec![100, 0, 0])),
            ("pod-2", json!({}), Some(vec![0, 100, 0])),
            ("pod-2", json!({ "reverse": true }), Some(vec![100, 0, 100])),
            ("pod-3", json!({}), Some(vec![0, 0, 0])),
            ("pod", json!({}), None),
        ];
        for (name, args, expected) in cases {
            let alone = alone_of(NodeNumber).args(|all| _ = all.own.insert(NAME.to_owned(), args.clone()));
            assert_eq!(alone.scores(&pod(name), &nodes), expected, "{name} {args}");
        }
    }

    #[test]
    fn a_misspelt_argument_is_refused() {
        let error = NodeNumber.check_args(&json!({ "revers": true })).expect_err("no such argument");
        assert_eq!(error.message, "unknown field `revers`, expected `reverse`");
        assert!(NodeNumber.check_args(&json!({ "reverse": true })).is_ok());
    }
}
