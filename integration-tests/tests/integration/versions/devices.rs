//! Dynamic Resource Allocation in the newest version that the API server serves.

use std::collections::BTreeSet;

use flotilla_control_plane::Component;
use flotilla_framework::ingest::beta;
use kube::api::DeleteParams;

use super::*;

const DRIVER: &str = "gpu.example.com";

/// The newest served version of claims and, if there is one, of taint rules.
fn served(number: u32) -> (&'static str, Option<&'static str>) {
    match number {
        ..33 => ("resource.k8s.io/v1beta1", None),
        33 => ("resource.k8s.io/v1beta2", Some("resource.k8s.io/v1alpha3")),
        34 | 35 => ("resource.k8s.io/v1", Some("resource.k8s.io/v1alpha3")),
        36 => ("resource.k8s.io/v1", Some("resource.k8s.io/v1beta2")),
        _ => ("resource.k8s.io/v1", Some("resource.k8s.io/v1")),
    }
}

/// An API server and controllers with all device kinds that the version has.
fn with_devices(number: u32) -> anyhow::Result<Options> {
    let gates = match number {
        ..33 => "DynamicResourceAllocation=true",
        33 => "DynamicResourceAllocation=true,DRADeviceTaints=true",
        34 => "DRADeviceTaints=true",
        35 | 36 => "DRADeviceTaints=true,DRADeviceTaintRules=true",
        _ => "",
    };
    let versions = match number {
        ..33 => "resource.k8s.io/v1beta1=true",
        33 => "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true",
        34 | 35 => "resource.k8s.io/v1alpha3=true",
        36 => "resource.k8s.io/v1beta2=true",
        _ => "",
    };
    let mut options = options()?;
    if !gates.is_empty() {
        for component in [Component::ApiServer, Component::ControllerManager] {
            options = options.with_arg(component, format!("--feature-gates={gates}"));
        }
    }
    if !versions.is_empty() {
        options = options.with_arg(Component::ApiServer, format!("--runtime-config={versions}"));
    }
    Ok(options)
}

/// Creates a class, two devices on the first node, and a template for one of them.
async fn create_devices(cluster: &ControlPlane, api: &str) -> anyhow::Result<()> {
    let is_beta = api.ends_with("/v1beta1");
    let selectors = json!([{ "cel": { "expression": format!("device.driver == '{DRIVER}'") } }]);
    let class = json!({
        "apiVersion": api, "kind": "DeviceClass", "metadata": { "name": DRIVER }, "spec": { "selectors": selectors },
    });
    send(cluster, "POST", &format!("/apis/{api}/deviceclasses"), &class).await?;
    let device = |name: &str| {
        let fields = json!({ "attributes": { "model": { "string": "a" } } });
        if is_beta {
            json!({ "name": name, "basic": fields })
        } else {
            json!({ "name": name, "attributes": fields["attributes"] })
        }
    };
    let slice = json!({
        "apiVersion": api, "kind": "ResourceSlice", "metadata": { "name": "node-0" },
        "spec": {
            "driver": DRIVER, "nodeName": "node-0", "devices": [device("gpu-0"), device("gpu-1")],
            "pool": { "name": "node-0", "generation": 1, "resourceSliceCount": 1 },
        },
    });
    send(cluster, "POST", &format!("/apis/{api}/resourceslices"), &slice).await?;
    let selector = json!([{ "cel": { "expression": format!("device.attributes['{DRIVER}'].model == 'a'") } }]);
    let exactly = json!({ "deviceClassName": DRIVER, "selectors": selector });
    let mut spec = json!({ "devices": { "requests": [{ "name": "gpu", "exactly": exactly }] } });
    if is_beta {
        beta::claim_spec_as_beta(&mut spec);
    }
    let template = json!({
        "apiVersion": api, "kind": "ResourceClaimTemplate", "metadata": { "name": "one-gpu" }, "spec": { "spec": spec },
    });
    send(cluster, "POST", &format!("/apis/{api}/namespaces/default/resourceclaimtemplates"), &template).await?;
    Ok(())
}

