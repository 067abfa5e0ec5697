//! A profile's plugins made ready for one class.
//!
//! Knows: how the extension points of a profile follow each other for one pod. Must not know: which nodes are asked,
//! or where.

use crate::{
    class::Class,
    extension::{
        Domain, DomainFilter, Extremes, Facts, Filter, NodeScore, Normalize, Plugin, PreFilter, PreScore, Preparation,
        Score,
    },
    plugins,
    profile::Profile,
    snapshot::{Slot, Snapshot},
    status::{Refusal, Verdict},
    symbols::Symbol,
};

/// The place of a filter in the profile's order, from 1; [`RESTRICTION`] comes before all of them.
pub type Order = u16;

/// The order of the node names that PreFilters left: nodes outside are refused before any filter runs.
pub const RESTRICTION: Order = 0;

/// What all plugins of a profile learned from one class.
pub struct Prepared {
    refusal: Option<ClassRefusal>,
    refused_by: Option<&'static str>,
    score_error: Option<String>,
    restriction: Option<Restriction>,
    filters: Vec<PreparedFilter>,
    plain: Vec<(i64, Box<dyn NodeScore>)>,
    normalized: Vec<NormalizedScore>,
    scorers: Vec<Scorer>,
    keys: Vec<Symbol>,
}

/// A PreFilter refused the class whatever the nodes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRefusal {
    /// The reason; it stands in the message without a count.
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
}

/// A score that needs all feasible nodes before it means anything.
pub(crate) struct NormalizedScore {
    pub(crate) weight: i64,
    pub(crate) normalize: Normalize,
    pub(crate) score: Score,
}

/// A plugin that scores, and where its prepared score is.
pub(crate) struct Scorer {
    pub(crate) plugin: &'static str,
    pub(crate) weight: i64,
    pub(crate) place: ScorerPlace,
}

/// Which of the two lists of [`Prepared`] holds a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScorerPlace {
    /// An index into the scores that need no normalising.
    Plain(usize),
    /// An index into the others.
    Normalized(usize),
}

/// What [`Prepared::judge`] says of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeResult {
    /// The first filter that refused, and how.
    Refused(Order, Refusal),
    /// Feasible as far as one node tells.
    Feasible(Feasible),
}

/// What a node-local evaluation knows of a feasible node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feasible {
    /// Weighted sum of the scores that need no normalising.
    pub base: i64,
    /// Raw scores of the node-local plugins that normalise, in the profile's order.
    pub raws: Vec<i64>,
    /// The node's domains for the keys in play.
    pub domains: Vec<Domain>,
}

impl NormalizedScore {
    /// What a raw score adds to a total.
    pub(crate) fn weighted(&self, raw: i64, extremes: Extremes) -> i64 {
        self.weight.saturating_mul((self.normalize)(raw, extremes))
    }
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

// === impl Prepared ===

impl Prepared {
    /// Runs PreFilter and PreScore of every plugin of the profile that `registry` has, in the profile's order. Plugins
    /// that it lacks are passed over; whoever admits pods holds those back that need one (see
    /// [`crate::class::Unbuilt`]).
    #[must_use]
    pub fn new(
        registry: &'static [&'static dyn Plugin],
        profile: &Profile,
        class: &Class,
        facts: &Facts,
        nodes: &mut Snapshot,
    ) -> Self {
        let (symbols, taint_sets) = nodes.tables();
        let mut preparation = Preparation { class, args: &profile.args, facts, symbols, taint_sets };
        let mut prepared = Self {
            refusal: None,
            refused_by: None,
            score_error: None,
            restriction: None,
            filters: Vec::new(),
            plain: Vec::new(),
            normalized: Vec::new(),
            scorers: Vec::new(),
            keys: Vec::new(),
        };
        let skipped = prepared.run_pre_filters(registry, profile, &mut preparation);
        if prepared.refusal.is_none() {
            prepared.prepare_filters(registry, profile, &skipped, &mut preparation);
            prepared.prepare_scores(registry, profile, &mut preparation);
        }
        prepared
    }

    /// Why no node can do, if a PreFilter said so.
    #[must_use]
    pub const fn refusal(&self) -> Option<&ClassRefusal> {
        self.refusal.as_ref()
    }

