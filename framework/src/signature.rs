//! Reduces classes to the parts of labels, namespaces and owners that selectors in play can distinguish.
//!
//! Two pods are of one class if every plugin treats them alike. StatefulSets, indexed Jobs and many frameworks give each pod a label that
//! no selector reads and that affects no plugin. So a class keeps only label values that some selector names. If selectors only test the
//! presence of a key, other values become [`OTHER`]. All other labels are dropped, except the fact that the pod had labels. Each selector
//! in play matches the reduced labels if and only if it matches the original ones.
//!
//! Most selectors select pods of one namespace. A class keeps its namespace if some selector may match the pod but not in every namespace,
//! or if the pod's own constraints or volumes use it. A selector matches only pods with one of its necessary labels ([`crate::interest`]),
//! so this is a lookup. Without a namespace, no selector of a single namespace matches, as none matches the pod. A class keeps its owner if
//! it is a known controller.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::{
    class::{AffinityTerm, Class, Owner},
    interest::{LabelPair, Pivot, pivot},
    labels::{LabelOperator, LabelSelector, Labels},
    plugins::inter_pod_affinity::selects_namespaces,
};

/// Replaces all values of a key that no selector names; as a key, all other keys. The API server rejects control characters.
pub const OTHER: &str = "\0";

/// The namespaces in which a selector selects pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// All namespaces, so the selector does not distinguish them.
    All,
    /// Namespaces with certain labels, which are not known here.
    Some,
    /// This namespace.
    Only(&'a Arc<str>),
}

/// All selectors in play, counted by requirement. Its size is the number of different values that they name, in each namespace.
#[derive(Debug, Clone, Default)]
pub struct SelectorsInPlay {
    /// For selectors that may select pods of any namespace.
    anywhere: Reading,
    namespaces: IndexMap<Arc<str>, InNamespace>,
}

/// For selectors of a single namespace.
#[derive(Debug, Clone, Default)]
struct InNamespace {
    reading: Reading,
    owners: IndexMap<Owner, u32>,
}

#[derive(Debug, Clone, Default)]
struct Reading {
    keys: IndexMap<Arc<str>, KeyInPlay>,
    /// The number of selectors without a necessary label that distinguish namespaces.
    unlabelled: u32,
}

#[derive(Debug, Clone, Default)]
struct KeyInPlay {
    values: IndexMap<Arc<str>, ValueInPlay>,
    /// The number of requirements that only test the presence of the label.
    presence: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct ValueInPlay {
    /// The number of requirements with this value.
    named: u32,
    /// The number of selectors for which this is one of the necessary values, and that distinguish namespaces.
    pivots: u32,
}

/// A new distinction between pods, and the only namespace that it affects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distinction {
    /// `None`: any namespace.
    pub namespace: Option<Arc<str>>,
    /// The distinction.
    pub told: LabelProperty,
}

/// A property that distinguishes pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelProperty {
    /// Whether a label has this value; for pods of classes without a namespace also the namespace.
    Value(LabelPair),
    /// Whether a label with this key exists.
    Presence(Arc<str>),
    /// The namespace, independent of labels.
    Namespace,
    /// Whether this is the owner.
    Owner(Owner),
}

impl SelectorsInPlay {
    /// Adds a selector. Appends the new distinctions.
    pub fn enter(&mut self, scope: Scope<'_>, selector: &LabelSelector, distinctions: &mut Vec<Distinction>) {
        let namespace = if let Scope::Only(namespace) = scope { Some(Arc::clone(namespace)) } else { None };
        let reading = match &namespace {
            Some(namespace) => &mut self.namespaces.entry(Arc::clone(namespace)).or_default().reading,
            None => &mut self.anywhere,
        };
        let news = |told| distinctions.push(Distinction { namespace: namespace.clone(), told });
        reading.enter(selector, scope != Scope::All, news);
    }

    /// Removes a selector that was added.
    pub fn leave(&mut self, scope: Scope<'_>, selector: &LabelSelector) {
        let Scope::Only(namespace) = scope else { return self.anywhere.leave(selector, scope != Scope::All) };
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        known.reading.leave(selector, true);
        self.drop_if_empty(namespace);
    }

    /// Adds a controller.
    pub fn enter_owner(&mut self, namespace: &Arc<str>, owner: &Owner, distinctions: &mut Vec<Distinction>) {
        let owners = &mut self.namespaces.entry(Arc::clone(namespace)).or_default().owners;
        let count = owners.entry(owner.clone()).or_insert(0);
        *count += 1;
        if *count == 1 {
            distinctions.push(Distinction {
                namespace: Some(Arc::clone(namespace)),
                told: LabelProperty::Owner(owner.clone()),
            });
        }
    }

