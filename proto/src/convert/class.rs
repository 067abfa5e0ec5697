//! Conversions of pod classes.

use std::sync::Arc;

use flotilla_framework::class::{Class, Common, HostPort, NodeTerm, Owner, PodAffinity, Requirement, Toleration};
use flotilla_framework::declared::DeclaredFeatures;
use flotilla_framework::extension::{PodField, UnknownPodField};

use super::{
    DecodeError, Problem, Wire, decode_list, decode_sorted, decode_texts, encode_list, encode_texts, required,
};
use crate::pb;

impl Wire for Class {
    type Message = pb::Class;

    fn encode(&self) -> pb::Class {
        // Destructured, so that a new field of a class cannot be forgotten.
        let Self {
            namespace,
            labels,
            common,
            terminating,
            volumes,
            // The coordinator evaluates device claims.
            devices: _,
            fields,
            // Only the coordinator evaluates such classes.
            within: _,
        } = self;
        let Common {
            requests,
            score_requests,
            accounted,
            nonzero_milli_cpu,
            nonzero_memory,
            node_name,
            resize_deferred,
            node_selector,
            required_terms,
            preferred_terms,
            tolerations,
            host_ports,
            images,
            spread,
            pod_affinity,
            owner,
            declared_features,
        } = &**common;
        pb::Class {
            namespace: namespace.as_ref().to_owned(),
            labels: encode_list(labels),
            requests: Some(requests.encode()),
            score_requests: Some(score_requests.encode()),
            accounted: Some(accounted.encode()),
            nonzero_milli_cpu: *nonzero_milli_cpu,
            nonzero_memory_bytes: *nonzero_memory,
            node_name: node_name.as_deref().map(str::to_owned),
            resize_deferred: *resize_deferred,
            node_selector: encode_list(node_selector),
            required_terms: required_terms.as_deref().map(|terms| pb::NodeTerms { terms: encode_list(terms) }),
            preferred_terms: encode_list(preferred_terms),
            tolerations: encode_list(tolerations),
            host_ports: encode_list(host_ports),
            images: encode_texts(images),
            declared_features: declared_features.names().map(str::to_owned).collect(),
            spread: encode_list(spread),
            pod_affinity: (*pod_affinity != PodAffinity::default()).then(|| pod_affinity.encode()),
            owner: owner.as_ref().map(Wire::encode),
            terminating: *terminating,
            volumes: volumes.as_ref().map(|volumes| volumes.encode()),
            fields: encode_list(fields),
        }
    }

    fn decode(message: pb::Class) -> Result<Self, DecodeError> {
        let required_terms = match message.required_terms {
            Some(pb::NodeTerms { terms }) => Some(decode_list("required_terms.terms", terms)?),
            None => None,
        };
        let common = Common {
            requests: required("requests", message.requests)?,
            score_requests: required("score_requests", message.score_requests)?,
            accounted: required("accounted", message.accounted)?,
            nonzero_milli_cpu: message.nonzero_milli_cpu,
            nonzero_memory: message.nonzero_memory_bytes,
            node_name: message.node_name.map(Into::into),
            resize_deferred: message.resize_deferred,
            node_selector: decode_list("node_selector", message.node_selector)?,
            required_terms,
            preferred_terms: decode_list("preferred_terms", message.preferred_terms)?,
            tolerations: decode_list("tolerations", message.tolerations)?,
            host_ports: decode_list("host_ports", message.host_ports)?,
            images: decode_texts(message.images),
            spread: decode_list("spread", message.spread)?,
            pod_affinity: match message.pod_affinity {
                Some(affinity) => PodAffinity::decode(affinity).map_err(|error| error.within("pod_affinity"))?,
                None => PodAffinity::default(),
            },
            owner: match message.owner {
                Some(owner) => Some(Owner::decode(owner).map_err(|error| error.within("owner"))?),
                None => None,
            },
            declared_features: DeclaredFeatures::named(message.declared_features.iter().map(String::as_str)),
        };
        Ok(Self {
            namespace: message.namespace.into(),
            labels: decode_sorted("labels", message.labels)?,
            common: Arc::new(common),
            terminating: message.terminating,
            devices: None,
            volumes: match message.volumes {
                Some(volumes) => Some(required("volumes", Some(volumes)).map(Arc::new)?),
                None => None,
            },
            fields: decode_sorted("fields", message.fields)?,
            within: None,
        })
    }
}

impl Wire for (PodField, Arc<str>) {
    type Message = pb::PodField;

    fn encode(&self) -> pb::PodField {
        pb::PodField { path: self.0.to_string(), value: self.1.as_ref().to_owned() }
    }

    fn decode(message: pb::PodField) -> Result<Self, DecodeError> {
        let field = message.path.parse();
        let field =
            field.map_err(|error: UnknownPodField| DecodeError::new("path", Problem::Malformed(error.to_string())))?;
        Ok((field, message.value.into()))
    }
}

impl Wire for (i32, NodeTerm) {
    type Message = pb::PreferredTerm;

    fn encode(&self) -> pb::PreferredTerm {
        pb::PreferredTerm { weight: self.0, term: Some(self.1.encode()) }
    }

    fn decode(message: pb::PreferredTerm) -> Result<Self, DecodeError> {
        Ok((message.weight, required("term", message.term)?))
    }
}

impl Wire for NodeTerm {
    type Message = pb::NodeTerm;

    fn encode(&self) -> pb::NodeTerm {
        let Self { expressions, fields } = self;
        pb::NodeTerm { expressions: encode_list(expressions), fields: encode_list(fields) }
    }

    fn decode(message: pb::NodeTerm) -> Result<Self, DecodeError> {
        let pb::NodeTerm { expressions, fields } = message;
        Ok(Self { expressions: decode_list("expressions", expressions)?, fields: decode_list("fields", fields)? })
    }
}

impl Wire for Requirement {
    type Message = pb::Requirement;

    fn encode(&self) -> pb::Requirement {
        let Self { key, operator, values } = self;
        pb::Requirement {
            key: key.as_ref().to_owned(),
            operator: operator.as_ref().to_owned(),
            values: encode_texts(values),
        }
    }

    fn decode(message: pb::Requirement) -> Result<Self, DecodeError> {
        let pb::Requirement { key, operator, values } = message;
        Ok(Self { key: key.into(), operator: operator.into(), values: decode_texts(values) })
    }
}

impl Wire for Toleration {
    type Message = pb::Toleration;

    fn encode(&self) -> pb::Toleration {
        let Self { key, operator, value, effect } = self;
        pb::Toleration {
            key: key.as_ref().to_owned(),
            operator: operator.as_ref().to_owned(),
            value: value.as_ref().to_owned(),
            effect: effect.as_ref().to_owned(),
        }
    }

    fn decode(message: pb::Toleration) -> Result<Self, DecodeError> {
        let pb::Toleration { key, operator, value, effect } = message;
        Ok(Self { key: key.into(), operator: operator.into(), value: value.into(), effect: effect.into() })
    }
}

impl Wire for HostPort {
    type Message = pb::HostPort;

    fn encode(&self) -> pb::HostPort {
        let Self { ip, protocol, port } = self;
        pb::HostPort { ip: ip.as_ref().to_owned(), protocol: protocol.as_ref().to_owned(), port: *port }
    }

    fn decode(message: pb::HostPort) -> Result<Self, DecodeError> {
        let pb::HostPort { ip, protocol, port } = message;
        Ok(Self { ip: ip.into(), protocol: protocol.into(), port })
    }
}
