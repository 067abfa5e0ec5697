//! InterPodAffinity: affinity and anti-affinity to other pods within topology domains.
//!
//! Required anti-affinity of existing pods also makes nodes infeasible. Preferences of existing pods count too, and their required affinity
//! counts as a preference.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use smallvec::SmallVec;

use crate::{
    class::{AffinityTerm, Class},
    domains::Sums,
    extension::{
        Amounts, ClusterEvent, DomainFilter, DomainScore, Domains, Extremes, Facts, Filter, Kind, Lack, MAX_NODE_SCORE,
        Normalize, Plugin, PreFilter, PreScore, Preparation, Score, Term,
    },
    interest::Interest,
    labels::{LabelSelector, Labels},
    profile::Args,
    status::{FilterResult, Refusal},
    symbols::Lookup,
};

mod hints;

/// Required affinity does not match.
const AFFINITY: u64 = 0;

/// Required anti-affinity matches a pod.
const ANTI_AFFINITY: u64 = 1;

/// Required anti-affinity of an existing pod matches this pod.
const EXISTING: u64 = 2;

/// The plugin.
#[derive(Debug)]
pub struct InterPodAffinity;

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        match &preparation.class.pod_affinity.error {
            Some(error) => PreFilter::Refuse(format!("parsing pod: {error}")),
            None => PreFilter::Continue,
        }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let filter = Required::new(preparation);
        (!filter.terms.is_empty()).then(|| Filter::Domain(Box::new(filter)))
    }

    fn pre_score(&self, preparation: &mut Preparation<'_>) -> PreScore {
        let affinity = &preparation.class.pod_affinity;
        let own = !affinity.preferred.is_empty() || !affinity.preferred_anti.is_empty();
        if preparation.args.inter_pod_affinity.ignore_preferred_terms_of_existing_pods && !own {
            return PreScore::Skip;
        }
        match &affinity.error {
            Some(error) => PreScore::Fail(format!("failed to parse pod: {error}")),
            None => PreScore::Continue,
        }
    }

    fn fails_without_pre_score(&self, _preparation: &mut Preparation<'_>) -> Option<String> {
        Some("failed to read \"PreScoreInterPodAffinity\" from cycleState: not found".to_owned())
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        let score = Preferred::new(preparation);
        (!score.terms.is_empty()).then(|| Score::Domain(Box::new(score)))
    }

    fn normalize(&self) -> Option<Normalize> {
        Some(normalized)
    }

    fn events(&self) -> &'static [&'static str] {
        hints::EVENTS
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        hints::wakes(event, class)
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::Namespace]
    }
}

/// Scales linearly: the minimum becomes 0, the maximum 100. Equal scores become 0.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "upstream computes it so")]
fn normalized(raw: i64, Extremes { min, max }: Extremes) -> i64 {
    let width = max.saturating_sub(min);
    if width <= 0 {
        return 0;
    }
    (MAX_NODE_SCORE as f64 * (raw.saturating_sub(min) as f64 / width as f64)) as i64
}

/// Topology keys of other classes' terms for required anti-affinity and for scoring, each sorted and unique.
#[must_use]
pub fn keys_in_play<'a>(
    class: &Class,
    namespace_labels: &Labels,
    others: impl Iterator<Item = &'a Class>,
) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
    let (mut repelling, mut scoring) = (Vec::new(), Vec::new());
    for other in others {
        let affinity = &other.pod_affinity;
        let means = |term: &&AffinityTerm| means(term, class, namespace_labels);
        let key = |term: &AffinityTerm| Arc::clone(&term.topology_key);
        repelling.extend(affinity.required_anti.iter().filter(means).map(key));
        let preferred = affinity.preferred.iter().chain(&affinity.preferred_anti).map(|(_, term)| term);
        scoring.extend(affinity.required.iter().chain(preferred).filter(means).map(key));
    }
    for keys in [&mut repelling, &mut scoring] {
        keys.sort_unstable();
        keys.dedup();
    }
    (repelling, scoring)
}

