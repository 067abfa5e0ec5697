//! What befalls every connection at once: restarts, restores and partitions.
//!
//! Knows: what breaks, and when it works again. Must not know: what any request asks for.

use super::{super::kind::Kind, Client, ClientId, Fate, Item, Request, Server};

/// After how long without an answer the kernel gives up a connection: the coordinator's keepalive.
const KEEPALIVE_MS: u64 = 45_000;

/// By how much versions are raised after a restore.
const BUMP: u64 = 1_000;

impl Server {
    /// Every connection breaks, and nobody is answered for so long. Caches are filled anew, perhaps with an older state.
    pub fn restart(&mut self, now_ms: u64, down_ms: u64) {
        for ticket in self.requests.keys().copied().collect::<Vec<_>>() {
            self.broken(ticket, "connection reset by peer");
        }
        for stream in self.watches.keys().copied().collect::<Vec<_>>() {
            self.end(stream, Some("connection reset by peer"));
        }
        for client in &mut self.clients {
            client.caches.fill(None);
            client.held.clear();
        }
        self.is_cold = true;
        self.down_until_ms = self.down_until_ms.max(now_ms + down_ms);
    }

    /// The store goes back to what it was at a version, as after a restore of etcd, and the API server restarts.
    pub fn restore(&mut self, now_ms: u64, down_ms: u64, version: u64) {
        self.restart(now_ms, down_ms);
        self.store.restore(version);
        self.is_cold = false;
    }

    /// As [`Self::restore`], by the procedure that etcd documents for Kubernetes: versions go on from higher ones than there ever
    /// were, so that no client goes on from a version of the history that was lost.
    pub fn restore_and_bump(&mut self, now_ms: u64, down_ms: u64, version: u64) {
        let newest = self.store.version();
        self.restore(now_ms, down_ms, version);
        self.store.bump(newest + BUMP);
    }

    /// Whatever goes unanswered breaks: the network works again, and says so of what is lost, and the API server is there.
    pub fn mend(&mut self) {
        self.down_until_ms = 0;
        let is_lost = |request: &Request| matches!(request.fate, Fate::SilentBefore | Fate::SilentAfter);
        let lost: Vec<_> = self.requests.iter().filter(|(_, request)| is_lost(request)).map(|(it, _)| *it).collect();
        let silent: Vec<_> = self.watches.iter().filter(|(_, watch)| watch.is_silent).map(|(it, _)| *it).collect();
        lost.into_iter().for_each(|ticket| self.broken(ticket, "connection reset by peer"));
        silent.into_iter().for_each(|stream| self.end(stream, Some("connection reset by peer")));
    }

    /// A client and the API server hear nothing of each other, or do again.
    pub fn partition(&mut self, now_ms: u64, client: ClientId, is_cut: bool) {
        self.cut(now_ms, client, is_cut, false);
    }

    /// What a client sends arrives, and it hears nothing of it nor of anything else, or does again.
    pub fn deafen(&mut self, now_ms: u64, client: ClientId, is_deaf: bool) {
        self.cut(now_ms, client, is_deaf, true);
    }

    fn cut(&mut self, now_ms: u64, client: ClientId, is_cut: bool, is_heard: bool) {
        let Client { partitions, held, is_heard: heard, .. } = &mut self.clients[client];
        if (*partitions % 2 == 1) == is_cut {
            // Who is deaf may become mute as well.
            *heard &= is_heard;
            return;
        }
        *partitions += 1;
        *heard = is_heard;
        if is_cut {
            let partition = *partitions;
            return self.at(now_ms + KEEPALIVE_MS, Item::Sever(client, partition));
        }
        for item in std::mem::take(held) {
            self.at(now_ms, item);
        }
        for kind in Kind::ALL {
            // What its cache has got meanwhile was sent, and comes now.
            if !self.clients[client].streams[kind.index()].is_empty() {
                self.deliver(now_ms, client, kind);
            }
        }
        for stream in self.clients[client].streams.concat() {
            let ends_ms = self.watches.get(&stream).map_or(now_ms, |watch| watch.ends_ms.max(now_ms));
            self.at(ends_ms, Item::End(stream));
        }
    }

    /// A partition lasts for so long that connections are given up.
    pub(super) fn sever(&mut self, client: ClientId, partition: u64) {
        if self.clients[client].partitions != partition {
            return;
        }
        for item in std::mem::take(&mut self.clients[client].held) {
            if let Item::Arrive(ticket) | Item::Answer(ticket) = item {
                self.broken(ticket, "connection timed out");
            }
        }
        for stream in self.clients[client].streams.concat() {
            self.end(stream, Some("connection timed out"));
        }
    }
}
