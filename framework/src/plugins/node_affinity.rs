//! NodeAffinity: node selectors, required and preferred node affinity, and the affinity in the plugin's arguments.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as api;
use smallvec::SmallVec;

use crate::{
    class::{Class, NodeTerm, Requirement},
    extension::{
        ClusterEvent, Filter, Lack, NodeContext, NodeFilter, NodeScore, Normalize, Plugin, PreFilter, PreScore,
        Preparation, Score,
    },
    ingest,
    node::NodeInfo,
    plugins::{
        normalize,
        wakers::{NODE_ADD, NODE_LABEL},
    },
    profile::Args,
    selector::{self, LoneNode, Term, TermOver},
    snapshot::{Slot, Snapshot, Values},
    status::{FilterResult, Refusal},
    symbols::{Lookup, Symbol},
};

/// The affinity in the plugin's arguments does not match.
const BY_OPERATOR: u64 = 1;

/// The plugin.
#[derive(Debug)]
pub struct NodeAffinity;

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        let class = preparation.class;
        if class.required_terms.is_none()
            && class.node_selector.is_empty()
            && added_required(preparation.args).is_none()
        {
            return PreFilter::Skip;
        }
        named_nodes(class, preparation)
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let added = added_required(preparation.args).map(|terms| compile_all(&terms, &mut preparation.symbols));
        let own = Required::of_class(preparation.class, &mut preparation.symbols);
        Some(Filter::Node(Box::new(Required { added, ..own })))
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        if preparation.class.preferred_terms.is_empty() && added_preferred(preparation.args).is_empty() {
            return PreScore::Skip;
        }
        match preferred(preparation) {
            Ok(_) => PreScore::Continue,
            Err(error) => PreScore::Fail(error),
        }
    }

    fn fails_without_pre_score(&self, preparation: &mut Preparation<'_>) -> Option<String> {
        preferred(preparation).err()
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        // PreScore already failed for invalid terms.
        Some(Score::Node(Box::new(Preferred(preferred(preparation).unwrap_or_default()))))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalize::scaled)
    }

    fn lacks(&self, class: &Class, args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        lacks(class, args, place)
    }

    /// Upstream's hint compares the old node with the pod's own affinity only, and so does this one. Invalid terms wake the pod.
    fn events(&self) -> &'static [&'static str] {
        &[NODE_ADD, NODE_LABEL]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, args: &Args) -> bool {
        let (node, old) = match event {
            ClusterEvent::NodeAdded(node) => (node, None),
            ClusterEvent::NodeUpdated { old, new } if old.labels != new.labels => (new, Some(old)),
            _ => return false,
        };
        let mut now = LoneNode::new(node);
        if added_required(args).is_some_and(|added| now.matches(&[], Some(&added)) != Ok(true)) {
            return false;
        }
        let (labels, terms) = (&class.node_selector, class.required_terms.as_deref());
        match now.matches(labels, terms) {
            Ok(true) => old.is_none_or(|old| LoneNode::new(old).matches(labels, terms) != Ok(true)),
            Ok(false) => false,
            Err(_) => true,
        }
    }
}

/// Whether a node matches a pod's node selector and required node affinity. Invalid terms match no node.
#[must_use]
pub fn is_met(class: &Class, node: &NodeInfo) -> bool {
    LoneNode::new(node).matches(&class.node_selector, class.required_terms.as_deref()) == Ok(true)
}

/// Unmet requirements of a node: all of the node selector, and those of the closest term of each list. Empty or invalid terms are ignored.
fn lacks(class: &Class, args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
    let mut node = LoneNode::new(place.node);
    let equal = class.node_selector.iter().filter(|(key, value)| place.node.label(key) != Some(value));
    let label = |(key, value): &(Arc<str>, Arc<str>)| Lack::Label {
        requirement: Requirement { key: Arc::clone(key), operator: "In".into(), values: vec![Arc::clone(value)] },
        found: place.node.label(key).map(Arc::from),
    };
    let mut lacks: Vec<Lack> = equal.map(label).collect();
    for terms in [added_required(args), class.required_terms.clone()].into_iter().flatten() {
        let unmet = terms.iter().filter_map(|term| unmet(term, &mut node, place.node));
        lacks.extend(unmet.min_by_key(Vec::len).unwrap_or_default());
    }
    lacks
}

/// Unmet requirements of a term; `None` if the term is empty or invalid.
fn unmet(term: &NodeTerm, node: &mut LoneNode, info: &NodeInfo) -> Option<Vec<Lack>> {
    if term.expressions.is_empty() && term.fields.is_empty() {
        return None;
    }
    let mut lacks = Vec::new();
    for requirement in &term.expressions {
        let alone = NodeTerm { expressions: vec![requirement.clone()], ..NodeTerm::default() };
        if !node.matches(&[], Some(&[alone])).ok()? {
            let found = info.label(&requirement.key).map(Arc::from);
            lacks.push(Lack::Label { requirement: requirement.clone(), found });
        }
    }
    for requirement in &term.fields {
        let alone = NodeTerm { fields: vec![requirement.clone()], ..NodeTerm::default() };
        if !node.matches(&[], Some(&[alone])).ok()? {
            lacks.push(Lack::Name(requirement.clone()));
        }
    }
    Some(lacks)
}

