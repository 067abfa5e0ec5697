//! Bound and unbound claims of a class, with the volumes or provisioning for the unbound ones.
//!
//! Source: `VolumeBinding.podHasPVCs`, `volumeBinder.GetPodVolumeClaims`, component-helpers `volume.FindMatchingVolume`.

use std::{collections::BTreeMap, sync::Arc};

use super::{Pod, limits::is_migrated, missing_claim, reach::Reaches};
use crate::{
    quantity::Quantity,
    volumes::{
        facts::{Binding, BoundClaim, Claims, FreeVolume, Migrated, Provision, StorageCapacity, UnboundClaim},
        objects::{BindingMode, Claim, StorageClass, Volume, VolumeSource},
        storage::ClaimKey,
    },
};

/// Provisioner of storage classes without dynamic provisioning.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Names behind the indices in [`Claims`].
#[derive(Debug, Default)]
pub(in crate::volumes) struct Names {
    /// Claims in [`Claims::unbound`], with their UIDs.
    pub(in crate::volumes) claims: Vec<(ClaimKey, Arc<str>)>,
    /// Volumes in [`Claims::volumes`].
    pub(in crate::volumes) volumes: Vec<Arc<str>>,
}

pub(super) fn binding(pod: Pod<'_>) -> (Binding, Names) {
    let none = Names::default;
    let claims = match usable(pod) {
        Ok(claims) if claims.is_empty() => return (Binding::Nothing, none()),
        Ok(claims) => claims,
        Err(reason) => return (Binding::Refuse(reason), none()),
    };
    let (mut bound, mut unbound, mut is_waiting) = (Vec::new(), Vec::new(), false);
    for claim in claims {
        if !claim.volume_name.is_empty() && claim.bind_completed {
            bound.push(claim);
            continue;
        }
        match delayed(pod, claim) {
            Ok(Some(class)) => unbound.push((claim, class)),
            Ok(None) => is_waiting = true,
            Err(error) => return (Binding::Fail(error), none()),
        }
    }
    if is_waiting {
        return (Binding::Refuse("pod has unbound immediate PersistentVolumeClaims".into()), none());
    }
    let (claims, names) = Finding::new(pod, &unbound).finish(&bound, &unbound);
    (Binding::Claims(claims), names)
}

fn usable<'a>(pod: Pod<'a>) -> Result<Vec<&'a Claim>, Arc<str>> {
    let mut claims = Vec::new();
    for (name, is_own) in pod.volumes.claims() {
        let Some(claim) = pod.claim(name) else {
            let waiting =
                || format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}");
            return Err(if is_own { waiting().into() } else { missing_claim(name) });
        };
        if claim.is_lost {
            let volume = &claim.volume_name;
            return Err(
                format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}").into()
            );
        }
        if claim.is_deleting {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted").into());
        }
        if is_own {
            pod.owns(claim)?;
        }
        claims.push(claim);
    }
    Ok(claims)
}

/// Storage class of a claim with delayed binding; `None` if the claim should already be bound.
fn delayed<'a>(pod: Pod<'a>, claim: &Claim) -> Result<Option<&'a StorageClass>, Arc<str>> {
    let name = &claim.storage_class;
    let Some(class) = pod.storage.class(name).filter(|_| !name.is_empty()) else { return Ok(None) };
    match class.binding_mode {
        None => Err(format!("VolumeBindingMode not set for StorageClass {name:?}").into()),
        Some(BindingMode::WaitForFirstConsumer) if claim.volume_name.is_empty() => Ok(Some(class)),
        Some(BindingMode::WaitForFirstConsumer | BindingMode::Immediate) => Ok(None),
    }
}

type Unbound<'a> = (&'a Claim, &'a StorageClass);

struct Finding<'a> {
    pod: Pod<'a>,
    reaches: Reaches,
    /// Indices of all volumes that match any claim, by size and name.
    places: BTreeMap<(Quantity, &'a Arc<str>), (u32, &'a Volume)>,
}

enum Suits {
    SetAside,
    Otherwise,
}

