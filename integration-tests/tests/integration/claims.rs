//! Pods get their claimed devices, on a cluster with controllers that create claims from templates.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::{Component, ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{
    Fleet, PATIENCE, node_of, pods, profile, wait_for_event, wait_until_refused, wait_until_running,
};
use k8s_openapi::api::{
    core::v1::{Node, Pod, PodSchedulingGroup},
    resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice},
    scheduling::v1beta1::PodGroup,
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, from_value, json};

const GPU: &str = "gpu.example.com";
const NIC: &str = "nic.example.com";
const SCHEDULERS: [&str; 2] = ["default-scheduler", "flotilla"];

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    Ok(api.create(&PostParams::default(), &from_value(object)?).await?)
}

fn claims(cluster: &ControlPlane) -> Api<ResourceClaim> {
    Api::namespaced(cluster.client(), "default")
}

fn slice(driver: &str, node: &str, devices: &[Value]) -> Value {
    json!({
        "metadata": { "name": format!("{node}-{driver}") },
        "spec": {
            "driver": driver, "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
        },
    })
}

fn gpu(index: u32) -> Value {
    json!({
        "name": format!("gpu-{index}"),
        "attributes": { "index": { "int": index }, "numa": { "int": index / 2 } },
        "capacity": { "memory": { "value": if index < 2 { "40Gi" } else { "80Gi" } } },
    })
}

fn nic() -> Value {
    let range = json!({ "min": "1G", "max": "10G", "step": "1G" });
    json!({
        "name": "nic", "allowMultipleAllocations": true,
        "capacity": { "bandwidth": { "value": "10G", "requestPolicy": { "default": "1G", "validRange": range } } },
    })
}

/// A cluster of nodes with GPUs and a network card each, both device classes, and a template for one GPU.
async fn cluster(options: Options, nodes: usize, gpus: u32) -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(options).await?;
    let names: Vec<String> = (0..nodes).map(|index| format!("node-{index}")).collect();
    cluster.add_nodes(names.iter().map(NodeBuilder::new)).await?;
    let classes = [GPU, NIC].map(|driver| {
        let selectors = json!([{ "cel": { "expression": format!("device.driver == '{driver}'") } }]);
        let config = json!([{ "opaque": { "driver": driver, "parameters": { "mode": null, "of": driver } } }]);
        json!({
            "metadata": { "name": driver },
            "spec": { "selectors": selectors, "config": config },
        })
    });
    for class in classes {
        create::<DeviceClass>(&Api::all(cluster.client()), class).await?;
    }
    for node in &names {
        let slices: Api<ResourceSlice> = Api::all(cluster.client());
        create(&slices, slice(GPU, node, &(0..gpus).map(gpu).collect::<Vec<_>>())).await?;
        create(&slices, slice(NIC, node, &[nic()])).await?;
    }
    let template = json!({ "metadata": { "name": "one-gpu" }, "spec": { "spec": asks(&[exactly("gpu", GPU)]) } });
    create::<ResourceClaimTemplate>(&Api::namespaced(cluster.client(), "default"), template).await?;
    Ok(cluster)
}

fn exactly(name: &str, class: &str) -> Value {
    json!({ "name": name, "exactly": { "deviceClassName": class } })
}

fn asks(requests: &[Value]) -> Value {
    json!({ "devices": { "requests": requests } })
}

/// A pod with claims, by name or by template.
fn claiming(name: &str, scheduler: &str, claims: &[Value]) -> anyhow::Result<Pod> {
    let mut pod = pod(name, scheduler, &[("cpu", "10m")]);
    pod.spec.get_or_insert_default().resource_claims = Some(from_value(Value::from(claims.to_vec()))?);
    Ok(pod)
}

fn from_template(name: &str, scheduler: &str) -> anyhow::Result<Pod> {
    claiming(name, scheduler, &[json!({ "name": "gpu", "resourceClaimTemplateName": "one-gpu" })])
}

fn with_claim(name: &str, scheduler: &str, claim: &str) -> anyhow::Result<Pod> {
    claiming(name, scheduler, &[json!({ "name": "own", "resourceClaimName": claim })])
}

