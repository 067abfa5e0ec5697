//! Conversions of pod affinity and topology spread.

use flotilla_framework::{
    class::{AffinityTerm, Owner, OwnerKind, PodAffinity, SpreadConstraint},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
};

use super::{DecodeError, Problem, Wire, decode_list, decode_texts, encode_list, encode_texts, present, required};
use crate::pb;

impl Wire for SpreadConstraint {
    type Message = pb::SpreadConstraint;

    fn encode(&self) -> pb::SpreadConstraint {
        let Self { max_skew, topology_key, required, selector, min_domains, honors_affinity, honors_taints } = self;
        pb::SpreadConstraint {
            max_skew: *max_skew,
            topology_key: topology_key.as_ref().to_owned(),
            required: *required,
            selected: Some(match selector {
                Ok(selector) => pb::spread_constraint::Selected::Selector(selector.encode()),
                Err(error) => pb::spread_constraint::Selected::Error(error.as_ref().to_owned()),
            }),
            min_domains: *min_domains,
            honors_affinity: *honors_affinity,
            honors_taints: *honors_taints,
        }
    }

    fn decode(message: pb::SpreadConstraint) -> Result<Self, DecodeError> {
        let selector = match present("selected", message.selected)? {
            pb::spread_constraint::Selected::Selector(selector) => {
                Ok(LabelSelector::decode(selector).map_err(|error| error.within("selector"))?)
            }
            pb::spread_constraint::Selected::Error(error) => Err(error.into()),
        };
        Ok(Self {
            max_skew: message.max_skew,
            topology_key: message.topology_key.into(),
            required: message.required,
            selector,
            min_domains: message.min_domains,
            honors_affinity: message.honors_affinity,
            honors_taints: message.honors_taints,
        })
    }
}

impl Wire for PodAffinity {
    type Message = pb::PodAffinity;

    fn encode(&self) -> pb::PodAffinity {
        let Self { required, required_anti, preferred, preferred_anti, error } = self;
        pb::PodAffinity {
            required: encode_list(required),
            required_anti: encode_list(required_anti),
            preferred: encode_list(preferred),
            preferred_anti: encode_list(preferred_anti),
            error: error.as_deref().map(str::to_owned),
        }
    }

    fn decode(message: pb::PodAffinity) -> Result<Self, DecodeError> {
        Ok(Self {
            required: decode_list("required", message.required)?,
            required_anti: decode_list("required_anti", message.required_anti)?,
            preferred: decode_list("preferred", message.preferred)?,
            preferred_anti: decode_list("preferred_anti", message.preferred_anti)?,
            error: message.error.map(Into::into),
        })
    }
}

impl Wire for AffinityTerm {
    type Message = pb::AffinityTerm;

    fn encode(&self) -> pb::AffinityTerm {
        let Self { selector, namespaces, namespace_selector, topology_key } = self;
        pb::AffinityTerm {
            selector: Some(selector.encode()),
            namespaces: encode_texts(namespaces),
            namespace_selector: Some(namespace_selector.encode()),
            topology_key: topology_key.as_ref().to_owned(),
        }
    }

    fn decode(message: pb::AffinityTerm) -> Result<Self, DecodeError> {
        Ok(Self {
            selector: required("selector", message.selector)?,
            namespaces: decode_texts(message.namespaces),
            namespace_selector: required("namespace_selector", message.namespace_selector)?,
            topology_key: message.topology_key.into(),
        })
    }
}

impl Wire for (i32, AffinityTerm) {
    type Message = pb::PreferredAffinityTerm;

    fn encode(&self) -> pb::PreferredAffinityTerm {
        pb::PreferredAffinityTerm { weight: self.0, term: Some(self.1.encode()) }
    }

    fn decode(message: pb::PreferredAffinityTerm) -> Result<Self, DecodeError> {
        Ok((message.weight, required("term", message.term)?))
    }
}

impl Wire for LabelSelector {
    type Message = pb::LabelSelector;

    fn encode(&self) -> pb::LabelSelector {
        match self {
            Self::Nothing => pb::LabelSelector { nothing: true, requirements: Vec::new() },
            Self::Matching(requirements) => {
                pb::LabelSelector { nothing: false, requirements: encode_list(requirements) }
            }
        }
    }

    fn decode(message: pb::LabelSelector) -> Result<Self, DecodeError> {
        if message.nothing {
            return Ok(Self::Nothing);
        }
        Ok(Self::Matching(decode_list("requirements", message.requirements)?))
    }
}

impl Wire for LabelRequirement {
    type Message = pb::Requirement;

    fn encode(&self) -> pb::Requirement {
        let Self { key, operator, values } = self;
        pb::Requirement {
            key: key.as_ref().to_owned(),
            operator: operator.as_str().to_owned(),
            values: encode_texts(values),
        }
    }

    fn decode(message: pb::Requirement) -> Result<Self, DecodeError> {
        let operator = LabelOperator::ALL.into_iter().find(|known| known.as_str() == message.operator);
        let operator = operator.ok_or_else(|| {
            let problem = Problem::Malformed(format!("{:?} is not an operator of label selectors", message.operator));
            DecodeError::new("operator", problem)
        })?;
        Ok(Self { key: message.key.into(), operator, values: decode_texts(message.values) })
    }
}

impl Wire for Owner {
    type Message = pb::Owner;

    fn encode(&self) -> pb::Owner {
        let kind = match self.kind {
            OwnerKind::ReplicationController => pb::OwnerKind::ReplicationController,
            OwnerKind::ReplicaSet => pb::OwnerKind::ReplicaSet,
            OwnerKind::StatefulSet => pb::OwnerKind::StatefulSet,
        };
        pb::Owner { kind: kind.into(), name: self.name.as_ref().to_owned() }
    }

    fn decode(message: pb::Owner) -> Result<Self, DecodeError> {
        let kind = match pb::OwnerKind::try_from(message.kind) {
            Ok(pb::OwnerKind::ReplicationController) => OwnerKind::ReplicationController,
            Ok(pb::OwnerKind::ReplicaSet) => OwnerKind::ReplicaSet,
            Ok(pb::OwnerKind::StatefulSet) => OwnerKind::StatefulSet,
            Ok(pb::OwnerKind::Unspecified) => return Err(DecodeError::new("kind", Problem::Missing)),
            Err(_) => return Err(DecodeError::range("kind", message.kind, pb::OwnerKind::StatefulSet as i32)),
        };
        Ok(Self { kind, name: message.name.into() })
    }
}
