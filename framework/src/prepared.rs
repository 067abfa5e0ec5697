//! The plugins of a profile, prepared for one class.

mod attempt;
pub mod parts;
mod preparing;
mod purity;
mod scores;

use smallvec::SmallVec;

use crate::{
    class::{Class, ClassId},
    domain_labels::DomainLabels,
    domains::Sums,
    extension::{Amounts, Domain, Domains, Facts, Filter, NodeScore, Preparation, Score, Term},
    interest::Interest,
    matches::Matches,
    profile::Profile,
    registry::Registry,
    snapshot::{Slot, Snapshot},
    status::Refusal,
    symbols::{Lookup, Missing, Symbol},
};

use scores::LocalScore;
pub(crate) use scores::{Normalization, NormalizedScore, PlainScore, Scorer, ScorerPlace};

/// The index of a filter in the profile's order, from 1; [`RESTRICTION`] precedes all filters, scores that fail follow them.
pub type Order = u16;

/// The order of the restriction by PreFilters: nodes with other names are refused before any filter runs.
pub const RESTRICTION: Order = 0;

/// The plugins of a profile, prepared for one class: evaluates nodes for the pods of the class.
///
/// 1. [`Self::new`] runs PreFilter and PreScore. After [`Self::error`] or [`Self::refusal`] there is nothing to evaluate.
/// 2. [`Self::begin`] at the start of each attempt resets the work limits.
/// 3. [`Self::judge`] evaluates one node, [`Columns`](crate::evaluate::Columns) all nodes of a shard. If [`Self::is_wide`], these results
///    are only node-local: [`View`](crate::select::View) applies the domain-level filters and scores to the counts of all shards.
///
/// Within the work limits, results depend only on profile, class, facts and snapshot. Prepare again if the profile, the class or the facts
/// change, after [`Snapshot::compact`], which renumbers strings, and once a node has a string of [`Self::missing`].
pub struct Prepared {
    error: Option<String>,
    failed_by: Option<&'static str>,
    refusal: Option<ClassRefusal>,
    refused_by: Option<&'static str>,
    ended_by: Option<&'static str>,
    score_error: Option<String>,
    restriction: Option<Restriction>,
    /// The labels of [`Class::within`].
    within: DomainLabels,
    filters: Vec<PreparedFilter>,
    plain: Vec<PlainScore>,
    normalized: Vec<NormalizedScore>,
    scorers: Vec<Scorer>,
    keys: Vec<Symbol>,
    terms: Vec<PlacedTerm>,
    locals: Vec<Symbol>,
    domain_plugins: usize,
    parts: parts::Parts,
    missing: Missing,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedTerm {
    /// The plugin: domain-level filters first, then domain-level scores.
    pub(crate) plugin: usize,
    pub(crate) number: u16,
    pub(crate) key: usize,
    pub(crate) spec: Term,
}

impl PlacedTerm {
    /// Whether a node with this value of the label counts for the term; `plugin` is the term's.
    pub(crate) fn counts(&self, value: Symbol, plugin: &dyn Domains, nodes: &Snapshot, slot: Slot) -> bool {
        (value != Symbol::NONE || self.spec.lacking_is_empty) && plugin.counts_node(self.number, nodes, slot)
    }
}

/// The refusal of a class by PreFilter, independent of the nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRefusal {
    /// The reason, which has no count in the message.
    pub message: String,
    /// The plugins that refused.
    pub plugins: Vec<&'static str>,
}

struct Restriction {
    names: Vec<Symbol>,
    plugins: Vec<&'static str>,
}

pub(crate) struct PreparedFilter {
    pub(crate) plugin: &'static str,
    pub(crate) order: Order,
    pub(crate) filter: Filter,
    /// For a domain-level filter: the index of its first term.
    pub(crate) first_term: usize,
}

/// The result of [`Prepared::judge`] for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeResult {
    /// The first filter that refused, and its refusal.
    Refused(Order, Refusal),
    /// All node-local filters passed.
    Feasible(Feasible),
}

