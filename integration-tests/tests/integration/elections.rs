//! Coordinated leader election: a controller of the API server elects the leader among the LeaseCandidates.

use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    deployed::{self, LEASE, grant, kubeconfig_of, kubectl},
    fleet::{Fleet, PATIENCE, Transport, profile, wait_until_running},
};
use futures::StreamExt as _;
use k8s_openapi::api::coordination::{v1::Lease, v1beta1::LeaseCandidate};
use kube::{
    Api,
    api::PostParams,
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, from_value, json};

const GATE: &str = "--feature-gates=CoordinatedLeaderElection=true";

async fn cluster() -> anyhow::Result<ControlPlane> {
    let options = Options::default()
        .with_arg(Component::ApiServer, GATE)
        .with_arg(Component::ApiServer, "--runtime-config=coordination.k8s.io/v1beta1=true");
    let cluster = ControlPlane::start(options).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    grant(&cluster)?;
    let rights = deployed::path("components/coordinated-leader-election/rights.yaml");
    kubectl(&cluster, &["apply", "-f", &rights.display().to_string()])?;
    Ok(cluster)
}

/// Coordinators without workers, as the service account of `deploy/`.
fn fleet(cluster: &ControlPlane) -> anyhow::Result<Fleet<'_>> {
    let fleet = Fleet::new(cluster).speaking_as(kubeconfig_of(cluster, "flotilla-coordinator")?);
    Ok(fleet.over(Transport::Plaintext).with_args([GATE, LEASE].map(str::to_owned)))
}

fn candidates(cluster: &ControlPlane) -> Api<LeaseCandidate> {
    Api::namespaced(cluster.client(), "flotilla")
}

async fn spec(cluster: &ControlPlane) -> anyhow::Result<Value> {
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "flotilla");
    Ok(json!(leases.get_opt("flotilla").await?.and_then(|lease| lease.spec)))
}

/// Waits until the Lease has another holder than this one, and returns it.
async fn holder_after(cluster: &ControlPlane, before: &str) -> anyhow::Result<String> {
    wait_until("the controller to elect a leader", PATIENCE, async || {
        let spec = spec(cluster).await.map_err(|error| format!("{error:#}"))?;
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder.is_empty() || holder == before { Err(spec.to_string()) } else { Ok(holder.to_owned()) }
    })
    .await
}

async fn wait_until_leading(fleet: &Fleet<'_>, coordinator: &str) -> anyhow::Result<()> {
    wait_until("the coordinator to lead", PATIENCE, async || {
        let leading = fleet.metric(coordinator, "flotilla_leading").await;
        if matches!(leading, Ok(Some(1.0))) { Ok(()) } else { Err(format!("{leading:?}")) }
    })
    .await
}

/// A candidate of an older emulation version that answers the controller, until the future is dropped.
async fn nominate_older(cluster: &ControlPlane) -> anyhow::Result<()> {
    let now = || json!(k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(k8s_openapi::jiff::Timestamp::now()));
    let older = json!({
        "metadata": { "name": "older" },
        "spec": {
            "leaseName": "flotilla", "binaryVersion": "1.37.0", "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion", "renewTime": now(),
        },
    });
    candidates(cluster).create(&PostParams::default(), &from_value(older)?).await?;
    let only = watcher::Config::default().fields("metadata.name=older");
    let mut seen = std::pin::pin!(watcher(candidates(cluster), only).applied_objects());
    while let Some(candidate) = seen.next().await {
        let mut candidate = candidate?;
        let spec = &mut candidate.spec;
        if spec.ping_time.as_ref().is_some_and(|asked| spec.renew_time.as_ref().is_none_or(|known| asked.0 > known.0)) {
            spec.renew_time = from_value(now())?;
            candidates(cluster).replace("older", &PostParams::default(), &candidate).await?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_elected_coordinator_schedules_until_another_candidate_is_preferred() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut fleet = fleet(&cluster)?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("only", Some(&config))?;
    let identity = holder_after(&cluster, "").await?;
    wait_until_leading(&fleet, "only").await?;
    let elected = spec(&cluster).await?;
    assert_eq!((&elected["strategy"], &elected["leaseTransitions"]), (&json!("OldestEmulationVersion"), &json!(1)));
    let candidate = candidates(&cluster).get(&identity).await?.spec;
    let versions = (&*candidate.binary_version, candidate.emulation_version.as_deref());
    assert_eq!((&*candidate.lease_name, versions), ("flotilla", ("1.37.2", Some("1.37.0"))));
    cluster.create_pods([pod("first", "flotilla", &[("cpu", "100m")])]).await?;
    wait_until_running(&cluster, "first", 1).await?;
    let ended = async {
        assert_eq!(holder_after(&cluster, &identity).await?, "older");
        wait_until("the coordinator to end", PATIENCE, async || {
            cluster.processes().exit_status("only").ok().flatten().ok_or_else(|| "it still runs".to_owned())
        })
        .await
    };
    let status = tokio::select! {
        nominated = nominate_older(&cluster) => anyhow::bail!("the other candidate ended: {nominated:?}"),
        status = ended => status?,
    };
    let log = cluster.processes().log_tail("only", 200);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("released the lease"), "{log}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_controller_elects_the_standby_after_the_leader_was_killed() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut fleet = fleet(&cluster)?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("first", Some(&config))?;
    let before = holder_after(&cluster, "").await?;
    wait_until_leading(&fleet, "first").await?;
    fleet.start_coordinator("second", Some(&config))?;
    wait_until("the standby to be a candidate", PATIENCE, async || {
        let list = candidates(&cluster).list(&kube::api::ListParams::default()).await;
        let count = list.map_err(|error| error.to_string())?.items.len();
        if count == 2 { Ok(()) } else { Err(format!("{count} candidates")) }
    })
    .await?;
    cluster.processes().signal("first", "KILL")?;
    holder_after(&cluster, &before).await?;
    wait_until_leading(&fleet, "second").await?;
    cluster.create_pods([pod("second", "flotilla", &[("cpu", "100m")])]).await?;
    wait_until_running(&cluster, "second", 1).await?;
    Ok(())
}
