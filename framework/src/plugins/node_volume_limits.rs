//! NodeVolumeLimits: a node attaches a limited number of volumes per driver, and must have certain drivers.

use std::{collections::BTreeSet, sync::Arc};

use smallvec::SmallVec;

use crate::{
    class::Class,
    extension::{ClusterEvent, Filter, Kind, Lack, NodeContext, NodeFilter, Plugin, PreFilter, Preparation},
    plugins::wakers::{CLAIM_ADD, CSI_NODE_ADD, CSI_NODE_UPDATE, POD_DELETE},
    profile::Args,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
    volumes::{
        facts::{VolumeFacts, Wanted},
        node::{Attachment, NodeCsi},
        objects::{CsiNode, StorageObject, VolumeAttachment},
    },
};

/// Too many volumes. The other details have an index in the lower half.
const TOO_MANY: u64 = 0;
const NO_DRIVER: u64 = 1 << 32;
/// A volume of the pod cannot be counted.
const OWN: u64 = 2 << 32;
/// A volume of an existing pod cannot be counted.
const STANDING: u64 = 3 << 32;

/// The plugin.
#[derive(Debug)]
pub struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn skips_deferred_resizes(&self) -> bool {
        true
    }

    fn pre_filter(&self, preparation: &mut Preparation<'_>) -> PreFilter {
        let may_be_limited = preparation.class.volumes.iter().any(|volumes| volumes.may_be_limited());
        if may_be_limited { PreFilter::Continue } else { PreFilter::Skip }
    }

    fn filter(&self, preparation: &mut Preparation<'_>) -> Option<Filter> {
        let facts = Arc::clone(preparation.facts.volumes.as_ref()?);
        Some(Filter::Node(Box::new(Limits { facts, takes_missing_drivers: preparation.args.takes_missing_drivers })))
    }

    fn lacks(&self, _class: &Class, args: &Args, place: NodeContext<'_>) -> Vec<Lack> {
        let Some(facts) = &place.facts.volumes else { return Vec::new() };
        let limits = Limits { facts: Arc::clone(facts), takes_missing_drivers: args.takes_missing_drivers };
        limits.lacks(place.nodes, place.slot)
    }

    fn events(&self) -> &'static [&'static str] {
        &[CSI_NODE_ADD, CSI_NODE_UPDATE, "CSINodeDelete", POD_DELETE, CLAIM_ADD, "VolumeAttachmentDelete"]
    }

    fn wakes(&self, event: ClusterEvent<'_>, class: &Class, _args: &Args) -> bool {
        match event {
            ClusterEvent::PodRemoved(gone) => gone.volumes.iter().any(|volumes| volumes.may_be_limited()),
            ClusterEvent::StorageChanged { old: None, new: Some(StorageObject::CsiNode(_)) } => true,
            ClusterEvent::StorageChanged {
                old: Some(StorageObject::CsiNode(old)),
                new: Some(StorageObject::CsiNode(new)),
            } => takes_more(old, new),
            // A node without a CSINode has no limits. kube-scheduler ignores this event.
            ClusterEvent::StorageChanged { old: Some(StorageObject::CsiNode(gone)), new: None } => {
                gone.drivers.iter().any(|(_, limit)| limit.is_some())
            }
            ClusterEvent::StorageChanged { old: None, new: Some(StorageObject::Claim(claim)) } => {
                let mut claims = class.volumes.iter().flat_map(|volumes| volumes.claims());
                claim.namespace == class.namespace && claims.any(|(name, _)| *name == claim.name)
            }
            ClusterEvent::StorageChanged { old: Some(StorageObject::VolumeAttachment(gone)), new: None } => {
                attaches_like(class, gone)
            }
            _ => false,
        }
    }

    fn reads(&self, _args: &Args) -> &'static [Kind] {
        &[
            Kind::PersistentVolumeClaim,
            Kind::PersistentVolume,
            Kind::StorageClass,
            Kind::CsiDriver,
            Kind::CsiNode,
            Kind::VolumeAttachment,
        ]
    }
}

/// Source: `isSchedulableAfterCSINodeUpdated`. A missing limit counts as 0.
fn takes_more(old: &CsiNode, new: &CsiNode) -> bool {
    let limit = |node: &CsiNode, driver: &str| {
        let found = node.drivers.iter().rev().find(|(name, _)| **name == *driver);
        found.and_then(|(_, limit)| *limit).unwrap_or(0)
    };
    new.drivers.iter().any(|(driver, count)| count.unwrap_or(0) > limit(old, driver))
}

/// Source: `isSchedulableAfterVolumeAttachmentDeleted`.
fn attaches_like(class: &Class, gone: &VolumeAttachment) -> bool {
    let Some(volumes) = &class.volumes else { return false };
    let is_like = |source: &crate::volumes::objects::InTree| source.handle.is_err() || source.driver == gone.attacher;
    volumes.named_claims().next().is_some() || volumes.in_tree().any(is_like)
}

struct Limits {
    facts: Arc<VolumeFacts>,
    takes_missing_drivers: bool,
}

type New<'a> = SmallVec<[&'a Attachment; 4]>;

