//! Names are unique within a kind, and UIDs among pods; the first object keeps its name.

use std::collections::hash_map::Entry;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Gatherer;
use crate::{place::InputPosition, problem::Problems};

impl Gatherer {
    /// Claims the name of an object; `None` and an error if it has none or another object has it.
    pub(crate) fn claim(
        &mut self,
        kind: &'static str,
        metadata: &ObjectMeta,
        is_namespaced: bool,
        place: &InputPosition,
        problems: &mut Problems,
    ) -> Option<String> {
        let Some(name) = metadata.name.as_deref().filter(|name| !name.is_empty()) else {
            let text = format!("this {kind} has no metadata.name or metadata.generateName; expected one of them");
            problems.error(place.keys(&["metadata", "name"]), text);
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
                let text = format!(
                    "a second {kind} has the name {name:?}; expected a unique name, or the changed object in \
                     `flotilla whatif --apply FILE`; the first is at"
                );
                problems.error_with(place.keys(&["metadata", "name"]), text, entry.get().clone());
                None
            }
        }
    }

    /// Claims the name of a custom resource with pods; returns whether it is new.
    pub(crate) fn claim_custom(
        &mut self,
        title: String,
        metadata: &ObjectMeta,
        place: &InputPosition,
        problems: &mut Problems,
    ) -> bool {
        let place = place.keys(&["metadata", "name"]);
        if metadata.name.as_deref().is_none_or(str::is_empty) {
            let text = format!(
                "this {} has no metadata.name or metadata.generateName; expected one of them",
                title.split(' ').next().unwrap_or_default()
            );
            problems.error(place, text);
            return false;
        }
        match self.names.entry(("", title)) {
            Entry::Vacant(entry) => {
                entry.insert(place);
                true
            }
            Entry::Occupied(entry) => {
                let text = format!(
                    "a second object is {}; expected a unique name, or the changed object in `flotilla whatif --apply FILE`; the first is at",
                    entry.key().1
                );
                problems.error_with(place, text, entry.get().clone());
                false
            }
        }
    }

    /// The object that already has the UID.
    pub(super) fn claim_uid(&mut self, metadata: &ObjectMeta, place: &InputPosition) -> Option<InputPosition> {
        match self.uids.entry(metadata.uid.clone().unwrap_or_default()) {
            Entry::Occupied(entry) => Some(entry.get().clone()),
            Entry::Vacant(entry) => {
                entry.insert(place.keys(&["metadata", "uid"]));
                None
            }
        }
    }
}
