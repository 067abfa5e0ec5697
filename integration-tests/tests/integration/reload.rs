//! Configuration reload after an update like the kubelet's of a mounted ConfigMap.

use std::{fs, os::unix::fs::symlink, path::Path};

use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, phase, pods, profile, wait_until_running};
use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::Value;

/// Updates the mount as the kubelet does: a new folder, and a rename of the link that readers follow.
fn mount(folder: &Path, version: &str, text: &str) -> anyhow::Result<()> {
    fs::create_dir_all(folder.join(version))?;
    fs::write(folder.join(version).join("config.yaml"), text)?;
    symlink(version, folder.join("..data_tmp"))?;
    fs::rename(folder.join("..data_tmp"), folder.join("..data"))?;
    if !folder.join("config.yaml").is_symlink() {
        symlink("..data/config.yaml", folder.join("config.yaml"))?;
    }
    Ok(())
}

async fn shown(fleet: &Fleet<'_>) -> anyhow::Result<Value> {
    let page: Value = serde_json::from_str(&fleet.get("coordinator", "/configz").await?)?;
    Ok(page["componentconfig"]["flotilla"].clone())
}

async fn wait_until_shown(fleet: &Fleet<'_>, what: &str, holds: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
    wait_until(what, PATIENCE, async || {
        let shown = shown(fleet).await.map_err(|error| format!("{error:#}"))?;
        if holds(&shown) { Ok(()) } else { Err(format!("/configz shows {shown}")) }
    })
    .await
}

/// Waits for an event of the Lease, and returns its note.
async fn wait_for_word(cluster: &ControlPlane, reason: &str) -> anyhow::Result<String> {
    let api: Api<Event> = Api::namespaced(cluster.client(), "kube-system");
    let about = ListParams::default().fields(&format!("regarding.kind=Lease,regarding.name=flotilla,reason={reason}"));
    wait_until(&format!("an event {reason} about the Lease"), PATIENCE, async || {
        let events = api.list(&about).await.map_err(|error| error.to_string())?.items;
        let known = |event: &&Event| event.regarding.as_ref().is_some_and(|regarding| regarding.uid.is_some());
        let note = events.iter().find(known).and_then(|event| event.note.clone());
        note.ok_or_else(|| format!("{} of them know the Lease's UID", events.len()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_configuration_is_a_new_generation_and_a_bad_one_changes_nothing() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node-1"), NodeBuilder::new("node-2")]).await?;
    let folder = cluster.folder().join("mounted");
    mount(&folder, "v1", &profile("flotilla"))?;
    let mut fleet = Fleet::new(&cluster);
    for name in ["worker-0", "worker-1"] {
        fleet.reserve(name)?;
        fleet.start_worker(name)?;
    }
    fleet.start_coordinator("coordinator", Some(&folder.join("config.yaml")))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    cluster.create_pods([pod("first", "flotilla", &[]), pod("second", "another", &[])]).await?;
    wait_until_running(&cluster, "first", 1).await?;
    wait_until_shown(&fleet, "the first generation", |shown| shown["generation"] == 1 && shown["acknowledgedBy"] == 2)
        .await?;

    let both = format!("{}- schedulerName: another\n", profile("flotilla"));
    mount(&folder, "v2", &both)?;
    wait_until_running(&cluster, "second", 1).await?;
    wait_until_shown(&fleet, "the second generation", |shown| shown["generation"] == 2 && shown["acknowledgedBy"] == 2)
        .await?;
    let note = wait_for_word(&cluster, "ConfigurationReloaded").await?;
    assert_eq!(note, "generation 2 with the profiles flotilla, another");

    mount(&folder, "v3", &both.replace("another", "another\n  paralelism: 3"))?;
    let word = "profiles[1].paralelism: found an unknown field";
    wait_until_shown(&fleet, "the refusal", |shown| {
        shown["refused"].as_str().is_some_and(|why| why.contains(word)) && shown["generation"] == 2
    })
    .await?;
    let note = wait_for_word(&cluster, "ConfigurationRefused").await?;
    assert!(note.starts_with("generation 2 stays active: ") && note.contains(word), "{note}");
    assert_eq!(fleet.metric("coordinator", "flotilla_configuration_last_reload_successful").await?, Some(0.0));
    let log = cluster.processes().log_tail("coordinator", 200);
    assert!(
        log.contains("the changed configuration is invalid; generation") && log.contains("config.yaml:6:3"),
        "{log}"
    );
    cluster.create_pods([pod("third", "another", &[])]).await?;
    wait_until_running(&cluster, "third", 1).await?;

    mount(&folder, "v4", &profile("flotilla"))?;
    wait_until_shown(&fleet, "the third generation", |shown| {
        shown["generation"] == 3 && shown["acknowledgedBy"] == 2 && shown["refused"].is_null()
    })
    .await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_configuration_last_reload_successful").await?, Some(1.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_configuration_generation").await?, Some(3.0));
    cluster.create_pods([pod("fourth", "another", &[]), pod("fifth", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "fifth", 1).await?;
    let left = pods(&cluster).await?;
    let fourth = left.iter().find(|pod| pod.metadata.name.as_deref() == Some("fourth"));
    assert_eq!(fourth.map(phase), Some("Pending"), "no scheduler serves the profile any more");
    Ok(())
}
