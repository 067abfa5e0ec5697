//! The cluster during an attempt at a pod group.

use std::ops::{Deref, DerefMut};

use flotilla_framework::objects::Reservation;

use crate::{
    judge::{cache::Charge, decision::Placement, nominator::Nominated},
    machine::Machine,
    subject::Uid,
};

/// Changes of the cluster for the length of an attempt: plugins are notified, workers are not. Dropping it reverts the changes, so that no
/// event sees half a group. An attempt may begin several of these, one within another.
#[derive(Debug)]
pub(super) struct Scratch<'m> {
    machine: &'m mut Machine,
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

impl<'m> Scratch<'m> {
    pub(super) const fn new(machine: &'m mut Machine) -> Self {
        Self { machine, changes: Vec::new(), removed: Vec::new() }
    }

    /// Further changes, which are reverted before the ones so far.
    pub(super) const fn nested(&mut self) -> Scratch<'_> {
        Scratch::new(self.machine)
    }

    /// Charges a member to its node, with the plans of its plugins. Its nomination no longer reserves anything.
    pub(super) fn place(&mut self, uid: &Uid, placement: &Placement) {
        drop(self.machine.put_on(&placement.charge));
        self.judge.reserve_tentatively(&placement.reservations);
        self.changes.push(Change::Placed(placement.charge.clone(), placement.reservations.clone()));
        self.withhold(uid);
    }

    pub(super) fn withhold(&mut self, uid: &Uid) {
        let withheld = self.judge.nominator_mut().withhold(uid);
        self.changes.extend(withheld.map(|nominated| Change::Withheld(uid.clone(), nominated)));
    }

    /// The nominations of these members reserve nothing from each other.
    pub(super) fn try_together(&mut self, members: &[Uid]) {
        self.judge.nominator_mut().try_together(members);
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
        drop(self.machine.put_on(charge));
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
        drop(self.take_off(charge));
        self.release_class(charge.class);
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        while let Some(change) = self.changes.pop() {
            match change {
                Change::Placed(charge, reservations) => {
                    self.judge.unreserve(&reservations);
                    self.take_off_quietly(&charge);
                }
                Change::Withheld(uid, nominated) => self.judge.nominator_mut().give_back(&uid, nominated),
                Change::TriedTogether => self.judge.nominator_mut().try_together(&[]),
            }
        }
        for (charge, _) in self.removed.iter().filter(|(_, is_removed)| *is_removed) {
            drop(self.machine.put_on(charge));
        }
    }
}

impl Deref for Scratch<'_> {
    type Target = Machine;

    fn deref(&self) -> &Machine {
        self.machine
    }
}

impl DerefMut for Scratch<'_> {
    fn deref_mut(&mut self) -> &mut Machine {
        self.machine
    }
}
