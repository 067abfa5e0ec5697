//! PodTopologySpread: spreads pods evenly over topology domains, as a hard or a soft constraint.

use std::{collections::BTreeMap, sync::Arc};

use smallvec::SmallVec;

use crate::{
    class::{Class, OwnerKind, SpreadConstraint, Toleration},
    domains::Sums,
    extension::{
        Amounts, ClusterEvent, DomainFilter, DomainScore, Domains, Extremes, Filter, Kind, Lack, MAX_NODE_SCORE,
        Normalize, Plugin, PreFilter, PreScore, Preparation, Score, Term,
    },
    ingest::{Features, pods::spread_constraint},
    interest::Interest,
    labels::{self, LabelSelector, Labels},
    plugins::{node_affinity, taint_toleration},
    profile::{Args, PodTopologySpreadDefaulting},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    symbols::Symbol,
};

mod hints;
mod logarithm;

/// Scoring treats each node as a domain of this label.
const HOSTNAME: &str = "kubernetes.io/hostname";

const ZONE: &str = "topology.kubernetes.io/zone";

/// The node's domain would exceed `maxSkew`.
const SKEWED: u64 = 0;

/// The node lacks a label of a constraint.
const UNLABELLED: u64 = 1;

/// Upstream's minimum count without domains. Only constraints with `minDomains` below one see it.
const NO_DOMAIN: i64 = 0x7fff_ffff;

/// The plugin.
#[derive(Debug)]
pub struct PodTopologySpread;

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        let own = !preparation.class.spread.is_empty();
        let what = if own { "obtaining pod's" } else { "setting default" };
        match constraints(preparation, true) {
            Ok(constraints) if constraints.is_empty() => PreFilter::Skip,
            Ok(_) => PreFilter::Continue,
            Err(error) => {
                PreFilter::Fail(format!("get constraints from pod: {what} hard topology spread constraints: {error}"))
            }
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let constraints = constraints(preparation, true).ok().filter(|constraints| !constraints.is_empty())?;
        let labels = &preparation.class.labels;
        let selfish = constraints.iter().map(|constraint| i64::from(constraint.selector.matches(labels))).collect();
        let counting = Counting::new(preparation, constraints, true);
        Some(Filter::Domain(Box::new(Hard { counting, selfish })))
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        let own = !preparation.class.spread.is_empty();
        let what = if own { "obtaining pod's" } else { "setting default" };
        match constraints(preparation, false) {
            Ok(constraints) if constraints.is_empty() => PreScore::Skip,
            Ok(_) => PreScore::Continue,
            Err(error) => {
                PreScore::Fail(format!("calculating preScoreState: {what} soft topology spread constraints: {error}"))
            }
        }
    }

    fn fails_without_pre_score(&self, _preparation: &mut Preparation<'_>) -> Option<String> {
        Some("error reading \"PreScorePodTopologySpread\" from cycleState: not found".to_owned())
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let constraints = constraints(preparation, false).ok().filter(|constraints| !constraints.is_empty())?;
        let counting = Counting::new(preparation, constraints, false);
        Some(Score::Domain(Box::new(Soft { counting })))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalized)
    }

    fn events(&self) -> &'static [&'static str] {
        hints::EVENTS
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, args: &Args) -> bool {
        hints::wakes(event, class, args)
    }

    fn reads(&self, args: &Args) -> &'static [Kind] {
        let args = &args.pod_topology_spread;
        let is_by_default =
            args.defaulting_type == PodTopologySpreadDefaulting::System || !args.default_constraints.is_empty();
        // The pod's own constraints have selectors.
        if is_by_default { Kind::SELECTING } else { &[] }
    }
}

fn normalized(raw: i64, Extremes { min, max }: Extremes) -> i64 {
    if max <= 0 { MAX_NODE_SCORE } else { MAX_NODE_SCORE * (max + min - raw) / max }
}

struct Constraint {
    spec: SpreadConstraint,
    selector: LabelSelector,
}

