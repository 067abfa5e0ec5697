//! A coordinator needs exactly the permissions in `deploy/base/rbac.yaml`.

use std::fs;

use anyhow::Context as _;
use flotilla_control_plane::{AuditLevel, Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    census::{forbidden, refusals},
    certificates::{AUTHORITY_SECRET, WORKER_SECRET, mount_secret, wait_for_secret},
    coscheduling,
    deployed::{self, COORDINATOR, LEASE, grant, kubeconfig_of, kubectl},
    extender::Extender,
    fleet::{Fleet, PATIENCE, Transport, profile, wait_for_event, wait_until_refused, wait_until_running},
    rights::{done, given, unused},
};
use flotilla_transport::{AUTHORITY_LIFE_S, Authority, Role, now_s};
use futures::FutureExt as _;
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod, Secret},
    resource::v1::ResourceClaim,
};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{from_value, json};

/// Enables pod groups, so that their permissions are needed.
const GATE: &str = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true";

/// A claim of an existing volume, one of a volume to provision, a priority class, a group of two, and a shared device.
const OBJECTS: &str = "\
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
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors: [{cel: {expression: \"device.driver == 'gpu.example.com'\"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-gpu}
spec:
  driver: gpu.example.com
  nodeName: node
  pool: {name: node, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}, {name: gpu-2}]
";

/// Configuration of an extender that accepts all nodes, for pods that request a licence.
const EXTENDER: &str = "\
extenders:
- urlPrefix: URL
  filterVerb: filter
  nodeCacheCapable: true
  managedResources:
  - {name: example.com/licence, ignoredByScheduler: true}
";

/// The profile with the plugin that reads PodGroups of scheduler-plugins.
const COSCHEDULING: &str = "- schedulerName: flotilla\n  plugins: {permit: {enabled: [{name: Coscheduling}]}}";

fn user(name: &str, claim: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[]);
    let volume = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }]);
    pod.spec.get_or_insert_default().volumes = Some(from_value(volume)?);
    Ok(pod)
}

fn member(name: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[("cpu", "50m")]);
    pod.spec.get_or_insert_default().scheduling_group = Some(from_value(json!({ "podGroupName": "gang" }))?);
    Ok(pod)
}

fn licensed(name: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[]);
    let container = pod.spec.as_mut().and_then(|spec| spec.containers.first_mut()).context("a container")?;
    container.resources = Some(from_value(json!({ "limits": { "example.com/licence": "1" } }))?);
    Ok(pod)
}

fn sharer(name: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[]);
    let claim = json!([{ "name": "gpu", "resourceClaimName": "gpu" }]);
    pod.spec.get_or_insert_default().resource_claims = Some(from_value(claim)?);
    Ok(pod)
}

/// Applies `deploy/` as users do. Its pods do not run; the test's processes replace them.
async fn deployment() -> anyhow::Result<ControlPlane> {
    let mut options = Options::default().with_audit(AuditLevel::Metadata);
    let serves = vec![
        GATE.to_owned(),
        "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true".to_owned(),
    ];
    options.extra_args.insert(Component::ApiServer, serves);
    let cluster = ControlPlane::start(options).await?;
    cluster.add_nodes([NodeBuilder::new("node").capacity("cpu", "1")]).await?;
    kubectl(&cluster, &["apply", "-k", &deployed::path("overlays/second-scheduler").display().to_string()])?;
    let file = cluster.folder().join("objects.yaml");
    fs::write(&file, OBJECTS)?;
    kubectl(&cluster, &["apply", "-f", &file.display().to_string()])?;
    coscheduling::install(&cluster).await?;
    coscheduling::create_group(&cluster, "gang", json!({ "minMember": 1 })).await?;
    Ok(cluster)
}

/// Stores an authority at two thirds of its lifetime, which a coordinator has to replace.
async fn leave_an_old_authority(cluster: &ControlPlane) -> anyhow::Result<()> {
    let old = Authority::make(now_s() - AUTHORITY_LIFE_S * 3 / 4)?;
    let secret = json!({
        "metadata": { "name": AUTHORITY_SECRET, "labels": { "app.kubernetes.io/managed-by": "flotilla-coordinator" } },
        "stringData": { "tls.crt": old.certificate(), "tls.key": old.key(), "ca.crt": old.certificate() },
    });
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "flotilla");
    secrets.create(&PostParams::default(), &from_value(secret)?).await?;
    Ok(())
}

