//! Restarts, restores and partitions.

use super::{super::kind::Kind, Client, ClientId, Fate, Item, Request, Server};

/// The coordinator's keepalive: the kernel breaks a connection after this time without an answer.
const KEEPALIVE_MS: u64 = 45_000;

const BUMP: u64 = 1_000;

impl Server {
    /// Breaks all connections, and refuses requests for `down_ms`. New caches may start with an older state.
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

    /// Restores the store to a version, as an etcd restore does, and restarts.
    pub fn restore(&mut self, now_ms: u64, down_ms: u64, version: u64) {
        self.restart(now_ms, down_ms);
        self.store.restore(version);
        self.is_cold = false;
    }

    /// Like [`Self::restore`], by etcd's procedure for Kubernetes: later versions are higher than all earlier ones. So no client continues
    /// from a version of the lost history.
    pub fn restore_and_bump(&mut self, now_ms: u64, down_ms: u64, version: u64) {
        let newest = self.store.version();
        self.restore(now_ms, down_ms, version);
        self.store.bump(newest + BUMP);
    }

    /// Breaks everything that hangs. The network and the API server work again, and losses are reported as errors.
    pub fn mend(&mut self) {
        self.down_until_ms = 0;
        let is_lost = |request: &Request| matches!(request.fate, Fate::SilentBefore | Fate::SilentAfter);
        let lost: Vec<_> = self.requests.iter().filter(|(_, request)| is_lost(request)).map(|(it, _)| *it).collect();
        let silent: Vec<_> = self.watches.iter().filter(|(_, watch)| watch.is_silent).map(|(it, _)| *it).collect();
        lost.into_iter().for_each(|ticket| self.broken(ticket, "connection reset by peer"));
        silent.into_iter().for_each(|stream| self.end(stream, Some("connection reset by peer")));
    }

    /// Starts or ends a partition of a client.
    pub fn partition(&mut self, now_ms: u64, client: ClientId, is_cut: bool) {
        self.cut(now_ms, client, is_cut, false);
    }

    /// Starts or ends a one-way partition: the client's requests arrive, and it receives nothing.
    pub fn deafen(&mut self, now_ms: u64, client: ClientId, is_deaf: bool) {
        self.cut(now_ms, client, is_deaf, true);
    }

    fn cut(&mut self, now_ms: u64, client: ClientId, is_cut: bool, is_heard: bool) {
        let Client { partitions, held, is_heard: heard, .. } = &mut self.clients[client];
        if (*partitions % 2 == 1) == is_cut {
            // A one-way partition may become a full one.
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
            // Events of the cache in the meantime were sent, and arrive now.
            if !self.clients[client].streams[kind.index()].is_empty() {
                self.deliver(now_ms, client, kind);
            }
        }
        for stream in self.clients[client].streams.concat() {
            let ends_ms = self.watches.get(&stream).map_or(now_ms, |watch| watch.ends_ms.max(now_ms));
            self.at(ends_ms, Item::End(stream));
        }
    }

    /// Breaks the connections of a long partition.
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