/// Hard or soft constraints of the pod, or the default ones.
fn constraints(preparation: &Preparation<'_>, required: bool) -> Result<Vec<Constraint>, Arc<str>> {
    let class = preparation.class;
    let of_kind = |constraint: &SpreadConstraint| constraint.required == required;
    let readable = |spec: SpreadConstraint| {
        let selector = spec.selector.clone()?;
        Ok(Constraint { spec, selector })
    };
    if !class.spread.is_empty() {
        return class.spread.iter().filter(|constraint| of_kind(constraint)).cloned().map(readable).collect();
    }
    let defaults = defaults(class, preparation.args).into_iter().filter(of_kind);
    let mut defaults: Vec<Constraint> = defaults.map(readable).collect::<Result<_, _>>()?;
    let selector = &preparation.facts.default_selector.0;
    if selector.is_everything() {
        return Ok(Vec::new());
    }
    for constraint in &mut defaults {
        constraint.selector = selector.clone();
    }
    Ok(defaults)
}

/// Default constraints of pods without constraints, without selectors.
fn defaults(class: &Class, args: &Args) -> Vec<SpreadConstraint> {
    let args = &args.pod_topology_spread;
    let soft = |key: &str, max_skew| SpreadConstraint {
        max_skew,
        topology_key: key.into(),
        required: false,
        selector: Ok(LabelSelector::Nothing),
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
    };
    match args.defaulting_type {
        PodTopologySpreadDefaulting::System => vec![soft(HOSTNAME, 3), soft(ZONE, 5)],
        PodTopologySpreadDefaulting::List => {
            // The features decide about the selector, which is replaced.
            let read = |constraint| spread_constraint(&class.labels, constraint, Features::default());
            args.default_constraints.iter().map(read).collect()
        }
    }
}

/// Selector of default constraints for a class, from its services and its controller. `services` holds the selectors of the services in its
/// namespace, `controller` the selector of its controller.
///
/// Source: `helper.DefaultSelector` in upstream's plugins/helper/spread.go.
#[must_use]
pub fn default_selector<'a>(
    class: &Class,
    services: impl Iterator<Item = &'a Labels>,
    controller: Option<&LabelSelector>,
) -> LabelSelector {
    let has = |(key, value): &(Arc<str>, Arc<str>)| labels::value(&class.labels, key) == Some(value);
    let selecting = services.filter(|selector| selector.iter().all(has));
    let mut equal: BTreeMap<&Arc<str>, &Arc<str>> =
        selecting.flat_map(|selector| selector.iter().map(|(key, value)| (key, value))).collect();
    let Some(LabelSelector::Matching(requirements)) = controller else { return LabelSelector::equal(equal) };
    if class.owner.as_ref().is_some_and(|owner| owner.kind == OwnerKind::ReplicationController) {
        // The selector of such a controller is a map, and overrides the same labels of services.
        let pairs = requirements.iter().filter_map(|requirement| Some((&requirement.key, requirement.values.first()?)));
        equal.extend(pairs);
        return LabelSelector::equal(equal);
    }
    let LabelSelector::Matching(mut all) = LabelSelector::equal(equal) else { return LabelSelector::Nothing };
    all.extend(requirements.iter().filter(|requirement| !all.contains(requirement)).cloned().collect::<Vec<_>>());
    LabelSelector::Matching(all)
}

#[derive(Debug, Clone, Copy)]
enum CounterIndex {
    Term(u16),
    Local(usize),
}

struct Counting {
    namespace: Arc<str>,
    constraints: Vec<Constraint>,
    places: Vec<CounterIndex>,
    terms: Vec<Term>,
    locals: Vec<Symbol>,
    keys: Vec<Symbol>,
    /// Nodes that lack any of the labels do not count. kube-scheduler's built-in default constraints are an exception, so that pods spread
    /// over hosts in clusters without zones.
    needs_all_keys: bool,
    affinity: node_affinity::Required,
    tolerations: Vec<Toleration>,
}

