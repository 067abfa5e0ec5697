//! Requests with an immediate response: reads and pages of lists.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::json;

use super::{
    super::{
        call::{Call, Listing, Since, What},
        kind::Kind,
        object::Object,
        refusal::Refusal,
        store::Write,
        writes::Part,
    },
    Answer, BLOCK_MS, ClientId, Item, Server, Ticket,
};

/// State for a read.
enum State {
    /// The state at this version.
    At(u64),
    /// Not available yet: retry at this time, ms.
    Later(u64),
}

impl Server {
    pub(super) fn carry_out(&mut self, now_ms: u64, ticket: Ticket, call: Call) {
        let Some(request) = self.requests.get(&ticket) else { return };
        let (client, sent_ms) = (request.client, request.sent_ms);
        let Call { kind, ref namespace, .. } = call;
        let answer = match &call.what {
            What::Get { name, since } => {
                let key = call.key(name);
                match self.state(now_ms, ticket, client, kind, *since) {
                    Ok(State::Later(at_ms)) => return self.later(ticket, call, at_ms),
                    Ok(State::At(version)) => {
                        let object = self.object_at(kind, &key, version);
                        object.ok_or_else(|| Refusal::not_found(kind, name)).map(|object| whole(200, &object))
                    }
                    Err(refusal) => Err(refusal),
                }
            }
            What::List(listing) => match self.list_state(now_ms, ticket, client, kind, listing) {
                Ok(State::Later(at_ms)) => return self.later(ticket, call, at_ms),
                Ok(State::At(version)) => {
                    self.clients[client].listed[kind.index()] = true;
                    Ok(self.page(kind, listing, version))
                }
                Err(refusal) => Err(refusal),
            },
            // Handled in `streams`.
            What::Watch(_) => return,
            write => {
                let by = Arc::clone(&self.clients[client].name);
                let knows = self.knows(client, sent_ms);
                let by = Write { at_ms: now_ms, sent_ms, by, knows, with_status: false };
                let done = self.write(&by, kind, namespace, write);
                self.spread(now_ms);
                done
            }
        };
        self.reply(now_ms, ticket, answer.unwrap_or_else(Answer::from));
    }

    fn write(&mut self, write: &Write, kind: Kind, namespace: &str, what: &What) -> Result<Answer, Refusal> {
        let key = |name: &str| super::super::object::key(namespace, name);
        let part = |is_status: bool| if is_status { Part::Status } else { Part::Main };
        match what {
            What::Create(value) => {
                self.store.create(write, kind, namespace, value.clone()).map(|object| whole(201, &object))
            }
            What::Update { name, is_status, value } => {
                let done = self.store.update(write, kind, &key(name), part(*is_status), value.clone());
                done.map(|object| whole(200, &object))
            }
            What::Patch { name, is_status, style, patch } => {
                let done = self.store.patch(write, kind, &key(name), part(*is_status), (*style, patch));
                done.map(|object| whole(200, &object))
            }
            What::Delete { name, deletion } => {
                let done = self.store.delete(write, kind, &key(name), deletion);
                done.map(|object| if kind == Kind::Pod { whole(200, &object) } else { success(200) })
            }
            What::Note => Ok(Answer::noted()),
            What::Bind { name, binding } => self.store.bind(write, namespace, name, binding).map(|_| success(201)),
            What::Get { .. } | What::List(_) | What::Watch(_) => Err(Refusal::bad_request("this is no write")),
        }
    }

    /// Retries a request at this time.
    fn later(&mut self, ticket: Ticket, call: Call, at_ms: u64) {
        if let Some(request) = self.requests.get_mut(&ticket) {
            request.call = Some(Ok(call));
            self.at(at_ms, Item::Arrive(ticket));
        }
    }