impl Limits {
    /// Unique volumes that the pod would attach to a node.
    fn wanted(&self, csi: Option<&NodeCsi>) -> Result<New<'_>, Refusal> {
        let mut new = New::new();
        for (place, wanted) in (0..).zip(&self.facts.wanted) {
            match wanted {
                Wanted::Attach { migrated: true, .. } | Wanted::Fail { migrated: true, .. } if csi.is_none() => {}
                Wanted::Attach { attachment, .. } if new.contains(&attachment) => {}
                Wanted::Attach { attachment, .. } => new.push(attachment),
                Wanted::Missing(_) => return Err(Refusal::unresolvable(OWN | place)),
                Wanted::Fail { .. } => return Err(Refusal::error(OWN | place)),
            }
        }
        Ok(new)
    }

    /// The first required driver, by name, that a node lacks. Upstream uses Go's random map order.
    fn missing_driver(&self, new: &New<'_>, csi: Option<&NodeCsi>) -> Option<u64> {
        if self.takes_missing_drivers {
            return None;
        }
        let is_missing = |driver: &Arc<str>| {
            new.iter().any(|attachment| attachment.driver == *driver) && !csi.is_some_and(|csi| csi.has(driver))
        };
        (0..).zip(&self.facts.demanded).find(|(_, driver)| is_missing(driver)).map(|(place, _)| place)
    }

    /// Whether no driver can be over its limit, even if all volumes on the node were different ones of that driver. Needs no allocation,
    /// unlike [`Self::over`].
    fn is_far_from_limits(new: &New<'_>, csi: &NodeCsi, nodes: &Snapshot, slot: Slot) -> bool {
        let tenants = nodes.tenants(slot).iter();
        let taken: usize = tenants.map(|(class, _)| nodes.attachments(*class).len()).sum();
        let most = i64::try_from(taken + csi.attached.len() + new.len()).unwrap_or(i64::MAX);
        new.iter().all(|attachment| csi.limit(&attachment.driver).is_none_or(|limit| most <= i64::from(limit)))
    }

    /// Drivers over their limit, with the excess.
    fn over<'a>(&self, mut new: New<'a>, csi: &NodeCsi, nodes: &Snapshot, slot: Slot) -> Vec<(&'a Arc<str>, i64)> {
        let tenants = nodes.tenants(slot).iter();
        let taken: BTreeSet<&Attachment> = tenants.flat_map(|(class, _)| nodes.attachments(*class)).collect();
        new.retain(|attachment| !taken.contains(attachment));
        let drivers: BTreeSet<&Arc<str>> = new.iter().map(|attachment| &attachment.driver).collect();
        let over = |driver: &'a Arc<str>| {
            let limit = i64::from(csi.limit(driver)?);
            let is_its = |attachment: &&&Attachment| attachment.driver == *driver;
            // An attached volume without a pod counts, even if the new pod uses it.
            let unused = csi.attached.iter().filter(|attachment| !taken.contains(attachment));
            let count = taken.iter().filter(is_its).count()
                + unused.filter(|attachment| attachment.driver == *driver).count()
                + new.iter().filter(is_its).count();
            let over = i64::try_from(count).unwrap_or(i64::MAX) - limit;
            (over > 0).then_some((driver, over))
        };
        drivers.into_iter().filter_map(over).collect()
    }

    fn lacks(&self, nodes: &Snapshot, slot: Slot) -> Vec<Lack> {
        let csi = nodes.csi(slot);
        let Ok(new) = self.wanted(csi) else { return Vec::new() };
        if let Some(place) = self.missing_driver(&new, csi) {
            let driver = usize::try_from(place).ok().and_then(|place| self.facts.demanded.get(place));
            return driver.cloned().map(Lack::Driver).into_iter().collect();
        }
        let Some(csi) = csi else { return Vec::new() };
        let over = self.over(new, csi, nodes, slot).into_iter();
        over.map(|(driver, over)| Lack::Volumes { driver: Arc::clone(driver), over }).collect()
    }
}

impl NodeFilter for Limits {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let csi = nodes.csi(slot);
        let new = self.wanted(csi)?;
        if new.is_empty() {
            return Ok(());
        }
        if let Some(place) = self.missing_driver(&new, csi) {
            return Err(Refusal::unschedulable(NO_DRIVER | place));
        }
        let Some(csi) = csi.filter(|csi| csi.drivers.iter().any(|(_, limit)| limit.is_some())) else { return Ok(()) };
        let stands = |class| nodes.tenants(slot).binary_search_by_key(&class, |&(id, _)| id).is_ok();
        if let Some((place, _)) = (0..).zip(&self.facts.uncountable).find(|(_, (class, _))| stands(*class)) {
            return Err(Refusal::error(STANDING | place));
        }
        if Self::is_far_from_limits(&new, csi, nodes, slot) || self.over(new, csi, nodes, slot).is_empty() {
            Ok(())
        } else {
            Err(Refusal::unschedulable(TOO_MANY))
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let place = usize::try_from(detail & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        let failed = |error: &str| format!("running \"NodeVolumeLimits\" filter plugin: {error}");
        let reason = match detail & !u64::from(u32::MAX) {
            NO_DRIVER => {
                self.facts.demanded.get(place).map(|driver| format!("{driver} CSI driver is not installed on the node"))
            }
            OWN => match self.facts.wanted.get(place) {
                Some(Wanted::Missing(reason)) => Some(reason.as_ref().to_owned()),
                Some(Wanted::Fail { error, .. }) => Some(failed(error)),
                Some(Wanted::Attach { .. }) | None => None,
            },
            STANDING => self.facts.uncountable.get(place).map(|(_, error)| failed(error)),
            _ => Some("node(s) exceed max volume count".to_owned()),
        };
        reason.into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
