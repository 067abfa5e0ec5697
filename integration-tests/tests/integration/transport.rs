//! Mutual TLS between coordinators and workers, and failed handshakes.

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    certificates::{AUTHORITY_SECRET, WORKER_SECRET, issue, mount, mount_secret, trusting, wait_for_secret},
    fleet::{Fleet, PATIENCE, Transport, profile, wait_until_running},
};
use flotilla_transport::{Authority, Role, now_s};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt as _};

async fn cluster() -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..4).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    Ok(cluster)
}

async fn wait_for_log(cluster: &ControlPlane, process: &str, words: &[&str]) -> anyhow::Result<()> {
    wait_until(&format!("{process} to log {words:?}"), PATIENCE, async || {
        let log = cluster.log(process).map_err(|error| format!("{error:#}"))?;
        if words.iter().all(|words| log.contains(words)) { Ok(()) } else { Err(log) }
    })
    .await
}

async fn wait_for_failure(fleet: &Fleet<'_>, coordinator: &str, reason: &str) -> anyhow::Result<()> {
    let series = format!("flotilla_worker_handshake_failures_total{{reason=\"{reason}\"}} ");
    wait_until(&format!("a handshake that failed: {reason}"), PATIENCE, async || {
        let page = fleet.get(coordinator, "/metrics").await.map_err(|error| format!("{error:#}"))?;
        let count = page.lines().find_map(|line| line.strip_prefix(&series)).unwrap_or("0");
        if count == "0" { Err(page) } else { Ok(()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_replaced_while_pods_are_placed_and_no_process_is_started_again() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut fleet = Fleet::new(&cluster);
    let folders = [Role::Coordinator, Role::Worker].map(|role| (role, fleet.certificates(role)));
    let old = issue(&folders)?;
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    cluster.create_pods((0..20).map(|index| pod(&format!("before-{index}"), "flotilla", &[]))).await?;
    wait_until_running(&cluster, "before-", 20).await?;

    let new = Authority::make(now_s())?;
    let steps = [(&old, vec![&new, &old]), (&new, vec![&new, &old]), (&new, vec![&new])];
    for (step, (signer, trusted)) in (1..).zip(steps) {
        for (role, folder) in &folders {
            mount(folder, &trusting(signer.issue(*role, now_s())?, &trusted))?;
        }
        cluster.create_pods((0..20).map(|index| pod(&format!("step-{step}-{index}"), "flotilla", &[]))).await?;
        wait_until_running(&cluster, &format!("step-{step}-"), 20).await?;
        wait_until("all to take up the certificate", PATIENCE, async || {
            let counts = ["coordinator", "worker-0", "worker-1"]
                .map(|process| cluster.log(process).unwrap_or_default().matches("certificate loaded").count());
            if counts.iter().all(|count| *count > step) { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await?;
    }
    // Connections of the old authority are replaced by those of the new one.
    wait_until("both workers to be attached once more", PATIENCE, async || {
        let log = cluster.log("coordinator").map_err(|error| format!("{error:#}"))?;
        if log.matches("attached to a worker").count() >= 4 { Ok(()) } else { Err(log) }
    })
    .await?;
    fleet.wait_for_workers("coordinator", 2).await?;
    cluster.create_pods((0..20).map(|index| pod(&format!("after-{index}"), "flotilla", &[]))).await?;
    wait_until_running(&cluster, "after-", 20).await?;
    assert!(cluster.processes().exit_status("coordinator")?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_of_another_authority_or_role_is_refused_and_pods_are_placed_without_them() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut fleet = Fleet::new(&cluster);
    let folders = [Role::Coordinator, Role::Worker].map(|role| (role, fleet.certificates(role)));
    let ours = issue(&folders)?;
    let strange = Authority::make(now_s())?;
    mount(&fleet.certificates(Role::Worker), &trusting(strange.issue(Role::Worker, now_s())?, &[&ours]))?;
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    wait_for_failure(&fleet, "coordinator", "untrusted").await?;
    wait_for_log(&cluster, "coordinator", &["no authority in our ca.crt signed its certificate"]).await?;
    cluster.create_pods([pod("alone", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "alone", 1).await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_workers").await?, Some(0.0));

    // The worker is trusted from now on, and does not trust the coordinator.
    mount(&fleet.certificates(Role::Worker), &trusting(ours.issue(Role::Worker, now_s())?, &[&strange]))?;
    wait_for_failure(&fleet, "coordinator", "refused").await?;
    wait_for_log(&cluster, "worker-0", &["a TLS handshake failed", "no authority in our ca.crt"]).await?;

    mount(&fleet.certificates(Role::Worker), &ours.issue(Role::Worker, now_s())?)?;
    fleet.wait_for_workers("coordinator", 1).await?;

    // A worker's certificate is not valid for a coordinator.
    mount(&fleet.certificates(Role::Coordinator), &ours.issue(Role::Worker, now_s())?)?;
    let refused = "tls.crt cannot be used here: it is a worker's, and a coordinator's is needed";
    wait_for_log(&cluster, "coordinator", &[refused, "keeping the previous certificate"]).await?;
    fleet.start_coordinator("impostor", Some(&config))?;
    wait_for_log(&cluster, "impostor", &[refused, "waiting for a certificate"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_files_the_leader_issues_certificates_and_the_next_one_goes_on_with_them() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut fleet = Fleet::new(&cluster).over(Transport::OwnAuthority);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    wait_for_log(&cluster, "worker-0", &["waiting for a certificate", "mount a Secret with tls.crt"]).await?;
    let config = fleet.config(&profile("flotilla"))?;
    for name in ["first", "second"] {
        fleet.start_coordinator(name, Some(&config))?;
    }
    let kept = wait_for_secret(&cluster, "default", AUTHORITY_SECRET, |_| true).await?;
    let secret = wait_for_secret(&cluster, "default", WORKER_SECRET, |_| true).await?;
    mount_secret(&secret, &fleet.certificates(Role::Worker))?;
    let leader = wait_until("one of the two to have the worker", PATIENCE, async || {
        for name in ["first", "second"] {
            if let Ok(Some(1.0)) = fleet.metric(name, "flotilla_workers_ready").await {
                return Ok(name);
            }
        }
        Err("neither has".to_owned())
    })
    .await?;
    let standby = if leader == "first" { "second" } else { "first" };
    cluster.create_pods([pod("by-the-first", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "by-the-first", 1).await?;

    cluster.processes().kill(leader)?;
    fleet.wait_for_workers(standby, 1).await?;
    let found = wait_for_secret(&cluster, "default", AUTHORITY_SECRET, |_| true).await?;
    assert_eq!(found.resource_version(), kept.resource_version(), "the next leader has adopted it");

    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "default");
    secrets.delete(AUTHORITY_SECRET, &Default::default()).await?;
    wait_for_secret(&cluster, "default", AUTHORITY_SECRET, |made| made.uid() != kept.uid()).await?;
    let before = secret.resource_version();
    let secret =
        wait_for_secret(&cluster, "default", WORKER_SECRET, |written| written.resource_version() != before).await?;
    mount_secret(&secret, &fleet.certificates(Role::Worker))?;
    let ends = fleet.get(standby, "/metrics").await?;
    for whose in ["authority", "coordinator"] {
        let series = format!("flotilla_worker_certificate_not_after_seconds{{certificate=\"{whose}\"}} ");
        let end = ends.lines().find_map(|line| line.strip_prefix(&series)).and_then(|end| end.parse::<i64>().ok());
        assert!(end.is_some_and(|end| end > now_s()), "{series}{end:?}");
    }
    wait_for_log(&cluster, standby, &["the authority of the peer's certificate is not trusted any more"]).await?;
    wait_for_log(&cluster, "worker-0", &["leader attached", "not_after_s"]).await?;
    fleet.wait_for_workers(standby, 1).await?;
    cluster.create_pods([pod("by-the-second", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "by-the-second", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_owner_is_not_changed() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut secret = Secret::default();
    secret.metadata.name = Some(AUTHORITY_SECRET.to_owned());
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "default");
    let theirs = secrets.create(&Default::default(), &secret).await?;
    let mut fleet = Fleet::new(&cluster).over(Transport::OwnAuthority);
    fleet.start_coordinator("coordinator", Some(&fleet.config(&profile("flotilla"))?))?;
    wait_for_log(&cluster, "coordinator", &["it has another owner and is not changed; delete it"]).await?;
    let found = wait_for_secret(&cluster, "default", AUTHORITY_SECRET, |_| true).await?;
    assert_eq!(found.resource_version(), theirs.resource_version());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plaintext_is_spoken_where_both_were_told_and_said_once() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let fleet = Fleet::new(&cluster).over(Transport::Plaintext).up("flotilla", 1).await?;
    cluster.create_pods([pod("plain", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "plain", 1).await?;
    for process in ["coordinator", "worker-0"] {
        let log = cluster.log(process)?;
        let warnings = log.lines().filter(|line| line.contains("WARN") && line.contains("--insecure-worker-transport"));
        assert_eq!(warnings.count(), 1, "{log}");
    }
    assert!(!fleet.get("coordinator", "/metrics").await?.contains("flotilla_worker_handshake_failures"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_speaks_plaintext_to_the_other_is_told_so() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let mut plain = Fleet::new(&cluster).over(Transport::Plaintext);
    plain.reserve("worker-0")?;
    plain.start_worker("worker-0")?;
    let mut fleet = Fleet::new(&cluster).beside(&plain);
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    wait_for_failure(&fleet, "coordinator", "plaintext").await?;
    wait_for_log(&cluster, "coordinator", &["it does not speak TLS"]).await
}