    /// Removes a controller.
    pub fn leave_owner(&mut self, namespace: &Arc<str>, owner: &Owner) {
        let Some(known) = self.namespaces.get_mut(namespace) else { return };
        if let Some(count) = known.owners.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                known.owners.swap_remove(owner);
            }
        }
        self.drop_if_empty(namespace);
    }

    /// Adds the selectors of a class's pods.
    pub fn enter_class(&mut self, class: &Class, distinctions: &mut Vec<Distinction>) {
        class.for_each_selector(|scope, selector| self.enter(scope, selector, distinctions));
    }

    /// Removes the selectors of a class's pods.
    pub fn leave_class(&mut self, class: &Class) {
        class.for_each_selector(|scope, selector| self.leave(scope, selector));
    }

    /// Reduces a class to the distinguishable parts; the same class if nothing is dropped.
    #[must_use]
    pub fn sign(&self, class: &Arc<Class>) -> Arc<Class> {
        let local = self.namespaces.get(&class.namespace);
        let has_owner = class.owner.as_ref().is_none_or(|owner| is_known(local, owner));
        let has_namespace = class.namespace.is_empty() || self.distinguishes_namespace(class);
        let local = local.filter(|_| has_namespace);
        let is_whole = |(key, value): &LabelPair| {
            self.anywhere.names(key, value) || local.is_some_and(|local| local.reading.names(key, value))
        };
        if has_owner && has_namespace && class.labels.iter().all(is_whole) {
            return Arc::clone(class);
        }
        let mut signed = Class { labels: self.signed(&class.labels, local, has_namespace), ..Class::clone(class) };
        if !has_owner {
            signed.owner = None;
        }
        if !has_namespace {
            signed.namespace = Arc::default();
        }
        Arc::new(signed)
    }

    /// Whether a reduced class keeps all distinguishable parts of `whole`. It may keep more, from removed selectors.
    #[must_use]
    pub fn is_distinguished_by(&self, class: &Class, whole: &Class) -> bool {
        let local = self.namespaces.get(&whole.namespace);
        let tells_owner = class.owner.is_some() || whole.owner.as_ref().is_none_or(|owner| !is_known(local, owner));
        let tells_namespace = class.namespace == whole.namespace || !self.distinguishes_namespace(whole);
        let has_namespace = class.namespace == whole.namespace;
        let least = self.signed(&whole.labels, local.filter(|_| has_namespace), has_namespace);
        let has = |(key, value): &LabelPair| {
            let told = class.labels.iter().find(|(known, _)| known == key);
            told.is_some_and(|(_, told)| told == value || &**value == OTHER)
        };
        let mut labels = least.iter().filter(|(key, _)| &**key != OTHER);
        let tells_that_labelled = least.is_empty() || !class.labels.is_empty();
        tells_owner && tells_namespace && tells_that_labelled && labels.all(has)
    }

    /// The number of keys that some selector reads, in each namespace.
    #[must_use]
    pub fn len(&self) -> usize {
        self.anywhere.keys.len() + self.namespaces.values().map(|known| known.reading.keys.len()).sum::<usize>()
    }

    /// Whether no selector reads any key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.anywhere.is_empty() && self.namespaces.is_empty()
    }

    /// Whether the namespace of a class's pods can matter.
    fn distinguishes_namespace(&self, class: &Class) -> bool {
        let local = self.namespaces.get(&class.namespace);
        !class.spread.is_empty()
            || class.uses_objects()
            || class.owner.as_ref().is_some_and(|owner| is_known(local, owner))
            || self.anywhere.may_distinguish(&class.labels)
            || local.is_some_and(|local| local.reading.may_distinguish(&class.labels))
    }

    fn signed(&self, labels: &Labels, local: Option<&InNamespace>, has_namespace: bool) -> Vec<LabelPair> {
        let signed = labels.iter().filter_map(|(key, value)| {
            let known = [self.anywhere.keys.get(key), local.and_then(|local| local.reading.keys.get(key))];
            let mut known = known.into_iter().flatten().peekable();
            known.peek()?;
            let (mut is_named, mut is_asked) = (false, false);
            for key in known {
                is_named |= key.values.contains_key(value);
                is_asked |= key.presence > 0;
            }
            let value = if is_named { Arc::clone(value) } else { is_asked.then(|| Arc::from(OTHER))? };
            Some((Arc::clone(key), value))
        });
        let mut signed: Vec<LabelPair> = signed.collect();
        if signed.is_empty() && !labels.is_empty() && has_namespace {
            // A disruption budget never covers a pod without labels.
            signed.push((Arc::from(OTHER), Arc::from(OTHER)));
        }
        signed
    }

    fn drop_if_empty(&mut self, namespace: &Arc<str>) {
        let is_empty =
            self.namespaces.get(namespace).is_some_and(|known| known.owners.is_empty() && known.reading.is_empty());
        if is_empty {
            self.namespaces.swap_remove(namespace);
        }
    }
}