/// For each affinity term of a class, in order, the namespaces that its selector matches. Equal selectors are resolved once, and equal
/// lists are shared.
#[must_use]
pub fn term_namespaces<'a>(
    class: &Class,
    namespaces: impl Iterator<Item = (&'a Arc<str>, &'a Labels)> + Clone,
) -> Vec<Arc<[Arc<str>]>> {
    if class.pod_affinity.is_empty() {
        return Vec::new();
    }
    let mut lists: IndexSet<Arc<[Arc<str>]>> = IndexSet::from([Arc::default()]);
    let mut resolved: IndexMap<&LabelSelector, usize> = IndexMap::new();
    let mut selected = |term: &'_ AffinityTerm, selector| {
        if !selects_namespaces(term) {
            return 0;
        }
        *resolved.entry(selector).or_insert_with(|| {
            let selected = namespaces.clone().filter(|(_, labels)| selector.matches(labels));
            let mut names: Vec<Arc<str>> = selected.map(|(name, _)| Arc::clone(name)).collect();
            names.sort_unstable();
            lists.insert_full(names.into()).0
        })
    };
    let places: Vec<usize> = class.pod_affinity.terms().map(|term| selected(term, &term.namespace_selector)).collect();
    places.into_iter().map(|place| Arc::clone(&lists[place])).collect()
}

/// Whether a namespace selector must be resolved: it matches some namespaces, but not all.
#[must_use]
pub fn selects_namespaces(term: &AffinityTerm) -> bool {
    matches!(&term.namespace_selector, LabelSelector::Matching(requirements) if !requirements.is_empty())
}

/// Whether a term of a pod matches pods of a class. `selected` are the namespaces that its selector matches ([`term_namespaces`]).
#[must_use]
pub fn own_term_means(term: &AffinityTerm, selected: &[Arc<str>], class: &Class) -> bool {
    let namespace = &class.namespace;
    (term.namespaces.contains(namespace)
        || selected.binary_search(namespace).is_ok()
        || term.namespace_selector.is_everything())
        && term.selector.matches(&class.labels)
}

/// Whether an existing pod's term matches pods of a class with these namespace labels.
#[must_use]
pub fn means(term: &AffinityTerm, class: &Class, namespace_labels: &Labels) -> bool {
    (term.namespaces.contains(&class.namespace) || term.namespace_selector.matches(namespace_labels))
        && term.selector.matches(&class.labels)
}

/// A term of the pod, with resolved namespaces.
struct OwnTerm {
    term: AffinityTerm,
    selected: Arc<[Arc<str>]>,
    weight: i64,
    /// Index of its key among the counted keys.
    number: u16,
}

impl OwnTerm {
    fn means(&self, class: &Class) -> bool {
        own_term_means(&self.term, &self.selected, class)
    }
}

/// Counted topology keys, unique within each section.
#[derive(Default)]
struct Keys {
    terms: Vec<Term>,
    from: usize,
}

impl Keys {
    /// Starts a section. Its keys count separately from earlier ones.
    fn begin(&mut self) {
        self.from = self.terms.len();
    }

    fn number(&mut self, key: &str, symbols: &mut Lookup<'_>) -> u16 {
        let key = symbols.number(key);
        let known = self.terms[self.from..].iter().position(|term| term.key == key);
        let at = known.map_or(self.terms.len(), |at| self.from + at);
        if known.is_none() {
            self.terms.push(Term::over(key));
        }
        u16::try_from(at).unwrap_or(u16::MAX)
    }
}

/// Terms of the pod, with namespaces starting at index `first`.
fn own<'a>(
    terms: impl Iterator<Item = (i64, &'a AffinityTerm)>,
    first: usize,
    facts: &Facts,
    keys: &mut Keys,
    symbols: &mut Lookup<'_>,
) -> Vec<OwnTerm> {
    let resolved = (first..).zip(terms).map(|(at, (weight, term))| {
        let selected = facts.term_namespaces.get(at).cloned().unwrap_or_default();
        let number = keys.number(&term.topology_key, symbols);
        OwnTerm { term: term.clone(), selected, weight, number }
    });
    resolved.collect()
}

fn add(amounts: &mut Amounts, number: u16, amount: i64) {
    match amounts.iter_mut().find(|(known, _)| *known == number) {
        Some((_, sum)) => *sum += amount,
        None => amounts.push((number, amount)),
    }
}

