//! How large a message may be, and how to stay below that.
//!
//! Knows: the bounds with their arithmetic, and how many bytes a change takes on the wire. Must not know: who sends the
//! chunks, or when.

use std::sync::Arc;

use flotilla_framework::{
    class::Taint,
    node::NodeInfo,
    resources::Resources,
    shard::{Change, ToWorker},
    volumes::node::{Attachment, NodeCsi},
};
use prost::{Message as _, encoding::encoded_len_varint};

use crate::{Wire as _, pb};

/// The most bytes of one message; both ends refuse to read more.
///
/// The largest message of each kind that is ever sent stays below it:
/// - `Evaluated` carries at most 65,536 offers of at most 22 bytes, which is 1.38 MiB, and 1.25 MiB more in the worst
///   case of a stratum of its own for each of them (20 bytes: frames, size, one raw score and one domain). Where
///   refusals or domain counts would take it beyond the bound, the worker says `Unable` instead; see [`fits`].
/// - `Explained` carries at most 8,192 nodes. Each takes 22 bytes refused, and feasible 12 and 10 for each plugin that
///   scores, all of kube-scheduler's 9 together 102; a topology key adds 5 bytes and a value of at most 65 that no other
///   node has. With two keys that is 242 bytes a node, 1.89 MiB in all. Where more keys or domain counts would take it
///   beyond the bound, the worker says `Unable`, and the coordinator asks for fewer nodes.
/// - `Snapshot` and `Delta` are cut into chunks of [`CHUNK_BYTES`]; a chunk is larger only if a single change is. A node has 3 MiB
///   at most, as `framework::weight` counts it, which is never less than it takes here: a larger one is sent to no worker. The
///   attachments of a class have 1,024 volumes of a pod of 1.5 MiB.
/// - `RegisterClass` holds a class of 3 MiB at most, as `framework::weight` counts it, which is never less than it takes here.
///   A pod has 1.5 MiB, but names come more often in its class than in the pod: that of its namespace in each affinity term,
///   those of extended resources three times. A larger class is told to nobody; nodes with its pods are the coordinator's.
/// - `Evaluate` and `Explain` hold what the whole cluster says about a class. That is 3 MiB at most, as
///   `framework::extension::Facts::can_be_told` counts it, which is never less than it takes here; a class of which there is
///   more to say is not asked about.
/// - `DryRun` names at most 131,072 pods, of 11 bytes each, on at most 512 nodes of 14 bytes: 1.4 MiB. Classes that use
///   volumes, or of which there are more than 2 MiB to say, are not asked about. `Rehearsed` gives at most 5 bytes for each of those pods: 0.7 MiB.
/// - `Configure` holds a configuration file's profiles: kilobytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// The most bytes of changes that [`chunk_changes`] puts into one chunk: a quarter of the bound, so that an evaluation
/// that waits behind a chunk waits for a millisecond of loopback or ten of a gigabit link, not more.
pub const CHUNK_BYTES: usize = 1 << 20;

/// The most pods that one change may bring to or take from a node. A node runs hundreds; the bound keeps a few bytes on
/// the wire from keeping a worker busy for minutes.
pub const MAX_PODS_PER_CHANGE: u32 = 1 << 20;

/// Whether an answer stays within [`MAX_MESSAGE_BYTES`].
#[must_use]
pub fn fits(message: &pb::FromWorker) -> bool {
    message.encoded_len() <= MAX_MESSAGE_BYTES
}

/// How many bytes a command takes on the wire, its envelope included.
#[must_use]
pub fn encoded_bytes(word: &ToWorker) -> usize {
    word.encode().encoded_len()
}

/// Splits changes, in order, into chunks of at most [`CHUNK_BYTES`] on the wire each. A single change that is larger is
/// a chunk of its own; a change of more than [`MAX_PODS_PER_CHANGE`] pods becomes several. No changes give no chunks.
#[must_use]
pub fn chunk_changes(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut used = 0;
    for change in changes.into_iter().flat_map(split_pods) {
        let bytes = field(change_bytes(&change));
        if used + bytes > CHUNK_BYTES && !chunk.is_empty() {
            chunks.push(std::mem::take(&mut chunk));
            used = 0;
        }
        used += bytes;
        chunk.push(change);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// One change as it may be sent; more than one only for absurd numbers of pods.
fn split_pods(change: Change) -> impl Iterator<Item = Change> {
    let total = match change {
        Change::AddPods { count, .. } | Change::RemovePods { count, .. } => count,
        Change::UpsertNode { .. } | Change::RemoveNode { .. } | Change::SetAttachments { .. } => 0,
    };
    let pieces = total.div_ceil(MAX_PODS_PER_CHANGE).max(1);
    (0..pieces).map(move |piece| {
        let mut change = change.clone();
        if let Change::AddPods { count, .. } | Change::RemovePods { count, .. } = &mut change {
            *count = (total - piece * MAX_PODS_PER_CHANGE).min(MAX_PODS_PER_CHANGE);
        }
        change
    })
}

/// The most bytes of an integer field: one of tag, ten of varint.
const INTEGER: usize = 11;

/// The bytes of a field of a length: tag, length, content. Every field of the contract that takes part in a change has
/// a number below 16, so that its tag is one byte.
fn field(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// An upper bound on the bytes of a change on the wire. Counted instead of encoded: a snapshot of a million nodes
/// should not be encoded twice only to learn where to cut it.
fn change_bytes(change: &Change) -> usize {
    field(match change {
        Change::UpsertNode { node, .. } => INTEGER + field(node_bytes(node)),
        Change::RemoveNode { .. } => INTEGER,
        Change::AddPods { .. } | Change::RemovePods { .. } => 3 * INTEGER,
        Change::SetAttachments { attachments, .. } => INTEGER + field(attachments_bytes(attachments)),
    })
}

fn node_bytes(node: &NodeInfo) -> usize {
    let NodeInfo {
        name,
        uid,
        labels,
        taints,
        unschedulable: _,
        allocatable,
        allowed_pods: _,
        declared_features,
        images,
        csi,
        // Workers are not told.
        devices: _,
    } = node;
    let labels = labels.iter().map(|(key, value)| field(field(key.len()) + field(value.len())));
    let taints = taints
        .iter()
        .map(|Taint { key, value, effect }| field(field(key.len()) + field(value.len()) + field(effect.len())));
    let images = images.iter().map(|(names, _)| field(texts(names) + INTEGER));
    let lists: usize = labels.chain(taints).chain(images).sum();
    let features: usize = declared_features.names().map(|name| field(name.len())).sum();
    let csi = csi.as_deref().map_or(0, |csi| field(csi_bytes(csi)));
    field(name.len()) + field(uid.len()) + lists + features + field(resources_bytes(allocatable)) + csi + 2 * INTEGER
}

fn csi_bytes(csi: &NodeCsi) -> usize {
    let drivers: usize = csi.drivers.iter().map(|(name, _)| field(field(name.len()) + INTEGER)).sum();
    drivers + texts(&csi.migrated_plugins) + attachments_bytes(&csi.attached)
}

fn attachments_bytes(attachments: &[Attachment]) -> usize {
    attachments.iter().map(|one| field(field(one.driver.len()) + field(one.handle.len()))).sum()
}

fn resources_bytes(resources: &Resources) -> usize {
    let scalars: usize = resources.scalars.iter().map(|(name, _)| field(field(name.len()) + INTEGER)).sum();
    3 * INTEGER + scalars
}

fn texts(list: &[Arc<str>]) -> usize {
    list.iter().map(|text| field(text.len())).sum()
}
