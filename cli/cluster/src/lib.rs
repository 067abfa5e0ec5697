//! Clusters from files: gathers Kubernetes objects from YAML and JSON into the framework's types.
//!
//! Contains: documents, kinds, defaults, references between objects, and the positions of errors. Does not depend on: files, printing, or
//! scheduling. It does no I/O, so that it builds for wasm32.

use flotilla_framework::{extension::pod_fields, profile::Profile, registry::Registry};

mod beside;
mod decode;
mod defaults;
mod devices;
mod edit;
mod groups;
mod kinds;
mod load;
mod locate;
pub mod manifest;
mod objects;
mod place;
mod problem;
mod selecting;
mod source;
mod starting;
mod storage;
mod texts;
mod tree;
mod workloads;

pub use flotilla_objects::path::Path;

pub use beside::References;
pub use devices::Device;
pub use edit::{Edit, Nothing};
pub use groups::{GATE, Groups};
pub use load::Loader;
pub use locate::{Mark, locate};
pub use objects::{Cluster, Gatherer, Labels};
pub use place::InputPosition;
pub use problem::Problems;
pub use selecting::Selecting;
pub use source::Sources;
pub use starting::{NotStarting, not_starting};
pub use texts::{Serializer, Texts};
pub use workloads::Summary;

impl Cluster {
    /// Keeps the pod fields that the plugins of these profiles read.
    #[must_use]
    pub fn showing(mut self, registry: Registry, profiles: &[Profile]) -> Self {
        let fields = pod_fields(registry, profiles);
        self.bound.iter_mut().chain(&mut self.pending).for_each(|pod| *pod = pod.showing(&fields));
        self
    }
}

/// Whether scheduling reads this kind.
#[must_use]
pub fn is_read(api_version: &str, kind: &str) -> bool {
    !matches!(kinds::find(Some(api_version), kind), Err(_) | Ok(kinds::Kind::Ignored(_)))
}
