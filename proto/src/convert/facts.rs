//! Conversions of cluster-wide facts about a class.

use std::sync::Arc;

use flotilla_framework::{
    extension::{DefaultSelector, Facts},
    labels::LabelSelector,
};

use super::{DecodeError, Wire, decode_sorted, decode_texts, encode_list, encode_texts, required};
use crate::pb;

impl Wire for Facts {
    type Message = pb::Facts;

    fn encode(&self) -> pb::Facts {
        let Self {
            image_contributions,
            namespace_labels,
            term_namespaces,
            repelling_keys,
            scoring_keys,
            default_selector: DefaultSelector(selector),
            volumes,
            // Facts about devices are not sent to workers.
            devices: _,
        } = self;
        pb::Facts {
            image_contributions: image_contributions.clone(),
            namespace_labels: encode_list(namespace_labels),
            term_namespaces: term_namespaces
                .iter()
                .map(|names| pb::Namespaces { names: encode_texts(names) })
                .collect(),
            repelling_keys: encode_texts(repelling_keys),
            scoring_keys: encode_texts(scoring_keys),
            default_selector: (!selector.is_everything()).then(|| selector.encode()),
            volumes: volumes.as_ref().map(|volumes| volumes.encode()),
        }
    }

    fn decode(message: pb::Facts) -> Result<Self, DecodeError> {
        let selector = match message.default_selector {
            Some(selector) => LabelSelector::decode(selector).map_err(|error| error.within("default_selector"))?,
            None => LabelSelector::EVERYTHING,
        };
        Ok(Self {
            image_contributions: message.image_contributions,
            namespace_labels: decode_sorted("namespace_labels", message.namespace_labels)?,
            term_namespaces: message.term_namespaces.into_iter().map(|list| decode_texts(list.names).into()).collect(),
            repelling_keys: decode_texts(message.repelling_keys),
            scoring_keys: decode_texts(message.scoring_keys),
            default_selector: DefaultSelector(selector),
            volumes: match message.volumes {
                Some(volumes) => Some(required("volumes", Some(volumes)).map(Arc::new)?),
                None => None,
            },
            devices: None,
        })
    }
}
