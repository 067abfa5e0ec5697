//! Reads a KubeSchedulerConfiguration and returns valid profiles.
//!
//! Contains: `kubescheduler.config.k8s.io/v1` with kube-scheduler's defaults and rules. Does not depend on: files, flags, or the
//! implementation of plugins. The caller passes the text as a string and receives errors as [`ConfigErrors`].
//!
//! Two passes read the text, one for positions and one for values. Every error therefore has a line and column, and an unreadable field
//! does not hide other errors. Profiles are plain data of the framework, so that workers are built without this crate.

mod advice;
mod affinity;
mod arguments;
pub mod catalogue;
mod decode;
mod expand;
mod export;
mod extenders;
pub mod features;
mod header;
mod index;
mod labels;
mod migrate;
mod modules;
mod path;
mod plugin_sets;
mod report;
mod settings;
mod states;
#[cfg(test)]
mod tests;
mod tree;
mod wire;

use std::collections::{BTreeMap, BTreeSet};

use flotilla_framework::extender::Extender;
use flotilla_framework::profile::Profile;
use flotilla_framework::registry::Registry;

use features::FeatureGates;
use path::Path;
use plugin_sets::KnownPlugins;
use report::{Problem, Report, quoted};
use wire::Block;

pub use header::{API_VERSION, KIND};
pub use migrate::{Change, Migration, migrate};
pub use modules::named_modules;
pub use plugin_sets::{PluginSet, PluginSets};
pub use report::{Cause, ConfigError, ConfigErrors};
pub use settings::{ClientConnection, ElectionFlags, LeaderElection};

/// Maximum number of profiles. An empty profile takes two bytes of text and 6 KB of memory, so this is 6 MB.
const MAX_PROFILES: usize = 1_000;

static NO_MODULES: BTreeSet<String> = BTreeSet::new();

const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// A KubeSchedulerConfiguration with all defaults filled in.
///
/// [`Configuration::default`] is kube-scheduler's configuration without a file: one profile, `default-scheduler`, with the default set of
/// plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// At least one; names are unique.
    pub profiles: Vec<Profile>,
    /// The form of each profile in `/configz`, in the same order.
    pub written: Vec<WrittenProfile>,
    /// `extenders`, in their configured order.
    pub extenders: Vec<Extender>,
    /// `leaderElection`.
    pub leader_election: LeaderElection,
    /// `clientConnection`.
    pub client_connection: ClientConnection,
    /// At least 1; 16 by default.
    pub parallelism: i32,
    /// 0 to 100 as configured; `None` if unset. It has no effect: every node is scored.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Seconds, at least 1; 1 by default.
    pub pod_initial_backoff_seconds: i64,
    /// Seconds, at least the initial backoff; 10 by default.
    pub pod_max_backoff_seconds: i64,
    /// Whether watches start only with leadership; false by default.
    pub delay_cache_until_active: bool,
    /// Whether profiling endpoints are served; true by default.
    pub enable_profiling: bool,
    /// Whether profiles include contention; true by default if profiling is on.
    pub enable_contention_profiling: bool,
    /// Accepted settings that may not have the intended effect, each as `file:line:column: path: text`.
    pub warnings: Vec<String>,
}

/// The parts of a profile that only affect how it is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenProfile {
    /// Plugin sets after the merge with the default set, before `multiPoint` is expanded.
    pub plugins: PluginSets,
    /// Unchanged arguments of plugins that take none.
    pub other_args: BTreeMap<String, serde_json::Value>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self::of_gates(&FeatureGates::default())
    }
}

impl Configuration {
    /// The default configuration under `gates`.
    #[must_use]
    pub fn of_gates(gates: &FeatureGates) -> Self {
        // The default set contains only kube-scheduler's plugins.
        let known = KnownPlugins { gates, registry: Registry::of(&[]), modules: &NO_MODULES };
        build(&mut Report::new("", ""), wire::Document::default(), known, &ElectionFlags::default())
    }

