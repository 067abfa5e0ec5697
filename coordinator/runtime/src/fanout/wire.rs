//! Encodes and decodes messages, and splits large ones.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    modules::{Digest, named},
    registry::Registry,
    shard::{Change, Command, FromWorker, ToWorker},
};
use flotilla_proto::{
    Wire as _,
    bounds::{CHUNK_BYTES, MAX_MESSAGE_BYTES, chunk_changes},
    pb::{self, worker_client::WorkerClient},
    words,
};
use futures::{StreamExt as _, future::BoxFuture, stream};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::{Incoming, Inner, Words, questions::Questions, stream::End};

pub(super) fn client(channel: Channel) -> WorkerClient<Channel> {
    WorkerClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
}

pub(super) fn attach(
    mut client: WorkerClient<Channel>,
    words: Words,
) -> BoxFuture<'static, Result<Incoming, tonic::Status>> {
    Box::pin(async move {
        let incoming: tonic::Streaming<pb::FromWorker> = client.attach(words).await?.into_inner();
        Ok(incoming.boxed())
    })
}

/// Encodes messages when the transport polls for them: off the machine's thread, and only one part of a snapshot is held twice.
pub(super) fn outgoing(outbox: mpsc::Receiver<ToWorker>, inner: Arc<Inner>, questions: Arc<Questions>) -> Words {
    let (registry, mut sent) = (inner.registry, BTreeSet::new());
    let words = ReceiverStream::new(outbox).flat_map(move |word| {
        let before = modules(registry, &word, &mut sent);
        stream::iter(before.into_iter().chain(parts(word)))
    });
    Words::new(words.map(move |mut word| {
        let timed = questions.ask(&mut word);
        let message = pb::ToWorker { timed, ..word.encode() };
        inner.counters.messages_sent.add(1);
        inner.counters.bytes_sent.add(message.encoded_len() as u64);
        message
    }))
}

pub(super) fn decode(mut message: pb::FromWorker, inner: &Inner) -> Result<(FromWorker, Vec<pb::Lap>), End> {
    inner.counters.messages_received.add(1);
    inner.counters.bytes_received.add(message.encoded_len() as u64);
    let laps = std::mem::take(&mut message.laps);
    words::learn(&std::mem::take(&mut message.words), inner.registry);
    let word = FromWorker::decode(message).map_err(|error| {
        inner.counters.undecodable.add(1);
        End::Nonsense(error)
    })?;
    Ok((word, laps))
}

/// The configuration's modules that were not yet sent on the stream, in parts. They are held twice until they are sent: with the largest
/// module, 32 MiB more for each worker that joins at once.
fn modules(registry: Registry, word: &ToWorker, sent: &mut BTreeSet<Digest>) -> Vec<ToWorker> {
    let (Command::Configure { profiles, .. }, Some(modules)) = (&word.command, registry.modules()) else {
        return Vec::new();
    };
    let named = profiles.iter().flat_map(named).map(|(_, digest)| digest).filter(|digest| sent.insert(*digest));
    let named: Vec<_> = named.filter_map(|digest| Some((digest, modules.bytes(digest)?))).collect();
    let parts = named.iter().flat_map(|(digest, bytes)| {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes.chunks(CHUNK_BYTES).map(move |part| Command::Module { digest: *digest, size, part: part.into() })
    });
    parts.map(|command| ToWorker { epoch: word.epoch, revision: word.revision, command }).collect()
}

/// The message, or several equivalent ones that are small enough each.
fn parts(word: ToWorker) -> impl Iterator<Item = ToWorker> {
    let ToWorker { epoch, revision, command } = word;
    let commands: Box<dyn Iterator<Item = Command> + Send> = match command {
        Command::Snapshot { first, last, changes } => {
            let chunks = or_one_empty(chunk_changes(changes));
            let final_part = chunks.len() - 1;
            Box::new(chunks.into_iter().enumerate().map(move |(part, changes)| Command::Snapshot {
                first: first && part == 0,
                last: last && part == final_part,
                changes,
            }))
        }
        Command::Delta { changes } => {
            Box::new(or_one_empty(chunk_changes(changes)).into_iter().map(|changes| Command::Delta { changes }))
        }
        command => Box::new(std::iter::once(command)),
    };
    commands.map(move |command| ToWorker { epoch, revision, command })
}

/// A message without changes is still sent.
fn or_one_empty(mut chunks: Vec<Vec<Change>>) -> Vec<Vec<Change>> {
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    chunks
}

#[cfg(test)]
mod tests {
    use flotilla_framework::node::{NodeId, NodeInfo};

    use super::*;

    fn upsert(number: u32) -> Change {
        let labels = vec![(Arc::from("padding"), Arc::from("x".repeat(100_000)))];
        let node = NodeInfo { name: Arc::from(number.to_string()), labels, ..NodeInfo::default() };
        Change::UpsertNode { id: NodeId(number), node: Arc::new(node) }
    }

    fn said(command: Command) -> Vec<ToWorker> {
        parts(ToWorker { epoch: 3, revision: 14, command }).collect()
    }

    #[test]
    fn a_large_snapshot_becomes_several_of_which_only_one_is_first_and_one_last() {
        let changes: Vec<_> = (0..50).map(upsert).collect();
        let words = said(Command::Snapshot { first: true, last: true, changes: changes.clone() });
        assert!(words.len() > 3);
        let mut put_together = Vec::new();
        for (part, word) in words.iter().enumerate() {
            assert!(word.encode().encoded_len() <= MAX_MESSAGE_BYTES);
            assert_eq!((word.epoch, word.revision), (3, 14));
            let Command::Snapshot { first, last, changes } = &word.command else { panic!("{word:?}") };
            assert_eq!((*first, *last), (part == 0, part == words.len() - 1));
            put_together.extend(changes.clone());
        }
        assert_eq!(put_together, changes);
    }

    #[test]
    fn a_part_of_a_snapshot_that_is_neither_first_nor_last_does_not_become_so() {
        let changes = (0..50).map(upsert).collect();
        let words = said(Command::Snapshot { first: false, last: false, changes });
        for word in words {
            assert!(matches!(word.command, Command::Snapshot { first: false, last: false, .. }));
        }
    }

    #[test]
    fn an_empty_snapshot_is_said_too() {
        let command = Command::Snapshot { first: true, last: true, changes: Vec::new() };
        assert_eq!(said(command.clone()), [ToWorker { epoch: 3, revision: 14, command }]);
    }

    #[test]
    fn a_large_delta_becomes_several_with_the_same_revision() {
        let changes: Vec<_> = (0..50).map(upsert).collect();
        let words = said(Command::Delta { changes });
        assert!(words.len() > 3 && words.iter().all(|word| word.revision == 14));
    }
}
