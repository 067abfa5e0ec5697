//! Checks the Leases of Flotilla and of kube-scheduler.

use flotilla_configuration::Configuration;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

use super::check::Check;
use crate::status::span;

/// kube-scheduler's default Lease and profile.
const THEIRS: (&str, &str) = ("kube-system", "kube-scheduler");
const THEIR_PROFILE: &str = "default-scheduler";

/// The holder of a Lease and the time since the last renewal; `None` without a holder or after expiry.
async fn holder(client: &Client, namespace: &str, name: &str) -> kube::Result<Option<(String, u64)>> {
    let lease = Api::<Lease>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(lease.and_then(|lease| held(lease, Timestamp::now())))
}

fn held(lease: Lease, now: Timestamp) -> Option<(String, u64)> {
    let spec = lease.spec?;
    let holder = spec.holder_identity.filter(|holder| !holder.is_empty())?;
    let ago_ms = now.as_millisecond() - spec.renew_time?.0.as_millisecond();
    let is_over = ago_ms > i64::from(spec.lease_duration_seconds.unwrap_or(15)) * 1_000;
    (!is_over).then(|| (holder, u64::try_from(ago_ms).unwrap_or(0)))
}

pub(super) async fn own(client: &Client, (namespace, name): &(String, String)) -> Check {
    const NAME: &str = "Lease";
    match holder(client, namespace, name).await {
        Ok(None) => Check::passed(NAME, format!("no process holds {namespace}/{name}")),
        Ok(Some((holder, ago_ms))) => {
            let ago = span(ago_ms);
            let what =
                format!("{holder} holds {namespace}/{name}, renewed {ago} ago: coordinators stand by until it expires");
            Check::passed(NAME, what)
        }
        Err(error) => Check::unanswered(NAME, &error),
    }
}

pub(super) async fn same_name(
    client: &Client,
    lease: &(String, String),
    configuration: Option<&Configuration>,
) -> Check {
    const NAME: &str = "other schedulers";
    let Some(configuration) = configuration else {
        return Check::unknown(NAME, "without --config it is not known which schedulerName is served");
    };
    let serves_theirs = configuration.profiles.iter().any(|profile| &*profile.scheduler_name == THEIR_PROFILE);
    if !serves_theirs {
        return Check::passed(NAME, format!("pods of {THEIR_PROFILE} are left to kube-scheduler"));
    }
    if (lease.0.as_str(), lease.1.as_str()) == THEIRS {
        return Check::passed(NAME, "kube-scheduler and Flotilla use the same Lease, so that one of them leads");
    }
    let (namespace, name) = THEIRS;
    match holder(client, namespace, name).await {
        Ok(None) => Check::passed(NAME, format!("no process holds {namespace}/{name}, so no kube-scheduler leads")),
        Ok(Some((holder, _))) => {
            let what = format!(
                "{holder} holds {namespace}/{name} and schedules pods of {THEIR_PROFILE}, which a profile here serves too"
            );
            let next = "leaderElection: {resourceNamespace: kube-system, resourceName: kube-scheduler} in the configuration \
                        lets only one of the two lead; or give the profile another schedulerName";
            Check::failed(NAME, what).next(next)
        }
        Err(error) => Check::unanswered(NAME, &error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lease_is_held_until_its_time_is_up() {
        let lease = |holder: &str| -> Lease {
            let spec = json!({
                "holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15,
            });
            serde_json::from_value(json!({ "spec": spec })).expect("a Lease")
        };
        let at = |time: &str| -> Timestamp { time.parse().expect("a time") };
        let soon = at("2026-01-01T00:00:10Z");
        assert_eq!(held(lease("a"), soon), Some(("a".to_owned(), 10_000)));
        assert_eq!(held(lease("a"), at("2026-01-01T00:00:16Z")), None);
        assert_eq!(held(lease(""), soon), None);
        assert_eq!(held(Lease::default(), soon), None);
    }
}
