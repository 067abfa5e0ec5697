//! Size limits of messages.

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

/// Maximum size of one message in bytes; both ends reject larger ones.
///
/// The largest message of each kind stays below it:
/// - `Evaluated`: at most 65,536 offers of at most 22 bytes, 1.38 MiB. If each has a separate stratum, 1.25 MiB more (20 bytes: frames,
///   size, one raw score and one domain). If rejections or domain counts exceed the limit, the worker answers `Unable`; see [`fits`].
/// - `Explained`: at most 8,192 nodes. An infeasible node takes 22 bytes. A feasible one takes 12 and 10 per scoring plugin, 102 for
///   kube-scheduler's 9. A topology key adds 5 bytes and a value of at most 65 that no other node has. With two keys a node takes 242
///   bytes, 1.89 MiB in all. If more keys or domain counts exceed the limit, the worker answers `Unable` and the coordinator requests fewer
///   nodes.
/// - `Snapshot` and `Delta` are split into chunks of [`CHUNK_BYTES`]; only a single larger change exceeds that. A node has at most 3 MiB as
///   `framework::weight` counts it, which is never less than its encoded size. Larger nodes are not sent to workers. The attachments of a
///   class have 1,024 volumes of a pod of 1.5 MiB.
/// - `RegisterClass`: a class has at most 3 MiB as `framework::weight` counts it, which is never less than its encoded size. A pod has 1.5
///   MiB, but a class repeats names: the namespace in each affinity term, extended resources three times. Larger classes are not sent to
///   workers; the coordinator evaluates nodes with their pods.
/// - `Evaluate` and `Explain` carry cluster-wide facts of a class, at most 3 MiB as `framework::extension::Facts::can_be_told` counts them,
///   which is never less than their encoded size. Classes with larger facts are not sent.
/// - `DryRun`: at most 131,072 pods of 11 bytes on at most 512 nodes of 14 bytes, 1.4 MiB. Classes with volumes or with more than 2 MiB of
///   facts are not sent. `DryRunResults` has at most 5 bytes for each of those pods: 0.7 MiB.
/// - `Configure` holds the profiles of a configuration file: kilobytes.
pub const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Maximum size of a chunk of [`chunk_changes`] in bytes: a quarter of [`MAX_MESSAGE_BYTES`]. An evaluation behind a chunk waits at most a
/// millisecond on loopback, or ten on a gigabit link.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Maximum number of pods in one change. A node runs hundreds; without a limit a few bytes could occupy a worker for minutes.
pub const MAX_PODS_PER_CHANGE: u32 = 1 << 20;

/// Whether an answer is at most [`MAX_MESSAGE_BYTES`].
#[must_use]
pub fn fits(message: &pb::FromWorker) -> bool {
    message.encoded_len() <= MAX_MESSAGE_BYTES
}

/// Encoded size of a command in bytes, including its envelope.
#[must_use]
pub fn encoded_bytes(word: &ToWorker) -> usize {
    word.encode().encoded_len()
}

/// Splits changes, in order, into chunks of at most [`CHUNK_BYTES`]. A single larger change is a separate chunk; a change of more than
/// [`MAX_PODS_PER_CHANGE`] pods is split. Without changes there are no chunks.
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

/// Splits a change with too many pods.
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

/// Maximum size of an integer field: one byte of tag, ten of varint.
const INTEGER: usize = 11;

/// Size of a length-delimited field: tag, length, content. All fields of changes have a number below 16, so the tag is one byte.
fn field(length: usize) -> usize {
    1 + encoded_len_varint(length as u64) + length
}

/// Upper bound of a change's encoded size. Computed without encoding, so that a snapshot of a million nodes is not encoded twice.
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
        resize_preemption_disabled: _,
        allocatable,
        allowed_pods: _,
        declared_features,
        images,
        csi,
        // Not sent to workers.
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
    field(name.len()) + field(uid.len()) + lists + features + field(resources_bytes(allocatable)) + csi + 3 * INTEGER
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
