//! Conversions of changes to a shard's nodes.

use std::sync::Arc;

use flotilla_framework::{class::ClassId, node::NodeId, shard::Change, volumes::node::Attachment};

use super::{DecodeError, Wire, decode_list, encode_list, present, required};
use crate::{bounds::MAX_PODS_PER_CHANGE, pb};

impl Wire for Change {
    type Message = pb::Change;

    fn encode(&self) -> pb::Change {
        use pb::change::Change as Message;
        let change = match self {
            Self::UpsertNode { id, node } => {
                Message::UpsertNode(pb::UpsertNode { id: id.0, node: Some(node.encode()) })
            }
            Self::RemoveNode { id } => Message::RemoveNode(pb::RemoveNode { id: id.0 }),
            Self::AddPods { node, class, count } => {
                Message::AddPods(pb::AddPods { node: node.0, class: class.0, count: *count })
            }
            Self::RemovePods { node, class, count } => {
                Message::RemovePods(pb::RemovePods { node: node.0, class: class.0, count: *count })
            }
            Self::SetAttachments { class, attachments } => {
                Message::SetAttachments(pb::SetAttachments { class: class.0, attachments: encode_list(attachments) })
            }
        };
        pb::Change { change: Some(change) }
    }

    fn decode(message: pb::Change) -> Result<Self, DecodeError> {
        use pb::change::Change as Message;
        Ok(match present("change", message.change)? {
            Message::UpsertNode(pb::UpsertNode { id, node }) => {
                Self::UpsertNode { id: NodeId(id), node: Arc::new(required("upsert_node.node", node)?) }
            }
            Message::RemoveNode(pb::RemoveNode { id }) => Self::RemoveNode { id: NodeId(id) },
            Message::AddPods(pb::AddPods { node, class, count }) => {
                let count = pods("add_pods.count", count)?;
                Self::AddPods { node: NodeId(node), class: ClassId(class), count }
            }
            Message::RemovePods(pb::RemovePods { node, class, count }) => {
                let count = pods("remove_pods.count", count)?;
                Self::RemovePods { node: NodeId(node), class: ClassId(class), count }
            }
            Message::SetAttachments(pb::SetAttachments { class, attachments }) => {
                let attachments: Vec<Attachment> = decode_list("set_attachments.attachments", attachments)?;
                Self::SetAttachments { class: ClassId(class), attachments: attachments.into() }
            }
        })
    }
}

fn pods(field: &str, count: u32) -> Result<u32, DecodeError> {
    if count <= MAX_PODS_PER_CHANGE { Ok(count) } else { Err(DecodeError::range(field, count, MAX_PODS_PER_CHANGE)) }
}
