//! Reads clusters and configurations from files.

use std::path::{Path, PathBuf};

use flotilla_cluster::{
    Cluster, Edit, GATE, Gatherer, Loader, Mark, Path as Node, Problems, Sources, Texts, locate, manifest,
};
use flotilla_configuration::{Configuration, features::FeatureGates, named_modules};
use flotilla_framework::{class::PodInfo, pod_group::reads_coscheduling, profile::Profile, registry::Registry};
use flotilla_objects::Written as _;
use flotilla_runtime::{
    extender::{node_text, pod_text},
    modules,
};
use indicatif::ProgressBar;

use crate::{
    config::configuration_text,
    input::{self, FileArgs, Inputs, Text},
    output::{Failure, print_notes},
    progress::progress,
};

const STOCK: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin<'a> {
    Defaults,
    File(&'a Path),
    /// The configuration of a running coordinator.
    Text(&'a Text),
}

impl<'a> From<Option<&'a Path>> for Origin<'a> {
    fn from(path: Option<&'a Path>) -> Self {
        path.map_or(Self::Defaults, Self::File)
    }
}

impl<'a> Origin<'a> {
    /// The file, else the coordinator's configuration if known, else the defaults.
    pub(crate) fn new(file: Option<&'a Path>, fallback: Option<&'a Text>) -> Self {
        file.map_or_else(|| fallback.map_or(Self::Defaults, Self::Text), Self::File)
    }
}

/// Parses `--feature-gates`.
pub(crate) fn gates(flags: &[String]) -> Result<FeatureGates, Failure> {
    let gates = FeatureGates::parse(&flags.join(","));
    gates.map_err(|errors| Failure::input(vec![format!("--feature-gates: {errors}")]))
}

/// Reads a configuration file; the default configuration without one.
pub(crate) fn configuration(
    config: Option<&Path>,
    gates: &FeatureGates,
    registry: Registry,
) -> Result<Configuration, Failure> {
    Ok(configured(config.into(), gates, registry)?.0)
}

/// Reads a configuration for a command that calls no extenders. Also returns an error message for pods that an extender manages, because
/// ignoring the extender would give a wrong answer.
pub(crate) fn configuration_without_calls(
    config: Origin<'_>,
    gates: &FeatureGates,
    registry: Registry,
    command: &'static str,
) -> Result<(Configuration, impl Fn(&PodInfo) -> Option<Failure>), Failure> {
    let (configuration, name, text) = configured(config, gates, registry)?;
    let path = Node::default().key("extenders");
    let mark = locate(&text, &[(&path, true)]).first().copied().unwrap_or(Mark::START);
    let extenders = configuration.extenders.clone();
    let refusal = move |pod: &PodInfo| {
        let extender = extenders.iter().find(|extender| extender.is_interested(pod))?;
        let (line, column, url) = (mark.line, mark.column, &extender.url_prefix);
        let (namespace, pod) = (&pod.class.namespace, &pod.name);
        Some(Failure::input(vec![format!(
            "{name}:{line}:{column}: extenders: {url} is interested in pod {namespace}/{pod}, and {command} calls no extender; \
             leave out the extender or such pods, or ask `flotilla explain`, which calls extenders"
        )]))
    };
    Ok((configuration, refusal))
}

fn configured(
    config: Origin<'_>,
    gates: &FeatureGates,
    registry: Registry,
) -> Result<(Configuration, String, String), Failure> {
    let (name, text) = match config {
        Origin::File(path) => {
            let read = input::read(path);
            let read = read.and_then(|(name, text)| Ok((name.clone(), configuration_text(&name, text)?)));
            read.map_err(|error| Failure::input(vec![error]))?
        }
        Origin::Text(Text { name, text }) => (name.clone(), text.clone()),
        Origin::Defaults if *gates == FeatureGates::default() => {
            return Ok((Configuration::default(), String::new(), String::new()));
        }
        Origin::Defaults => ("the defaults".to_owned(), STOCK.to_owned()),
    };
    let configuration = configuration_of(&text, &name, gates, registry)?;
    // The running coordinator printed its own warnings at its start.
    if !matches!(config, Origin::Text(_)) {
        print_notes(&configuration.warnings);
    }
    Ok((configuration, name, text))
}

/// Parses a configuration; the caller has printed its warnings.
pub(crate) fn configuration_of(
    text: &str,
    name: &str,
    gates: &FeatureGates,
    registry: Registry,
) -> Result<Configuration, Failure> {
    modules::find(registry, &named_modules(text));
    let configuration = flotilla_configuration::load(text, name, gates, registry);
    configuration.map_err(|errors| Failure::input(vec![errors.to_string()]))
}