    fn state(
        &mut self,
        now_ms: u64,
        ticket: Ticket,
        client: ClientId,
        kind: Kind,
        since: Since,
    ) -> Result<State, Refusal> {
        let asked = match since {
            Since::Now => return Ok(State::At(self.store.version())),
            Since::Whenever => 0,
            Since::Version(asked) => asked,
        };
        let reached = self.reached(now_ms, client, kind);
        if asked <= reached {
            return Ok(State::At(reached));
        }
        let until_ms = self.requests.get(&ticket).and_then(|request| request.blocked_until_ms);
        match until_ms {
            Some(until_ms) if until_ms <= now_ms => Err(Refusal::too_large(asked, reached)),
            _ => {
                let until_ms = until_ms.unwrap_or(now_ms + BLOCK_MS);
                if let Some(request) = self.requests.get_mut(&ticket) {
                    request.blocked_until_ms = Some(until_ms);
                }
                let reached_ms = self.freshen(now_ms, client, kind, asked);
                Ok(State::Later(reached_ms.map_or(until_ms, |at_ms| at_ms.clamp(now_ms + 1, until_ms))))
            }
        }
    }

    fn list_state(
        &mut self,
        now_ms: u64,
        ticket: Ticket,
        client: ClientId,
        kind: Kind,
        listing: &Listing,
    ) -> Result<State, Refusal> {
        let exact = match (&listing.after, listing.since) {
            (Some((version, _)), _) => Some(*version),
            (None, Since::Version(version)) if listing.is_exact => Some(version),
            _ => None,
        };
        let Some(version) = exact else {
            if listing.since == Since::Now {
                // The API server asks etcd for its progress, and waits until the cache has caught up.
                self.freshen(now_ms, client, kind, self.store.version());
            }
            return self.state(now_ms, ticket, client, kind, listing.since);
        };
        let is_lost = version < self.store.oldest_of(kind, self.options.window);
        if is_lost || (listing.after.is_some() && self.seed.happens(self.faults.pages_expire)) {
            let message = "The provided continue parameter is too old to display a consistent list result.";
            return Err(Refusal::expired(message));
        }
        Ok(State::At(version))
    }

    fn object_at(&self, kind: Kind, key: &str, version: u64) -> Option<Arc<Object>> {
        let later = self.store.changes_since(kind, version).iter().find(|change| change.key() == key);
        later.map_or_else(|| self.store.by_key(kind, key).cloned(), |change| change.before.clone())
    }

    fn page(&self, kind: Kind, listing: &Listing, version: u64) -> Answer {
        let after = listing.after.as_ref().map_or("", |(_, key)| key);
        let limit = if listing.limit == 0 { usize::MAX } else { listing.limit };
        let is_all = listing.selector.is_everything();
        let found = self.store.objects_at(kind, version, after);
        let mut found = found.filter(|object| is_all || listing.selector.selects(object)).peekable();
        let (mut items, mut last, mut count) = (BytesMut::new(), "", 0);
        while count < limit
            && let Some(object) = found.next()
        {
            if count > 0 {
                items.put_u8(b',');
            }
            items.put(&**object.json());
            (last, count) = (object.key(), count + 1);
        }
        let more = if found.peek().is_some() { format!(",\"continue\":\"{version}.{last}\"") } else { String::new() };
        let (name, api_version) = (kind.name(), kind.api_version());
        let head = format!(
            "{{\"kind\":\"{name}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{{\"resourceVersion\":\"{version}\"{more}}},\
             \"items\":["
        );
        let mut body = BytesMut::with_capacity(head.len() + items.len() + 2);
        body.put(head.as_bytes());
        body.put(items);
        body.put(&b"]}"[..]);
        Answer { code: 200, retry_after_s: None, body: body.freeze() }
    }
}

fn whole(code: u16, object: &Object) -> Answer {
    Answer { code, retry_after_s: None, body: Bytes::clone(object.json()) }
}

fn success(code: u16) -> Answer {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code });
    Answer { code, retry_after_s: None, body: status.to_string().into() }
}
