//! Clusters that are only written down, and the profiles that they are looked at with.
//!
//! Knows: the order of reading, gathering and complaining. Must not know: what is done with a cluster.

use std::path::{Path, PathBuf};

use flotilla_framework::{config, features::FeatureGates, profile::Profile};

use crate::{
    input,
    output::{Failure, tell},
    progress::progress,
};

mod decode;
mod defaults;
mod kinds;
mod load;
mod locate;
mod objects;
mod place;
mod problem;
mod selecting;
mod source;
mod storage;
mod tree;

pub(crate) use objects::{Cluster, Gatherer};
pub(crate) use place::Place;
pub(crate) use problem::Problems;

use load::Loader;
use source::Sources;

/// The profiles of a configuration file; without one, those of kube-scheduler.
pub(crate) fn profiles(config: Option<&Path>) -> Result<Vec<Profile>, Failure> {
    let Some(path) = config else { return Ok(config::Configuration::default().profiles) };
    let (name, text) = input::read(path).map_err(|error| Failure::input(vec![error]))?;
    let configuration = config::load(&text, &name, &FeatureGates::default());
    let configuration = configuration.map_err(|errors| Failure::input(vec![errors.to_string()]))?;
    tell(&configuration.warnings);
    Ok(configuration.profiles)
}

/// Objects that come from no file.
pub(crate) type MadeUp<'a> = &'a dyn Fn(&mut Gatherer, &mut Problems);

/// The cluster of files, and of what is made up before them.
pub(crate) fn read(files: &[PathBuf], made_up: Option<MadeUp<'_>>, profiles: &[Profile]) -> Result<Cluster, Failure> {
    let (mut sources, mut gatherer, mut problems) = (Sources::default(), Gatherer::default(), Problems::default());
    if let Some(make) = made_up {
        make(&mut gatherer, &mut problems);
    }
    let progress = progress("{spinner} {pos} objects read");
    let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &progress);
    loader.load(files);
    let ignored = loader.summary();
    progress.finish_and_clear();
    let schedulers: Vec<&str> = profiles.iter().map(|profile| &*profile.scheduler_name).collect();
    let cluster = gatherer.finish(&schedulers, &mut problems);
    let is_empty = cluster.nodes.is_empty() && cluster.bound.is_empty() && cluster.pending.is_empty();
    if problems.error_count() == 0 && is_empty && made_up.is_none() {
        problems.error_said("the input holds no Node and no Pod; expected some of both");
    }
    let mut lines = problems.render(&sources);
    lines.extend(ignored);
    if problems.error_count() > 0 {
        return Err(Failure::input(lines));
    }
    tell(&lines);
    Ok(cluster)
}
