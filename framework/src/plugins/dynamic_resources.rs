//! DynamicResources: devices that pods claim. Of it there is only what every pod sees: a pod that claims nothing is passed
//! over, and scored 0 on each node. Pods that claim something are held back ([`crate::class::Unbuilt::ResourceClaims`]).
//!
//! Knows: that. Must not know: claims.

use crate::{
    extension::{Kind, NodeScore, Plugin, PreFilter, Preparation, Score},
    plugins::wakers::{NODE_ADD, NODE_ALLOCATABLE, NODE_LABEL},
    profile::Args,
    snapshot::{Slot, Snapshot},
};

/// The plugin.
#[derive(Debug)]
pub struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn pre_filter(&self, _preparation: &mut Preparation<'_>) -> PreFilter {
        PreFilter::Skip
    }

    fn score(&self, _preparation: &mut Preparation<'_>) -> Option<Score> {
        Some(Score::Node(Box::new(Nothing)))
    }

    fn events(&self) -> &'static [&'static str] {
        &[
            NODE_ADD,
            NODE_LABEL,
            NODE_ALLOCATABLE,
            "ResourceClaimAdd",
            "ResourceClaimUpdate",
            "ResourceClaimDelete",
            "DeviceClassAdd",
            "DeviceClassUpdate",
            "ResourceSliceAdd",
            "ResourceSliceUpdate",
        ]
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[Kind::ResourceClaim, Kind::DeviceClass, Kind::ResourceSlice, Kind::DeviceTaintRule]
    }
}

/// 0 for each node: what a plugin that is not skipped gives to a pod that it has nothing to say about.
pub(super) struct Nothing;

impl NodeScore for Nothing {
    fn score(&self, _nodes: &Snapshot, _slot: Slot) -> i64 {
        0
    }

    fn add_column(&self, _nodes: &Snapshot, _todo: &[Slot], _weight: i64, _sums: &mut [i64]) {}
}
