//! Conversions of storage facts about classes and nodes.

use std::sync::Arc;

use flotilla_framework::{
    class::{ClassId, NodeTerm},
    volumes::{
        facts::{
            Binding, BoundClaim, Claims, FreeVolume, Migrated, Provision, Reach, StorageCapacity, UnboundClaim,
            VolumeFacts, Wanted, ZoneLabel,
        },
        node::{Attachment, NodeCsi},
    },
};

use super::{DecodeError, Wire, decode_list, decode_texts, encode_list, encode_texts, present, required};
use crate::pb;

fn owned(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}

impl Wire for VolumeFacts {
    type Message = pb::VolumeFacts;

    fn encode(&self) -> pb::VolumeFacts {
        use pb::volume_facts::{Binding as Bound, Exclusive};
        let Self { exclusive, exclusive_claims, wanted, demanded, uncountable, binding, zones } = self;
        let uncounted =
            |(class, error): &(ClassId, Arc<str>)| pb::UncountableClass { class: class.0, error: owned(error) };
        pb::VolumeFacts {
            exclusive: Some(match exclusive {
                Ok(in_use) => Exclusive::InUse(*in_use),
                Err(reason) => Exclusive::ExclusiveRefusal(owned(reason)),
            }),
            wanted: encode_list(wanted),
            demanded: encode_texts(demanded),
            uncountable: uncountable.iter().map(uncounted).collect(),
            binding: match binding {
                Binding::Nothing => None,
                Binding::Refuse(reason) => Some(Bound::BindingRefusal(owned(reason))),
                Binding::Fail(error) => Some(Bound::BindingError(owned(error))),
                Binding::Claims(claims) => Some(Bound::Claims(claims.encode())),
            },
            zones: zones.as_deref().map(encode_list).unwrap_or_default(),
            zones_refusal: zones.as_ref().err().map(owned),
            exclusive_claims: encode_texts(exclusive_claims),
        }
    }

    fn decode(message: pb::VolumeFacts) -> Result<Self, DecodeError> {
        use pb::volume_facts::{Binding as Bound, Exclusive};
        let pb::VolumeFacts {
            exclusive,
            wanted,
            demanded,
            uncountable,
            binding,
            zones,
            zones_refusal,
            exclusive_claims,
        } = message;
        let uncounted = |pb::UncountableClass { class, error }| (ClassId(class), error.into());
        Ok(Self {
            exclusive: match present("exclusive", exclusive)? {
                Exclusive::InUse(in_use) => Ok(in_use),
                Exclusive::ExclusiveRefusal(reason) => Err(reason.into()),
            },
            exclusive_claims: decode_texts(exclusive_claims),
            wanted: decode_list("wanted", wanted)?,
            demanded: decode_texts(demanded),
            uncountable: uncountable.into_iter().map(uncounted).collect(),
            binding: match binding {
                None => Binding::Nothing,
                Some(Bound::BindingRefusal(reason)) => Binding::Refuse(reason.into()),
                Some(Bound::BindingError(error)) => Binding::Fail(error.into()),
                Some(Bound::Claims(claims)) => Binding::Claims(required("claims", Some(claims))?),
            },
            zones: match zones_refusal {
                Some(reason) => Err(reason.into()),
                None => Ok(decode_list("zones", zones)?),
            },
        })
    }
}

impl Wire for Wanted {
    type Message = pb::WantedVolume;

    fn encode(&self) -> pb::WantedVolume {
        use pb::wanted_volume::Wanted as Message;
        let (wanted, migrated) = match self {
            Self::Attach { attachment, migrated } => (Message::Attach(attachment.encode()), *migrated),
            Self::Missing(reason) => (Message::Missing(owned(reason)), false),
            Self::Fail { error, migrated } => (Message::Error(owned(error)), *migrated),
        };
        pb::WantedVolume { wanted: Some(wanted), migrated }
    }

    fn decode(message: pb::WantedVolume) -> Result<Self, DecodeError> {
        use pb::wanted_volume::Wanted as Message;
        let migrated = message.migrated;
        Ok(match present("wanted", message.wanted)? {
            Message::Attach(attachment) => Self::Attach { attachment: required("attach", Some(attachment))?, migrated },
            Message::Missing(reason) => Self::Missing(reason.into()),
            Message::Error(error) => Self::Fail { error: error.into(), migrated },
        })
    }
}

