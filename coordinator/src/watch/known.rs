//! The objects that were sent to the machine, to find deleted ones.

use flotilla_planted::planted;

use std::{collections::HashMap, sync::Arc};

/// The machine's objects of one kind, by `namespace/name`, or `name` of a cluster-scoped kind.
///
/// About 120 B an object besides the UID of a pod or node, which is the machine's: 18 MB for 150,000 pods.
#[derive(Debug, Default)]
pub(super) struct ObservedObjects {
    objects: HashMap<Box<str>, Entry>,
    round: u32,
}

#[derive(Debug)]
struct Entry {
    uid: Arc<str>,
    /// The last list that had it, or the current one when a watch sent it.
    round: u32,
    told: ObservedObject,
}

/// The facts about an object that history never reverts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ObservedObject {
    /// Its version; 0: not a number.
    pub(super) version: u64,
    /// It is a pod on a node.
    pub(super) is_placed: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) key: Box<str>,
    pub(super) uid: Arc<str>,
}

impl ObservedObjects {
    /// A list begins, or begins again after an incomplete one.
    pub(super) fn begin(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// Whether the object's new state, of a version above all earlier ones, is older than its known one or no longer bound.
    pub(super) fn is_undone(&self, key: &str, uid: &str, now: ObservedObject) -> bool {
        self.objects.get(key).filter(|entry| *entry.uid == *uid).is_some_and(|Entry { told, .. }| {
            (now.version > 0 && now.version < told.version) || (told.is_placed && !now.is_placed)
        })
    }

    /// Whether the cache has an object in this version.
    pub(super) fn is_current(&self, key: &str, uid: &str, version: u64) -> bool {
        self.objects.get(key).is_some_and(|entry| *entry.uid == *uid && version > 0 && entry.told.version == version)
    }

    /// Marks earlier state as unreliable.
    pub(super) fn unconfirm(&mut self) {
        self.objects.values_mut().for_each(|entry| entry.told = ObservedObject::default());
    }

    /// Records an object for the machine. Returns a different object of the same name that was there before: its deletion was missed.
    pub(super) fn applied(&mut self, key: &str, uid: Arc<str>, told: ObservedObject) -> Option<Gone> {
        let round = self.round;
        match self.objects.get_mut(key) {
            Some(entry) if entry.uid == uid => {
                (entry.round, entry.told) = (round, told);
                None
            }
            Some(entry) => {
                let before = std::mem::replace(entry, Entry { uid, round, told });
                if planted("confuses-namesakes") {
                    return None;
                }
                Some(Gone { key: Box::from(key), uid: before.uid })
            }
            None => {
                self.objects.insert(Box::from(key), Entry { uid, round, told });
                None
            }
        }
    }

    /// Records an invalid object; the machine keeps its earlier state. Returns a different object of the same name that was there.
    pub(super) fn kept(&mut self, key: &str, uid: &str) -> Option<Gone> {
        match self.objects.get_mut(key) {
            Some(entry) if *entry.uid == *uid => {
                entry.round = self.round;
                None
            }
            Some(_) => self.objects.remove_entry(key).map(|(key, entry)| Gone { key, uid: entry.uid }),
            None => None,
        }
    }

    /// Records an object that is too large to schedule with. Returns the machine's outdated object of its name, to be deleted there.
    pub(super) fn dropped(&mut self, key: &str) -> Option<Gone> {
        self.objects.remove_entry(key).map(|(key, entry)| Gone { key, uid: entry.uid })
    }

    /// Records a deletion. Returns the object if the machine has it, and not another of its name.
    pub(super) fn deleted(&mut self, key: &str, uid: &str) -> Option<Gone> {
        self.objects.get(key).filter(|entry| *entry.uid == *uid)?;
        self.objects.remove_entry(key).map(|(key, entry)| Gone { key, uid: entry.uid })
    }

    /// Completes a list: returns the objects that were not in it, by name.
    pub(super) fn finish(&mut self) -> Vec<Gone> {
        let round = self.round;
        if planted("keeps-what-a-list-lacks") {
            return Vec::new();
        }
        let gone = self.objects.extract_if(|_, entry| entry.round != round);
        let mut gone: Vec<_> = gone.map(|(key, entry)| Gone { key, uid: entry.uid }).collect();
        gone.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        gone
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(key: &str, uid: &str) -> Gone {
        Gone { key: Box::from(key), uid: Arc::from(uid) }
    }

    fn known(objects: &[(&str, &str)]) -> ObservedObjects {
        let mut known = ObservedObjects::default();
        known.begin();
        for (key, uid) in objects {
            assert_eq!(known.applied(key, (*uid).into(), ObservedObject::default()), None);
        }
        assert_eq!(known.finish(), []);
        known
    }

    #[test]
    fn what_a_new_list_lacks_is_gone_and_what_it_has_is_not() {
        let mut known = known(&[("a/1", "u1"), ("a/2", "u2"), ("a/3", "u3")]);
        known.begin();
        assert_eq!(known.applied("a/2", "u2".into(), ObservedObject::default()), None);
        assert_eq!(known.finish(), [gone("a/1", "u1"), gone("a/3", "u3")]);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn an_object_of_the_same_name_with_another_uid_is_another_object() {
        let mut known = known(&[("a/1", "u1")]);
        known.begin();
        assert_eq!(known.applied("a/1", "u2".into(), ObservedObject::default()), Some(gone("a/1", "u1")));
        assert_eq!(known.finish(), []);
        assert_eq!(
            known.applied("a/1", "u3".into(), ObservedObject::default()),
            Some(gone("a/1", "u2")),
            "in a watch too"
        );
    }

    #[test]
    fn a_list_that_broke_off_takes_nothing_away() {
        let mut known = known(&[("a/1", "u1"), ("a/2", "u2")]);
        known.begin();
        known.applied("a/1", "u1".into(), ObservedObject::default());
        known.begin();
        known.applied("a/2", "u2".into(), ObservedObject::default());
        known.applied("a/1", "u1".into(), ObservedObject::default());
        assert_eq!(known.finish(), []);
    }

    #[test]
    fn a_late_word_of_the_end_of_an_earlier_object_does_not_end_the_one_that_took_its_name() {
        let mut known = known(&[("a/1", "u2")]);
        assert_eq!(known.deleted("a/1", "u1"), None);
        assert_eq!(known.deleted("a/1", "u2"), Some(gone("a/1", "u2")));
        assert_eq!(known.deleted("a/1", "u2"), None);
    }

    #[test]
    fn an_object_that_makes_no_sense_keeps_its_place_but_not_that_of_another() {
        let mut known = known(&[("a/1", "u1"), ("a/2", "u2")]);
        known.begin();
        assert_eq!(known.kept("a/1", "u1"), None);
        assert_eq!(known.kept("a/2", "u9"), Some(gone("a/2", "u2")));
        assert_eq!(known.kept("a/3", "u3"), None);
        assert_eq!(known.finish(), []);
        assert_eq!(known.len(), 1);
    }

    #[test]
    fn an_object_that_is_older_than_it_was_or_a_pod_that_has_left_its_node_is_of_another_history() {
        let told = |version, is_placed| ObservedObject { version, is_placed };
        let cases = [
            (told(5, false), told(5, false), false),
            (told(5, false), told(6, true), false),
            (told(5, true), told(6, true), false),
            (told(5, false), told(4, false), true),
            (told(5, true), told(2_000, false), true),
            (told(5, false), told(0, false), false),
        ];
        for (before, now, undone) in cases {
            let mut known = ObservedObjects::default();
            known.applied("a/1", "u1".into(), before);
            assert_eq!(known.is_undone("a/1", "u1", now), undone, "{before:?} {now:?}");
            assert!(!known.is_undone("a/1", "u2", now), "another of its name has a history of its own");
            known.unconfirm();
            assert!(!known.is_undone("a/1", "u1", now));
        }
    }
}
