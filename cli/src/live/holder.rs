//! What the Lease says of who decides, and for how long that counts.
//!
//! Knows: the times of a Lease. Must not know: which Lease it is, or who asks.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde::Serialize;

use super::{connection::Connection, lease};
use crate::reach::ReachArgs;

/// Who decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    /// `NAMESPACE/NAME` of the Lease.
    pub(crate) lease: String,
    /// Its identity.
    pub(crate) identity: String,
    /// Since when it has led, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
    /// How long ago it last said that it does, by the clock here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) renewed_ms_ago: Option<i64>,
    /// For how long that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lease_ms: Option<i64>,
    /// How often the Lease has changed hands.
    pub(crate) transitions: i32,
}

impl Holder {
    /// Whether its lease has expired and no other process has taken it.
    pub(crate) fn is_expired(&self) -> bool {
        self.renewed_ms_ago.zip(self.lease_ms).is_some_and(|(ago, lease)| ago > lease)
    }
}

/// Who holds the Lease.
///
/// # Errors
/// There is no leader, or it is not known, with the next step.
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