impl Counting {
    fn new(preparation: &mut Preparation<'_>, constraints: Vec<Constraint>, required: bool) -> Self {
        let class = preparation.class;
        let system = preparation.args.pod_topology_spread.defaulting_type == PodTopologySpreadDefaulting::System;
        let needs_all_keys = !class.spread.is_empty() || !system;
        let (mut places, mut terms, mut locals, mut keys) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for constraint in &constraints {
            let key = preparation.symbols.number(&constraint.spec.topology_key);
            keys.push(key);
            if !required && &*constraint.spec.topology_key == HOSTNAME {
                places.push(CounterIndex::Local(locals.len()));
                locals.push(key);
            } else {
                places.push(CounterIndex::Term(u16::try_from(terms.len()).unwrap_or(u16::MAX)));
                let lacking_is_empty = !needs_all_keys;
                terms.push(Term { key, lacking_is_empty, knows_empty: required, distinguishes: !required });
            }
        }
        Self {
            namespace: Arc::clone(&class.namespace),
            constraints,
            places,
            terms,
            locals,
            keys,
            needs_all_keys,
            affinity: node_affinity::Required::of_class(class, &mut preparation.symbols),
            tolerations: class.tolerations.clone(),
        }
    }

    fn counts_node(&self, term: u16, nodes: &Snapshot, slot: Slot) -> bool {
        if self.needs_all_keys && self.keys.iter().any(|&key| nodes.label(key, slot) == Symbol::NONE) {
            return false;
        }
        let at = self.places.iter().position(|place| matches!(place, CounterIndex::Term(known) if *known == term));
        let Some(Constraint { spec, .. }) = at.and_then(|at| self.constraints.get(at)) else { return false };
        (!spec.honors_affinity || self.affinity.matches(nodes, slot))
            && (!spec.honors_taints
                || !taint_toleration::untolerated(nodes.taints(nodes.taint_set(slot)), &self.tolerations))
    }

    fn interest(&self) -> Interest {
        let mut interest = Interest::default();
        let selectors = self.constraints.iter().map(|constraint| &constraint.selector);
        selectors.filter(|selector| !selector.is_everything()).for_each(|selector| interest.select(selector));
        interest
    }

    /// Source: `countPodsMatchSelector`, in which an empty selector matches nothing.
    fn amounts(&self, class: &Class) -> Amounts {
        if class.terminating {
            return Amounts::new();
        }
        self.amounts_where(class, |constraint| !constraint.selector.is_everything())
    }

    fn amounts_where(&self, class: &Class, counts: impl Fn(&Constraint) -> bool) -> Amounts {
        if class.namespace != self.namespace {
            return Amounts::new();
        }
        let matching = self
            .constraints
            .iter()
            .zip(&self.places)
            .filter(|(constraint, _)| counts(constraint) && constraint.selector.matches(&class.labels));
        let numbers = matching.map(|(_, place)| match *place {
            CounterIndex::Term(term) => term,
            CounterIndex::Local(local) => u16::try_from(self.terms.len() + local).unwrap_or(u16::MAX),
        });
        numbers.map(|number| (number, 1)).collect()
    }
}

struct Hard {
    counting: Counting,
    /// By constraint: 1 if the pod matches its own selector, otherwise 0.
    selfish: SmallVec<[i64; 4]>,
}

impl Domains for Hard {
    fn terms(&self) -> &[Term] {
        &self.counting.terms
    }

    fn counts_node(&self, term: u16, nodes: &Snapshot, slot: Slot) -> bool {
        self.counting.counts_node(term, nodes, slot)
    }

    fn amounts(&self, class: &Class) -> Amounts {
        self.counting.amounts(class)
    }

    /// Source: `updateWithPod`, in which an empty selector matches everything.
    fn nominated_amounts(&self, class: &Class) -> Amounts {
        self.counting.amounts_where(class, |_| true)
    }

    fn interest(&self) -> Interest {
        self.counting.interest()
    }
}

impl Hard {
    /// By constraint: the excess over `maxSkew` on nodes with these sums; `None` if they lack its label.
    fn over<'a>(&'a self, sums: Sums<'a>) -> impl Iterator<Item = (&'a SpreadConstraint, Option<i64>)> {
        (0..).zip(&self.counting.constraints).zip(&self.selfish).map(move |((term, Constraint { spec, .. }), own)| {
            let few = i64::try_from(sums.domains(term)).unwrap_or(i64::MAX) < i64::from(spec.min_domains);
            let lowest = if few { 0 } else { sums.lowest(term).unwrap_or(NO_DOMAIN) };
            (
                spec,
                sums.count(term).map(|count| {
                    count.saturating_add(*own).saturating_sub(lowest).saturating_sub(i64::from(spec.max_skew))
                }),
            )
        })
    }
}

