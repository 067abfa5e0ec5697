//! The state of all pods by owner, and the differences between two outcomes.

use std::{collections::BTreeMap, fmt};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Placed,
    /// The message, if it is known.
    Pending(Option<String>),
}

/// Pods by namespace and owner, and by ordinal for StatefulSets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome(BTreeMap<String, Vec<State>>);

/// How drains and rollouts end, by node and by workload.
pub(crate) type Ends = BTreeMap<String, String>;

/// The end of a rollout, also of one that did not begin.
pub(crate) const COMPLETE: &str = "complete";

/// The differences between two ends. A rollout that one side does not name is complete.
pub(crate) fn differing_ends(model: &Ends, real: &Ends) -> Vec<String> {
    let mut keys: Vec<&String> = model.keys().chain(real.keys()).collect();
    keys.sort();
    keys.dedup();
    let of = |ends: &Ends, key: &String| ends.get(key).map_or(COMPLETE, String::as_str).to_owned();
    let differing = keys.into_iter().filter(|key| of(model, key) != of(real, key));
    differing.map(|key| format!("{key}:\n  cluster  {}\n  flotilla {}", of(real, key), of(model, key))).collect()
}

/// The end of a drain: the owners of the pods that remain.
pub(crate) fn drained<'a>(remaining: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut owners: Vec<String> = remaining.into_iter().map(|(namespace, pod)| owner(namespace, pod)).collect();
    owners.sort();
    if owners.is_empty() { "drained".to_owned() } else { format!("blocked by {}", owners.join(", ")) }
}

/// Names of inputs have no hyphen: the text before the first one is the owner. The names of StatefulSets begin with `s`.
fn owner(namespace: &str, pod: &str) -> String {
    let owner = if pod.starts_with('s') { pod } else { pod.split('-').next().unwrap_or(pod) };
    format!("{namespace}/{owner}")
}

impl Outcome {
    pub(crate) fn add(&mut self, namespace: &str, pod: &str, state: State) {
        let states = self.0.entry(owner(namespace, pod)).or_default();
        states.push(state);
        states.sort();
    }

    pub(crate) fn pending(&self) -> usize {
        self.0.values().flatten().filter(|state| matches!(state, State::Pending(_))).count()
    }

    pub(crate) fn pods(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// The owners whose pods differ from those of every real outcome, with both answers.
    pub(crate) fn differences(&self, real: &[Self]) -> Vec<String> {
        let mut keys: Vec<&String> = self.0.keys().chain(real.iter().flat_map(|real| real.0.keys())).collect();
        keys.sort();
        keys.dedup();
        let of = |outcome: &Self, key: &String| outcome.0.get(key).cloned().unwrap_or_default();
        let differing = keys.into_iter().filter(|key| !real.iter().any(|real| agree(&of(self, key), &of(real, key))));
        let last = |key: &String| real.last().map(|real| of(real, key)).unwrap_or_default();
        differing
            .map(|key| format!("{key}:\n  cluster  {}\n  flotilla {}", text(&last(key)), text(&of(self, key))))
            .collect()
    }
}

/// Whether the same number of pods is placed and pending, and all known messages of the model are those of the cluster.
fn agree(model: &[State], real: &[State]) -> bool {
    let placed = |states: &[State]| states.iter().filter(|state| **state == State::Placed).count();
    if model.len() != real.len() || placed(model) != placed(real) {
        return false;
    }
    let mut left: Vec<&State> = real.iter().collect();
    model.iter().all(|state| match (state, left.iter().position(|other| *other == state)) {
        (_, Some(at)) => {
            left.swap_remove(at);
            true
        }
        (State::Pending(None), None) => true,
        _ => false,
    })
}

fn text(states: &[State]) -> String {
    let mut counts: BTreeMap<&State, usize> = BTreeMap::new();
    states.iter().for_each(|state| *counts.entry(state).or_default() += 1);
    let each: Vec<String> = counts.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    if each.is_empty() { "no pods".to_owned() } else { each.join(", ") }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed => f.write_str("placed"),
            Self::Pending(None) => f.write_str("pending"),
            Self::Pending(Some(message)) => write!(f, "pending ({message})"),
        }
    }
}