/// The node-local result of a feasible node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feasible {
    /// Weighted sum of the scores that need no normalising.
    pub base: i64,
    /// Raw scores of the node-local plugins that normalise, and locals of domain-level ones, in the profile's order.
    pub raws: SmallVec<[i64; 4]>,
    /// The node's domains for the keys in play.
    pub domains: Vec<Domain>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let filters: Vec<&str> = self.filters.iter().map(|filter| filter.plugin).collect();
        formatter
            .debug_struct("Prepared")
            .field("refusal", &self.refusal)
            .field("filters", &filters)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// Runs PreFilter and PreScore of the profile's plugins in `registry`, in the profile's order. Skips plugins that `registry` lacks.
    #[must_use]
    pub fn new(registry: Registry, profile: &Profile, class: &Class, facts: &Facts, nodes: &Snapshot) -> Self {
        let (table, taint_sets) = nodes.tables();
        let symbols = Lookup::of(table);
        let (is_pre_filtered, is_filtered) = (false, false);
        let args = &profile.args;
        let mut preparation = Preparation { class, args, facts, symbols, taint_sets, is_pre_filtered, is_filtered };
        let mut prepared = Self {
            error: None,
            failed_by: None,
            refusal: None,
            refused_by: None,
            ended_by: None,
            score_error: None,
            restriction: None,
            within: DomainLabels::default(),
            filters: Vec::new(),
            plain: Vec::new(),
            normalized: Vec::new(),
            scorers: Vec::new(),
            keys: Vec::new(),
            terms: Vec::new(),
            locals: Vec::new(),
            domain_plugins: 0,
            parts: parts::Parts::default(),
            missing: Missing::default(),
        };
        let symbols = &mut preparation.symbols;
        prepared.within = DomainLabels::new(class.within.as_deref(), |text| symbols.number(text));
        let skipped = prepared.run_pre_filters(registry, profile, &mut preparation);
        if prepared.refusal.is_none() && prepared.error.is_none() {
            prepared.prepare_filters(registry, profile, &skipped, &mut preparation);
            prepared.prepare_scores(registry, profile, &mut preparation);
        }
        prepared.missing = preparation.symbols.into_missing();
        prepared
    }

    /// The strings that the class names and no node had. Once a node has one of them, the class must be prepared again.
    #[must_use]
    pub const fn missing(&self) -> &Missing {
        &self.missing
    }

    /// The number of label keys that its plugins count over.
    #[must_use]
    pub const fn keys_len(&self) -> usize {
        self.keys.len()
    }

    /// The error of a PreFilter; then the nodes were not evaluated.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The plugins that take part in evaluating the class.
    #[must_use]
    pub const fn parts(&self) -> parts::Parts {
        self.parts
    }

    /// The plugin with the failed PreFilter.
    #[must_use]
    pub const fn failed_by(&self) -> Option<&'static str> {
        self.failed_by
    }

    /// The reason why no node is feasible, from a PreFilter.
    #[must_use]
    pub const fn refusal(&self) -> Option<&ClassRefusal> {
        self.refusal.as_ref()
    }

    /// The plugin that refused the class in PreFilter; `None` if none did, or several together, of which kube-scheduler names none.
    #[must_use]
    pub const fn refused_by(&self) -> Option<&'static str> {
        self.refused_by
    }

    /// The plugin after which no PreFilter ran, because no node was left; `None` if all ran, or one failed.
    #[must_use]
    pub const fn ended_by(&self) -> Option<&'static str> {
        self.ended_by
    }

    /// The error that prevents scoring of feasible nodes.
    #[must_use]
    pub fn score_error(&self) -> Option<&str> {
        self.score_error.as_deref()
    }

    /// The plugins that restricted the node names, which take part in every refusal.
    #[must_use]
    pub fn restricting(&self) -> &[&'static str] {
        self.restriction.as_ref().map_or(&[], |restriction| &restriction.plugins)
    }

    pub(crate) fn keys(&self) -> &[Symbol] {
        &self.keys
    }

    pub(crate) fn filters(&self) -> &[PreparedFilter] {
        &self.filters
    }

    pub(crate) fn terms(&self) -> &[PlacedTerm] {
        &self.terms
    }

    pub(crate) fn first_term(&self, plugin: usize) -> Option<usize> {
        let filters = self.filters.iter().filter_map(|prepared| match &prepared.filter {
            Filter::Domain(_) => Some(prepared.first_term),
            Filter::Node(_) => None,
        });
        let scores = self.normalized.iter().filter_map(|prepared| match &prepared.score {
            Score::Domain(_) => Some(prepared.first_term),
            Score::Node(_) => None,
        });
        filters.chain(scores).nth(plugin)
    }

    pub(crate) fn domain_plugins(&self) -> impl Iterator<Item = &dyn Domains> {
        let filters = self.filters.iter().filter_map(|prepared| match &prepared.filter {
            Filter::Domain(filter) => Some(filter.as_ref() as &dyn Domains),
            Filter::Node(_) => None,
        });
        let scores = self.normalized.iter().filter_map(|prepared| match &prepared.score {
            Score::Domain(score) => Some(score.as_ref() as &dyn Domains),
            Score::Node(_) => None,
        });
        filters.chain(scores)
    }

    /// Whether plugins count over domains, so that pods on one node affect the results of others.
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        self.domain_plugins > 0
    }

    /// Whether a domain-level filter precedes this index in the profile's order.
    pub(crate) fn is_judged_before(&self, order: Order) -> bool {
        let wide = |prepared: &PreparedFilter| matches!(prepared.filter, Filter::Domain(_));
        self.filters.iter().any(|prepared| prepared.order < order && wide(prepared))
    }

    /// The first domain-level filter before `before` that refuses nodes with these sums.
    pub(crate) fn judge_sums(&self, sums: Sums<'_>, before: Order) -> Result<(), (Order, Refusal)> {
        for prepared in self.filters.iter().take_while(|prepared| prepared.order < before) {
            if let Filter::Domain(filter) = &prepared.filter {
                let sums = Sums { first: prepared.first_term, ..sums };
                filter.judge(sums).map_err(|refusal| (prepared.order, refusal))?;
            }
        }
        Ok(())
    }

    /// The additions of one pod of a class to every term and local: terms of all plugins first, then locals.
    #[must_use]
    pub fn amounts(&self, class: &Class) -> Amounts {
        let mut all = Amounts::new();
        let (mut first, mut first_local) = (0, self.terms.len());
        for plugin in self.domain_plugins() {
            let own = plugin.terms().len();
            for (number, amount) in plugin.amounts(class) {
                let number = number as usize;
                let at = if number < own { first + number } else { first_local + number - own };
                all.push((u16::try_from(at).unwrap_or(u16::MAX), amount));
            }
            first += own;
            first_local += plugin.locals().len();
        }
        all
    }

    /// The classes for which [`Self::amounts`] may not be empty.
    pub(crate) fn interest(&self) -> Interest {
        let mut all = Interest::default();
        self.domain_plugins().for_each(|plugin| all.join(plugin.interest()));
        all
    }

    pub(crate) fn plain(&self) -> &[PlainScore] {
        &self.plain
    }

    pub(crate) fn normalized(&self) -> &[NormalizedScore] {
        &self.normalized
    }

    pub(crate) fn scorers(&self) -> &[Scorer] {
        &self.scorers
    }

    pub(crate) fn admits_name(&self, nodes: &Snapshot, slot: Slot) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.names.binary_search(&nodes.name(slot)).is_ok())
    }

    pub(crate) fn has_same_names(&self, other: &Self) -> bool {
        let names = |prepared: &Self| prepared.restriction.as_ref().map(|restriction| restriction.names.clone());
        names(self) == names(other)
    }

    /// Whether a node exists for the class, as by [`Class::within`].
    #[must_use]
    pub fn holds(&self, nodes: &Snapshot, slot: Slot) -> bool {
        self.within.has(nodes, slot)
    }

    /// Whether only some nodes exist for the class.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        !self.within.is_everywhere()
    }

    pub(crate) const fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// Runs the node-local filters and scores for the node at a position.
    #[must_use]
    pub fn judge(&self, nodes: &Snapshot, slot: Slot) -> NodeResult {
        let mut matches = Matches::default();
        if !self.locals.is_empty() {
            matches.refresh(self, nodes);
        }
        self.judge_with(nodes, slot, &matches)
    }

    /// As [`Self::judge`], with refreshed `matches`, so that additions of classes are only looked up.
    #[must_use]
    pub fn judge_with(&self, nodes: &Snapshot, slot: Slot, matches: &Matches) -> NodeResult {
        if !self.admits_name(nodes, slot) {
            return NodeResult::Refused(RESTRICTION, Refusal::unresolvable(0));
        }
        self.assert_pure(nodes, slot);
        if let Some((order, refusal)) = self.refused_locally(nodes, slot) {
            return NodeResult::Refused(order, refusal);
        }
        let score = |order: Order, score: &dyn NodeScore| match score.fallible() {
            None => Ok(score.score(nodes, slot)),
            Some(score) => score.try_score(nodes, slot).map_err(|refusal| NodeResult::Refused(order, refusal)),
        };
        let mut base = 0;
        for plain in &self.plain {
            match score(plain.order, &*plain.score) {
                Ok(raw) => base += plain.weight * raw,
                Err(failed) => return failed,
            }
        }
        let mut raws = SmallVec::new();
        let mut locals = 0..self.locals.len();
        for normalized in &self.normalized {
            match &normalized.score {
                Score::Node(node) => match score(normalized.order, &**node) {
                    Ok(raw) => raws.push(raw),
                    Err(failed) => return failed,
                },
                Score::Domain(score) => {
                    let own = locals.by_ref().take(score.locals().len());
                    raws.extend(own.map(|local| self.local(nodes, slot, local, matches)));
                }
            }
        }
        NodeResult::Feasible(Feasible { base, raws, domains: self.domains(nodes, slot) })
    }

    /// The first node-local filter that refuses the node at a position, ignoring the restriction of node names.
    pub(crate) fn refused_locally(&self, nodes: &Snapshot, slot: Slot) -> Option<(Order, Refusal)> {
        self.filters.iter().find_map(|prepared| match &prepared.filter {
            Filter::Node(filter) => filter.filter(nodes, slot).err().map(|refusal| (prepared.order, refusal)),
            Filter::Domain(_) => None,
        })
    }

    /// As [`Self::refused_locally`], with each filter's cluster-wide count changed by a shift.
    pub(crate) fn refused_shifted(&self, nodes: &Snapshot, slot: Slot, shifts: &[i64]) -> Option<(Order, Refusal)> {
        self.filters.iter().zip(shifts).find_map(|(prepared, &shift)| match &prepared.filter {
            Filter::Node(filter) if shift == 0 => {
                filter.filter(nodes, slot).err().map(|refusal| (prepared.order, refusal))
            }
            Filter::Node(filter) => {
                filter.filter_shifted(nodes, slot, shift).err().map(|refusal| (prepared.order, refusal))
            }
            Filter::Domain(_) => None,
        })
    }

    /// The node-local count of the node at a position; -1 if it lacks the label.
    pub(crate) fn local(&self, nodes: &Snapshot, slot: Slot, local: usize, matches: &Matches) -> i64 {
        if nodes.label(self.locals[local], slot) == Symbol::NONE {
            return -1;
        }
        let wanted = self.terms.len() + local;
        let of = |&(class, count): &(ClassId, u32)| {
            let amounts = matches.of(class).iter().filter(|(at, _)| *at as usize == wanted);
            amounts.map(|(_, amount)| amount.saturating_mul(i64::from(count))).sum::<i64>()
        };
        nodes.tenants(slot).iter().map(of).sum()
    }

    pub(crate) fn locals(&self) -> &[Symbol] {
        &self.locals
    }

    pub(crate) fn domains(&self, nodes: &Snapshot, slot: Slot) -> Vec<Domain> {
        self.keys.iter().map(|&key| domain(nodes, nodes.label(key, slot))).collect()
    }

    /// The name of the filter at an index; `None` for [`RESTRICTION`] and unknown indexes.
    #[must_use]
    pub fn plugin(&self, order: Order) -> Option<&'static str> {
        let filter = self.filters.iter().find(|filter| filter.order == order).map(|filter| filter.plugin);
        filter.or_else(|| self.local_scores().find(|score| score.order == order).map(|score| score.plugin))
    }

    pub(crate) fn can_refuse(&self, order: Order) -> bool {
        let by = |filter: &PreparedFilter| filter.order == order && matches!(filter.filter, Filter::Node(_));
        let fails = |score: LocalScore<'_>| score.order == order && score.score.fallible().is_some();
        let is_one = || self.filters.iter().any(by) || self.local_scores().any(fails);
        if order == RESTRICTION { self.is_restricted() } else { is_one() }
    }

    /// The message for nodes without a result: that of the PreFilters that restrict node names.
    pub(crate) fn reasons_unnamed(&self) -> Vec<String> {
        if self.is_restricted() { self.reasons(RESTRICTION, 0) } else { Vec::new() }
    }

    /// The messages of a refusal.
    #[must_use]
    pub fn reasons(&self, order: Order, detail: u64) -> Vec<String> {
        if order == RESTRICTION {
            // The detail is the index of a further filter to name, or 0: see `View::lay_over`.
            let besides = Order::try_from(detail).ok().and_then(|order| self.plugin(order));
            let mut plugins: Vec<&str> = self.restricting().iter().copied().chain(besides).collect();
            plugins.sort_unstable();
            plugins.dedup();
            return vec![format!("node(s) didn't satisfy plugin(s) [{}]", plugins.join(" "))];
        }
        match self.filters.iter().find(|filter| filter.order == order).map(|prepared| &prepared.filter) {
            Some(Filter::Node(filter)) => filter.reasons(detail),
            Some(Filter::Domain(filter)) => filter.reasons(detail),
            None => {
                let score = self.local_scores().find(|score| score.order == order);
                score.and_then(|score| score.score.fallible()).map_or_else(Vec::new, |score| score.reasons(detail))
            }
        }
    }
}

pub(crate) fn domain(nodes: &Snapshot, value: Symbol) -> Domain {
    (value != Symbol::NONE).then(|| nodes.symbols.text(value).into())
}