impl DomainFilter for Hard {
    fn judge(&self, sums: Sums<'_>) -> FilterResult {
        for (_, over) in self.over(sums) {
            match over {
                None => return Err(Refusal::unresolvable(UNLABELLED)),
                Some(over) if over > 0 => return Err(Refusal::unschedulable(SKEWED)),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn lacks(&self, sums: Sums<'_>) -> Vec<Lack> {
        let lack = |(spec, over): (&SpreadConstraint, Option<i64>)| {
            let key = Arc::clone(&spec.topology_key);
            match over {
                None => Some(Lack::Key(key)),
                Some(over) => (over > 0).then_some(Lack::Skew { key, over }),
            }
        };
        self.over(sums).filter_map(lack).collect()
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let reason = "node(s) didn't match pod topology spread constraints";
        vec![if detail == UNLABELLED { format!("{reason} (missing required label)") } else { reason.to_owned() }]
    }
}

struct Soft {
    counting: Counting,
}

impl Soft {
    fn ignores(&self, sums: Sums<'_>) -> bool {
        self.counting.needs_all_keys
            && (sums.locals().contains(&-1)
                || self.counting.places.iter().any(|place| match *place {
                    CounterIndex::Term(term) => sums.count(term).is_none(),
                    CounterIndex::Local(_) => false,
                }))
    }
}

impl Domains for Soft {
    fn terms(&self) -> &[Term] {
        &self.counting.terms
    }

    fn counts_node(&self, term: u16, nodes: &Snapshot, slot: Slot) -> bool {
        self.counting.counts_node(term, nodes, slot)
    }

    fn locals(&self) -> &[Symbol] {
        &self.counting.locals
    }

    fn amounts(&self, class: &Class) -> Amounts {
        self.counting.amounts(class)
    }

    fn interest(&self) -> Interest {
        self.counting.interest()
    }
}

impl DomainScore for Soft {
    /// Weight of a pod by constraint: the logarithm of the number of domains with feasible nodes.
    #[expect(clippy::cast_precision_loss, reason = "upstream computes it so")]
    fn weights(&self, feasible: &mut dyn Iterator<Item = (Sums<'_>, usize)>) -> Vec<f64> {
        let mut nodes = 0;
        let mut domains: Vec<Vec<i64>> = vec![Vec::new(); self.counting.constraints.len()];
        for (sums, count) in feasible.filter(|(sums, _)| !self.ignores(*sums)) {
            nodes += count;
            for (known, place) in domains.iter_mut().zip(&self.counting.places) {
                if let CounterIndex::Term(term) = *place {
                    // Nodes without the label share a domain with those that have an empty value.
                    let domain = sums.domain(term).filter(|&domain| !sums.is_unnamed(term, domain)).unwrap_or(0);
                    if let Err(at) = known.binary_search(&domain) {
                        known.insert(at, domain);
                    }
                }
            }
        }
        let sizes = domains.iter().zip(&self.counting.places).map(|(known, place)| match place {
            CounterIndex::Term(_) => known.len(),
            CounterIndex::Local(_) => nodes,
        });
        sizes.map(|size| logarithm::ln((size + 2) as f64)).collect()
    }

    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes it so")]
    fn score(&self, weights: &[f64], sums: Sums<'_>) -> Option<i64> {
        if self.ignores(sums) {
            return None;
        }
        let mut score = 0_f64;
        let constraints = self.counting.constraints.iter().zip(&self.counting.places);
        for ((constraint, place), weight) in constraints.zip(weights) {
            let count = match *place {
                CounterIndex::Term(term) => sums.count(term),
                CounterIndex::Local(local) => sums.locals().get(local).copied().filter(|&count| count >= 0),
            };
            if let Some(count) = count {
                score += count as f64 * weight + f64::from(constraint.spec.max_skew - 1);
            }
        }
        Some(score.round() as i64)
    }
}

#[cfg(test)]
mod tests;