/// Node names allowed by the required terms, if every term has some.
fn named_nodes(class: &Class, preparation: &mut Preparation<'_>) -> PreFilter {
    let Some(terms) = class.required_terms.as_deref().filter(|terms| !terms.is_empty()) else {
        return PreFilter::Continue;
    };
    let mut union: Vec<Symbol> = Vec::new();
    for term in terms {
        let mut names: Option<Vec<&str>> = None;
        for field in term.fields.iter().filter(|field| &*field.key == "metadata.name" && &*field.operator == "In") {
            let values = field.values.iter().map(AsRef::as_ref);
            names = Some(match names {
                None => values.collect(),
                Some(known) => values.filter(|value| known.contains(value)).collect(),
            });
        }
        let Some(names) = names else { return PreFilter::Continue };
        union.extend(names.into_iter().map(|name| preparation.symbols.number(name)));
    }
    union.sort_unstable();
    union.dedup();
    if union.is_empty() { PreFilter::Refuse("pod affinity terms conflict".to_owned()) } else { PreFilter::Only(union) }
}

fn added_required(args: &Args) -> Option<Vec<NodeTerm>> {
    let affinity = args.node_affinity.added_affinity.as_ref()?;
    let selector = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(selector.node_selector_terms.iter().map(ingest::node_term).collect())
}

fn added_preferred(args: &Args) -> Vec<(i32, NodeTerm)> {
    let terms: Option<&Vec<api::PreferredSchedulingTerm>> = args
        .node_affinity
        .added_affinity
        .as_ref()
        .and_then(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.as_ref());
    terms.into_iter().flatten().map(|term| (term.weight, ingest::node_term(&term.preference))).collect()
}

/// Like upstream, empty or invalid terms match nothing.
fn compile_all(terms: &[NodeTerm], symbols: &mut Lookup<'_>) -> Vec<Term> {
    terms.iter().filter_map(|term| selector::compile(term, symbols).ok().flatten()).collect()
}

fn preferred(preparation: &mut Preparation<'_>) -> Result<Vec<(i64, Term)>, String> {
    let mut compiled = Vec::new();
    let added = added_preferred(preparation.args);
    for (weight, term) in added.iter().chain(&preparation.class.preferred_terms).filter(|(weight, _)| *weight != 0) {
        if let Some(term) = selector::compile(term, &mut preparation.symbols)? {
            compiled.push((i64::from(*weight), term));
        }
    }
    Ok(compiled)
}

pub(crate) struct Required {
    added: Option<Vec<Term>>,
    equal: Vec<(Symbol, Symbol)>,
    required: Option<Vec<Term>>,
}

type TermsOver<'a> = SmallVec<[TermOver<'a>; 2]>;

struct RequiredOver<'a> {
    added: Option<TermsOver<'a>>,
    equal: SmallVec<[(Values<'a, Symbol>, Symbol); 2]>,
    required: Option<TermsOver<'a>>,
}

impl Required {
    pub(crate) fn of_class(class: &Class, symbols: &mut Lookup<'_>) -> Self {
        let equal = selector::compile_equal(&class.node_selector, symbols);
        let required = class.required_terms.as_deref().map(|terms| compile_all(terms, symbols));
        Self { added: None, equal, required }
    }

    pub(crate) fn matches(&self, nodes: &Snapshot, slot: Slot) -> bool {
        (self.equal.is_empty() && self.required.is_none()) || self.over(nodes).judge(slot).is_ok()
    }

    fn over<'a>(&'a self, nodes: &'a Snapshot) -> RequiredOver<'a> {
        let all = |terms: &'a Vec<Term>| terms.iter().map(|term| term.over(nodes)).collect();
        RequiredOver {
            added: self.added.as_ref().map(all),
            equal: self.equal.iter().map(|&(key, value)| (nodes.label_column(key), value)).collect(),
            required: self.required.as_ref().map(all),
        }
    }
}

impl RequiredOver<'_> {
    fn judge(&self, slot: Slot) -> FilterResult {
        let any = |terms: &TermsOver<'_>| terms.iter().any(|term| term.matches(slot));
        if !self.added.as_ref().is_none_or(any) {
            return Err(Refusal::unresolvable(BY_OPERATOR));
        }
        let suits = self.equal.iter().all(|(column, value)| *value != Symbol::NONE && column.get(slot) == *value)
            && self.required.as_ref().is_none_or(any);
        if suits { Ok(()) } else { Err(Refusal::unresolvable(0)) }
    }
}

impl NodeFilter for Required {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        self.over(nodes).judge(slot)
    }

    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
        let required = self.over(nodes);
        todo.retain(|&slot| required.judge(slot).map_err(|refusal| refused(slot, refusal)).is_ok());
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let reason = if detail == BY_OPERATOR {
            "node(s) didn't match scheduler-enforced node affinity"
        } else {
            "node(s) didn't match Pod's node affinity/selector"
        };
        vec![reason.to_owned()]
    }
}

struct Preferred(Vec<(i64, Term)>);

impl NodeScore for Preferred {
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        self.0.iter().filter(|(_, term)| term.over(nodes).matches(slot)).map(|(weight, _)| weight).sum()
    }

    fn add_column(&self, nodes: &Snapshot, todo: &[Slot], weight: i64, sums: &mut [i64]) {
        for (own, term) in &self.0 {
            let term = term.over(nodes);
            for (sum, _) in sums.iter_mut().zip(todo).filter(|&(_, &slot)| term.matches(slot)) {
                *sum += weight * own;
            }
        }
    }
}

#[cfg(test)]
mod tests;
