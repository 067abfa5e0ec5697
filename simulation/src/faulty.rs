//! A defective plugin that panics for pods with a label, at the extension point in the label.
//!
//! Such a pod is infeasible, and must only wait. A pod with a panic in Score is bound if only one node is feasible, because then no node is
//! scored.

use std::sync::OnceLock;

use flotilla_framework::{
    class::Class,
    extension::{ClusterEvent, Filter, NodeFilter, NodeScore, Plugin, PodField, PreFilter, Preparation, Score},
    profile::{Args, Plugins, WeightedPlugin},
    registry::Registry,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

/// Label with the extension point of the panic.
pub const LABEL: &str = "panics-at";
/// Values of [`LABEL`].
pub const POINTS: [&str; 4] = ["PreFilter", "Filter", "Score", "QueueingHint"];
/// Message of the panics.
pub const MESSAGE: &str = "as the plan says";
const NAME: &str = "Faulty";

struct Faulty;

struct Panics;

struct Prepared {
    panics: bool,
    refuses: bool,
}

/// Plugins of all coordinators and workers.
///
/// # Panics
/// A plugin of Flotilla has the same name.
#[must_use]
pub fn registry() -> Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    *REGISTRY.get_or_init(|| Registry::built_in().with([Box::new(Faulty) as Box<dyn Plugin>]).expect("a free name"))
}

/// Adds the plugin to a profile, before all others.
pub fn enable(plugins: &mut Plugins) {
    plugins.pre_filter.insert(0, NAME.to_owned());
    plugins.filter.insert(0, NAME.to_owned());
    plugins.score.insert(0, WeightedPlugin { name: NAME.to_owned(), weight: 1 });
}

fn panics_at(class: &Class, point: &str) -> bool {
    class.field(&PodField::label(LABEL)).is_some_and(|value| value == point)
}

impl Plugin for Faulty {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pod_fields(&self, _: &Args) -> Vec<PodField> {
        vec![PodField::label(LABEL)]
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        assert!(!panics_at(preparation.class, "PreFilter"), "{MESSAGE}");
        PreFilter::Continue
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let is_at = |point| panics_at(preparation.class, point);
        Some(Filter::Node(Box::new(Prepared { panics: is_at("Filter"), refuses: is_at("QueueingHint") })))
    }

    fn score(&self, preparation: &mut Preparation<'_>) -> Option<Score> {
        panics_at(preparation.class, "Score").then(|| Score::Node(Box::new(Panics)))
    }

    fn events(&self) -> &'static [&'static str] {
        &["AssignedPodDelete"]
    }

    fn wakes(&self, _: ClusterEvent<'_>, class: &Class, _: &Args) -> bool {
        assert!(!panics_at(class, "QueueingHint"), "{MESSAGE}");
        true
    }
}

impl NodeScore for Panics {
    fn score(&self, _: &Snapshot, _: Slot) -> i64 {
        panic!("{MESSAGE}")
    }
}

impl NodeFilter for Prepared {
    fn filter(&self, _: &Snapshot, _: Slot) -> FilterResult {
        assert!(!self.panics, "{MESSAGE}");
        if self.refuses { Err(Refusal::unschedulable(0)) } else { Ok(()) }
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        vec!["node(s) were refused".to_owned()]
    }
}
