//! The leader and its renewal times, from the Lease.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;

use super::{connection::Connection, lease};
use crate::reach::ReachArgs;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    /// `NAMESPACE/NAME` of the Lease.
    pub(crate) lease: String,
    pub(crate) identity: String,
    /// The start of the leadership, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// Time since the last renewal, by the local clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) renewed_ms_ago: Option<i64>,
    /// The lease duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<i64>,
    /// The number of leader transitions.
    pub(crate) transitions: i32,
}

impl Holder {
    /// Whether the lease has expired and no other process has acquired it.
    pub(crate) fn is_expired(&self) -> bool {
        self.renewed_ms_ago.zip(self.lease_ms).is_some_and(|(ago, lease)| ago > lease)
    }
}

/// The holder of the Lease.
///
/// # Errors
/// There is no leader, or it is unknown, with the next step.
pub(crate) async fn holder(connection: &Connection, args: &ReachArgs) -> anyhow::Result<Holder> {
    let held = lease::held(&connection.client, args.lease.as_ref()).await?;
    let ago = |time: &MicroTime| Timestamp::now().as_millisecond() - time.0.as_millisecond();
    Ok(Holder {
        identity: held.holder().to_owned(),
        since: held.spec.acquire_time.as_ref().map(|time| time.0.to_string()),
        renewed_ms_ago: held.spec.renew_time.as_ref().map(ago),
        lease_ms: held.spec.lease_duration_seconds.map(|seconds| i64::from(seconds) * 1_000),
        transitions: held.spec.lease_transitions.unwrap_or_default(),
        lease: held.lease,
    })
}