struct Required {
    /// Keys of affinity, then of anti-affinity, then of existing pods' anti-affinity.
    terms: Vec<Term>,
    affinity: Vec<OwnTerm>,
    anti_affinity: Vec<OwnTerm>,
    together: std::ops::Range<u16>,
    apart: std::ops::Range<u16>,
    existing: SmallVec<[(Arc<str>, u16); 2]>,
    /// Whether the pod matches its own affinity terms.
    selfish: bool,
    class: Class,
    namespace_labels: Vec<(Arc<str>, Arc<str>)>,
}

impl Required {
    fn new(preparation: &mut Preparation<'_>) -> Self {
        let Preparation { class, facts, symbols, .. } = preparation;
        let terms = &class.pod_affinity;
        let mut keys = Keys::default();
        let end = |keys: &Keys| u16::try_from(keys.terms.len()).unwrap_or(u16::MAX);
        let plain = |terms| std::iter::repeat(1).zip(terms);
        let affinity = own(plain(terms.required.iter()), 0, facts, &mut keys, symbols);
        let together = 0..end(&keys);
        keys.begin();
        let anti_affinity = own(plain(terms.required_anti.iter()), terms.required.len(), facts, &mut keys, symbols);
        let apart = together.end..end(&keys);
        keys.begin();
        let existing = facts.repelling_keys.iter().map(|key| (Arc::clone(key), keys.number(key, symbols))).collect();
        Self {
            selfish: !affinity.is_empty() && affinity.iter().all(|term| term.means(class)),
            terms: keys.terms,
            affinity,
            anti_affinity,
            together,
            apart,
            existing,
            class: Class::clone(class),
            namespace_labels: facts.namespace_labels.clone(),
        }
    }
}

impl Domains for Required {
    fn terms(&self) -> &[Term] {
        &self.terms
    }

    fn amounts(&self, class: &Class) -> Amounts {
        let mut amounts = Amounts::new();
        // A pod that matches all terms counts under each of their keys.
        if !self.affinity.is_empty() && self.affinity.iter().all(|term| term.means(class)) {
            self.together.clone().for_each(|number| add(&mut amounts, number, 1));
        }
        for term in self.anti_affinity.iter().filter(|term| term.means(class)) {
            add(&mut amounts, term.number, 1);
        }
        for term in &class.pod_affinity.required_anti {
            let existing = self.existing.iter().find(|(key, _)| *key == term.topology_key);
            if let Some((_, number)) = existing
                && means(term, &self.class, &self.namespace_labels)
            {
                add(&mut amounts, *number, 1);
            }
        }
        amounts
    }

    fn interest(&self) -> Interest {
        let mut interest = Interest::default();
        // A pod that matches all terms also matches the first.
        let own = self.affinity.iter().take(1).chain(&self.anti_affinity);
        own.for_each(|own| interest.select(&own.term.selector));
        if !self.existing.is_empty() {
            interest.select_interested(&self.class);
        }
        interest
    }
}

impl DomainFilter for Required {
    fn judge(&self, sums: Sums<'_>) -> FilterResult {
        let mut near = true;
        for number in self.together.clone() {
            match sums.count(number) {
                None => return Err(Refusal::unresolvable(AFFINITY)),
                Some(count) => near &= count > 0,
            }
        }
        // The first pod of a series with affinity to each other finds no match.
        let first = || self.selfish && self.together.clone().all(|number| sums.is_zero(number));
        if !near && !first() {
            return Err(Refusal::unresolvable(AFFINITY));
        }
        let taken = |number: u16| sums.count(number).is_some_and(|count| count > 0);
        if self.apart.clone().any(taken) {
            return Err(Refusal::unschedulable(ANTI_AFFINITY));
        }
        if self.existing.iter().any(|(_, number)| taken(*number)) {
            return Err(Refusal::unschedulable(EXISTING));
        }
        Ok(())
    }

    fn is_idle(&self, sums: Sums<'_>) -> bool {
        self.together.is_empty()
            && self.apart.is_empty()
            && self.existing.iter().all(|(_, number)| sums.is_zero(*number))
    }