    /// The one plugin whose PreFilter refused the class; `None` where none did, or where several left no node between
    /// them, of which upstream names none.
    #[must_use]
    pub const fn refused_by(&self) -> Option<&'static str> {
        self.refused_by
    }

    /// Why feasible nodes cannot be scored, if so.
    #[must_use]
    pub fn score_error(&self) -> Option<&str> {
        self.score_error.as_deref()
    }

    /// The plugins that left only some node names, if any did: they had a part in every refusal.
    #[must_use]
    pub fn restricting(&self) -> &[&'static str] {
        self.restriction.as_ref().map_or(&[], |restriction| &restriction.plugins)
    }

    /// The label keys whose domains tell strata apart.
    pub(crate) fn keys(&self) -> &[Symbol] {
        &self.keys
    }

    pub(crate) fn filters(&self) -> &[PreparedFilter] {
        &self.filters
    }

    pub(crate) fn domain_filters(&self) -> impl Iterator<Item = (Order, &dyn DomainFilter)> {
        self.filters.iter().filter_map(|prepared| match &prepared.filter {
            Filter::Domain(filter) => Some((prepared.order, filter.as_ref())),
            Filter::Node(_) => None,
        })
    }

    pub(crate) fn plain(&self) -> &[(i64, Box<dyn NodeScore>)] {
        &self.plain
    }

    pub(crate) fn normalized(&self) -> &[NormalizedScore] {
        &self.normalized
    }

    /// The plugins that score the class, in the profile's order.
    pub(crate) fn scorers(&self) -> &[Scorer] {
        &self.scorers
    }

    /// Whether the names that PreFilters left include the node at a position.
    pub(crate) fn admits_name(&self, nodes: &Snapshot, slot: Slot) -> bool {
        self.restriction.as_ref().is_none_or(|restriction| restriction.names.binary_search(&nodes.name(slot)).is_ok())
    }

    pub(crate) const fn is_restricted(&self) -> bool {
        self.restriction.is_some()
    }

    /// Judges and scores the node at a position, as far as one node tells.
    #[must_use]
    pub fn judge(&self, nodes: &Snapshot, slot: Slot) -> NodeResult {
        if !self.admits_name(nodes, slot) {
            return NodeResult::Refused(RESTRICTION, Refusal::unresolvable(0));
        }
        for prepared in &self.filters {
            if let Filter::Node(filter) = &prepared.filter
                && let Verdict::Err(refusal) = filter.filter(nodes, slot)
            {
                return NodeResult::Refused(prepared.order, refusal);
            }
        }
        let base = self.plain.iter().map(|(weight, score)| weight * score.score(nodes, slot)).sum();
        let raws = self.normalized.iter().filter_map(|normalized| match &normalized.score {
            Score::Node(score) => Some(score.score(nodes, slot)),
            Score::Domain(_) => None,
        });
        NodeResult::Feasible(Feasible { base, raws: raws.collect(), domains: self.domains(nodes, slot) })
    }

    /// The domains of the node at a position, for the keys in play.
    pub(crate) fn domains(&self, nodes: &Snapshot, slot: Slot) -> Vec<Domain> {
        self.keys.iter().map(|&key| domain(nodes, nodes.label(key, slot))).collect()
    }

    /// The name of the filter at a place in the order; `None` for [`RESTRICTION`] and places that are not prepared.
    #[must_use]
    pub fn plugin(&self, order: Order) -> Option<&'static str> {
        self.filters.iter().find(|filter| filter.order == order).map(|filter| filter.plugin)
    }

    /// The words for a refusal.
    #[must_use]
    pub fn reasons(&self, order: Order, detail: u64) -> Vec<String> {
        if order == RESTRICTION {
            let plugins = self.restriction.as_ref().map_or_else(String::new, |known| known.plugins.join(" "));
            return vec![format!("node(s) didn't satisfy plugin(s) [{plugins}]")];
        }
        self.filters.iter().find(|filter| filter.order == order).map_or_else(Vec::new, |prepared| {
            match &prepared.filter {
                Filter::Node(filter) => filter.reasons(detail),
                Filter::Domain(filter) => filter.reasons(detail),
            }
        })
    }

    fn run_pre_filters(
        &mut self,
        registry: &'static [&'static dyn Plugin],
        profile: &Profile,
        preparation: &mut Preparation<'_>,
    ) -> Vec<&'static str> {
        let mut skipped = Vec::new();
        for plugin in profile.plugins.pre_filter.iter().filter_map(|name| plugins::find(registry, name)) {
            match plugin.pre_filter(preparation) {
                PreFilter::Continue => {}
                PreFilter::Skip => skipped.push(plugin.name()),
                PreFilter::Only(mut names) => {
                    names.sort_unstable();
                    names.dedup();
                    self.restrict(plugin.name(), names);
                }
                PreFilter::Refuse(message) => {
                    self.refusal = Some(ClassRefusal { message, plugins: vec![plugin.name()] });
                    self.refused_by = Some(plugin.name());
                }
            }
            if self.refusal.is_some() {
                break;
            }
        }
        skipped
    }

    fn restrict(&mut self, plugin: &'static str, names: Vec<Symbol>) {
        let restriction = match self.restriction.take() {
            None => Restriction { names, plugins: vec![plugin] },
            Some(Restriction { names: known, mut plugins }) => {
                plugins.push(plugin);
                plugins.sort_unstable();
                let both = known.into_iter().filter(|name| names.binary_search(name).is_ok()).collect();
                Restriction { names: both, plugins }
            }
        };
        if restriction.names.is_empty() {
            let plugins = restriction.plugins;
            let message = match plugins.as_slice() {
                [one] => format!("node(s) didn't satisfy plugin {one}"),
                many => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", many.join(" ")),
            };
            self.refusal = Some(ClassRefusal { message, plugins });
        } else {
            self.restriction = Some(restriction);
        }
    }

    fn prepare_filters(
        &mut self,
        registry: &'static [&'static dyn Plugin],
        profile: &Profile,
        skipped: &[&str],
        preparation: &mut Preparation<'_>,
    ) {
        for (order, name) in (1..).zip(&profile.plugins.filter) {
            let Some(plugin) = plugins::find(registry, name).filter(|plugin| !skipped.contains(&plugin.name())) else {
                continue;
            };
            let Some(filter) = plugin.filter(preparation) else { continue };
            if let Filter::Domain(domain) = &filter {
                self.add_keys(domain.keys());
            }
            self.filters.push(PreparedFilter { plugin: plugin.name(), order, filter });
        }
    }

    fn prepare_scores(
        &mut self,
        registry: &'static [&'static dyn Plugin],
        profile: &Profile,
        preparation: &mut Preparation<'_>,
    ) {
        let mut failed = None;
        for weighted in &profile.plugins.score {
            let Some(plugin) = plugins::find(registry, &weighted.name) else { continue };
            if profile.plugins.pre_score.contains(&weighted.name) {
                match plugin.pre_score(preparation) {
                    PreScore::Continue => {}
                    PreScore::Skip => continue,
                    PreScore::Fail(error) => {
                        let text = format!("running PreScore plugin {:?}: {error}", plugin.name());
                        self.score_error.get_or_insert(text);
                        continue;
                    }
                }
            } else if let Some(error) = plugin.fails_without_pre_score(preparation) {
                let text = format!("running Score plugins: plugin {:?} failed with: {error}", plugin.name());
                failed.get_or_insert(text);
                continue;
            }
            let weight = weighted.weight;
            match (plugin.score(preparation), plugin.normalize()) {
                (None, _) => {}
                (Some(Score::Node(score)), None) => {
                    let place = ScorerPlace::Plain(self.plain.len());
                    self.scorers.push(Scorer { plugin: plugin.name(), weight, place });
                    self.plain.push((weight, score));
                }
                (Some(score), normalize) => {
                    if let Score::Domain(domain) = &score {
                        self.add_keys(domain.keys());
                    }
                    let normalize = normalize.unwrap_or(|raw, _| raw);
                    let place = ScorerPlace::Normalized(self.normalized.len());
                    self.scorers.push(Scorer { plugin: plugin.name(), weight, place });
                    self.normalized.push(NormalizedScore { weight, normalize, score });
                }
            }
        }
        // No Score runs before all of the PreScores have.
        self.score_error = self.score_error.take().or(failed);
    }

    fn add_keys(&mut self, keys: &[Symbol]) {
        for &key in keys {
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
        }
    }

    /// The part of a node's domains that one plugin asked for, in that plugin's order of keys.
    pub(crate) fn project(&self, keys: &[Symbol], domains: &[Domain]) -> Vec<Domain> {
        keys.iter()
            .map(|key| {
                let place = self.keys.iter().position(|known| known == key);
                place.and_then(|place| domains.get(place).cloned().flatten())
            })
            .collect()
    }
}

/// The text of a label's value as a domain.
pub(crate) fn domain(nodes: &Snapshot, value: Symbol) -> Domain {
    (value != Symbol::NONE).then(|| nodes.symbols.text(value).into())
}
