//! Adding and removing allocations.

use super::*;
use crate::devices::model::DeviceName;

fn result(device: &str, share: Option<&str>, consumed: Option<&str>, admin: bool) -> DeviceResult {
    let consumed = consumed.map(|text| vec![("memory".into(), Amount::parse(text).unwrap_or_default())]);
    DeviceResult {
        device: DeviceName { driver: "d".into(), pool: "p".into(), device: device.into() },
        admin_access: admin.then_some(true),
        share: share.map(Into::into),
        consumed,
        ..DeviceResult::default()
    }
}

#[test]
fn what_is_allocated_is_in_use_until_it_is_taken_back() {
    let (mut names, mut allocated) = (DeviceNames::default(), Allocated::default());
    let whole = [result("whole", None, None, false), result("watched", None, None, true)];
    let shares = [result("shared", Some("1"), Some("2"), false), result("shared", Some("2"), None, false)];
    allocated.add(&whole, &mut names);
    allocated.add(&shares, &mut names);
    let mut number = |device: &str| names.number(&result(device, None, None, false).device);
    let (whole_number, shared, watched) = (number("whole"), number("shared"), number("watched"));
    assert!(allocated.is_whole(whole_number) && allocated.is_any(whole_number) && !allocated.is_shared(whole_number));
    assert!(allocated.is_shared(shared) && !allocated.is_whole(shared));
    assert!(!allocated.is_any(watched), "admin access is no use");
    assert_eq!(allocated.consumed(shared), [("memory".into(), 2_000_000_000)]);
    allocated.remove(&whole, &mut names);
    allocated.remove(&shares[..1], &mut names);
    assert!(!allocated.is_any(whole_number) && allocated.is_shared(shared));
    assert_eq!(allocated.consumed(shared), [("memory".into(), 0)]);
    allocated.remove(&shares[1..], &mut names);
    assert!(!allocated.is_any(shared) && allocated.consumed(shared).is_empty());
}
