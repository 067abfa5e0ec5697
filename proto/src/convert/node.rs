//! Conversions of nodes, resources, labels and taints. Labels and scalars are searched by key, so they must be sorted.

use std::sync::Arc;

use flotilla_framework::{
    class::Taint, declared::DeclaredFeatures, node::NodeInfo, resources::Resources, volumes::node::NodeCsi,
};

use super::{DecodeError, Wire, decode_list, decode_sorted, decode_texts, encode_list, encode_texts, required};
use crate::pb;

impl Wire for NodeInfo {
    type Message = pb::Node;

    fn encode(&self) -> pb::Node {
        let Self {
            name,
            uid,
            labels,
            taints,
            unschedulable,
            resize_preemption_disabled,
            allocatable,
            allowed_pods,
            declared_features,
            images,
            csi,
            // The coordinator evaluates device claims.
            devices: _,
        } = self;
        pb::Node {
            name: name.as_ref().to_owned(),
            uid: uid.as_ref().to_owned(),
            labels: encode_list(labels),
            taints: encode_list(taints),
            unschedulable: *unschedulable,
            resize_preemption_disabled: *resize_preemption_disabled,
            allocatable: Some(allocatable.encode()),
            allowed_pods: *allowed_pods,
            images: encode_list(images),
            declared_features: declared_features.names().map(str::to_owned).collect(),
            csi: csi.as_ref().map(|csi| csi.encode()),
        }
    }

    fn decode(message: pb::Node) -> Result<Self, DecodeError> {
        let pb::Node {
            name,
            uid,
            labels,
            taints,
            unschedulable,
            resize_preemption_disabled,
            allocatable,
            allowed_pods,
            images,
            declared_features,
            csi,
        } = message;
        Ok(Self {
            name: name.into(),
            uid: uid.into(),
            labels: decode_sorted("labels", labels)?,
            taints: decode_list("taints", taints)?,
            unschedulable,
            resize_preemption_disabled,
            allocatable: required("allocatable", allocatable)?,
            allowed_pods,
            images: decode_list("images", images)?,
            declared_features: DeclaredFeatures::named(declared_features.iter().map(String::as_str)),
            devices: None,
            csi: csi.map(NodeCsi::decode).transpose().map_err(|error| error.within("csi"))?.map(Arc::new),
        })
    }
}

impl Wire for Resources {
    type Message = pb::Resources;

    fn encode(&self) -> pb::Resources {
        let Self { milli_cpu, memory, ephemeral_storage, scalars } = self;
        pb::Resources {
            milli_cpu: *milli_cpu,
            memory_bytes: *memory,
            ephemeral_storage_bytes: *ephemeral_storage,
            scalars: encode_list(scalars),
        }
    }

    fn decode(message: pb::Resources) -> Result<Self, DecodeError> {
        let pb::Resources { milli_cpu, memory_bytes, ephemeral_storage_bytes, scalars } = message;
        Ok(Self {
            milli_cpu,
            memory: memory_bytes,
            ephemeral_storage: ephemeral_storage_bytes,
            scalars: decode_sorted("scalars", scalars)?,
        })
    }
}

impl Wire for (Arc<str>, i64) {
    type Message = pb::Scalar;

    fn encode(&self) -> pb::Scalar {
        pb::Scalar { name: self.0.as_ref().to_owned(), amount: self.1 }
    }

    fn decode(message: pb::Scalar) -> Result<Self, DecodeError> {
        Ok((message.name.into(), message.amount))
    }
}

impl Wire for (Arc<str>, Arc<str>) {
    type Message = pb::Label;

    fn encode(&self) -> pb::Label {
        pb::Label { key: self.0.as_ref().to_owned(), value: self.1.as_ref().to_owned() }
    }

    fn decode(message: pb::Label) -> Result<Self, DecodeError> {
        Ok((message.key.into(), message.value.into()))
    }
}

impl Wire for (Vec<Arc<str>>, i64) {
    type Message = pb::NodeImage;

    fn encode(&self) -> pb::NodeImage {
        pb::NodeImage { names: encode_texts(&self.0), size_bytes: self.1 }
    }

    fn decode(message: pb::NodeImage) -> Result<Self, DecodeError> {
        Ok((decode_texts(message.names), message.size_bytes))
    }
}

impl Wire for Taint {
    type Message = pb::Taint;

    fn encode(&self) -> pb::Taint {
        let Self { key, value, effect } = self;
        pb::Taint { key: key.as_ref().to_owned(), value: value.as_ref().to_owned(), effect: effect.as_ref().to_owned() }
    }

    fn decode(message: pb::Taint) -> Result<Self, DecodeError> {
        let pb::Taint { key, value, effect } = message;
        Ok(Self { key: key.into(), value: value.into(), effect: effect.into() })
    }
}
