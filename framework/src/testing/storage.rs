//! Builders for storage objects with usual defaults.

use std::sync::Arc;

use crate::{
    class::{Class, ClassId, NodeTerm},
    quantity::Quantity,
    testing::requirement,
    volumes::{
        in_use::StorageInUse,
        objects::{
            AccessModes, BindingMode, Claim, CsiDriver, CsiNode, StorageClass, StorageObject, Volume, VolumeSource,
        },
        storage::Storage,
    },
};

/// An amount in GiB.
#[must_use]
pub const fn gibibytes(count: i64) -> Quantity {
    Quantity::from_units(count << 30)
}

/// A store of these objects.
#[must_use]
pub fn stored(objects: impl IntoIterator<Item = StorageObject>) -> Storage {
    let mut storage = Storage::default();
    for object in objects {
        storage.apply(object);
    }
    storage
}

/// The storage use of pods of these classes.
#[must_use]
pub fn standing<'a>(storage: &Storage, classes: impl IntoIterator<Item = (ClassId, &'a Class)>) -> StorageInUse {
    let mut standing = StorageInUse::default();
    for (id, class) in classes {
        standing.add(class);
        standing.set_uncountable(id, storage.attached_by(class).err());
    }
    standing
}

/// A claim in namespace `default` for 1 GiB of class `later`, ReadWriteOnce.
#[must_use]
pub fn claim(name: &str) -> Claim {
    Claim {
        namespace: "default".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        storage_class: "later".into(),
        requested: Some(gibibytes(1)),
        access_modes: AccessModes::READ_WRITE_ONCE,
        ..Claim::default()
    }
}

/// A claim bound to a volume.
#[must_use]
pub fn bound(name: &str, volume: &str) -> Claim {
    Claim { volume_name: volume.into(), bind_completed: true, ..claim(name) }
}

/// A free volume of class `later` and driver `csi.example.com`.
#[must_use]
pub fn volume(name: &str, size: Quantity) -> Volume {
    Volume {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        storage_class: "later".into(),
        capacity: size,
        access_modes: AccessModes::READ_WRITE_ONCE,
        is_available: true,
        source: VolumeSource::Csi { driver: "csi.example.com".into(), handle: name.into() },
        ..Volume::default()
    }
}

/// Restricts a volume to nodes with one of these values of a label.
#[must_use]
pub fn only_where(volume: Volume, key: &str, values: &[&str]) -> Volume {
    let term = NodeTerm { expressions: vec![requirement(key, "In", values)], fields: Vec::new() };
    Volume { node_affinity: Some(vec![term]), ..volume }
}

/// A storage class with WaitForFirstConsumer.
#[must_use]
pub fn storage_class(name: &str, provisioner: &str) -> StorageClass {
    let binding_mode = Some(BindingMode::WaitForFirstConsumer);
    StorageClass { name: name.into(), provisioner: provisioner.into(), binding_mode, allowed_topologies: Vec::new() }
}

/// The drivers of a node with their limits.
#[must_use]
pub fn csi_node(node: &str, drivers: &[(&str, Option<i32>)]) -> CsiNode {
    let drivers = drivers.iter().map(|&(name, limit)| (Arc::from(name), limit)).collect();
    CsiNode { name: node.into(), drivers, migrated_plugins: Vec::new() }
}

/// A driver that nodes must have.
#[must_use]
pub fn demanding(driver: &str) -> CsiDriver {
    CsiDriver { name: driver.into(), storage_capacity: false, prevents_if_missing: true }
}