impl Wire for Attachment {
    type Message = pb::Attachment;

    fn encode(&self) -> pb::Attachment {
        let Self { driver, handle } = self;
        pb::Attachment { driver: owned(driver), handle: owned(handle) }
    }

    fn decode(message: pb::Attachment) -> Result<Self, DecodeError> {
        let pb::Attachment { driver, handle } = message;
        Ok(Self { driver: driver.into(), handle: handle.into() })
    }
}

/// 0 for all nodes, or the number of a list of terms, from 1.
const fn encode_reach(reach: Reach) -> u32 {
    match reach {
        None => 0,
        Some(number) => number.saturating_add(1),
    }
}

const fn decode_reach(number: u32) -> Reach {
    number.checked_sub(1)
}

impl Wire for Claims {
    type Message = pb::Claims;

    fn encode(&self) -> pb::Claims {
        let Self { bound, unbound, volumes, reaches } = self;
        let free =
            |volume: &FreeVolume| pb::FreeVolume { capacity: volume.capacity, reach: encode_reach(volume.reach) };
        pb::Claims {
            bound: encode_list(bound),
            unbound: encode_list(unbound),
            volumes: volumes.iter().map(free).collect(),
            reaches: reaches.iter().map(|terms| pb::NodeTerms { terms: encode_list(terms) }).collect(),
        }
    }

    fn decode(message: pb::Claims) -> Result<Self, DecodeError> {
        let pb::Claims { bound, unbound, volumes, reaches } = message;
        let terms = |(index, pb::NodeTerms { terms }): (usize, pb::NodeTerms)| {
            decode_list(&format!("reaches[{index}].terms"), terms)
        };
        let reaches: Vec<Vec<NodeTerm>> = reaches.into_iter().enumerate().map(terms).collect::<Result<_, _>>()?;
        let free =
            |pb::FreeVolume { capacity, reach }: pb::FreeVolume| FreeVolume { capacity, reach: decode_reach(reach) };
        let claims = Self {
            bound: decode_list("bound", bound)?,
            unbound: decode_list("unbound", unbound)?,
            volumes: volumes.into_iter().map(free).collect(),
            reaches,
        };
        check(&claims)?;
        Ok(claims)
    }
}

fn check(claims: &Claims) -> Result<(), DecodeError> {
    let (lists, volumes) = (claims.reaches.len(), claims.volumes.len());
    let known = |field: &str, reach: Reach| match reach {
        Some(number) if number as usize >= lists => Err(DecodeError::range(field, number + 1, lists as i128)),
        _ => Ok(()),
    };
    for claim in &claims.bound {
        if let BoundClaim::Volume { reach, migrated } = claim {
            known("bound.reach", *reach)?;
            let migrated = migrated.as_ref().and_then(|migrated| migrated.reach.as_ref().ok());
            known("bound.migrated_reach", migrated.copied().flatten())?;
        }
    }
    for claim in &claims.unbound {
        if let Some(place) = claim.set_aside.iter().chain(&claim.suiting).find(|place| **place as usize >= volumes) {
            return Err(DecodeError::range("unbound.suiting", *place, volumes as i128 - 1));
        }
        if let Some(Provision { reach, rooms }) = &claim.provision {
            known("unbound.provision.reach", *reach)?;
            rooms.iter().flatten().try_for_each(|room| known("unbound.provision.rooms.reach", room.reach))?;
        }
    }
    claims.volumes.iter().try_for_each(|volume| known("volumes.reach", volume.reach))
}

impl Wire for BoundClaim {
    type Message = pb::BoundClaim;

    fn encode(&self) -> pb::BoundClaim {
        let Self::Volume { reach, migrated } = self else {
            return pb::BoundClaim { lost: true, ..pb::BoundClaim::default() };
        };
        let other = migrated.as_ref().map(|migrated| &migrated.reach);
        pb::BoundClaim {
            lost: false,
            reach: encode_reach(*reach),
            plugin: migrated.as_ref().map(|migrated| owned(&migrated.plugin)),
            migrated_reach: encode_reach(other.and_then(|other| other.as_ref().ok()).copied().flatten()),
            migrated_error: other.and_then(|other| other.as_ref().err()).map(owned),
        }
    }

