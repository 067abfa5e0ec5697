//! Names that only one object of a kind has.
//!
//! Knows: where the first one stands. Must not know: what the objects are.

use std::collections::hash_map::Entry;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Gatherer;
use crate::{place::Place, problem::Problems};

impl Gatherer {
    /// The name of an object that nothing else of its kind has. `None`: it has no such name, which is told.
    pub(crate) fn claim(
        &mut self,
        kind: &'static str,
        metadata: &ObjectMeta,
        is_namespaced: bool,
        place: &Place,
        problems: &mut Problems,
    ) -> Option<String> {
        let Some(name) = metadata.name.as_deref().filter(|name| !name.is_empty()) else {
            problems
                .error(place.keys(&["metadata", "name"]), format!("this {kind} has no metadata.name; expected one"));
            return None;
        };
        let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default");
        let name = if is_namespaced { format!("{namespace}/{name}") } else { name.to_owned() };
        match self.names.entry((kind, name.clone())) {
            Entry::Vacant(entry) => {
                entry.insert(place.keys(&["metadata", "name"]));
                Some(name)
            }
            Entry::Occupied(entry) => {
                let text =
                    format!("a second {kind} has the name {name:?}; expected a name of its own; the first is at");
                problems.error_with(place.keys(&["metadata", "name"]), text, entry.get().clone());
                None
            }
        }
    }
}
