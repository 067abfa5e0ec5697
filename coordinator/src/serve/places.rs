//! Who may hold a connection of an endpoint.
//!
//! Knows: addresses, the order of arrival, and which connection has asked for something. Must not know: sockets or protocols.
//!
//! A client that connects and says nothing takes a place like any other. So an address has a few places only, and where none
//! is left a connection that has asked for nothing makes room, the oldest first.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

/// The places of one endpoint. Cheap to clone.
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
    /// In the order of arrival.
    held: BTreeMap<u64, Held>,
}

#[derive(Debug)]
struct Held {
    address: IpAddr,
    has_asked: bool,
    evicted: CancellationToken,
}

/// What became of connections that found no place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Connections that are open.
    pub open: u64,
    /// Connections closed at once, because their address had its places.
    pub refused: u64,
    /// Connections closed for a newer one, because all places were taken.
    pub evicted: u64,
}

impl Places {
    /// So many places, of which one address has at most `per_address`.
    #[must_use]
    pub fn new(most: usize, per_address: usize) -> Self {
        let (table, refused, evicted) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        Self { shared: Arc::new(Shared { most, per_address, table, refused, evicted }) }
    }

    /// A place for a client; `None`: its address has its places already.
    #[must_use]
    pub fn take(&self, address: IpAddr) -> Option<Place> {
        // An IPv4 client of a socket for both families is the same client.
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
        Some(Place { shared: Arc::clone(&self.shared), number, evicted })
    }

    /// The connections, and what became of those that found no place.
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

    /// Ends the oldest connection that has asked for nothing, or else the oldest.
    fn evict(&self, table: &mut Table) {
        let silent = table.held.iter().find(|(_, held)| !held.has_asked).map(|(number, _)| *number);
        let oldest = silent.or_else(|| table.held.first_key_value().map(|(number, _)| *number));
        if let Some(held) = oldest.and_then(|number| table.held.remove(&number)) {
            held.evicted.cancel();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub struct Place {
    shared: Arc<Shared>,
    number: u64,
    evicted: CancellationToken,
}

impl Place {
    /// The client has asked for something.
    pub fn has_asked(&self) {
        if let Some(held) = self.shared.table().held.get_mut(&self.number) {
            held.has_asked = true;
        }
    }

    /// Returns when the connection has to end, because another has its place.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
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
        let gone = |places: &[Place]| places.iter().map(|place| place.evicted.is_cancelled()).collect::<Vec<_>>();
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
