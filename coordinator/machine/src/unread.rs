//! Labels of pods that no selector in play reads, so that a selector that comes into play finds the pods it may tell apart.
//!
//! Knows: which pods carry which label that their class does not. Must not know: what becomes of them.

use std::sync::Arc;

use flotilla_framework::{labels::Labels, map::Set, signature::Distinction};
use indexmap::IndexMap;

use crate::subject::Uid;

/// By key and value. Some 40 bytes for each such label of a pod, and 250 for one whose value no other pod has.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    keys: IndexMap<Arc<str>, IndexMap<Arc<str>, Set<Uid>>>,
}

// === impl Unread ===

impl Unread {
    /// A pod has these labels, of which its class has those.
    pub(crate) fn insert(&mut self, uid: &Uid, labels: &Labels, of_class: &Labels) {
        for (key, value) in unread(labels, of_class) {
            let values = self.keys.entry(Arc::clone(key)).or_default();
            values.entry(Arc::clone(value)).or_default().insert(Arc::clone(uid));
        }
    }

    /// Takes back what [`Self::insert`] was told with the same words.
    pub(crate) fn remove(&mut self, uid: &Uid, labels: &Labels, of_class: &Labels) {
        for (key, value) in unread(labels, of_class) {
            let Some(values) = self.keys.get_mut(key) else { continue };
            let Some(pods) = values.get_mut(value) else { continue };
            pods.swap_remove(uid);
            if pods.is_empty() {
                values.swap_remove(value);
            }
            if values.is_empty() {
                self.keys.swap_remove(key);
            }
        }
    }

    /// The pods that can be told apart by what is new, each as often as it has such a label.
    pub(crate) fn told_apart_by(&self, distinctions: &[Distinction]) -> Vec<Uid> {
        let mut pods = Vec::new();
        for distinction in distinctions {
            match distinction {
                Distinction::Value((key, value)) => {
                    pods.extend(self.keys.get(key).and_then(|values| values.get(value)).into_iter().flatten().cloned());
                }
                Distinction::Presence(key) => {
                    pods.extend(self.keys.get(key).into_iter().flat_map(IndexMap::values).flatten().cloned());
                }
            }
        }
        pods
    }
}

/// The labels that a class does not have, or has another value of. Both are sorted by key.
fn unread<'a>(labels: &'a Labels, of_class: &'a Labels) -> impl Iterator<Item = &'a (Arc<str>, Arc<str>)> {
    let mut of_class = of_class.iter().peekable();
    labels.iter().filter(move |(key, value)| {
        while of_class.next_if(|(known, _)| known < key).is_some() {}
        of_class.next_if(|(known, _)| known == key).is_none_or(|(_, known)| known != value)
    })
}
