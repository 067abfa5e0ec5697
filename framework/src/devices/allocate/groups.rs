//! Compatibility groups of devices that use the same counter sets. Source: `compatibility_groups.go` of the experimental allocator.

use std::sync::Arc;

use super::attempt::Attempt;
use crate::devices::pools::{Candidate, Counters};

/// Groups that all devices of a counter set have in common.
#[derive(Default)]
enum Common<'a> {
    /// The counter set has no devices.
    #[default]
    Unused,
    /// No device of the counter set has groups.
    Ungrouped,
    Groups(Vec<&'a Arc<str>>),
}

impl<'a> Common<'a> {
    fn admits(&self, groups: &[Arc<str>]) -> bool {
        match self {
            Self::Unused => true,
            Self::Ungrouped => groups.is_empty(),
            Self::Groups(common) => groups.iter().any(|group| common.contains(&group)),
        }
    }

    fn add(&mut self, groups: &'a [Arc<str>]) {
        match self {
            Self::Unused if groups.is_empty() => *self = Self::Ungrouped,
            Self::Unused => *self = Self::Groups(groups.iter().collect()),
            // Only devices that another scheduler allocated can differ; upstream ignores them too.
            Self::Groups(common) if !groups.is_empty() => common.retain(|group| groups.contains(*group)),
            Self::Ungrouped | Self::Groups(_) => {}
        }
    }
}

impl Counters {
    fn groups_of(&self, consumer: u32) -> impl Iterator<Item = (&Arc<str>, &[Arc<str>])> {
        let first = self.groups.partition_point(|(at, ..)| *at < consumer);
        let own = self.groups[first..].iter().take_while(move |(at, ..)| *at == consumer);
        own.map(|(_, set, groups)| (set, groups.as_slice()))
    }
}

impl Attempt<'_> {
    /// Whether a device has a common group with the allocated devices and the picks that use the same counter sets.
    pub(super) fn is_compatible(&self, candidate: &Candidate) -> bool {
        let pool = &self.scene.pools.pools[candidate.pool as usize];
        let counters = &pool.counters;
        if counters.groups.is_empty() {
            return true;
        }
        let allocated =
            (0..).zip(&counters.consumers).filter(|(_, consumer)| self.scene.allocated.is_any(consumer.device));
        let allocated: Vec<u32> = allocated.map(|(at, _)| at).collect();
        let picked = self.scratch.picks.iter().map(|pick| &self.scene.pools.devices[pick.device as usize]);
        let picked = picked.filter(|picked| picked.pool == candidate.pool).map(|picked| picked.consumer);
        // A pick that shares an allocated device is counted twice, which changes nothing.
        let users: Vec<u32> = allocated.into_iter().chain(picked).collect();
        counters.groups_of(candidate.consumer).all(|(set, groups)| {
            let mut common = Common::default();
            let known = users.iter().flat_map(|user| counters.groups_of(*user)).filter(|(known, _)| *known == set);
            known.for_each(|(_, groups)| common.add(groups));
            common.admits(groups)
        })
    }
}