impl<'a> Finding<'a> {
    fn new(pod: Pod<'a>, unbound: &[Unbound<'a>]) -> Self {
        let mut places = BTreeMap::new();
        for (claim, _) in unbound {
            let suiting = candidates(pod, claim).map(|(volume, _)| ((volume.capacity, &volume.name), (0, volume)));
            places.extend(suiting);
        }
        for (number, (place, _)) in (0..).zip(places.values_mut()) {
            *place = number;
        }
        Self { pod, reaches: Reaches::default(), places }
    }

    fn finish(mut self, bound: &[&'a Claim], unbound: &[Unbound<'a>]) -> (Claims, Names) {
        let mut order: Vec<&Unbound<'a>> = unbound.iter().collect();
        // Claims with a selected node come first and keep their order. Upstream sorts only the others.
        order.sort_by_key(|(claim, _)| match claim.selected_node {
            Some(_) => (false, Quantity::default()),
            None => (true, claim.requested.unwrap_or_default()),
        });
        let bound = bound.iter().map(|claim| self.bound(claim)).collect();
        let unbound = order.iter().map(|(claim, class)| self.unbound(claim, class)).collect();
        let volumes: Vec<&Volume> = self.places.values().map(|(_, volume)| *volume).collect();
        let free = volumes.iter().map(|volume| FreeVolume {
            capacity: volume.capacity.units(),
            reach: self.reaches.of_affinity(volume.node_affinity.as_deref()),
        });
        let free = free.collect();
        let key = |claim: &Claim| ClaimKey { namespace: Arc::clone(&claim.namespace), name: Arc::clone(&claim.name) };
        let names = Names {
            claims: order.iter().map(|(claim, _)| (key(claim), Arc::clone(&claim.uid))).collect(),
            volumes: volumes.iter().map(|volume| Arc::clone(&volume.name)).collect(),
        };
        (Claims { bound, unbound, volumes: free, reaches: self.reaches.into_terms() }, names)
    }

    /// Source: `volumeBinder.checkBoundClaims` and `tryTranslatePVToCSI`.
    fn bound(&mut self, claim: &Claim) -> BoundClaim {
        let Some(volume) = self.pod.storage.volume(&claim.volume_name) else { return BoundClaim::Lost };
        let own = volume.node_affinity.as_deref();
        let migrated = match &volume.source {
            VolumeSource::InTree(source) if is_migrated(&source.plugin) => {
                let reach = match &source.handle {
                    Ok(_) => Ok(self.reaches.of_affinity(source.node_affinity.as_deref().or(own))),
                    Err(error) => Err(format!("could not translate pv: {error}").into()),
                };
                Some(Migrated { plugin: Arc::clone(&source.plugin), reach })
            }
            VolumeSource::InTree(_) | VolumeSource::Csi { .. } | VolumeSource::Other => None,
        };
        BoundClaim::Volume { reach: self.reaches.of_affinity(own), migrated }
    }

    fn unbound(&mut self, claim: &'a Claim, class: &StorageClass) -> UnboundClaim {
        let (mut set_aside, mut suiting) = (Vec::new(), Vec::new());
        let mut candidates: Vec<_> = candidates(self.pod, claim).collect();
        // If several volumes are pre-bound to a claim, upstream takes the first in Go's random map order, here the first by name.
        candidates.sort_by_key(|(volume, _)| &volume.name);
        for (volume, suits) in candidates {
            let Some((place, _)) = self.places.get(&(volume.capacity, &volume.name)) else { continue };
            match suits {
                Suits::SetAside => set_aside.push(*place),
                Suits::Otherwise => suiting.push(*place),
            }
        }
        suiting.sort_unstable();
        let error = claim.selector.as_ref().and_then(|selector| selector.as_ref().err());
        let (namespace, name) = (&claim.namespace, &claim.name);
        let told = |error| format!("error creating internal label selector for claim: {namespace}/{name}: {error}");
        UnboundClaim {
            storage_class: Arc::clone(&claim.storage_class),
            requested: claim.requested.map_or(0, Quantity::units),
            selected_node: claim.selected_node.clone(),
            error: error.filter(|_| claim.selected_node.is_none()).map(|error| told(error).into()),
            set_aside,
            suiting,
            provision: self.provision(claim, class),
        }
    }

    /// Source: `volumeBinder.checkVolumeProvisions`, `hasEnoughCapacity`.
    fn provision(&mut self, claim: &Claim, class: &StorageClass) -> Option<Provision> {
        if class.provisioner.is_empty() || &*class.provisioner == NO_PROVISIONER {
            return None;
        }
        let reach = self.reaches.of_topologies(&class.allowed_topologies);
        let counts = self.pod.storage.driver(&class.provisioner).is_some_and(|driver| driver.storage_capacity);
        let rooms = claim.requested.filter(|_| counts).map(|requested| self.rooms(class, requested.units()));
        Some(Provision { reach, rooms })
    }

    /// Capacities that fit a volume. Upstream takes the first of an unsorted list; here they are sorted by namespace and name.
    fn rooms(&mut self, class: &StorageClass, bytes: i64) -> Vec<StorageCapacity> {
        let mut rooms = Vec::new();
        for room in self.pod.storage.capacities().filter(|room| room.storage_class == class.name) {
            let limit = room.maximum_volume_size.or(room.capacity);
            let Some(topology) = &room.node_topology else { continue };
            if limit.is_some_and(|limit| limit.units() >= bytes) {
                let reach = self.reaches.of_selector(topology);
                rooms.push(StorageCapacity { capacity: room.capacity.map_or(0, Quantity::units), reach });
            }
        }
        rooms
    }
}

/// Volumes that match a claim on some node.
fn candidates<'a>(pod: Pod<'a>, claim: &'a Claim) -> impl Iterator<Item = (&'a Volume, Suits)> {
    // A claim with a selected node is provisioned there.
    let selector = match &claim.selector {
        _ if claim.selected_node.is_some() => None,
        None => Some(None),
        Some(Ok(selector)) => Some(Some(selector)),
        Some(Err(_)) => None,
    };
    let volumes = selector.into_iter().flat_map(move |selector| {
        pod.storage.volumes_of_class(&claim.storage_class).map(move |volume| (volume, selector))
    });
    volumes.filter_map(move |(volume, selector)| {
        let is_large = volume.capacity >= claim.requested.unwrap_or_default();
        let is_alike = volume.is_block == claim.is_block && volume.attributes_class == claim.attributes_class;
        if !is_large || !is_alike || volume.is_deleting {
            return None;
        }
        if let Some(reference) = &volume.claim {
            let is_its = (&reference.namespace, &reference.name) == (&claim.namespace, &claim.name)
                && (reference.uid.is_empty() || reference.uid == claim.uid);
            return is_its.then_some((volume, Suits::SetAside));
        }
        let suits = volume.is_available
            && selector.is_none_or(|selector| selector.matches(&volume.labels))
            && volume.access_modes.contains(claim.access_modes);
        suits.then_some((volume, Suits::Otherwise))
    })
}