    fn lacks(&self, sums: Sums<'_>) -> Vec<Lack> {
        let taken = |number: u16| sums.count(number).is_some_and(|count| count > 0);
        let mut lacks: Vec<Lack> = Vec::new();
        let first = || self.selfish && self.together.clone().all(|number| sums.is_zero(number));
        lacks.extend(Self::keys(&self.affinity, |number| sums.count(number).is_none()).into_iter().map(Lack::Key));
        if !first() {
            lacks
                .extend(Self::keys(&self.affinity, |number| sums.count(number) == Some(0)).into_iter().map(Lack::Near));
        }
        lacks.extend(Self::keys(&self.anti_affinity, taken).into_iter().map(Lack::Away));
        let refusing = self.existing.iter().filter(|(_, number)| taken(*number));
        lacks.extend(refusing.map(|(key, _)| Lack::Welcome(Arc::clone(key))));
        lacks
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let reason = match detail {
            AFFINITY => "node(s) didn't match pod affinity rules",
            ANTI_AFFINITY => "node(s) didn't match pod anti-affinity rules",
            _ => "node(s) didn't satisfy existing pods anti-affinity rules",
        };
        vec![reason.to_owned()]
    }
}

impl Required {
    fn keys(terms: &[OwnTerm], holds: impl Fn(u16) -> bool) -> Vec<Arc<str>> {
        let mut keys: Vec<Arc<str>> = Vec::new();
        for term in terms.iter().filter(|term| holds(term.number)) {
            if !keys.contains(&term.term.topology_key) {
                keys.push(Arc::clone(&term.term.topology_key));
            }
        }
        keys
    }
}

struct Preferred {
    terms: Vec<Term>,
    own: Vec<OwnTerm>,
    existing: SmallVec<[(Arc<str>, u16); 2]>,
    /// Weight of existing pods' required affinity.
    hard_weight: i64,
    class: Class,
    namespace_labels: Vec<(Arc<str>, Arc<str>)>,
}

impl Preferred {
    fn new(preparation: &mut Preparation<'_>) -> Self {
        let Preparation { class, facts, symbols, args, .. } = preparation;
        let affinity = &class.pod_affinity;
        let mut keys = Keys::default();
        let near = affinity.preferred.iter().map(|(weight, term)| (i64::from(*weight), term));
        let far = affinity.preferred_anti.iter().map(|(weight, term)| (-i64::from(*weight), term));
        let first = affinity.required.len() + affinity.required_anti.len();
        let own = own(near.chain(far), first, facts, &mut keys, symbols);
        let existing = facts.scoring_keys.iter().map(|key| (Arc::clone(key), keys.number(key, symbols))).collect();
        Self {
            terms: keys.terms,
            own,
            existing,
            hard_weight: i64::from(args.inter_pod_affinity.hard_pod_affinity_weight),
            class: Class::clone(class),
            namespace_labels: facts.namespace_labels.clone(),
        }
    }
}

impl Domains for Preferred {
    fn terms(&self) -> &[Term] {
        &self.terms
    }

    fn amounts(&self, class: &Class) -> Amounts {
        let mut amounts = Amounts::new();
        for term in self.own.iter().filter(|term| term.means(class)) {
            add(&mut amounts, term.number, term.weight);
        }
        let mut theirs = |weight: i64, term: &AffinityTerm| {
            let existing = self.existing.iter().find(|(key, _)| *key == term.topology_key);
            if let Some((_, number)) = existing
                && means(term, &self.class, &self.namespace_labels)
            {
                add(&mut amounts, *number, weight);
            }
        };
        let affinity = &class.pod_affinity;
        if self.hard_weight > 0 {
            affinity.required.iter().for_each(|term| theirs(self.hard_weight, term));
        }
        affinity.preferred.iter().for_each(|(weight, term)| theirs(i64::from(*weight), term));
        affinity.preferred_anti.iter().for_each(|(weight, term)| theirs(-i64::from(*weight), term));
        amounts
    }

    fn interest(&self) -> Interest {
        let mut interest = Interest::default();
        self.own.iter().for_each(|own| interest.select(&own.term.selector));
        if !self.existing.is_empty() {
            interest.select_interested(&self.class);
        }
        interest
    }
}

impl DomainScore for Preferred {
    fn is_idle(&self, sums: Sums<'_>) -> bool {
        (0..).zip(&self.terms).all(|(number, _)| sums.domains(number) == 0)
    }

    fn score(&self, _weights: &[f64], sums: Sums<'_>) -> Option<i64> {
        let numbers = 0..u16::try_from(self.terms.len()).unwrap_or(u16::MAX);
        Some(numbers.filter_map(|number| sums.count(number)).fold(0, i64::saturating_add))
    }
}

#[cfg(test)]
mod tests;
