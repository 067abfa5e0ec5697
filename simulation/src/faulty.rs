//! A plugin with a bug: it panics for pods with a certain label.
//!
//! Each pod whose label says so has the plugin panic at that extension point. Such a pod fits nowhere, so that it must only wait. One for
//! which Score panics is bound where a single node is feasible, because then no node is scored.

use std::sync::OnceLock;

use flotilla_framework::{
    class::Class,
    extension::{ClusterEvent, Filter, NodeFilter, NodeScore, Plugin, PodField, PreFilter, Preparation, Score},
    profile::{Args, Plugins, WeightedPlugin},
    registry::Registry,
    snapshot::{Slot, Snapshot},
    status::{Refusal, Verdict},
};

/// The label that says where the plugin panics.
pub const LABEL: &str = "panics-at";
/// The extension points at which it panics: values of [`LABEL`].
pub const POINTS: [&str; 4] = ["PreFilter", "Filter", "Score", "QueueingHint"];
/// What its panics say.
pub const MESSAGE: &str = "as the plan says";
const NAME: &str = "Faulty";

struct Faulty;

struct Panics;

struct Prepared {
    panics: bool,
    refuses: bool,
}

/// The plugins of all coordinators and workers.
///
/// # Panics
/// If a plugin of Flotilla has the name of this one.
#[must_use]
pub fn registry() -> Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    *REGISTRY.get_or_init(|| Registry::built_in().with([Box::new(Faulty) as Box<dyn Plugin>]).expect("a free name"))
}

/// Has a profile run the plugin before all others.
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
    fn filter(&self, _: &Snapshot, _: Slot) -> Verdict {
        assert!(!self.panics, "{MESSAGE}");
        if self.refuses { Err(Refusal::unschedulable(0)) } else { Ok(()) }
    }

    fn reasons(&self, _: u64) -> Vec<String> {
        vec!["node(s) were refused".to_owned()]
    }
}
