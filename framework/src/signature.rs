//! Selectors in play, and what of a pod's labels they can tell.
//!
//! Two pods are of one class if every plugin treats them alike, and a label that no selector reads changes nothing for any
//! plugin: StatefulSets, indexed Jobs and many frameworks give each pod such a label. So a class holds only what selectors in
//! play can tell of the labels. A value that some selector names stays. Another value of a key that some selector asks the
//! presence of becomes [`OTHER`]. Everything else goes, but for the fact that there were labels. Each selector in play matches
//! what is left if and only if it matches the labels themselves.
//!
//! Knows: which requirements read what of a label. Must not know: whose selectors they are, or which pods there are.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::{
    class::Class,
    interest::LabelPair,
    labels::{LabelOperator, LabelSelector, Labels},
};

/// The value that stands for all values of a key which no selector names; as a key, it stands for all others. No label has it: the API server admits no control
/// characters.
pub const OTHER: &str = "\0";

/// All selectors in play, counted requirement by requirement. As large as the number of different values that they name.
#[derive(Debug, Clone, Default)]
pub struct SelectorsInPlay {
    keys: IndexMap<Arc<str>, KeyInPlay>,
}

#[derive(Debug, Clone, Default)]
struct KeyInPlay {
    /// How many requirements name each value.
    values: IndexMap<Arc<str>, u32>,
    /// How many requirements ask only whether the label is there.
    presence: u32,
}

/// A distinction between pods that a new selector brings into play.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distinction {
    /// Whether a label has this value.
    Value(LabelPair),
    /// Whether there is a label with this key.
    Presence(Arc<str>),
}

// === impl SelectorsInPlay ===

impl SelectorsInPlay {
    /// A selector comes into play. Adds to `distinctions` what it can tell that no other could.
    pub fn enter(&mut self, selector: &LabelSelector, distinctions: &mut Vec<Distinction>) {
        let LabelSelector::Matching(requirements) = selector else { return };
        for requirement in requirements {
            let key = self.keys.entry(Arc::clone(&requirement.key)).or_default();
            match requirement.operator {
                LabelOperator::In | LabelOperator::NotIn => {
                    for value in &requirement.values {
                        let count = key.values.entry(Arc::clone(value)).or_insert(0);
                        *count += 1;
                        if *count == 1 {
                            distinctions.push(Distinction::Value((Arc::clone(&requirement.key), Arc::clone(value))));
                        }
                    }
                }
                LabelOperator::Exists | LabelOperator::DoesNotExist => {
                    key.presence += 1;
                    if key.presence == 1 {
                        distinctions.push(Distinction::Presence(Arc::clone(&requirement.key)));
                    }
                }
            }
        }
    }

    /// A selector that has come into play leaves it.
    pub fn leave(&mut self, selector: &LabelSelector) {
        let LabelSelector::Matching(requirements) = selector else { return };
        for requirement in requirements {
            let Some(key) = self.keys.get_mut(&requirement.key) else { continue };
            match requirement.operator {
                LabelOperator::In | LabelOperator::NotIn => {
                    for value in &requirement.values {
                        let Some(count) = key.values.get_mut(value) else { continue };
                        *count -= 1;
                        if *count == 0 {
                            key.values.swap_remove(value);
                        }
                    }
                }
                LabelOperator::Exists | LabelOperator::DoesNotExist => key.presence = key.presence.saturating_sub(1),
            }
            if key.values.is_empty() && key.presence == 0 {
                self.keys.swap_remove(&requirement.key);
            }
        }
    }

    /// The class with what can be told of its labels; itself where that is all of them.
    #[must_use]
    pub fn sign(&self, class: &Arc<Class>) -> Arc<Class> {
        let is_whole = class.labels.iter().all(|(key, value)| self.names(key, value));
        if is_whole {
            return Arc::clone(class);
        }
        Arc::new(Class { labels: self.signed(&class.labels), ..Class::clone(class) })
    }

    /// What can be told of labels.
    #[must_use]
    pub fn signed(&self, labels: &Labels) -> Vec<LabelPair> {
        let signed = labels.iter().filter_map(|(key, value)| {
            let known = self.keys.get(key)?;
            if known.values.contains_key(value) {
                return Some((Arc::clone(key), Arc::clone(value)));
            }
            (known.presence > 0).then(|| (Arc::clone(key), Arc::from(OTHER)))
        });
        let mut signed: Vec<LabelPair> = signed.collect();
        if signed.is_empty() && !labels.is_empty() {
            // A disruption budget never covers a pod without labels.
            signed.push((Arc::from(OTHER), Arc::from(OTHER)));
        }
        signed
    }

    /// How many keys some selector reads.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no selector reads any label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn names(&self, key: &Arc<str>, value: &Arc<str>) -> bool {
        self.keys.get(key).is_some_and(|known| known.values.contains_key(value))
    }
}

// === impl Class ===

impl Class {
    /// The selectors that pods of this class bring into play: of their spread constraints and affinity terms.
    pub fn selectors(&self) -> impl Iterator<Item = &LabelSelector> {
        let of_spread = self.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok());
        of_spread.chain(self.pod_affinity.terms().map(|term| &term.selector))
    }
}

#[cfg(test)]
mod tests;
