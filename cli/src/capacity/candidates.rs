//! `--node-selector` and `--exclude-taint`: restrict the nodes on which copies are counted.
//!
//! A copy gets required node affinity for these nodes. Their pods still count for affinity and topology spread.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_cluster::Cluster;
use flotilla_framework::{
    class::{Class, NodeTerm, Requirement, Taint},
    node::NodeInfo,
};
use serde::Serialize;

use super::{args::CapacityArgs, counted::Counted};

/// Marks nodes with an excluded taint, because node affinity reads only labels.
const EXCLUDED: &str = "excluded-taint";
/// The text for a node without the mark, and the text of its shortfall.
const MARK_WORDS: (&str, &str) = ("no label excluded-taint", "none of the excluded taints");
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const MOST_SHOWN: usize = 5;

/// The restriction of the candidate nodes.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    selector: Vec<Requirement>,
    excluded: Vec<TaintPattern>,
    /// The flags in the order of the output.
    flags: Vec<String>,
}

/// The number of candidate nodes in an answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restricted {
    /// The nodes on which copies are counted.
    pub(super) nodes: usize,
    /// All nodes.
    pub(super) of: usize,
    /// The flags that restrict them.
    pub(super) by: Vec<String>,
}

/// `KEY[=VALUE][:EFFECT]`.
#[derive(Debug, PartialEq)]
struct TaintPattern {
    key: String,
    value: Option<String>,
    effect: Option<String>,
}

impl Candidates {
    /// # Errors
    /// One line for each invalid flag.
    pub(super) fn new(args: &CapacityArgs) -> Result<Self, Vec<String>> {
        let (mut candidates, mut errors) = (Self::default(), Vec::new());
        for flag in &args.node_selector {
            candidates.flags.push(format!("--node-selector {flag}"));
            match selector(flag) {
                Ok(requirements) => candidates.selector.extend(requirements),
                Err(error) => errors.push(format!("--node-selector {flag}: {error}")),
            }
        }
        for flag in &args.exclude_taint {
            candidates.flags.push(format!("--exclude-taint {flag}"));
            match taint(flag) {
                Ok(pattern) => candidates.excluded.push(pattern),
                Err(error) => errors.push(format!("--exclude-taint {flag}: {error}")),
            }
        }
        if errors.is_empty() { Ok(candidates) } else { Err(errors) }
    }

    /// Restricts a pod to the candidates. `None` without flags.
    pub(super) fn restrict(&self, cluster: &mut Cluster, counted: &mut Counted) -> Option<Restricted> {
        if self.flags.is_empty() {
            return None;
        }
        let is_candidate = |node: &NodeInfo| {
            !self.is_excluded(node) && self.selector.iter().all(|requirement| matches(requirement, node))
        };
        let nodes = cluster.nodes.iter().filter(|node| is_candidate(node)).count();
        for node in cluster.nodes.iter_mut().filter(|node| self.is_excluded(node)) {
            let mut marked = NodeInfo::clone(node);
            marked.labels.push((EXCLUDED.into(), Arc::default()));
            marked.labels.sort();
            *node = Arc::new(marked);
        }
        let mark = Requirement { key: EXCLUDED.into(), operator: "DoesNotExist".into(), values: Vec::new() };
        let added: Vec<Requirement> =
            self.selector.iter().cloned().chain((!self.excluded.is_empty()).then_some(mark)).collect();
        let mut class = Class::clone(&counted.pod.class);
        let is_new = class.required_terms.is_none();
        let terms = class.required_terms.get_or_insert_with(|| vec![NodeTerm::default()]);
        // A term without requirements matches no node.
        for term in terms.iter_mut().filter(|term| is_new || !term.expressions.is_empty() || !term.fields.is_empty()) {
            term.expressions.extend(added.iter().cloned());
        }
        *counted = counted.with_class(class);
        Some(Restricted { nodes, of: cluster.nodes.len(), by: self.flags.clone() })
    }

    /// One line for each flag that matches no node.
    pub(super) fn notes(&self, cluster: &Cluster) -> Vec<String> {
        let mut notes = Vec::new();
        for requirement in &self.selector {
            if !cluster.nodes.iter().any(|node| matches(requirement, node)) {
                let key = &requirement.key;
                let found: BTreeSet<String> =
                    cluster.nodes.iter().filter_map(|node| Some(format!("{key}={}", node.label(key)?))).collect();
                let hint = if found.is_empty() { format!("no node has the label {key}") } else { shown(&found) };
                notes.push(format!("warning: --node-selector: no node matches its requirement on {key}; {hint}"));
            }
        }
        for (pattern, flag) in self.excluded.iter().zip(self.flags.iter().filter(|flag| flag.contains("-taint "))) {
            if !cluster.nodes.iter().any(|node| node.taints.iter().any(|taint| pattern.matches(taint))) {
                let taints = cluster.nodes.iter().flat_map(|node| &node.taints);
                let found: BTreeSet<String> = taints.map(flotilla_account::words::taint).collect();
                let hint = if found.is_empty() { "no node has a taint".to_owned() } else { shown(&found) };
                notes.push(format!("warning: {flag}: no node has this taint; {hint}"));
            }
        }
        notes
    }

    fn is_excluded(&self, node: &NodeInfo) -> bool {
        node.taints.iter().any(|taint| self.excluded.iter().any(|pattern| pattern.matches(taint)))
    }
}

