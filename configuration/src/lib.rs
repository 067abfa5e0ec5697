//! Reads a KubeSchedulerConfiguration and yields profiles that cannot be wrong.
//!
//! Knows: `kubescheduler.config.k8s.io/v1` and kube-scheduler's defaults and rules. Must not know: files, flags, or
//! what any plugin does: the text comes as a string, and what is wrong with it goes back as [`ConfigErrors`].
//!
//! The text is read twice: once for where everything stands, once for what it says. That is why every error can name
//! its line and column, and why what cannot be read does not hide what else is wrong.
//!
//! What is read is handed on as plain data of the framework, so that workers are built without any of this.

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
mod scalar;
mod settings;
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
use plugin_sets::Known;
use report::{Problem, Report, quoted};
use wire::Block;

pub use header::{API_VERSION, KIND};
pub use migrate::{Change, Migration, migrate};
pub use modules::named_modules;
pub use plugin_sets::{PluginSet, PluginSets};
pub use report::{Cause, ConfigError, ConfigErrors};
pub use settings::{ClientConnection, ElectionFlags, LeaderElection};

/// How many profiles a configuration may have. One takes 6 KB when it says nothing, so that these are 6 MB; it is written in two
/// bytes.
const MAX_PROFILES: usize = 1_000;

/// Of a configuration whose profiles are not read yet.
static NO_MODULES: BTreeSet<String> = BTreeSet::new();

/// The scheduler name of pods that ask for none.
const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// A KubeSchedulerConfiguration with everything that it leaves open filled in.
///
/// [`Configuration::default`] is what kube-scheduler runs with when it is given no file: one profile,
/// `default-scheduler`, with the default set of plugins.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// At least one; names differ.
    pub profiles: Vec<Profile>,
    /// How each profile is shown, in the same order.
    pub written: Vec<WrittenProfile>,
    /// `extenders`, in the order that they are written.
    pub extenders: Vec<Extender>,
    /// `leaderElection`.
    pub leader_election: LeaderElection,
    /// `clientConnection`.
    pub client_connection: ClientConnection,
    /// At least 1; 16 by default.
    pub parallelism: i32,
    /// 0 to 100 as it was written; `None` when it was not. Every node is scored whatever it says.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Seconds, at least 1; 1 by default.
    pub pod_initial_backoff_seconds: i64,
    /// Seconds, at least the initial backoff; 10 by default.
    pub pod_max_backoff_seconds: i64,
    /// Whether watches only start with leadership; not by default.
    pub delay_cache_until_active: bool,
    /// Whether profiles of the process can be asked for; they can by default.
    pub enable_profiling: bool,
    /// Whether these include contention; they do by default if there are any.
    pub enable_contention_profiling: bool,
    /// What is accepted but may not do what its author thinks, each as `file:line:column: path: text`.
    pub warnings: Vec<String>,
}

/// What of a profile does not matter to how it runs, but to how it is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WrittenProfile {
    /// The plugin sets with the default set merged into them, not yet spread over the extension points.
    pub plugins: PluginSets,
    /// The arguments of plugins that take none, as they are written.
    pub other_args: BTreeMap<String, serde_json::Value>,
}

impl Default for Configuration {
    fn default() -> Self {
        Self::of_gates(&FeatureGates::default())
    }
}

impl Configuration {
    /// The default configuration, as `gates` have it.
    #[must_use]
    pub fn of_gates(gates: &FeatureGates) -> Self {
        // The default set names none but kube-scheduler's plugins.
        let known = Known { gates, registry: Registry::of(&[]), modules: &NO_MODULES };
        build(&mut Report::new("", ""), wire::Document::default(), known, &ElectionFlags::default())
    }

    /// The profile of pods that ask for `scheduler_name`.
    #[must_use]
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| &*profile.scheduler_name == scheduler_name)
    }

    /// The configuration as a `kubescheduler.config.k8s.io/v1` object, with all defaults filled in.
    ///
    /// It has the form in which kube-scheduler writes the configuration that it runs with: `multiPoint` lists the
    /// default plugins with what is written there merged into them, the extension points list what is written for them,
    /// and `pluginConfig` lists the arguments of every plugin that is built. How all this spreads over the extension
    /// points is in [`Profile::plugins`].
    #[must_use]
    pub fn to_v1(&self) -> serde_json::Value {
        export::to_v1(self)
    }
}

