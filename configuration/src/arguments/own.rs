//! The arguments of plugins that are compiled in besides kube-scheduler's own.
//!
//! Knows: that such a plugin checks its arguments itself, and where they stand. Must not know: any plugin.

use std::collections::BTreeMap;

use flotilla_framework::{profile::ArgsStep, registry::Registry};
use serde_json::Value;

use super::{
    super::{
        catalogue,
        decode::explain,
        path::{Path, Segment},
        report::{Problem, Report},
    },
    Context,
};

/// Whether the process has the plugin and kube-scheduler has not.
pub(super) fn is_own(name: &str, registry: Registry) -> bool {
    catalogue::find(name).is_none() && registry.find(name).is_some()
}

/// Has every such plugin of the profile check its arguments, also where none are written. Arguments of a plugin that the profile
/// does not enable are left out.
pub(super) fn check(
    report: &mut Report<'_>,
    own: &mut BTreeMap<String, Value>,
    places: &BTreeMap<String, usize>,
    context: &Context<'_>,
    path: &Path,
) {
    own.retain(|name, _| context.sets.builds(name));
    let nothing = Value::Object(serde_json::Map::new());
    let enabled = |name: &str| is_own(name, context.registry) && context.sets.builds(name);
    for plugin in context.registry.iter().filter(|plugin| enabled(plugin.name())) {
        let name = plugin.name();
        let Err(error) = plugin.check_args(own.get(name).unwrap_or(&nothing)) else { continue };
        // Without an entry the list itself is what lacks it.
        let args = places.get(name).map_or_else(|| path.clone(), |place| path.index(*place).key("args"));
        let steps = error.path.into_iter().map(|step| match step {
            ArgsStep::Field(key) => Segment::Key(key),
            ArgsStep::Element(index) => Segment::Index(index),
        });
        report.error(problem(args.concat(&steps.collect()), &error.message));
    }
}

/// What a plugin says itself has both parts; the rest is what serde says.
fn problem(path: Path, message: &str) -> Problem {
    match message.strip_prefix("found ").and_then(|said| said.rsplit_once(", expected ")) {
        Some((found, expected)) => Problem::value(path, found, expected),
        None => explain(path, message),
    }
}
