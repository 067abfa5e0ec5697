//! The fields of a Lease that an election reads.

use k8s_openapi::api::coordination::v1::Lease;

use super::COMMITTED;
use super::election::{Record, committed_in};

/// The epoch of a lead: the Lease's creation time by the API server's clock, and its number of transitions.
///
/// Workers reject a lower epoch than the highest they have seen. The transitions alone would restart at 0 for a recreated Lease.
pub(super) fn epoch_of(lease: Option<&Lease>, transitions: i32) -> u64 {
    let created = lease.and_then(|lease| lease.metadata.creation_timestamp.as_ref());
    let seconds = created.map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0));
    epoch_at_second(seconds).saturating_add(u64::try_from(transitions).unwrap_or(0))
}

/// The smallest epoch of a second since 1970. 24 bits allow 16 million transitions of one Lease, and seconds beyond the year 30,000.
#[must_use]
pub const fn epoch_at_second(seconds: u64) -> u64 {
    seconds << 24
}

pub(super) fn record_of(lease: &Lease) -> Record {
    let Some(spec) = &lease.spec else { return Record::default() };
    let mut record = Record {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        duration_s: spec.lease_duration_seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0),
        transitions: spec.lease_transitions.unwrap_or(0),
        acquired: spec.acquire_time.as_ref().map(|time| time.0),
        renewed: spec.renew_time.as_ref().map(|time| time.0),
        preferred: spec.preferred_holder.clone().filter(|preferred| !preferred.is_empty()),
        committed: None,
    };
    let told = lease.metadata.annotations.as_ref().and_then(|annotations| annotations.get(COMMITTED));
    record.committed = told.and_then(|text| committed_in(text, &record));
    record
}