/// Starts a coordinator as the service account with a real token, and a standby that discovers its workers by the Service. The worker's
/// certificate is from the Secret that the first one writes.
async fn start<'a>(cluster: &'a ControlPlane, extender: &Extender) -> anyhow::Result<(Fleet<'a>, Fleet<'a>)> {
    let fleet = || -> anyhow::Result<Fleet<'a>> {
        let as_account = Fleet::new(cluster).speaking_as(kubeconfig_of(cluster, "flotilla-coordinator")?);
        Ok(as_account.over(Transport::OwnAuthority).with_args([GATE.to_owned()]))
    };
    let (mut fleet, mut standby) = (fleet()?, fleet()?);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let extenders = EXTENDER.replace("URL", &format!("http://{}", extender.address()));
    let text = fs::read_to_string(deployed::path("base/config.yaml"))?;
    let text = text.replace("- schedulerName: flotilla", COSCHEDULING);
    let config = fleet.config(&(text + &extenders))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    let secret = wait_for_secret(cluster, "flotilla", WORKER_SECRET, |_| true).await?;
    mount_secret(&secret, &fleet.certificates(Role::Worker))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    standby.start_coordinator("standby", Some(&config))?;
    Ok((fleet, standby))
}

/// A modified Secret is written again.
async fn mend_a_secret(cluster: &ControlPlane) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "flotilla");
    let spoilt = json!({ "stringData": { "ca.crt": "none" } });
    secrets.patch(WORKER_SECRET, &PatchParams::default(), &Patch::Merge(spoilt)).await?;
    let mended = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data["ca.crt"].0.starts_with(b"-----BEGIN"));
    wait_for_secret(cluster, "flotilla", WORKER_SECRET, mended).await?;
    Ok(())
}

async fn place_with_volumes(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.create_pods([user("with-disk", "disk")?, user("waits", "made")?]).await?;
    wait_until_running(cluster, "with-disk", 1).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    wait_until("the provisioner to be told a node", PATIENCE, async || {
        let claim = claims.get("made").await.map_err(|error| error.to_string())?;
        let node = claim.annotations().get("volume.kubernetes.io/selected-node").cloned();
        node.ok_or_else(|| "it was not".to_owned())
    })
    .await?;
    Ok(())
}

async fn preempt(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.create_pods([pod("low", "flotilla", &[("cpu", "800m")])]).await?;
    wait_until_running(cluster, "low", 1).await?;
    let mut high = pod("high", "flotilla", &[("cpu", "800m")]);
    high.spec.get_or_insert_default().priority_class_name = Some("high".to_owned());
    cluster.create_pods([high]).await?;
    wait_until_running(cluster, "high", 1).await?;
    wait_for_event(cluster, "low", "Preempted").await?;
    Ok(())
}

async fn place_a_group(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.create_pods([member("member-0")?, member("member-1")?]).await?;
    wait_until_running(cluster, "member-", 2).await?;
    wait_until("the group to be told", PATIENCE, async || {
        let told = ["get", "podgroups.scheduling.k8s.io", "gang", "--output=jsonpath={.status.conditions[*].status}"];
        let status = kubectl(cluster, &told).map_err(|error| format!("{error:#}"))?;
        if status == "True" { Ok(()) } else { Err(status) }
    })
    .await
}

/// Pods that concurrently reserve one device claim. The API server rejects patches of the first claim because of its parameters.
async fn allocate_devices(cluster: &ControlPlane) -> anyhow::Result<()> {
    let claims: Api<ResourceClaim> = Api::namespaced(cluster.client(), "default");
    let opaque = json!({ "driver": "gpu.example.com", "parameters": { "a": "<" } });
    let requests = json!([{ "name": "gpu", "exactly": { "deviceClassName": "gpu.example.com" } }]);
    let spec = json!({ "devices": { "requests": requests, "config": [{ "opaque": opaque }] } });
    let claim = json!({ "metadata": { "name": "gpu" }, "spec": spec });
    claims.create(&PostParams::default(), &from_value(claim)?).await?;
    cluster.create_pods([sharer("shares")?]).await?;
    wait_until_running(cluster, "shares", 1).await?;
    let sharers: Result<Vec<Pod>, _> = (0..8).map(|index| sharer(&format!("shares-{index}"))).collect();
    cluster.create_pods(sharers?).await?;
    wait_until_running(cluster, "shares-", 8).await?;
    allocate_extended_resources(cluster, &claims).await
}