/// Reads a KubeSchedulerConfiguration from YAML or JSON, as `gates` have it read, for a process with the plugins of `registry`;
/// `file` is only what errors and warnings call it.
///
/// # Errors
///
/// Everything that is wrong, each with its line and column: text that is not YAML, that is larger than 1 MiB, nests
/// deeper than 64 levels or holds more than 50,000 values, or whose aliases expand too far; more than 1,000 profiles;
/// another `apiVersion` or `kind`; fields
/// that do not exist, are set twice or hold the wrong type; what a plugin of the registry says of its arguments; and
/// whatever kube-scheduler refuses or Flotilla lacks.
pub fn load(text: &str, file: &str, gates: &FeatureGates, registry: Registry) -> Result<Configuration, ConfigErrors> {
    load_beside(text, file, gates, registry, &ElectionFlags::default())
}

/// As [`load`], beside flags that override `leaderElection`: the rules hold for what comes of both, so that a flag may
/// mend what the file has wrong.
///
/// # Errors
///
/// Those of [`load`].
pub fn load_beside(
    text: &str,
    file: &str,
    gates: &FeatureGates,
    registry: Registry,
    flags: &ElectionFlags,
) -> Result<Configuration, ConfigErrors> {
    let known = Known { gates, registry, modules: &NO_MODULES };
    let Examination { configuration, errors, .. } = examine_beside(text, file, known, flags);
    match errors {
        Some(errors) => Err(errors),
        // Where there is no configuration there is an error.
        None => Ok(configuration.unwrap_or_default()),
    }
}

/// What a text is found to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Examination {
    /// What kube-scheduler would make of it, also where this version of Flotilla could not run it; `None` where
    /// something in it is invalid.
    pub configuration: Option<Configuration>,
    /// What is accepted but may not do what its author thinks, each as `file:line:column: path: text`.
    pub warnings: Vec<String>,
    /// Everything that is wrong, and everything that is not implemented.
    pub errors: Option<ConfigErrors>,
}

/// As [`load`], but tells apart what is invalid from what Flotilla lacks, and gives the configuration of the latter.
#[must_use]
pub fn examine(text: &str, file: &str, gates: &FeatureGates, registry: Registry) -> Examination {
    examine_beside(text, file, Known { gates, registry, modules: &NO_MODULES }, &ElectionFlags::default())
}

fn examine_beside(text: &str, file: &str, known: Known<'_>, flags: &ElectionFlags) -> Examination {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut report = Report::new(file, text);
    let document =
        decode::document(&mut report, text).filter(|document| header::check(&mut report, document)).and_then(
            |document| decode::decode::<wire::Document>(&mut report, header::without(document), &Path::default()),
        );
    let configuration = document.map(|document| build(&mut report, document, known, flags));
    let (warnings, errors) = report.finish();
    // What the errors are that were only counted is not known.
    let is_valid = errors
        .iter()
        .all(|found| found.omitted == 0 && found.errors.iter().all(|error| error.cause == Cause::NotImplemented));
    let configuration = configuration
        .filter(|_| is_valid)
        .map(|configuration| Configuration { warnings: warnings.clone(), ..configuration });
    Examination { configuration, warnings, errors }
}

/// Fills in what is not set and checks the rest. What it returns is only good if the report has no errors.
fn build(report: &mut Report<'_>, document: wire::Document, known: Known<'_>, flags: &ElectionFlags) -> Configuration {
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
    known: Known<'_>,
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
    // With several profiles, it is not known which of them is meant to be the default one.
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
        let known = Known { modules: &modules, ..known };
        let (plugins, sets) = plugin_sets::effective(report, plugins.as_ref(), known, &path.key("plugins"));
        let Known { gates, registry, .. } = known;
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

/// Every profile has a name of its own.
fn check_names(report: &mut Report<'_>, profiles: &[Block<wire::Profile>], root: &Path) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, Block(profile)) in profiles.iter().enumerate() {
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        let at = root.index(number).key("schedulerName");
        if name.is_empty() {
            report.error(Problem::missing(at, "a name for the profile"));
        } else if let Some(earlier) = seen.get(name) {
            let hint = format!("{} has it", root.index(*earlier));
            let problem = Problem::value(at, format!("{} a second time", quoted(name)), "a name of its own");
            report.error(problem.hint(hint));
        }
        seen.insert(name, number);
    }
}
