//! The rights that `deploy/base/rbac.yaml` gives are all that a coordinator needs.

use std::fs;

use flotilla_control_plane::{AuditLevel, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::forbidden,
    certificates::{WORKER_SECRET, mount_secret, wait_for_secret},
    deployed::{COORDINATOR, LEASE, grant, kubectl},
    fleet::{Fleet, PATIENCE, Transport, profile, wait_for_event, wait_until_refused, wait_until_running},
};
use flotilla_transport::Role;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{from_value, json};

/// A claim for a volume that is there, and one for a volume that nobody makes; and a priority.
const CLAIMS: &str = "\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {storageClassName: local, capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /disk}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: made}
spec: {storageClassName: made, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

/// A pod that uses a claim.
fn user(name: &str, claim: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[]);
    let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    pod.spec.get_or_insert_default().volumes = Some(from_value(volume)?);
    Ok(pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_with_no_other_rights_leads_places_refuses_and_reports() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Metadata)).await?;
    cluster.add_nodes([NodeBuilder::new("node").capacity("cpu", "1")]).await?;
    grant(&cluster)?;

    let fleet = Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(COORDINATOR, None)?);
    let mut fleet =
        fleet.over(Transport::OwnAuthority).with_args([LEASE.to_owned(), "--worker-namespace=flotilla".to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    let secret = wait_for_secret(&cluster, "flotilla", WORKER_SECRET, |_| true).await?;
    mount_secret(&secret, &fleet.certificates(Role::Worker))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    // Once more, over what it has written: an update.
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "flotilla");
    let spoilt = json!({ "stringData": { "ca.crt": "none" } });
    secrets.patch(WORKER_SECRET, &PatchParams::default(), &Patch::Merge(spoilt)).await?;
    let mended = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data["ca.crt"].0.starts_with(b"-----BEGIN"));
    wait_for_secret(&cluster, "flotilla", WORKER_SECRET, mended).await?;
    cluster.create_pods([pod("fits", "flotilla", &[]), pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    wait_until_running(&cluster, "fits", 1).await?;
    let file = cluster.folder().join("claims.yaml");
    fs::write(&file, CLAIMS)?;
    kubectl(&cluster, &["apply", "-f", &file.display().to_string()])?;
    cluster.create_pods([user("with-disk", "disk")?, user("waits", "made")?]).await?;
    wait_until_running(&cluster, "with-disk", 1).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    wait_until("the provisioner to be told a node", PATIENCE, async || {
        let claim = claims.get("made").await.map_err(|error| error.to_string())?;
        let node = claim.annotations().get("volume.kubernetes.io/selected-node").cloned();
        node.ok_or_else(|| "it was not".to_owned())
    })
    .await?;
    cluster.create_pods([pod("low", "flotilla", &[("cpu", "800m")])]).await?;
    wait_until_running(&cluster, "low", 1).await?;
    let mut high = pod("high", "flotilla", &[("cpu", "800m")]);
    high.spec.get_or_insert_default().priority_class_name = Some("high".to_owned());
    cluster.create_pods([high]).await?;
    wait_until_running(&cluster, "high", 1).await?;
    wait_for_event(&cluster, "low", "Preempted").await?;
    wait_until_refused(&cluster, "huge").await?;
    wait_for_event(&cluster, "fits", "Scheduled").await?;
    wait_for_event(&cluster, "huge", "FailedScheduling").await?;
    cluster.processes().signal("coordinator", "TERM")?;
    wait_until("the coordinator to end", PATIENCE, async || {
        cluster.processes().exit_status("coordinator").ok().flatten().ok_or_else(|| "it still runs".to_owned())
    })
    .await?;
    assert_eq!(forbidden(&cluster, COORDINATOR)?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_those_rights_the_coordinator_says_which_it_lacks() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    let mut fleet =
        Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(COORDINATOR, None)?).with_args([LEASE.to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_coordinator("coordinator", None)?;
    wait_until("the log to name the missing right", PATIENCE, async || {
        let log = cluster.log("coordinator").map_err(|error| format!("{error:#}"))?;
        if log.contains("grant get, create, update and watch on leases.coordination.k8s.io") {
            Ok(())
        } else {
            Err(log)
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_services_no_pod_is_judged_until_it_is_granted() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    grant(&cluster)?;
    let older = r#"[
        {"op": "test", "path": "/rules/1/resources/1", "value": "services"},
        {"op": "remove", "path": "/rules/1/resources/1"}
    ]"#;
    kubectl(&cluster, &["patch", "clusterrole", "flotilla-coordinator", "--type=json", "--patch", older])?;
    let mut fleet =
        Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(COORDINATOR, None)?).with_args([LEASE.to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    cluster.create_pods([pod("fits", "flotilla", &[])]).await?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    wait_until("the log to name the missing right", PATIENCE, async || {
        let log = cluster.log("coordinator").map_err(|error| format!("{error:#}"))?;
        let told = log.contains("services is forbidden") && log.contains("as deploy/base/rbac.yaml does");
        if told && log.contains("what=\"statefulsets\"") { Ok(()) } else { Err(log) }
    })
    .await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_synced").await?, Some(0.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_decisions_total").await?, Some(0.0));
    grant(&cluster)?;
    wait_until_running(&cluster, "fits", 1).await?;
    Ok(())
}
