//! The cluster during an attempt at a pod group.

use std::ops::{Deref, DerefMut};

use flotilla_framework::objects::Reservation;

use crate::{
    judge::{cache::Charge, decision::Placement, nominator::Nominated},
    site::Site,
    subject::Uid,
};

/// Changes of the cluster for the length of an attempt: plugins are notified, workers are not. Dropping it reverts the changes, so that no
/// event sees half a group. An attempt may begin several of these, one within another.
#[derive(Debug)]
pub(super) struct Scratch<'a, 'm> {
    site: &'a mut Site<'m>,
    changes: Vec<Change>,
    /// The pods that were removed, in order, and whether each is still removed.
    removed: Vec<(Charge, bool)>,
}

#[derive(Debug)]
enum Change {
    Placed(Charge, Vec<Reservation>),
    Withheld(Uid, Nominated),
    TriedTogether,
}

/// A removed pod: its number in the order of removal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Removed(usize);

/// The number of changes so far, to revert to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark(usize);

impl<'a, 'm> Scratch<'a, 'm> {
    pub(super) const fn new(site: &'a mut Site<'m>) -> Self {
        Self { site, changes: Vec::new(), removed: Vec::new() }
    }

    /// Further changes, which are reverted before the ones so far.
    pub(super) const fn nested(&mut self) -> Scratch<'_, 'm> {
        Scratch::new(self.site)
    }

    /// Charges a member to its node, with the plans of its plugins. Its nomination no longer reserves anything.
    pub(super) fn place(&mut self, uid: &Uid, placement: &Placement) {
        let charge = self.shards.judge.acquire_charge(&placement.charge);
        drop(self.site.shards.put_on(&charge));
        self.shards.release_class(charge.class);
        self.shards.judge.reserve_tentatively(&placement.reservations);
        self.changes.push(Change::Placed(charge, placement.reservations.clone()));
        self.withhold(uid);
    }

    pub(super) const fn mark(&self) -> Mark {
        Mark(self.changes.len())
    }

    /// Reverts the changes since the mark, except for removed pods.
    pub(super) fn revert_to(&mut self, mark: Mark) {
        while self.changes.len() > mark.0 {
            match self.changes.pop() {
                Some(Change::Placed(charge, reservations)) => {
                    self.shards.judge.unreserve(&reservations);
                    self.take_off_quietly(&charge);
                }
                Some(Change::Withheld(uid, nominated)) => self.shards.judge.give_back_nomination(&uid, nominated),
                Some(Change::TriedTogether) => self.shards.judge.try_together(&[]),
                None => {}
            }
        }
    }

    pub(super) fn withhold(&mut self, uid: &Uid) {
        let withheld = self.shards.judge.withhold_nomination(uid);
        self.changes.extend(withheld.map(|nominated| Change::Withheld(uid.clone(), nominated)));
    }

    /// The nominations of these members reserve nothing from each other.
    pub(super) fn try_together(&mut self, members: &[Uid]) {
        self.shards.judge.try_together(members);
        self.changes.push(Change::TriedTogether);
    }

    pub(super) fn remove(&mut self, charge: Charge) -> Removed {
        self.take_off_quietly(&charge);
        self.removed.push((charge, true));
        Removed(self.removed.len() - 1)
    }

    pub(super) fn put_back(&mut self, pod: Removed) {
        let (charge, is_removed) = &mut self.removed[pod.0];
        *is_removed = false;
        drop(self.site.shards.put_on(charge));
    }

    pub(super) fn remove_again(&mut self, pod: Removed) {
        let (charge, is_removed) = &mut self.removed[pod.0];
        *is_removed = true;
        let charge = charge.clone();
        self.take_off_quietly(&charge);
    }

    pub(super) fn charge_of(&self, pod: Removed) -> &Charge {
        &self.removed[pod.0].0
    }

    fn take_off_quietly(&mut self, charge: &Charge) {
        drop(self.shards.judge.discharge(charge));
        self.shards.release_class(charge.class);
    }
}

impl Drop for Scratch<'_, '_> {
    fn drop(&mut self) {
        self.revert_to(Mark(0));
        for (charge, _) in self.removed.iter().filter(|(_, is_removed)| *is_removed) {
            drop(self.site.shards.put_on(charge));
        }
    }
}

impl<'m> Deref for Scratch<'_, 'm> {
    type Target = Site<'m>;

    fn deref(&self) -> &Site<'m> {
        self.site
    }
}

impl<'m> DerefMut for Scratch<'_, 'm> {
    fn deref_mut(&mut self) -> &mut Site<'m> {
        self.site
    }
}
