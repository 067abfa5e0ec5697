//! Connection slots of an endpoint.
//!
//! Each address has a few slots only. Without a free slot, the oldest connection without a request is closed for a new one.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// The slots of one endpoint. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Places {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    most: usize,
    per_address: usize,
    table: Mutex<Table>,
    refused: AtomicU64,
    evicted: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    address: IpAddr,
    has_asked: bool,
    evicted: CancellationToken,
}

/// Counts of connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Open connections.
    pub open: u64,
    /// Connections refused, because their address had all its slots.
    pub refused: u64,
    /// Connections closed for a newer one, because all slots were in use.
    pub evicted: u64,
}

impl Places {
    /// Creates `most` slots, at most `per_address` for one address.
    #[must_use]
    pub fn new(most: usize, per_address: usize) -> Self {
        let (table, refused, evicted) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { most, per_address, table, refused, evicted }) }
    }

    /// A slot for a client; `None`: its address has all its slots.
    #[must_use]
    pub fn take(&self, address: IpAddr) -> Option<ConnectionSlot> {
        // A dual-stack socket maps IPv4 addresses; it is the same client.
        let address = address.to_canonical();
        let mut table = self.shared.table();
        if table.held.values().filter(|held| held.address == address).count() >= self.shared.per_address {
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        if table.held.len() >= self.shared.most {
            self.shared.evict(&mut table);
        }
        let (number, evicted) = (table.next, CancellationToken::new());
        table.next += 1;
        table.held.insert(number, Held { address, has_asked: false, evicted: evicted.clone() });
        Some(ConnectionSlot { shared: Arc::clone(&self.shared), number, evicted })
    }

    /// Counts of connections.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            open: self.shared.table().held.len() as u64,
            refused: self.shared.refused.load(Ordering::Relaxed),
            evicted: self.shared.evicted.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evict(&self, table: &mut Table) {
        let silent = table.held.iter().find(|(_, held)| !held.has_asked).map(|(number, _)| *number);
        let oldest = silent.or_else(|| table.held.first_key_value().map(|(number, _)| *number));
        if let Some(held) = oldest.and_then(|number| table.held.remove(&number)) {
            held.evicted.cancel();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The slot of one connection, freed on drop.
#[derive(Debug)]
pub struct ConnectionSlot {
    shared: Arc<Shared>,
    number: u64,
    evicted: CancellationToken,
}

impl ConnectionSlot {
    /// Marks that the client has sent a request.
    pub fn has_asked(&self) {
        if let Some(held) = self.shared.table().held.get_mut(&self.number) {
            held.has_asked = true;
        }
    }

    /// Returns when the connection has to close for another one.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.shared.table().held.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn an_address_has_its_places_and_no_more_and_gets_them_back() {
        let places = Places::new(10, 2);
        let (first, second) = (places.take(address(1)), places.take(address(1)));
        assert!(first.is_some() && second.is_some() && places.take(address(1)).is_none());
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        assert!(places.take(mapped).is_none(), "the same client on a socket for both families");
        assert!(places.take(address(2)).is_some());
        assert_eq!(places.tally(), Tally { open: 2, refused: 2, evicted: 0 });
        drop(first);
        assert!(places.take(address(1)).is_some());
    }

    #[test]
    fn where_no_place_is_left_the_oldest_silent_connection_goes_and_only_then_one_that_has_asked() {
        let places = Places::new(3, 3);
        let held: Vec<_> = (1..=3).map(|last| places.take(address(last)).expect("a place")).collect();
        held[0].has_asked();
        held[2].has_asked();
        let newer = places.take(address(4)).expect("a place");
        let gone =
            |places: &[ConnectionSlot]| places.iter().map(|place| place.evicted.is_cancelled()).collect::<Vec<_>>();
        assert_eq!(gone(&held), [false, true, false]);
        newer.has_asked();
        let newest = places.take(address(5)).expect("a place");
        assert_eq!(gone(&held), [true, true, false]);
        assert_eq!(places.tally(), Tally { open: 3, refused: 0, evicted: 2 });
        drop(held);
        assert_eq!(places.tally().open, 2, "a place that was taken away is not given back twice");
        drop((newer, newest));
        assert_eq!(places.tally().open, 0);
    }
}