#[cfg(feature = "cluster")]
/// Gathers objects that come from no file. Invalid ones are reported and left out.
pub(crate) fn gather(
    profiles: &[Profile],
    gatherer: Gatherer,
    fill: impl FnOnce(&mut Loader<'_>) -> Result<(), Failure>,
) -> Result<Cluster, Failure> {
    let mut gatherer = gatherer.without_workloads();
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let progress = progress("{spinner} {pos} objects read");
    let seen = || progress.inc(1);
    let filled = fill(&mut Loader::new(&mut sources, &mut gatherer, &mut problems, &seen));
    progress.finish_and_clear();
    filled?;
    let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    let cluster = gatherer.finish(&schedulers, &mut problems);
    print_notes(&problems.render_errors());
    Ok(cluster)
}

/// Adds objects that come from no file.
pub(crate) type MadeUp<'a> = &'a dyn Fn(&mut Gatherer, &mut Problems);

/// The cluster of the inputs and of the generated objects.
pub(crate) fn read(
    inputs: Inputs<'_>,
    made_up: Option<MadeUp<'_>>,
    profiles: &[Profile],
    gates: &FeatureGates,
    manifests: Manifests,
) -> Result<Cluster, Failure> {
    gather_files(inputs, made_up, profiles, gatherer(manifests.gatherer(), gates, profiles))
}

/// Whether pods keep their reduced manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manifests {
    Kept,
    Dropped,
}

impl Manifests {
    /// `is_asked`: the page answers new questions.
    pub(crate) const fn of(is_asked: bool) -> Self {
        if is_asked { Self::Kept } else { Self::Dropped }
    }

    pub(crate) fn gatherer(self) -> Gatherer {
        match self {
            // Nodes keep no manifest.
            Self::Kept => Gatherer::with_texts(Texts::new(|_| Err(String::new()), |pod| manifest::pod(pod.to_value()))),
            Self::Dropped => Gatherer::default(),
        }
    }
}

/// Keeps the JSON of nodes and pods for extenders.
pub(crate) fn telling() -> Gatherer {
    Gatherer::with_texts(Texts::new(|node| node_text(node.to_value()), |pod| pod_text(pod.to_value())))
}

fn gatherer(gatherer: Gatherer, gates: &FeatureGates, profiles: &[Profile]) -> Gatherer {
    let gatherer = gatherer.with_features(gates.features());
    let gatherer = if gates.enabled(GATE) { gatherer.with_groups() } else { gatherer };
    if profiles.iter().any(reads_coscheduling) { gatherer.with_coscheduling() } else { gatherer }
}

/// Reads files, with the JSON of each object.
pub(crate) fn read_with_texts(
    inputs: Inputs<'_>,
    profiles: &[Profile],
    gates: &FeatureGates,
) -> Result<Cluster, Failure> {
    gather_files(inputs, None, profiles, gatherer(telling(), gates, profiles))
}

/// Files that are gathered several times with different edits.
pub(crate) struct Files {
    sources: Sources,
    /// The index of the first document that is applied to the others.
    applied: usize,
    flags: FileArgs,
    /// Notes on the flags `--pod-template` that match no object yet.
    unused: Vec<String>,
}