/// The shortfall of a node in the words of the flags.
pub(super) fn words(lacks: &str) -> String {
    lacks.replace(MARK_WORDS.0, MARK_WORDS.1)
}

impl TaintPattern {
    fn matches(&self, taint: &Taint) -> bool {
        *self.key == *taint.key
            && self.value.as_ref().is_none_or(|value| **value == *taint.value)
            && self.effect.as_ref().is_none_or(|effect| **effect == *taint.effect)
    }
}

fn shown(found: &BTreeSet<String>) -> String {
    let names: Vec<&str> = found.iter().take(MOST_SHOWN).map(String::as_str).collect();
    let more = if found.len() > MOST_SHOWN { format!(" and {} more", found.len() - MOST_SHOWN) } else { String::new() };
    format!("nodes have {}{more}", names.join(", "))
}

fn matches(requirement: &Requirement, node: &NodeInfo) -> bool {
    let found = node.label(&requirement.key);
    let is_listed = found.is_some_and(|found| requirement.values.iter().any(|value| **value == *found));
    match &*requirement.operator {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => found.is_some(),
        _ => found.is_none(),
    }
}

/// `KEY=VALUE`, `KEY!=VALUE`, `KEY` and `!KEY`, separated by commas.
fn selector(flag: &str) -> Result<Vec<Requirement>, String> {
    let one = |part: &str| {
        let part = part.trim();
        let (key, operator, value) = match (part.split_once("!="), part.split_once('='), part.strip_prefix('!')) {
            (Some((key, value)), ..) => (key, "NotIn", Some(value)),
            (None, Some((key, value)), _) => (key, "In", Some(value.strip_prefix('=').unwrap_or(value))),
            (None, None, Some(key)) => (key, "DoesNotExist", None),
            (None, None, None) => (part, "Exists", None),
        };
        let (key, value) = (key.trim(), value.map(str::trim));
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if key.is_empty() || !is_plain(key) || !value.is_none_or(is_plain) {
            return Err(format!(
                "{part:?} is no requirement; write KEY=VALUE, KEY!=VALUE, KEY or !KEY, separated by commas"
            ));
        }
        let values = value.into_iter().map(Arc::from).collect();
        Ok(Requirement { key: key.into(), operator: operator.into(), values })
    };
    flag.split(',').map(one).collect()
}

fn taint(flag: &str) -> Result<TaintPattern, String> {
    let (rest, effect) = match flag.rsplit_once(':') {
        Some((rest, effect)) => (rest, Some(effect.to_owned())),
        None => (flag, None),
    };
    if let Some(effect) = effect.as_deref().filter(|effect| !EFFECTS.contains(effect)) {
        return Err(format!("{effect:?} is no effect; write NoSchedule, PreferNoSchedule or NoExecute"));
    }
    let (key, value) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (rest, None),
    };
    if key.is_empty() {
        return Err("the key is empty; write KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT".to_owned());
    }
    Ok(TaintPattern { key: key.to_owned(), value, effect })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> Requirement {
        let values = values.iter().map(|&value| value.into()).collect();
        Requirement { key: key.into(), operator: operator.into(), values }
    }

    #[test]
    fn a_selector_is_read_as_kubectl_reads_it() {
        let wrong = |part: &str| {
            Err(format!("{part:?} is no requirement; write KEY=VALUE, KEY!=VALUE, KEY or !KEY, separated by commas"))
        };
        let cases = [
            ("pool=gpu", Ok(vec![requirement("pool", "In", &["gpu"])])),
            ("a/pool==gpu, ssd", Ok(vec![requirement("a/pool", "In", &["gpu"]), requirement("ssd", "Exists", &[])])),
            (
                "pool!=cpu,!spot",
                Ok(vec![requirement("pool", "NotIn", &["cpu"]), requirement("spot", "DoesNotExist", &[])]),
            ),
            ("pool=", Ok(vec![requirement("pool", "In", &[""])])),
            ("pool in (a)", wrong("pool in (a)")),
            ("=gpu", wrong("=gpu")),
            ("pool=gpu,", wrong("")),
        ];
        for (flag, expected) in cases {
            assert_eq!(selector(flag), expected, "{flag}");
        }
    }

    #[test]
    fn a_taint_is_matched_by_the_parts_that_are_given() {
        let of = |key: &str, value: &str, effect: &str| Taint {
            key: key.into(),
            value: value.into(),
            effect: effect.into(),
        };
        let cases = [
            ("spot", of("spot", "true", "NoSchedule"), true),
            ("spot=true", of("spot", "true", "NoSchedule"), true),
            ("spot=", of("spot", "true", "NoSchedule"), false),
            ("spot:NoExecute", of("spot", "true", "NoSchedule"), false),
            ("spot=true:NoSchedule", of("spot", "true", "NoSchedule"), true),
            ("example.com/spot", of("spot", "", "NoSchedule"), false),
        ];
        for (flag, found, expected) in cases {
            assert_eq!(taint(flag).map(|pattern| pattern.matches(&found)), Ok(expected), "{flag}");
        }
        assert_eq!(
            taint("spot:Never"),
            Err("\"Never\" is no effect; write NoSchedule, PreferNoSchedule or NoExecute".to_owned())
        );
        assert!(taint("=true").is_err());
    }
}