/// Exclusively allocated devices by claim.
async fn taken(cluster: &ControlPlane) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut taken = BTreeMap::new();
    for claim in claims(cluster).list(&ListParams::default()).await? {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let results = allocation.and_then(|allocation| allocation.devices.as_ref()?.results.as_ref());
        let own = results.into_iter().flatten().filter(|result| result.share_id.is_none());
        let own: Vec<String> = own.map(|result| [&*result.driver, &*result.pool, &*result.device].join("/")).collect();
        taken.insert(claim.name_any(), own);
    }
    Ok(taken)
}

async fn assert_no_device_is_taken_twice(cluster: &ControlPlane) -> anyhow::Result<()> {
    let taken = taken(cluster).await?;
    let all: Vec<&String> = taken.values().flatten().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{taken:#?}");
    Ok(())
}

/// A running pod's claims are allocated on its node, and reserved for it.
async fn assert_has_its_claims(cluster: &ControlPlane, pod: &Pod) -> anyhow::Result<()> {
    let all = claims(cluster).list(&ListParams::default()).await?;
    let uid = pod.uid().unwrap_or_default();
    let is_for_pod = |claim: &&ResourceClaim| {
        let reserved = claim.status.as_ref().and_then(|status| status.reserved_for.as_ref());
        reserved.into_iter().flatten().any(|consumer| consumer.uid == uid)
    };
    let own: Vec<&ResourceClaim> = all.iter().filter(is_for_pod).collect();
    assert!(!own.is_empty(), "{} has no claim", pod.name_any());
    for claim in own {
        let results =
            claim.status.as_ref().and_then(|status| status.allocation.as_ref()?.devices.as_ref()?.results.as_ref());
        let pools: BTreeSet<&str> = results.into_iter().flatten().map(|result| result.pool.as_str()).collect();
        assert_eq!(pools.into_iter().collect::<Vec<_>>(), [node_of(pod).unwrap_or_default()], "{}", claim.name_any());
        assert!(claim.finalizers().iter().any(|one| one == "resource.kubernetes.io/delete-protection"), "{claim:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_from_templates_get_devices_and_give_them_back() -> anyhow::Result<()> {
    let cluster = cluster(Options::default(), 2, 2).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let first: Result<Vec<Pod>, _> = (0..4).map(|index| from_template(&format!("first-{index}"), "flotilla")).collect();
    cluster.create_pods(first?).await?;
    for pod in wait_until_running(&cluster, "first-", 4).await? {
        assert_has_its_claims(&cluster, &pod).await?;
    }
    assert_no_device_is_taken_twice(&cluster).await?;
    cluster.create_pods([from_template("late", "flotilla")?]).await?;
    let (reason, message) = wait_until_refused(&cluster, "late").await?;
    assert!(reason == "Unschedulable" && message.contains("cannot allocate all claims"), "{reason}: {message}");
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.delete("first-0", &DeleteParams::default().grace_period(0)).await?;
    for pod in wait_until_running(&cluster, "late", 1).await? {
        assert_has_its_claims(&cluster, &pod).await?;
    }
    assert_no_device_is_taken_twice(&cluster).await
}

/// Claims that fit together on one node: shares, alternatives, constraints, a selector.
fn claimed() -> Vec<(&'static str, Value)> {
    let large =
        json!({ "cel": { "expression": format!("device.capacity['{GPU}'].memory.compareTo(quantity('80Gi')) >= 0") } });
    let two =
        json!({ "name": "two", "exactly": { "deviceClassName": GPU, "allocationMode": "ExactCount", "count": 2 } });
    let alike =
        json!({ "devices": { "requests": [two], "constraints": [{ "matchAttribute": format!("{GPU}/numa") }] } });
    // A patch of the claim would rewrite the last parameter, which the API server rejects.
    let parameters = json!({ "b": [1, null], "a": null, "c": "<" });
    let share = |amount: &str| json!({ "name": "nic", "exactly": { "deviceClassName": NIC, "capacity": { "requests": { "bandwidth": amount } } } });
    let configured = json!({ "devices": {
        "requests": [share("2G")], "config": [{ "requests": ["nic"], "opaque": { "driver": NIC, "parameters": parameters } }],
    } });
    let either = json!({ "name": "any", "firstAvailable": [
        { "name": "many", "deviceClassName": GPU, "allocationMode": "ExactCount", "count": 9 }, { "name": "large", "deviceClassName": GPU, "selectors": [large] },
    ] });
    vec![
        ("single", asks(&[exactly("gpu", GPU)])),
        ("alike", alike),
        ("configured", configured),
        ("shared", asks(&[share("7500M")])),
        ("either", asks(&[either])),
    ]
}

/// A claim's allocation without random and time-dependent fields.
async fn allocation_of(cluster: &ControlPlane, name: &str) -> anyhow::Result<Value> {
    let claim = serde_json::to_value(claims(cluster).get(name).await?)?;
    let mut allocation = claim["status"]["allocation"].clone();
    anyhow::ensure!(allocation.is_object(), "{name} is not allocated: {claim}");
    allocation["allocationTimestamp"].take();
    for result in allocation["devices"]["results"].as_array_mut().into_iter().flatten() {
        if result["shareID"].is_string() {
            result["shareID"] = json!("drawn");
        }
    }
    Ok(allocation)
}

/// Allocates the claims one by one with a scheduler, and deletes them.
async fn allocated_by(cluster: &ControlPlane, scheduler: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut allocated = BTreeMap::new();
    for (name, spec) in claimed() {
        create(&claims(cluster), json!({ "metadata": { "name": name }, "spec": spec })).await?;
        cluster.create_pods([with_claim(&format!("uses-{name}"), scheduler, name)?]).await?;
        for pod in wait_until_running(cluster, &format!("uses-{name}"), 1).await? {
            assert_has_its_claims(cluster, &pod).await?;
        }
        allocated.insert(name.to_owned(), allocation_of(cluster, name).await?);
    }
    clear(cluster).await?;
    Ok(allocated)
}

/// Deletes all pods, and waits until their claims are gone.
async fn clear(cluster: &ControlPlane) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    claims(cluster).delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    wait_until("all claims to be gone", PATIENCE, async || {
        let left = claims(cluster).list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        if left.items.is_empty() { Ok(()) } else { Err(format!("{} are left", left.items.len())) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_and_flotilla_allocate_the_same_devices() -> anyhow::Result<()> {
    let options = Options { kube_scheduler: Some(json!({})), ..Options::default() };
    let cluster = cluster(options, 1, 8).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let [theirs, ours] = [allocated_by(&cluster, SCHEDULERS[0]).await?, allocated_by(&cluster, SCHEDULERS[1]).await?];
    assert_eq!(theirs.len(), claimed().len());
    for (name, theirs) in &theirs {
        assert_eq!(Some(theirs), ours.get(name), "{name}");
    }
    Ok(())
}

/// Waits until a coordinator has written some of the claims, but not all.
async fn wait_until_under_way(cluster: &ControlPlane, at_least: usize) -> anyhow::Result<()> {
    wait_until(&format!("{at_least} claims to be allocated"), PATIENCE, async || {
        let taken = taken(cluster).await.map_err(|error| format!("{error:#}"))?;
        let allocated = taken.values().filter(|devices| !devices.is_empty()).count();
        if allocated >= at_least { Ok(()) } else { Err(format!("{allocated} are")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn coordinators_that_are_killed_between_writes_lose_no_device_and_give_none_twice() -> anyhow::Result<()> {
    const PODS: usize = 32;
    let cluster = cluster(Options::default(), 4, 8).await?;
    let mut fleet = Fleet::new(&cluster);
    for worker in ["worker-0", "worker-1"] {
        fleet.reserve(worker)?;
    }
    for worker in ["worker-0", "worker-1"] {
        fleet.start_worker(worker)?;
    }
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator-0", Some(&config))?;
    fleet.wait_for_workers("coordinator-0", 2).await?;
    let pods_to_place: Result<Vec<Pod>, _> =
        (0..PODS).map(|index| from_template(&format!("web-{index}"), "flotilla")).collect();
    let creating = cluster.create_pods(pods_to_place?);
    let killing = async {
        for (round, at_least) in [1, PODS / 3, 2 * PODS / 3].into_iter().enumerate() {
            let next = format!("coordinator-{}", round + 1);
            fleet.start_coordinator(&next, Some(&config))?;
            wait_until_under_way(&cluster, at_least).await?;
            cluster.processes().signal(&format!("coordinator-{round}"), "KILL")?;
            assert_no_device_is_taken_twice(&cluster).await?;
        }
        anyhow::Ok(())
    };
    let (created, killed) = tokio::join!(creating, killing);
    created?;
    killed?;
    for pod in wait_until_running(&cluster, "web-", PODS).await? {
        assert_has_its_claims(&cluster, &pod).await?;
    }
    assert_no_device_is_taken_twice(&cluster).await?;
    assert_eq!(taken(&cluster).await?.len(), PODS);
    Ok(())
}

/// Eight pods share a claim under concurrent writes by others. With `group` they are a gang.
async fn assert_pods_can_share(cluster: &ControlPlane, claim: &str, group: Option<&str>) -> anyhow::Result<()> {
    create(&claims(cluster), json!({ "metadata": { "name": claim }, "spec": asks(&[exactly("gpu", GPU)]) })).await?;
    let sharing = (0..8).map(|index| {
        let mut pod = with_claim(&format!("{claim}-{index}"), "flotilla", claim)?;
        let group = group.map(|group| PodSchedulingGroup { pod_group_name: Some(group.to_owned()) });
        pod.spec.get_or_insert_default().scheduling_group = group;
        Ok(pod)
    });
    let sharing: anyhow::Result<Vec<Pod>> = sharing.collect();
    let touching = async {
        for turn in 0..50 {
            let patch = json!({ "metadata": { "labels": { "turn": turn.to_string() } } });
            claims(cluster).patch(claim, &PatchParams::default(), &Patch::Merge(patch)).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok(())
    };
    let (created, touched) = tokio::join!(cluster.create_pods(sharing?), touching);
    created?;
    touched?;
    let landed = wait_until_running(cluster, &format!("{claim}-"), 8).await?;
    let nodes: BTreeSet<_> = landed.iter().map(node_of).collect();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    for pod in &landed {
        assert_has_its_claims(cluster, pod).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_share_a_claim_go_where_it_is_and_conflicts_keep_none_from_it() -> anyhow::Result<()> {
    const GATE: &str = "--feature-gates=GenericWorkload=true";
    let serves = vec![GATE.to_owned(), "--runtime-config=scheduling.k8s.io/v1beta1=true".to_owned()];
    let options = Options { extra_args: BTreeMap::from([(Component::ApiServer, serves)]), ..Options::default() };
    let cluster = cluster(options, 3, 2).await?;
    let fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 2).await?;
    assert_pods_can_share(&cluster, "single", None).await?;
    let gang = json!({ "schedulingPolicy": { "gang": { "minCount": 8 } } });
    let groups: Api<PodGroup> = Api::namespaced(cluster.client(), "default");
    create(&groups, json!({ "metadata": { "name": "gang" }, "spec": gang })).await?;
    assert_pods_can_share(&cluster, "gang", Some("gang")).await?;
    assert_no_device_is_taken_twice(&cluster).await?;
    assert_eq!(pods(&cluster).await?.len(), 16);
    // Pods of failed writes are without claims.
    println!("{:?} writes were looked up", fleet.metric("coordinator", "flotilla_claim_writes_looked_up_total").await?);
    Ok(())
}

/// A pod with GPUs as extended resources; its container reuses those of its init container.
fn extended(name: &str, scheduler: &str, gpus: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, scheduler, &[("cpu", "10m"), (EXTENDED, gpus)]);
    let spec = pod.spec.get_or_insert_default();
    spec.containers[0].resources.get_or_insert_default().limits = Some(from_value(json!({ EXTENDED: gpus }))?);
    let mut first = spec.containers[0].clone();
    first.name = "first".into();
    spec.init_containers = Some(vec![first]);
    Ok(pod)
}

const EXTENDED: &str = "example.com/gpu";

/// The special claim of a pod with extended resources, without random and time-dependent fields, and the pod's status of it.
async fn special_claim_of(cluster: &ControlPlane, pod: &Pod) -> anyhow::Result<Value> {
    let status = pod.status.as_ref().and_then(|status| status.extended_resource_claim_status.as_ref());
    let status = status.with_context(|| format!("{} names no claim for extended resources", pod.name_any()))?;
    let name = &status.resource_claim_name;
    let claim = serde_json::to_value(claims(cluster).get(name).await?)?;
    let owner = &claim["metadata"]["ownerReferences"][0];
    anyhow::ensure!(owner["uid"] == json!(pod.uid()) && owner["controller"] == json!(true), "{claim}");
    let prefix = format!("{}-extended-resources-", pod.name_any());
    anyhow::ensure!(name.starts_with(&prefix) && name.len() == prefix.len() + 5, "{name}");
    Ok(json!({
        "annotations": claim["metadata"]["annotations"], "finalizers": claim["metadata"]["finalizers"], "spec": claim["spec"],
        "allocation": allocation_of(cluster, name).await?, "mappings": serde_json::to_value(&status.request_mappings)?,
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_and_flotilla_make_the_same_claims_for_extended_resources() -> anyhow::Result<()> {
    let options = Options { kube_scheduler: Some(json!({})), ..Options::default() };
    let cluster = cluster(options, 1, 4).await?;
    let classes: Api<DeviceClass> = Api::all(cluster.client());
    let named = json!({ "spec": { "extendedResourceName": EXTENDED } });
    classes.patch(GPU, &PatchParams::default(), &Patch::Merge(named)).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let mut made = Vec::new();
    for scheduler in SCHEDULERS {
        cluster.create_pods([extended("extended", scheduler, "3")?]).await?;
        let landed = wait_until_running(&cluster, "extended", 1).await?;
        assert_has_its_claims(&cluster, &landed[0]).await?;
        made.push(special_claim_of(&cluster, &landed[0]).await?);
        assert_no_device_is_taken_twice(&cluster).await?;
        cluster.create_pods([extended("late", scheduler, "2")?]).await?;
        let (reason, message) = wait_until_refused(&cluster, "late").await?;
        assert!(reason == "Unschedulable" && message.contains("cannot allocate all claims"), "{reason}: {message}");
        let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
        api.delete("extended", &DeleteParams::default().grace_period(0)).await?;
        let landed = wait_until_running(&cluster, "late", 1).await?;
        assert_has_its_claims(&cluster, &landed[0]).await?;
        clear(&cluster).await?;
    }
    assert_eq!(made[0], made[1]);
    Ok(())
}

const CORE: &str = "core.example.com";

/// A pod with a claim for a device that takes CPU and memory of its node; both containers use it.
fn with_cores(name: &str, scheduler: &str) -> anyhow::Result<Pod> {
    let mut pod = claiming(name, scheduler, &[json!({ "name": "cores", "resourceClaimTemplateName": "cores" })])?;
    let containers = &mut pod.spec.get_or_insert_default().containers;
    containers[0].resources.get_or_insert_default().claims = Some(from_value(json!([{ "name": "cores" }]))?);
    let mut second = containers[0].clone();
    second.name = "second".into();
    containers.push(second);
    Ok(pod)
}

#[tokio::test(flavor = "multi_thread")]
async fn kube_scheduler_and_flotilla_write_the_same_amounts_that_devices_take_of_a_node() -> anyhow::Result<()> {
    const GATE: &str = "--feature-gates=DRANodeAllocatableResources=true";
    let gated = [Component::ApiServer, Component::Scheduler].map(|component| (component, vec![GATE.to_owned()]));
    let options = Options { kube_scheduler: Some(json!({})), extra_args: BTreeMap::from(gated), ..Options::default() };
    let cluster = cluster(options, 1, 1).await?;
    let class = json!({ "metadata": { "name": CORE }, "spec": {
        "selectors": [{ "cel": { "expression": format!("device.driver == '{CORE}'") } }] } });
    create::<DeviceClass>(&Api::all(cluster.client()), class).await?;
    // The API server accepts such devices only of nodes that declare the feature.
    let declares = json!({ "status": { "declaredFeatures": ["DRANodeAllocatableResources"] } });
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.patch_status("node-0", &PatchParams::default(), &Patch::Merge(declares)).await?;
    let amounts = json!({
        "cpu": { "mapping": { "deviceMultiplier": "1500m" } },
        "memory": { "overhead": { "perPod": "64Mi", "perContainer": "32Mi" } },
    });
    let devices = ["a", "b"].map(|name| json!({ "name": name, "nodeAllocatableResources": amounts }));
    create::<ResourceSlice>(&Api::all(cluster.client()), slice(CORE, "node-0", &devices)).await?;
    let template = json!({ "metadata": { "name": "cores" }, "spec": { "spec": asks(&[exactly("core", CORE)]) } });
    create::<ResourceClaimTemplate>(&Api::namespaced(cluster.client(), "default"), template).await?;
    let _fleet = Fleet::new(&cluster).with_args([GATE.to_owned()]).up("flotilla", 2).await?;
    let mut written = Vec::new();
    for scheduler in SCHEDULERS {
        cluster.create_pods([with_cores("cores", scheduler)?]).await?;
        let landed = wait_until_running(&cluster, "cores", 1).await?;
        assert_has_its_claims(&cluster, &landed[0]).await?;
        let status = landed[0].status.as_ref().and_then(|it| it.node_allocatable_resource_claim_statuses.as_ref());
        let mut status = serde_json::to_value(status.context("no amounts are written")?)?;
        status[0]["resourceClaimName"].take();
        written.push(status);
        clear(&cluster).await?;
    }
    let expected = json!([{
        "resourceClaimName": null, "containers": ["main", "second"],
        "mapping": [{ "name": "cpu", "quantity": "1500m" }],
        "overhead": [{ "name": "memory", "perContainer": "32Mi", "perPod": "64Mi" }],
    }]);
    assert_eq!(written, [expected.clone(), expected]);
    Ok(())
}

/// A nominated pod with a volume claim that does not exist yet.
async fn nominated(cluster: &ControlPlane, name: &str, scheduler: &str) -> anyhow::Result<()> {
    let mut pod = pod(name, scheduler, &[("cpu", "10m")]);
    let spec = pod.spec.get_or_insert_default();
    spec.scheduling_gates = from_value(json!([{ "name": "example.com/wait" }]))?;
    spec.volumes = from_value(json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "gone" } }]))?;
    cluster.create_pods([pod]).await?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let status = json!({ "status": { "nominatedNodeName": "node-0" } });
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    let ungated = json!({ "spec": { "schedulingGates": null } });
    api.patch(name, &PatchParams::default(), &Patch::Merge(ungated)).await.map(drop).context("its gate stays")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_refused_before_its_devices_are_looked_at_keeps_its_nomination() -> anyhow::Result<()> {
    let options = Options { kube_scheduler: Some(json!({})), ..Options::default() };
    let cluster = cluster(options, 1, 1).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let mut said = Vec::new();
    for scheduler in SCHEDULERS {
        nominated(&cluster, scheduler, scheduler).await?;
        said.push(wait_for_event(&cluster, scheduler, "FailedScheduling").await?);
        wait_until_refused(&cluster, scheduler).await?;
        let status = api.get(scheduler).await?.status.unwrap_or_default();
        assert_eq!(status.nominated_node_name.as_deref(), Some("node-0"), "{scheduler}: {status:?}");
    }
    let refused = "0/1 nodes are available: persistentvolumeclaim \"gone\" not found.";
    assert_eq!(said, [format!("{refused} not found"), refused.to_owned()], "the one deliberate difference");
    Ok(())
}