/// A pod with an extended resource, after deletion of the claim that an earlier attempt has left.
async fn allocate_extended_resources(cluster: &ControlPlane, claims: &Api<ResourceClaim>) -> anyhow::Result<()> {
    const RESOURCE: &str = "deviceclass.resource.kubernetes.io/gpu.example.com";
    let mut extended = pod("extended", "flotilla", &[(RESOURCE, "1")]);
    let spec = extended.spec.get_or_insert_default();
    spec.containers[0].resources.get_or_insert_default().limits = Some(from_value(json!({ RESOURCE: "1" }))?);
    spec.scheduling_gates = Some(from_value(json!([{ "name": "example.com/wait" }]))?);
    let created = cluster.create_pods([extended]).await?;
    let owner = json!({
        "apiVersion": "v1", "kind": "Pod", "name": "extended", "uid": created[0].uid(), "controller": true,
    });
    let left = json!({
        "metadata": {
            "name": "left", "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
            "ownerReferences": [owner],
        },
        "spec": { "devices": { "requests": [
            { "name": "container-0-request-0", "exactly": { "deviceClassName": "gpu.example.com" } },
        ] } },
    });
    claims.create(&PostParams::default(), &from_value(left)?).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let gates = json!({ "spec": { "schedulingGates": null } });
    pods.patch("extended", &PatchParams::default(), &Patch::Merge(gates)).await?;
    wait_until_running(cluster, "extended", 1).await?;
    anyhow::ensure!(claims.get_opt("left").await?.is_none(), "the claim that was left is there");
    Ok(())
}

