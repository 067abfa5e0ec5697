//! Conversions of a pod's volumes.

use std::sync::Arc;

use flotilla_framework::volumes::{
    mounts::{Disk, Inline, Mount, Owner, PodVolumes},
    objects::InTree,
};

use super::{DecodeError, Wire, decode_list, decode_texts, encode_list, encode_texts, present, required};
use crate::pb;

fn owned(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}

impl Wire for PodVolumes {
    type Message = pb::PodVolumes;

    fn encode(&self) -> pb::PodVolumes {
        let Self { mounts, owner } = self;
        let owner = owner.as_ref().map(|Owner { name, uid }| pb::ClaimOwner { name: owned(name), uid: owned(uid) });
        pb::PodVolumes { mounts: encode_list(mounts), owner }
    }

    fn decode(message: pb::PodVolumes) -> Result<Self, DecodeError> {
        let pb::PodVolumes { mounts, owner } = message;
        let owner = owner.map(|pb::ClaimOwner { name, uid }| Owner { name: name.into(), uid: uid.into() });
        Ok(Self { mounts: decode_list("mounts", mounts)?, owner })
    }
}

impl Wire for Mount {
    type Message = pb::Mount;

    fn encode(&self) -> pb::Mount {
        use pb::mount::Mount as Message;
        let mount = match self {
            Self::Claim(name) => Message::Claim(owned(name)),
            Self::Ephemeral(name) => Message::Ephemeral(owned(name)),
            Self::Inline(inline) => Message::Inline(inline.encode()),
            Self::Csi(driver) => Message::Csi(owned(driver)),
        };
        pb::Mount { mount: Some(mount) }
    }

    fn decode(message: pb::Mount) -> Result<Self, DecodeError> {
        use pb::mount::Mount as Message;
        Ok(match present("mount", message.mount)? {
            Message::Claim(name) => Self::Claim(name.into()),
            Message::Ephemeral(name) => Self::Ephemeral(name.into()),
            Message::Inline(inline) => Self::Inline(required("inline", Some(inline))?),
            Message::Csi(driver) => Self::Csi(driver.into()),
        })
    }
}

impl Wire for Inline {
    type Message = pb::InlineVolume;

    fn encode(&self) -> pb::InlineVolume {
        use pb::inline_volume::Disk as Message;
        let Self { disk, in_tree } = self;
        let named = |name: &Arc<str>, read_only: bool| pb::SharedDisk { name: owned(name), read_only };
        let disk = disk.as_ref().map(|disk| match disk {
            Disk::GcePersistentDisk { name, read_only } => Message::GcePersistentDisk(named(name, *read_only)),
            Disk::AwsElasticBlockStore { volume } => Message::AwsElasticBlockStore(named(volume, false)),
            Disk::Iscsi { iqn, read_only } => Message::Iscsi(named(iqn, *read_only)),
            Disk::Rbd { monitors, pool, image, read_only } => Message::Rbd(pb::RbdDisk {
                monitors: encode_texts(monitors),
                pool: owned(pool),
                image: owned(image),
                read_only: *read_only,
            }),
        });
        pb::InlineVolume { disk, in_tree: in_tree.as_ref().map(Wire::encode) }
    }

    fn decode(message: pb::InlineVolume) -> Result<Self, DecodeError> {
        use pb::inline_volume::Disk as Message;
        let disk = message.disk.map(|disk| match disk {
            Message::GcePersistentDisk(pb::SharedDisk { name, read_only }) => {
                Disk::GcePersistentDisk { name: name.into(), read_only }
            }
            Message::AwsElasticBlockStore(pb::SharedDisk { name, .. }) => {
                Disk::AwsElasticBlockStore { volume: name.into() }
            }
            Message::Iscsi(pb::SharedDisk { name, read_only }) => Disk::Iscsi { iqn: name.into(), read_only },
            Message::Rbd(pb::RbdDisk { monitors, pool, image, read_only }) => {
                Disk::Rbd { monitors: decode_texts(monitors), pool: pool.into(), image: image.into(), read_only }
            }
        });
        let in_tree = match message.in_tree {
            Some(source) => Some(required("in_tree", Some(source))?),
            None => None,
        };
        Ok(Self { disk, in_tree })
    }
}

impl Wire for InTree {
    type Message = pb::InTreeVolume;

    fn encode(&self) -> pb::InTreeVolume {
        use pb::in_tree_volume::Translated;
        let Self { plugin, driver, handle, node_affinity } = self;
        let translated = match handle {
            Ok(handle) => Translated::Handle(owned(handle)),
            Err(error) => Translated::Error(owned(error)),
        };
        let node_affinity = node_affinity.as_deref().map(|terms| pb::NodeTerms { terms: encode_list(terms) });
        pb::InTreeVolume { plugin: owned(plugin), driver: owned(driver), translated: Some(translated), node_affinity }
    }

    fn decode(message: pb::InTreeVolume) -> Result<Self, DecodeError> {
        use pb::in_tree_volume::Translated;
        let pb::InTreeVolume { plugin, driver, translated, node_affinity } = message;
        let node_affinity = match node_affinity {
            Some(pb::NodeTerms { terms }) => Some(decode_list("node_affinity.terms", terms)?),
            None => None,
        };
        let handle = match present("translated", translated)? {
            Translated::Handle(handle) => Ok(handle.into()),
            Translated::Error(error) => Err(error.into()),
        };
        Ok(Self { plugin: plugin.into(), driver: driver.into(), handle, node_affinity })
    }
}
