//! The wanted workers and their state.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_machine::event::WorkerId;

use super::{Fanout, lock};

/// A wanted worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rolled {
    /// Its address, `host:port`.
    pub address: Arc<str>,
    /// Its stream, if there is one.
    pub stream: Option<Stream>,
    /// The reason why it has no stream; `None` before the first attempt has ended.
    pub trouble: Option<String>,
}

/// A stream to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The machine's identifier of the worker.
    pub worker: WorkerId,
    /// The worker's version.
    pub version: Arc<str>,
    /// Expiry of its certificate, seconds since 1970; `None` without one.
    pub not_after_s: Option<i64>,
    /// Median and 99th percentile of the last 256 round trips in microseconds; `None` before the first.
    pub round_trip_us: Option<[u64; 2]>,
}

impl Fanout {
    /// All wanted workers, by address.
    #[must_use]
    pub fn roll(&self) -> Vec<Rolled> {
        let addresses: Vec<Arc<str>> = {
            let addresses = lock(&self.inner.addresses);
            addresses.iter().filter(|(_, wanted)| *wanted.borrow()).map(|(address, _)| Arc::clone(address)).collect()
        };
        let streams: BTreeMap<Arc<str>, Stream> = {
            let streams = lock(&self.inner.streams);
            let told = streams.iter().map(|(worker, outgoing)| {
                let stream = Stream {
                    worker: *worker,
                    version: Arc::clone(&outgoing.version),
                    not_after_s: outgoing.not_after_s,
                    round_trip_us: outgoing.questions.quantiles(),
                };
                (Arc::clone(&outgoing.address), stream)
            });
            told.collect()
        };
        let troubles = lock(&self.inner.troubles);
        let roll = addresses.into_iter().map(|address| Rolled {
            stream: streams.get(&address).cloned(),
            trouble: troubles.get(&address).cloned(),
            address,
        });
        roll.collect()
    }
}
