//! Edits to objects of the input before they are gathered.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::custom::PodSource;

/// Changes nothing.
pub struct Nothing;

impl Edit for Nothing {
    fn edit(&mut self, _: &str, _: &mut Map<String, Value>, _: bool) -> bool {
        true
    }

    fn added(&mut self) -> Vec<Value> {
        Vec::new()
    }
}

/// Edits objects before they are gathered.
pub trait Edit {
    /// Edits an object; returns whether to keep it. `is_applied`: the object is from the files that are applied to the others.
    fn edit(&mut self, kind: &str, object: &mut Map<String, Value>, is_applied: bool) -> bool;

    /// Why the object of the last [`Self::edit`] is an error; it is reported with its place.
    fn refusal(&mut self) -> Option<String> {
        None
    }

    /// Whether [`Self::see_sources`] reads anything.
    fn reads_sources(&self) -> bool {
        false
    }

    /// Reads the pod templates of a custom resource, before [`Self::edit`] gets that resource.
    fn see_sources(&mut self, _: Vec<PodSource>) {}

    /// Whether the last [`Self::edit`] dropped the previous version of an applied workload. Its pods exist, missing ones included, until the
    /// update strategy replaces them.
    fn is_previous(&mut self) -> bool {
        false
    }

    /// Objects to add after all files.
    fn added(&mut self) -> Vec<Value>;

    /// The pods whose workload gets another template, as `namespace/name`, each with the name of the workload.
    fn outdated(&mut self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