/// An infeasible pod is evaluated again when a node joins that is too small for all pods but large enough for it. At the second join the
/// message is unchanged, and at the third the pod too, whose condition contains the message. Like client-go, the coordinator then counts
/// the same event instead of creating one.
async fn refuse_again_and_again(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.create_pods([pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    wait_until_refused(cluster, "huge").await?;
    wait_for_event(cluster, "huge", "FailedScheduling").await?;
    for so_often in [2, 3, 4] {
        cluster.add_nodes([NodeBuilder::new("large").capacity("cpu", "200").taint("gpu", "", "NoSchedule")]).await?;
        wait_until("the refusals to be counted", PATIENCE, async || {
            let times = refusals(cluster).await.map_err(|error| format!("{error:#}"))?;
            if times.get("huge") >= Some(&so_often) { Ok(()) } else { Err(format!("{times:?}")) }
        })
        .await?;
        kubectl(cluster, &["delete", "node", "large"])?;
    }
    Ok(())
}

/// Sends SIGTERM to a coordinator, as a kubelet does.
async fn end(cluster: &ControlPlane, coordinator: &str) -> anyhow::Result<()> {
    cluster.processes().signal(coordinator, "TERM")?;
    wait_until(&format!("{coordinator} to end"), PATIENCE, async || {
        cluster.processes().exit_status(coordinator).ok().flatten().ok_or_else(|| "it still runs".to_owned())
    })
    .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_does_all_its_work_is_refused_nothing_and_has_no_right_that_it_does_not_need()
-> anyhow::Result<()> {
    let cluster = deployment().await?;
    let yes = |_, question: serde_json::Value| async move { json!({ "NodeNames": question["NodeNames"] }) }.boxed();
    let extender = Extender::start(std::sync::Arc::new(yes)).await?;
    leave_an_old_authority(&cluster).await?;
    let (fleet, standby) = start(&cluster, &extender).await?;
    mend_a_secret(&cluster).await?;
    cluster.create_pods([pod("fits", "flotilla", &[]), licensed("licensed")?]).await?;
    wait_until_running(&cluster, "fits", 1).await?;
    wait_for_event(&cluster, "fits", "Scheduled").await?;
    wait_until_running(&cluster, "licensed", 1).await?;
    place_with_volumes(&cluster).await?;
    preempt(&cluster).await?;
    refuse_again_and_again(&cluster).await?;
    place_a_group(&cluster).await?;
    allocate_devices(&cluster).await?;
    let reader = kubectl(&cluster, &["create", "token", "--namespace=flotilla", "flotilla-reader"])?;
    let reader = [("authorization", format!("Bearer {reader}"))];
    assert_eq!(fleet.get_with("coordinator", "/configz", &reader).await?.0, 200);

    end(&cluster, "coordinator").await?;
    wait_until("the standby to lead and to look for workers", PATIENCE, async || {
        let leads = standby.metric("standby", "flotilla_leading").await.map_err(|error| format!("{error:#}"))?;
        let log = cluster.log("standby").map_err(|error| format!("{error:#}"))?;
        let looks = log.contains("watching EndpointSlices for workers");
        if leads == Some(1.0) && looks { Ok(()) } else { Err(format!("{leads:?}, {looks}")) }
    })
    .await?;
    let rights = given(&deployed::path("base/rbac.yaml"), "flotilla-coordinator")?;
    wait_until("every right to be used", PATIENCE, async || {
        let done = done(&cluster, COORDINATOR).map_err(|error| format!("{error:#}"))?;
        let unused = unused(&rights, &done);
        if unused.is_empty() { Ok(()) } else { Err(format!("not needed: {unused:#?}")) }
    })
    .await?;
    // Bound roles from elsewhere: readers of the endpoints, and signers of certificates.
    let done: Vec<String> = done(&cluster, COORDINATOR)?.iter().map(ToString::to_string).collect();
    for deed in [
        "create tokenreviews.authentication.k8s.io */*",
        "create subjectaccessreviews.authorization.k8s.io */*",
        "get configmaps. kube-system/extension-apiserver-authentication",
    ] {
        assert!(done.iter().any(|done| done == deed), "not needed: {deed}\n{done:#?}");
    }
    end(&cluster, "standby").await?;
    assert_eq!(forbidden(&cluster, COORDINATOR)?, Vec::<String>::new());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn in_kube_schedulers_place_a_coordinator_leads_by_its_lease_and_is_refused_nothing() -> anyhow::Result<()> {
    for overlay in ["default-scheduler", "static-pod"] {
        let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Metadata)).await?;
        cluster.add_nodes([NodeBuilder::new("node")]).await?;
        kubectl(&cluster, &["apply", "-k", &deployed::path(&format!("overlays/{overlay}")).display().to_string()])?;
        let (user, kubeconfig) = match overlay {
            // User of the kubeconfig on control plane nodes.
            "static-pod" => ("system:kube-scheduler", cluster.kubeconfig_for("system:kube-scheduler", None)?),
            _ => (COORDINATOR, kubeconfig_of(&cluster, "flotilla-coordinator")?),
        };
        let fleet = Fleet::new(&cluster).speaking_as(kubeconfig).over(Transport::OwnAuthority);
        let mut fleet = fleet.with_args(["--worker-namespace=flotilla".to_owned()]);
        fleet.reserve("worker-0")?;
        fleet.start_worker("worker-0")?;
        let config = fs::read_to_string(deployed::path(&format!("overlays/{overlay}/config.yaml")))?;
        let config = fleet.config(&config)?;
        fleet.start_coordinator("coordinator", Some(&config))?;
        let secret = wait_for_secret(&cluster, "flotilla", WORKER_SECRET, |_| true).await?;
        mount_secret(&secret, &fleet.certificates(Role::Worker))?;
        fleet.wait_for_workers("coordinator", 1).await?;
        cluster.create_pods([pod("fits", "default-scheduler", &[])]).await?;
        wait_until_running(&cluster, "fits", 1).await?;
        wait_for_event(&cluster, "fits", "Scheduled").await?;
        let holder =
            ["get", "lease", "kube-scheduler", "--namespace=kube-system", "--output=jsonpath={.spec.holderIdentity}"];
        assert_ne!(kubectl(&cluster, &holder)?, "", "{overlay}: no process holds kube-scheduler's Lease");
        end(&cluster, "coordinator").await?;
        assert_eq!(forbidden(&cluster, user)?, Vec::<String>::new(), "{overlay}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_those_rights_the_coordinator_says_which_it_lacks() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    let mut fleet =
        Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(COORDINATOR, None)?).with_args([LEASE.to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_coordinator("coordinator", None)?;
    let says = async |words: &[&str]| {
        wait_until("the log to name the missing right", PATIENCE, async || {
            let log = cluster.log("coordinator").map_err(|error| format!("{error:#}"))?;
            if words.iter().all(|word| log.contains(word)) { Ok(()) } else { Err(log) }
        })
        .await
    };
    says(&["nodes is forbidden", "pods is forbidden", "grant list and watch on it"]).await?;
    // A coordinator without permissions for scheduling requests no Lease.
    grant(&cluster)?;
    kubectl(&cluster, &["delete", "role", "flotilla-coordinator", "--namespace=flotilla"])?;
    says(&["grant get, create, update and watch on leases.coordination.k8s.io"]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_right_to_services_no_pod_is_judged_until_it_is_granted() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    grant(&cluster)?;
    let older = r#"[
        {"op": "test", "path": "/rules/2/resources/1", "value": "services"},
        {"op": "remove", "path": "/rules/2/resources/1"}
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
