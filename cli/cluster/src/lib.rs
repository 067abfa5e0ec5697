//! Clusters from files: gathers Kubernetes objects from YAML and JSON into the framework's types.
//!
//! Contains: documents, kinds, defaults, references between objects, and the positions of errors. Does not depend on: files, printing, or
//! scheduling. It does no I/O, so that it builds for wasm32.

use flotilla_framework::{extension::pod_fields, profile::Profile, registry::Registry};

mod admission;
mod advice;
mod beside;
mod custom;
mod decode;
mod defaults;
mod devices;
mod edit;
mod groups;
mod kinds;
mod labels;
pub mod lifecycle;
mod listing;
mod load;
mod locate;
pub mod manifest;
mod missing;
mod objects;
mod place;
mod problem;
mod selecting;
mod source;
mod starting;
mod storage;
#[cfg(test)]
mod test_support;
mod texts;
mod tree;
mod workloads;

pub use flotilla_objects::path::Path;

pub use admission::{Quotas, Rules};
pub use beside::References;
pub use custom::{PodSource, PodTemplate, makes_pods, pod_templates};
pub use devices::Device;
pub use edit::{Edit, Nothing};
pub use flotilla_yaml::Mark;
pub use groups::{GATE, Groups};
pub use labels::Labels;
pub use load::Loader;
pub use locate::locate;
pub use objects::{Cluster, CreatedPods, Gatherer};
pub use place::InputPosition;
pub use problem::Problems;
pub use selecting::Selecting;
pub use source::Sources;
pub use starting::{NotStarting, not_starting};
pub use texts::{Serializer, Texts};
pub use workloads::{Refused, Summary};

impl Cluster {
    /// Keeps the pod fields that the plugins of these profiles read.
    #[must_use]
    pub fn showing(mut self, registry: Registry, profiles: &[Profile]) -> Self {
        let fields = pod_fields(registry, profiles);
        self.bound.iter_mut().chain(&mut self.pending).for_each(|pod| *pod = pod.showing(&fields));
        let new = self.lifecycle.rollouts.iter_mut().flat_map(|rollout| rollout.new.iter_mut().flatten());
        new.for_each(|pod| *pod = pod.showing(&fields));
        self
    }
}

/// The first object of a text; `name` is its name in messages.
///
/// # Errors
/// The text is not valid YAML or JSON: one line for each error, with its place.
pub fn parse(name: &str, text: String) -> Result<serde_json::Value, Vec<String>> {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    for document in sources.add(name.to_owned(), text) {
        match sources.decode(document) {
            Ok(serde_json::Value::Null) => {}
            Ok(value) => return Ok(value),
            Err(faults) => {
                faults.into_iter().for_each(|fault| problems.error_at(document, fault.mark, fault.text));
                return Err(problems.render(&sources));
            }
        }
    }
    Err(vec![format!("{name}: holds no object; expected Kubernetes objects in YAML or JSON")])
}

/// Whether scheduling reads this kind.
#[must_use]
pub fn is_read(api_version: &str, kind: &str) -> bool {
    let found = kinds::find(Some(api_version), kind).map(|found| found.kind);
    !matches!(found, Err(_) | Ok(kinds::Kind::Ignored(_) | kinds::Kind::Custom))
}
