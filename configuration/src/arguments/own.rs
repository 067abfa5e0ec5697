//! Arguments of plugins that are not kube-scheduler's.

use std::collections::BTreeMap;

use flotilla_framework::{
    modules::{DIGEST_FIELD, Digest, Source, URL_FIELD},
    profile::ArgsStep,
    registry::Registry,
};
use serde_json::Value;

use super::{
    super::{
        catalogue,
        decode::explain,
        path::{Path, Segment},
        report::{Problem, Report, quoted},
    },
    Context,
};

pub(super) fn is_own(name: &str, registry: Registry) -> bool {
    catalogue::find(name).is_none() && registry.find(name).is_some()
}

/// Makes every own plugin of the profile check its arguments, even if none are configured. Skips plugins that the profile does not enable.
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
        let written = own.get(name).unwrap_or(&nothing);
        // Without an entry, the error is at the list.
        let args = places.get(name).map_or_else(|| path.clone(), |place| path.index(*place).key("args"));
        let Err(error) = plugin.check_args(written) else {
            plugin
                .advise(written)
                .iter()
                .for_each(|advice| report.warning(&args, format!("{}: {advice}", quoted(name))));
            if let Some(source) = Source::of(written) {
                match found(context.registry, &source) {
                    Ok(digest) => set_digest(own, name, digest),
                    Err(_) => report.error(missing(context.registry, &source, &args)),
                }
            }
            continue;
        };
        let steps = error.path.into_iter().map(|step| match step {
            ArgsStep::Field(key) => Segment::Key(key),
            ArgsStep::Element(index) => Segment::Index(index),
        });
        report.error(problem(args.concat(&steps.collect()), &error.message));
    }
}

fn found(registry: Registry, source: &Source) -> Result<Digest, String> {
    let modules = registry.modules().ok_or_else(String::new)?;
    modules.resolved(source).unwrap_or_else(|| Err("it was not loaded".to_owned()))
}

/// The digest pins the module, even if the address serves another one later.
fn set_digest(own: &mut BTreeMap<String, Value>, name: &str, digest: Digest) {
    if let Some(Value::Object(args)) = own.get_mut(name) {
        args.insert(DIGEST_FIELD.to_owned(), Value::String(digest.to_string()));
    }
}

/// The problem of a plugin with a missing module.
pub(super) fn missing(registry: Registry, source: &Source, args: &Path) -> Problem {
    let (at, url) = (args.key(URL_FIELD), quoted(&source.url));
    if registry.modules().is_none() {
        let found = format!("found a WebAssembly module, {url}, which this build cannot run");
        let expected = "a build with the feature `wasm`, such as the images and releases";
        let hint = "build with `cargo build --release -p flotilla --features cluster,wasm`".to_owned();
        return Problem::new(at, found, expected).hint(hint);
    }
    let why = found(registry, source).err().unwrap_or_default();
    Problem::new(at, format!("found a module that cannot be run: {url}: {why}"), "a module that can be run")
}

/// A plugin's message has both parts; any other message is serde's.
fn problem(path: Path, message: &str) -> Problem {
    match message.strip_prefix("found ").and_then(|said| said.rsplit_once(", expected ")) {
        Some((found, expected)) => Problem::value(path, found, expected),
        None => explain(path, message),
    }
}