    fn decode(message: pb::BoundClaim) -> Result<Self, DecodeError> {
        let pb::BoundClaim { lost, reach, plugin, migrated_reach, migrated_error } = message;
        if lost {
            return Ok(Self::Lost);
        }
        let other = match migrated_error {
            Some(error) => Err(error.into()),
            None => Ok(decode_reach(migrated_reach)),
        };
        let migrated = plugin.map(|plugin| Migrated { plugin: plugin.into(), reach: other });
        Ok(Self::Volume { reach: decode_reach(reach), migrated })
    }
}

impl Wire for UnboundClaim {
    type Message = pb::UnboundClaim;

    fn encode(&self) -> pb::UnboundClaim {
        let Self { storage_class, requested, selected_node, error, set_aside, suiting, provision } = self;
        pb::UnboundClaim {
            storage_class: owned(storage_class),
            requested: *requested,
            selected_node: selected_node.as_ref().map(owned),
            error: error.as_ref().map(owned),
            set_aside: set_aside.clone(),
            suiting: suiting.clone(),
            provision: provision.as_ref().map(Wire::encode),
        }
    }

    fn decode(message: pb::UnboundClaim) -> Result<Self, DecodeError> {
        let pb::UnboundClaim { storage_class, requested, selected_node, error, set_aside, suiting, provision } =
            message;
        Ok(Self {
            storage_class: storage_class.into(),
            requested,
            selected_node: selected_node.map(Into::into),
            error: error.map(Into::into),
            set_aside,
            suiting,
            provision: provision.map(Provision::decode).transpose()?,
        })
    }
}

impl Wire for Provision {
    type Message = pb::Provision;

    fn encode(&self) -> pb::Provision {
        let Self { reach, rooms } = self;
        let room = |room: &StorageCapacity| pb::Room { capacity: room.capacity, reach: encode_reach(room.reach) };
        pb::Provision {
            reach: encode_reach(*reach),
            needs_room: rooms.is_some(),
            rooms: rooms.iter().flatten().map(room).collect(),
        }
    }

    fn decode(message: pb::Provision) -> Result<Self, DecodeError> {
        let pb::Provision { reach, needs_room, rooms } = message;
        let room = |pb::Room { capacity, reach }: pb::Room| StorageCapacity { capacity, reach: decode_reach(reach) };
        let rooms = needs_room.then(|| rooms.into_iter().map(room).collect());
        Ok(Self { reach: decode_reach(reach), rooms })
    }
}

impl Wire for ZoneLabel {
    type Message = pb::ZoneLabel;

    fn encode(&self) -> pb::ZoneLabel {
        let Self { key, values } = self;
        pb::ZoneLabel { key: owned(key), values: encode_texts(values) }
    }

    fn decode(message: pb::ZoneLabel) -> Result<Self, DecodeError> {
        let pb::ZoneLabel { key, values } = message;
        Ok(Self { key: key.into(), values: decode_texts(values) })
    }
}

impl Wire for NodeCsi {
    type Message = pb::NodeCsi;

    fn encode(&self) -> pb::NodeCsi {
        let Self { drivers, migrated_plugins, attached } = self;
        let driver = |(name, limit): &(Arc<str>, Option<i32>)| pb::CsiDriverOnNode { name: owned(name), limit: *limit };
        pb::NodeCsi {
            drivers: drivers.iter().map(driver).collect(),
            migrated_plugins: encode_texts(migrated_plugins),
            attached: encode_list(attached),
        }
    }

    fn decode(message: pb::NodeCsi) -> Result<Self, DecodeError> {
        let pb::NodeCsi { drivers, migrated_plugins, attached } = message;
        let driver = |pb::CsiDriverOnNode { name, limit }: pb::CsiDriverOnNode| (name.into(), limit);
        Ok(Self {
            drivers: drivers.into_iter().map(driver).collect(),
            migrated_plugins: decode_texts(migrated_plugins),
            attached: decode_list("attached", attached)?,
        })
    }
}