fn claiming(name: &str) -> anyhow::Result<Pod> {
    let mut pod = pod(name, "flotilla", &[("cpu", "10m")]);
    let claims = json!([{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }]);
    pod.spec.get_or_insert_default().resource_claims = Some(from_value(claims)?);
    Ok(pod)
}

async fn claims(cluster: &ControlPlane, api: &str) -> anyhow::Result<Vec<Value>> {
    let list = send(cluster, "GET", &format!("/apis/{api}/namespaces/default/resourceclaims"), &Value::Null).await?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_get_devices_in_the_newest_version_that_is_served() -> anyhow::Result<()> {
    let number = number()?;
    let (api, _) = served(number);
    let cluster = cluster(with_devices(number)?).await?;
    create_devices(&cluster, api).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods([claiming("gpu-a")?, claiming("gpu-b")?]).await?;
    for landed in wait_until_running(&cluster, "gpu-", 2).await? {
        assert_eq!(node_of(&landed), Some("node-0"));
    }
    let taken = claims(&cluster, api).await?;
    let device = |claim: &Value| claim["status"]["allocation"]["devices"]["results"][0]["device"].to_string();
    let devices: BTreeSet<String> = taken.iter().map(device).collect();
    assert_eq!(devices.len(), 2, "{taken:#?}");
    for claim in &taken {
        assert_eq!(claim["status"]["reservedFor"][0]["resource"], "pods", "{claim:#}");
        assert_eq!(claim["metadata"]["finalizers"][0], "resource.kubernetes.io/delete-protection", "{claim:#}");
    }
    let log = cluster.log("coordinator")?;
    assert!(log.contains(&format!("/apis/{api}/resourceclaims")), "{log}");

    cluster.create_pods([claiming("gpu-c")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "gpu-c").await?;
    assert!(message.contains("cannot allocate all claims"), "{message}");
    let mut explain = Command::new(binary("flotilla")?);
    explain.args(["explain", "pod", "gpu-c", "--kubeconfig"]).arg(cluster.kubeconfig());
    let explained = String::from_utf8_lossy(&explain.output()?.stdout).into_owned();
    assert!(explained.contains("cannot allocate all claims"), "{explained}");
    // The controller deletes the claim with its pod, and the pending pod gets the device.
    let api: Api<Pod> = Api::namespaced(cluster.client(), "default");
    api.delete("gpu-a", &DeleteParams::default()).await?;
    wait_until_running(&cluster, "gpu-c", 1).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_rule_of_the_newest_version_keeps_pods_from_a_device() -> anyhow::Result<()> {
    let number = number()?;
    let (api, Some(rules)) = served(number) else {
        eprintln!("skipped: Kubernetes {} has no DeviceTaintRules", minor());
        return Ok(());
    };
    let cluster = cluster(with_devices(number)?).await?;
    create_devices(&cluster, api).await?;
    let rule = json!({
        "apiVersion": rules, "kind": "DeviceTaintRule", "metadata": { "name": "broken" },
        "spec": {
            "deviceSelector": { "driver": DRIVER }, "taint": { "key": "example.com/broken", "effect": "NoSchedule" },
        },
    });
    send(&cluster, "POST", &format!("/apis/{rules}/devicetaintrules"), &rule).await?;
    let _fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    cluster.create_pods([claiming("gpu-a")?]).await?;
    let (_, message) = wait_until_refused(&cluster, "gpu-a").await?;
    assert!(message.contains("cannot allocate all claims"), "{message}");
    send(&cluster, "DELETE", &format!("/apis/{rules}/devicetaintrules/broken"), &Value::Null).await?;
    wait_until_running(&cluster, "gpu-a", 1).await?;
    Ok(())
}
