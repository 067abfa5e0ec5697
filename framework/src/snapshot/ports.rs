//! The host ports of pods on one node, sorted, so that a pod's ports are added and removed in one pass.

use std::{borrow::Cow, cmp::Ordering};

use flotilla_planted::{planted, spend};

use crate::class::HostPort;

pub(super) fn add(taken: &mut Vec<HostPort>, ports: &[HostPort]) {
    if ports.is_empty() {
        return;
    }
    taken.extend(ports.iter().cloned());
    // The stable sort merges two sorted runs in linear time.
    taken.sort();
}

pub(super) fn remove(taken: &mut Vec<HostPort>, ports: &[HostPort]) {
    if ports.is_empty() {
        return;
    }
    if planted("takes-ports-one-by-one") {
        for port in ports {
            let place = taken.iter().position(|other| other == port);
            spend(place.unwrap_or(taken.len()) as u64);
            place.map(|place| taken.swap_remove(place));
        }
        return;
    }
    spend((ports.len() + taken.len()) as u64);
    let ports = sorted(ports);
    let mut gone = ports.iter().peekable();
    taken.retain(|port| {
        while gone.next_if(|other| (*other).cmp(port) == Ordering::Less).is_some() {}
        gone.next_if(|other| *other == port).is_none()
    });
}

/// Sorts if necessary: a worker does not rely on the coordinator's order.
fn sorted(ports: &[HostPort]) -> Cow<'_, [HostPort]> {
    if ports.is_sorted() {
        return Cow::Borrowed(ports);
    }
    let mut ports = ports.to_vec();
    ports.sort();
    Cow::Owned(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(numbers: impl IntoIterator<Item = i32>) -> Vec<HostPort> {
        let port = |port| HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port };
        numbers.into_iter().map(port).collect()
    }

    #[test]
    fn a_port_of_two_pods_is_taken_until_both_have_gone() {
        let mut taken = Vec::new();
        add(&mut taken, &ports([80, 443]));
        add(&mut taken, &ports([443, 22, 8_080]));
        assert_eq!(taken, ports([22, 80, 443, 443, 8_080]));
        remove(&mut taken, &ports([443, 80]));
        assert_eq!(taken, ports([22, 443, 8_080]));
        remove(&mut taken, &ports([8_080, 443, 22, 9_090]));
        assert_eq!(taken, []);
    }
}