    /// The profile of pods with this `schedulerName`.
    #[must_use]
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| &*profile.scheduler_name == scheduler_name)
    }

    /// The configuration as a `kubescheduler.config.k8s.io/v1` object, with all defaults filled in.
    ///
    /// The form is the one in which kube-scheduler writes its configuration. `multiPoint` lists the default plugins merged with the
    /// configured ones, the extension points list their own sets, and `pluginConfig` lists the arguments of every built plugin.
    /// [`Profile::plugins`] has the plugins of each extension point.
    #[must_use]
    pub fn to_v1(&self) -> serde_json::Value {
        export::to_v1(self)
    }
}

/// Reads a KubeSchedulerConfiguration from YAML or JSON. `file` is the name in errors and warnings.
///
/// # Errors
///
/// Every error, with its line and column:
/// - text that is not YAML, is larger than 1 MiB, nests deeper than 64 levels, holds more than 50,000 values, or expands aliases too far
/// - more than 1,000 profiles
/// - another `apiVersion` or `kind`
/// - fields that do not exist, are set twice or have the wrong type
/// - arguments that a plugin of the registry rejects
/// - everything else that kube-scheduler rejects or Flotilla does not implement
pub fn load(text: &str, file: &str, gates: &FeatureGates, registry: Registry) -> Result<Configuration, ConfigErrors> {
    load_beside(text, file, gates, registry, &ElectionFlags::default())
}

/// As [`load`], with flags that override `leaderElection`. The rules apply to the result, so a flag can correct the file.
///
/// # Errors
///
/// As [`load`].
pub fn load_beside(
    text: &str,
    file: &str,
    gates: &FeatureGates,
    registry: Registry,
    flags: &ElectionFlags,
) -> Result<Configuration, ConfigErrors> {
    let known = KnownPlugins { gates, registry, modules: &NO_MODULES };
    let Examination { configuration, errors, .. } = examine_beside(text, file, known, flags);
    match errors {
        Some(errors) => Err(errors),
        None => Ok(configuration.unwrap_or_default()),
    }
}

/// The result of [`examine`].
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// kube-scheduler's interpretation, even if Flotilla cannot run it; `None` if anything is invalid.
    pub configuration: Option<Configuration>,
    /// Accepted settings that may not have the intended effect, each as `file:line:column: path: text`.
    pub warnings: Vec<String>,
    /// Everything that is invalid or not implemented.
    pub errors: Option<ConfigErrors>,
}

/// As [`load`], but separates invalid settings from unimplemented ones, and returns the configuration if it is only unimplemented.
#[must_use]
pub fn examine(text: &str, file: &str, gates: &FeatureGates, registry: Registry) -> Examination {
    examine_beside(text, file, KnownPlugins { gates, registry, modules: &NO_MODULES }, &ElectionFlags::default())
}

fn examine_beside(text: &str, file: &str, known: KnownPlugins<'_>, flags: &ElectionFlags) -> Examination {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new(file, text);
    let document =
        decode::document(&mut report, text).filter(|document| header::check(&mut report, document)).and_then(
            |document| decode::decode::<wire::Document>(&mut report, header::without(document), &Path::default()),
        );
    let configuration = document.map(|document| build(&mut report, document, known, flags));
    let (warnings, errors) = report.finish();
    // Errors beyond the limit are only counted; their cause is unknown.
    let is_valid = errors
        .iter()
        .all(|found| found.omitted == 0 && found.errors.iter().all(|error| error.cause == Cause::NotImplemented));
    let configuration = configuration
        .filter(|_| is_valid)
        .map(|configuration| Configuration { warnings: warnings.clone(), ..configuration });
    Examination { configuration, warnings, errors }
}

