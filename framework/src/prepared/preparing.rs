//! Runs PreFilter and PreScore of a profile's plugins, in order.

use super::parts::Point;
use super::{
    ClassRefusal, Normalization, NormalizedScore, Order, PlacedTerm, PlainScore, Prepared, PreparedFilter, Restriction,
    Scorer, ScorerPlace,
};
use crate::{
    extension::{Domains, Filter, PreFilter, PreScore, Preparation, Score},
    profile::Profile,
    registry::Registry,
    symbols::Symbol,
};

impl Prepared {
    pub(super) fn run_pre_filters(
        &mut self,
        registry: Registry,
        profile: &Profile,
        preparation: &mut Preparation<'_>,
    ) -> Vec<&'static str> {
        let mut skipped = Vec::new();
        for plugin in profile.plugins.pre_filter.iter().filter_map(|name| registry.find(name)) {
            let is_skipped = preparation.class.resize_deferred && plugin.skips_deferred_resizes();
            let answer = if is_skipped { PreFilter::Skip } else { plugin.pre_filter(preparation) };
            if answer != PreFilter::Skip {
                self.parts.add(registry, Point::PreFilter, plugin.name());
            }
            match answer {
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
                PreFilter::Fail(error) => {
                    self.failed_by = Some(plugin.name());
                    self.error = Some(format!("running PreFilter plugin {:?}: {error}", plugin.name()));
                }
            }
            if self.refusal.is_some() {
                self.ended_by = Some(plugin.name());
            }
            if self.refusal.is_some() || self.error.is_some() {
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

    pub(super) fn prepare_filters(
        &mut self,
        registry: Registry,
        profile: &Profile,
        skipped: &[&str],
        preparation: &mut Preparation<'_>,
    ) {
        for (order, name) in (1..).zip(&profile.plugins.filter) {
            let Some(plugin) = registry.find(name).filter(|plugin| !skipped.contains(&plugin.name())) else {
                continue;
            };
            if preparation.class.resize_deferred && plugin.skips_deferred_resizes() {
                continue;
            }
            preparation.is_pre_filtered = profile.plugins.pre_filter.contains(name);
            self.parts.add(registry, Point::Filter, name);
            let Some(filter) = plugin.filter(preparation) else { continue };
            let first_term = self.terms.len();
            if let Filter::Domain(domain) = &filter {
                self.add_domains(domain.as_ref());
            }
            self.filters.push(PreparedFilter { plugin: plugin.name(), order, filter, first_term });
        }
    }

    pub(super) fn prepare_scores(&mut self, registry: Registry, profile: &Profile, preparation: &mut Preparation<'_>) {
        if preparation.class.resize_deferred {
            // kube-scheduler scores no single feasible node.
            return;
        }
        let mut raws = 0;
        let mut failed = None;
        let first = Order::try_from(profile.plugins.filter.len()).unwrap_or(Order::MAX).saturating_add(1);
        for (order, weighted) in (first..).zip(&profile.plugins.score) {
            let Some(plugin) = registry.find(&weighted.name) else { continue };
            preparation.is_pre_filtered = profile.plugins.pre_filter.contains(&weighted.name);
            preparation.is_filtered = profile.plugins.filter.contains(&weighted.name);
            if profile.plugins.pre_score.contains(&weighted.name) {
                let answer = plugin.pre_score(preparation);
                if answer != PreScore::Skip {
                    self.parts.add(registry, Point::PreScore, plugin.name());
                }
                match answer {
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
            self.parts.add(registry, Point::Score, plugin.name());
            let weight = weighted.weight;
            let score = plugin.score(preparation);
            let is_nothing = matches!(&score, Some(Score::Node(score)) if score.is_nothing());
            let by_all = match &score {
                Some(Score::Node(score)) => score.normalizer().map(Normalization::ByAll),
                Some(Score::Domain(_)) | None => None,
            };
            let normalize = by_all.or_else(|| plugin.normalize().map(Normalization::ByExtremes));
            match (score, normalize.filter(|_| !is_nothing)) {
                (None, _) => {}
                (Some(Score::Node(score)), None) => {
                    let place = ScorerPlace::Plain(self.plain.len());
                    self.scorers.push(Scorer { plugin: plugin.name(), weight, place });
                    self.plain.push(PlainScore { plugin: plugin.name(), order, weight, score });
                }
                (Some(score), normalize) => {
                    let (first_term, first_raw) = (self.terms.len(), raws);
                    raws += match &score {
                        Score::Domain(domain) => {
                            self.add_domains(domain.as_ref());
                            domain.locals().len()
                        }
                        Score::Node(_) => 1,
                    };
                    let normalize = normalize.unwrap_or(Normalization::ByExtremes(|raw, _| raw));
                    let place = ScorerPlace::Normalized(self.normalized.len());
                    self.scorers.push(Scorer { plugin: plugin.name(), weight, place });
                    let raws = (first_raw, raws);
                    let plugin = plugin.name();
                    let score = NormalizedScore { plugin, order, weight, normalize, score, first_term, raws };
                    self.normalized.push(score);
                }
            }
        }
        // No Score runs before every PreScore succeeded.
        self.score_error = self.score_error.take().or(failed);
    }

    fn add_domains(&mut self, domains: &dyn Domains) {
        let plugin = self.domain_plugins;
        self.domain_plugins += 1;
        for (number, term) in (0..).zip(domains.terms()) {
            let known = self.keys.iter().position(|key| *key == term.key);
            let key = known.unwrap_or_else(|| {
                self.keys.push(term.key);
                self.keys.len() - 1
            });
            self.terms.push(PlacedTerm { plugin, number, key, spec: *term });
        }
        self.locals.extend(domains.locals());
    }
}