impl Files {
    /// Reads the inputs and gathers their cluster. `edit` gets every object.
    pub(crate) fn read(
        inputs: Inputs<'_>,
        edit: &mut (dyn Edit + 'static),
        profiles: &[Profile],
        gates: &FeatureGates,
    ) -> Result<(Self, Cluster), Failure> {
        let (mut sources, flags) = (Sources::default(), inputs.flags.clone());
        let mut unused = Vec::new();
        let how = How { edit: Some(edit), documents: None, is_told: true, unused: Some(&mut unused) };
        let gatherer = gatherer(Gatherer::default(), gates, profiles);
        let cluster = gather_from(&mut sources, inputs, how, None, profiles, gatherer)?;
        let applied = sources.count();
        Ok((Self { sources, applied, flags, unused }, cluster))
    }

    /// Reads more files and applies their objects to the others. `see` gets every object.
    pub(crate) fn apply(
        &mut self,
        files: &[PathBuf],
        edit: &mut (dyn Edit + 'static),
        profiles: &[Profile],
        gates: &FeatureGates,
    ) -> Result<(), Failure> {
        let mut gatherer = gatherer(Gatherer::default(), gates, profiles);
        let (mut problems, progress) = (Problems::default(), progress("{spinner} {pos} objects read"));
        let seen = || progress.inc(1);
        let loader = Loader::new(&mut self.sources, &mut gatherer, &mut problems, &seen);
        let mut loader = loader.with_edit(Some(edit)).with_pod_templates(&self.flags.pod_template);
        input::load(&mut loader, Inputs::files(files, &self.flags));
        progress.finish_and_clear();
        let unused = loader.unused_rules();
        if problems.error_count() > 0 {
            return Err(Failure::input(problems.render(&self.sources)));
        }
        self.unused.retain(|note| unused.contains(note));
        print_notes(&self.unused);
        Ok(())
    }

    /// Gathers the cluster again with edited objects.
    pub(crate) fn changed(
        &mut self,
        edit: &mut (dyn Edit + 'static),
        profiles: &[Profile],
        gates: &FeatureGates,
        manifests: Manifests,
    ) -> Result<Cluster, Failure> {
        let how = How { edit: Some(edit), documents: Some(self.applied), is_told: false, unused: None };
        let inputs = Inputs { flags: &self.flags, ..Inputs::none() };
        let gatherer = gatherer(manifests.gatherer(), gates, profiles);
        gather_from(&mut self.sources, inputs, how, None, profiles, gatherer)
    }
}

struct How<'a> {
    edit: Option<&'a mut (dyn Edit + 'static)>,
    /// Gather all documents read before; those from this index on are applied to the others.
    documents: Option<usize>,
    /// Print warnings.
    is_told: bool,
    /// Receives the notes on flags `--pod-template` that match no object, instead of printing them.
    unused: Option<&'a mut Vec<String>>,
}

fn gather_files(
    inputs: Inputs<'_>,
    made_up: Option<MadeUp<'_>>,
    profiles: &[Profile],
    gatherer: Gatherer,
) -> Result<Cluster, Failure> {
    let how = How { edit: None, documents: None, is_told: true, unused: None };
    gather_from(&mut Sources::default(), inputs, how, made_up, profiles, gatherer)
}

/// Shows the number of created pods while the gatherer finishes.
fn counting(gatherer: Gatherer) -> (Gatherer, ProgressBar) {
    let progress = progress("{bar:40} {pos}/{len} pods created");
    let bar = progress.clone();
    let count = move |created, most| {
        bar.set_length(most);
        bar.set_position(created);
    };
    (gatherer.with_progress(Box::new(count)), progress)
}

fn gather_from(
    sources: &mut Sources,
    inputs: Inputs<'_>,
    how: How<'_>,
    made_up: Option<MadeUp<'_>>,
    profiles: &[Profile],
    mut gatherer: Gatherer,
) -> Result<Cluster, Failure> {
    let mut problems = Problems::default();
    if let Some(make) = made_up {
        gatherer.complete(|gatherer| make(gatherer, &mut problems));
    }
    let progress = progress("{spinner} {pos} objects read");
    let known = sources.count();
    let seen = || progress.inc(1);
    let loader = Loader::new(sources, &mut gatherer, &mut problems, &seen);
    let mut loader = loader.with_edit(how.edit).with_pod_templates(&inputs.flags.pod_template);
    match how.documents {
        Some(applied) => loader.again(0..known, applied),
        None => input::load(&mut loader, inputs),
    }
    let mut notes = loader.unused_rules();
    if let Some(unused) = how.unused {
        unused.append(&mut notes);
    }
    notes.extend(loader.notes());
    progress.finish_and_clear();
    let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    let (gatherer, created) = counting(gatherer);
    let cluster = gatherer.finish(&schedulers, &mut problems);
    created.finish_and_clear();
    let is_empty = cluster.nodes.is_empty() && cluster.bound.is_empty() && cluster.pending.is_empty();
    if problems.error_count() == 0 && is_empty && made_up.is_none() {
        problems.error_said("the input holds no Node and no Pod; expected some of both");
    }
    let mut lines = problems.render(sources);
    lines.extend(notes);
    if problems.error_count() > 0 {
        return Err(Failure::input(lines));
    }
    lines.extend(cluster.made.default_lines());
    lines.extend(cluster.made.line());
    lines.extend(cluster.made.notes.iter().cloned());
    if how.is_told {
        print_notes(&lines);
    }
    Ok(cluster)
}
