//! Index of pod fields that no selector in play reads: finds the pods that a new selector distinguishes.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, Owner},
    labels::Labels,
    map::Set,
    signature::{Distinction, LabelProperty},
};
use indexmap::{IndexMap, map::Entry};

use crate::{judge::classes::Classes, pods::Indexed, subject::Uid};

/// By namespace. For a pod with a class without a namespace, all labels are kept. Some 40 bytes per label of a pod, and 100 if no other pod
/// of the namespace has its value.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    namespaces: IndexMap<Arc<str>, InNamespace>,
}

#[derive(Debug, Default)]
struct InNamespace {
    keys: IndexMap<Arc<str>, IndexMap<Arc<str>, Holders>>,
    /// Pods without labels in a class without a namespace.
    unlabelled: Set<Uid>,
    owners: IndexMap<Owner, Holders>,
}

/// The pods that have a value. A set with one pod takes 200 bytes, and each pod of a StatefulSet or indexed Job has such a value.
#[derive(Debug)]
enum Holders {
    One(Uid),
    Several(Box<Set<Uid>>),
}

impl Unread {
    pub(crate) fn follow(&mut self, uid: &Uid, classes: &Classes, before: Option<&Indexed>, after: Option<&Indexed>) {
        let is_same = before.zip(after).is_some_and(|(before, after)| {
            let (old, new) = (&before.info.class, &after.info.class);
            let is_same_whole =
                || (&old.namespace, &old.labels, &old.owner) == (&new.namespace, &new.labels, &new.owner);
            before.class == after.class && (Arc::ptr_eq(old, new) || is_same_whole())
        });
        if is_same {
            return;
        }
        if let Some((pod, class)) = before.and_then(|pod| Some((pod, classes.get(pod.class)?))) {
            self.remove(uid, &pod.info.class, class);
        }
        if let Some((pod, class)) = after.and_then(|pod| Some((pod, classes.get(pod.class)?))) {
            self.insert(uid, &pod.info.class, class);
        }
    }

    /// Adds the fields of a pod that its class does not have.
    pub(crate) fn insert(&mut self, uid: &Uid, whole: &Class, class: &Class) {
        let mut left = left(whole, class).peekable();
        let (is_unlabelled, owner) = (is_unlabelled(whole, class), unread_owner(whole, class));
        if !is_unlabelled && owner.is_none() && left.peek().is_none() {
            return;
        }
        let known = self.namespaces.entry(Arc::clone(&whole.namespace)).or_default();
        for (key, value) in left {
            let values = known.keys.entry(Arc::clone(key)).or_default();
            Holders::insert(values.entry(Arc::clone(value)), uid);
        }
        if is_unlabelled {
            known.unlabelled.insert(Arc::clone(uid));
        }
        if let Some(owner) = owner {
            Holders::insert(known.owners.entry(owner.clone()), uid);
        }
    }

    /// Reverts [`Self::insert`] with the same arguments.
    pub(crate) fn remove(&mut self, uid: &Uid, whole: &Class, class: &Class) {
        let Some(known) = self.namespaces.get_mut(&whole.namespace) else { return };
        for (key, value) in left(whole, class) {
            let Some(values) = known.keys.get_mut(key) else { continue };
            remove_from(values, value, uid);
            if values.is_empty() {
                known.keys.swap_remove(key);
            }
        }
        if is_unlabelled(whole, class) {
            known.unlabelled.swap_remove(uid);
        }
        if let Some(owner) = unread_owner(whole, class) {
            remove_from(&mut known.owners, owner, uid);
        }
        if known.keys.is_empty() && known.unlabelled.is_empty() && known.owners.is_empty() {
            self.namespaces.swap_remove(&whole.namespace);
        }
    }

    /// The pods that new distinctions affect, each once: a selector may have a thousand requirements, and a pod a label for each.
    pub(crate) fn distinguished_by(&self, distinctions: &[Distinction]) -> Set<Uid> {
        let mut pods = Set::default();
        for Distinction { namespace, told } in distinctions {
            match namespace {
                Some(namespace) => {
                    self.namespaces.get(namespace).into_iter().for_each(|known| known.find(told, &mut pods))
                }
                None => self.namespaces.values().for_each(|known| known.find(told, &mut pods)),
            }
        }
        pods
    }
}

impl InNamespace {
    fn find(&self, told: &LabelProperty, pods: &mut Set<Uid>) {
        match told {
            LabelProperty::Value((key, value)) => {
                self.keys.get(key).and_then(|values| values.get(value)).into_iter().for_each(|one| one.add_to(pods));
            }
            LabelProperty::Presence(key) => {
                self.keys.get(key).into_iter().flat_map(IndexMap::values).for_each(|one| one.add_to(pods));
            }
            LabelProperty::Namespace => {
                self.keys.values().flat_map(IndexMap::values).for_each(|one| one.add_to(pods));
                pods.extend(self.unlabelled.iter().cloned());
            }
            LabelProperty::Owner(owner) => self.owners.get(owner).into_iter().for_each(|one| one.add_to(pods)),
        }
    }
}

impl Holders {
    fn insert<K>(entry: Entry<'_, K, Self>, uid: &Uid) {
        match entry {
            Entry::Vacant(entry) => {
                entry.insert(Self::One(Arc::clone(uid)));
            }
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Self::Several(known) => {
                    known.insert(Arc::clone(uid));
                }
                Self::One(known) if known == uid => {}
                Self::One(known) => {
                    let both = Set::from_iter([Arc::clone(known), Arc::clone(uid)]);
                    entry.insert(Self::Several(Box::new(both)));
                }
            },
        }
    }

    /// Whether no pod is left.
    fn remove(&mut self, uid: &Uid) -> bool {
        match self {
            Self::One(known) => known == uid,
            Self::Several(known) => {
                known.swap_remove(uid);
                known.is_empty()
            }
        }
    }

    fn add_to(&self, pods: &mut Set<Uid>) {
        match self {
            Self::One(known) => _ = pods.insert(Arc::clone(known)),
            Self::Several(known) => pods.extend(known.iter().cloned()),
        }
    }
}

fn remove_from<K: std::hash::Hash + Eq>(values: &mut IndexMap<K, Holders>, key: &K, uid: &Uid) {
    if values.get_mut(key).is_some_and(|holders| holders.remove(uid)) {
        values.swap_remove(key);
    }
}

fn has_no_namespace(whole: &Class, class: &Class) -> bool {
    whole.namespace != class.namespace
}

fn is_unlabelled(whole: &Class, class: &Class) -> bool {
    whole.labels.is_empty() && has_no_namespace(whole, class)
}

fn unread_owner<'a>(whole: &'a Class, class: &Class) -> Option<&'a Owner> {
    whole.owner.as_ref().filter(|_| class.owner.is_none())
}

/// The labels that a pod's class lacks or has with another value; all labels if the class has no namespace.
fn left<'a>(whole: &'a Class, class: &'a Class) -> impl Iterator<Item = &'a (Arc<str>, Arc<str>)> {
    let of_class: &Labels = if has_no_namespace(whole, class) { &[] } else { &class.labels };
    let mut of_class = of_class.iter().peekable();
    // Both lists are sorted by key.
    whole.labels.iter().filter(move |(key, value)| {
        while of_class.next_if(|(known, _)| known < key).is_some() {}
        of_class.next_if(|(known, _)| known == key).is_none_or(|(_, known)| known != value)
    })
}