fn is_known(local: Option<&InNamespace>, owner: &Owner) -> bool {
    local.is_some_and(|local| local.owners.contains_key(owner))
}

impl Reading {
    fn enter(&mut self, selector: &LabelSelector, tells_namespace: bool, mut news: impl FnMut(LabelProperty)) {
        let LabelSelector::Matching(requirements) = selector else { return };
        let pivot = if tells_namespace { pivot(selector) } else { Pivot::Nothing };
        if let Pivot::Anything = pivot {
            self.unlabelled += 1;
            if self.unlabelled == 1 {
                news(LabelProperty::Namespace);
            }
        }
        for requirement in requirements {
            let key = self.keys.entry(Arc::clone(&requirement.key)).or_default();
            match requirement.operator {
                LabelOperator::In | LabelOperator::NotIn => {
                    for value in &requirement.values {
                        let count = key.values.entry(Arc::clone(value)).or_default();
                        count.named += 1;
                        if count.named == 1 {
                            news(LabelProperty::Value((Arc::clone(&requirement.key), Arc::clone(value))));
                        }
                    }
                }
                LabelOperator::Exists | LabelOperator::DoesNotExist => {
                    key.presence += 1;
                    if key.presence == 1 {
                        news(LabelProperty::Presence(Arc::clone(&requirement.key)));
                    }
                }
            }
        }
        let Pivot::Label(key, values) = pivot else { return };
        let Some(known) = self.keys.get_mut(key) else { return };
        for value in values {
            let Some(count) = known.values.get_mut(value) else { continue };
            count.pivots += 1;
            // A value that is named for the first time is already reported.
            if count.pivots == 1 && count.named > 1 {
                news(LabelProperty::Value((Arc::clone(key), Arc::clone(value))));
            }
        }
    }

    fn leave(&mut self, selector: &LabelSelector, tells_namespace: bool) {
        let LabelSelector::Matching(requirements) = selector else { return };
        match pivot(selector) {
            Pivot::Anything if tells_namespace => self.unlabelled = self.unlabelled.saturating_sub(1),
            Pivot::Label(key, values) if tells_namespace => {
                let Some(known) = self.keys.get_mut(key) else { return };
                for value in values {
                    if let Some(count) = known.values.get_mut(value) {
                        count.pivots = count.pivots.saturating_sub(1);
                    }
                }
            }
            _ => {}
        }
        for requirement in requirements {
            let Some(key) = self.keys.get_mut(&requirement.key) else { continue };
            match requirement.operator {
                LabelOperator::In | LabelOperator::NotIn => {
                    for value in &requirement.values {
                        let Some(count) = key.values.get_mut(value) else { continue };
                        count.named -= 1;
                        if count.named == 0 {
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

    fn names(&self, key: &Arc<str>, value: &Arc<str>) -> bool {
        self.keys.get(key).is_some_and(|known| known.values.contains_key(value))
    }

    /// Whether some selector that distinguishes namespaces may match these labels.
    fn may_distinguish(&self, labels: &Labels) -> bool {
        let is_pivot = |(key, value): &LabelPair| {
            self.keys.get(key).and_then(|known| known.values.get(value)).is_some_and(|count| count.pivots > 0)
        };
        self.unlabelled > 0 || labels.iter().any(is_pivot)
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.unlabelled == 0
    }
}

impl Class {
    /// The selectors of this class's spread constraints and affinity terms, with their scopes.
    pub fn for_each_selector(&self, mut each: impl FnMut(Scope<'_>, &LabelSelector)) {
        for selector in self.spread.iter().filter_map(|constraint| constraint.selector.as_ref().ok()) {
            each(Scope::Only(&self.namespace), selector);
        }
        self.pod_affinity.terms().for_each(|term| for_each_scope(term, |scope| each(scope, &term.selector)));
    }
}

fn for_each_scope(term: &AffinityTerm, mut each: impl FnMut(Scope<'_>)) {
    if term.namespace_selector.is_everything() {
        each(Scope::All);
    } else if selects_namespaces(term) {
        each(Scope::Some);
    } else {
        term.namespaces.iter().for_each(|namespace| each(Scope::Only(namespace)));
    }
}

#[cfg(test)]
mod tests;
