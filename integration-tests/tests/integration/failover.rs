//! A standby takes over after a leader's termination or kill.

use flotilla_control_plane::{AuditLevel, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::{bindings, longest_pause},
    fleet::{Fleet, PATIENCE, pods, profile, wait_until_running},
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

async fn two_coordinators(cluster: &ControlPlane) -> anyhow::Result<Fleet<'_>> {
    cluster.add_nodes((0..10).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    let mut fleet = Fleet::new(cluster);
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("first", Some(&config))?;
    fleet.wait_for_workers("first", 2).await?;
    fleet.start_coordinator("second", Some(&config))?;
    wait_until("the standby to be ready", PATIENCE, async || {
        let nodes = fleet.metric("second", "flotilla_nodes").await;
        if matches!(nodes, Ok(Some(10.0))) { Ok(()) } else { Err(format!("it knows {nodes:?} nodes")) }
    })
    .await?;
    assert_eq!(fleet.metric("second", "flotilla_leading").await?, Some(0.0));
    Ok(fleet)
}

async fn holder(cluster: &ControlPlane) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "kube-system");
    let lease = leases.get("flotilla").await?;
    Ok(lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default())
}

async fn the_standby_goes_on_after(signal: &str) -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Metadata)).await?;
    let fleet = two_coordinators(&cluster).await?;
    let before = holder(&cluster).await?;
    let creating =
        cluster.create_pods((0..200).map(|index| pod(&format!("pod-{index}"), "flotilla", &[("cpu", "100m")])));
    let ending = async {
        wait_until("some pods to exist", PATIENCE, async || {
            let count = pods(&cluster).await.map_err(|error| format!("{error:#}"))?.len();
            if count >= 40 { Ok(()) } else { Err(format!("{count} do")) }
        })
        .await?;
        cluster.processes().signal("first", signal)
    };
    let (created, ended) = tokio::join!(creating, ending);
    created?;
    ended?;
    wait_until_running(&cluster, "pod-", 200).await?;
    fleet.wait_for_workers("second", 2).await?;
    let after = holder(&cluster).await?;
    assert!(!after.is_empty() && after != before, "the Lease is held by {after:?}, before by {before:?}");
    let taken = bindings(&cluster)?;
    // The log may lack the results of a killed leader's requests in flight.
    assert!(taken.len() == 200 || signal == "KILL", "{} pods were bound", taken.len());
    assert!(taken.values().all(|times| *times == 1), "bound twice: {taken:?}");
    println!("SIG{signal}: the longest pause between two bindings was {} ms", longest_pause(&cluster)?.as_millis());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_goes_on_after_the_leader_was_asked_to_stop() -> anyhow::Result<()> {
    the_standby_goes_on_after("TERM").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standby_goes_on_after_the_leader_was_killed() -> anyhow::Result<()> {
    the_standby_goes_on_after("KILL").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_stop_gives_the_lease_back_and_ends_well() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("only", Some(&config))?;
    fleet.wait_for_workers("only", 1).await?;
    cluster.processes().signal("only", "TERM")?;
    let status = wait_until("the coordinator to end", PATIENCE, async || {
        cluster.processes().exit_status("only").ok().flatten().ok_or_else(|| "it still runs".to_owned())
    })
    .await?;
    assert_eq!(status.code(), Some(0), "{}", cluster.processes().log_tail("only", 30));
    assert_eq!(holder(&cluster).await?, "");
    Ok(())
}