/// Fills in defaults and checks the rest. The result is valid only if the report has no errors.
fn build(
    report: &mut Report<'_>,
    document: wire::Document,
    known: KnownPlugins<'_>,
    flags: &ElectionFlags,
) -> Configuration {
    let root = Path::default();
    let leader_election = settings::leader_election(report, document.leader_election, flags);
    let client_connection = settings::client_connection(report, document.client_connection);
    let parallelism = document.parallelism.unwrap_or(16);
    if parallelism <= 0 {
        report.error(Problem::value(root.key("parallelism"), parallelism, "an integer greater than 0"));
    }
    settings::percentage_of_nodes_to_score(report, document.percentage_of_nodes_to_score, &root);
    let (initial, max) =
        settings::backoffs(report, document.pod_initial_backoff_seconds, document.pod_max_backoff_seconds);
    let extenders = extenders::read(report, document.extenders.unwrap_or_default());
    let ignored_resources = extenders::ignored_resources(&extenders);
    let (profiles, written) = profiles(report, document.profiles.unwrap_or_default(), known, &ignored_resources);
    let enable_profiling = document.enable_profiling.unwrap_or(true);
    Configuration {
        profiles,
        written,
        extenders,
        leader_election,
        client_connection,
        parallelism,
        percentage_of_nodes_to_score: document.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds: initial,
        pod_max_backoff_seconds: max,
        delay_cache_until_active: document.delay_cache_until_active.unwrap_or(false),
        enable_profiling,
        enable_contention_profiling: document.enable_contention_profiling.unwrap_or(enable_profiling),
        warnings: Vec::new(),
    }
}

fn profiles(
    report: &mut Report<'_>,
    mut written: Vec<Block<wire::Profile>>,
    known: KnownPlugins<'_>,
    ignored_resources: &[String],
) -> (Vec<Profile>, Vec<WrittenProfile>) {
    let root = Path::default().key("profiles");
    if written.len() > MAX_PROFILES {
        let expected = format!("at most {MAX_PROFILES} profiles");
        report.error(Problem::value(root.clone(), format!("{} profiles", written.len()), expected).on_key());
        written.truncate(1);
    }
    if written.is_empty() {
        written.push(Block::default());
    }
    // With several profiles, the default one is ambiguous.
    if let [Block(only)] = written.as_mut_slice() {
        only.scheduler_name.get_or_insert_with(|| DEFAULT_SCHEDULER_NAME.to_owned());
    }
    plugin_sets::check_common_queue_sort(report, &written, &root);
    check_names(report, &written, &root);
    let mut profiles = Vec::with_capacity(written.len());
    let mut shown = Vec::with_capacity(written.len());
    for (number, Block(profile)) in written.into_iter().enumerate() {
        let path = root.index(number);
        settings::percentage_of_nodes_to_score(report, profile.percentage_of_nodes_to_score, &path);
        let plugins = profile.plugins.map(|Block(plugins)| plugins);
        let configs = profile.plugin_config.unwrap_or_default();
        let modules = modules::of(&configs).map(|(name, _)| name.to_owned()).collect();
        let known = KnownPlugins { modules: &modules, ..known };
        let (plugins, sets) = plugin_sets::effective(report, plugins.as_ref(), known, &path.key("plugins"));
        let KnownPlugins { gates, registry, .. } = known;
        let context = arguments::Context { sets: &sets, gates, registry, ignored_resources };
        let read = arguments::read(report, configs, &context, &path.key("pluginConfig"));
        profiles.push(Profile {
            scheduler_name: profile.scheduler_name.unwrap_or_default().as_str().into(),
            percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
            plugins,
            args: read.args,
        });
        shown.push(WrittenProfile { plugins: sets, other_args: read.other });
    }
    (profiles, shown)
}

fn check_names(report: &mut Report<'_>, profiles: &[Block<wire::Profile>], root: &Path) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, Block(profile)) in profiles.iter().enumerate() {
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        let at = root.index(number).key("schedulerName");
        if name.is_empty() {
            report.error(Problem::missing(at, "a name for the profile"));
        } else if let Some(earlier) = seen.get(name) {
            let hint = format!("{} has it", root.index(*earlier));
            let problem = Problem::value(at, format!("{} a second time", quoted(name)), "a unique name");
            report.error(problem.hint(hint));
        }
        seen.insert(name, number);
    }
}
