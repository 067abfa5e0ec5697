//! The Helm chart renders the same objects as kustomize from `deploy/`. Each value has its documented effect, invalid values are rejected,
//! and the API server accepts all objects.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{AuditLevel, ControlPlane, Lines, NodeBuilder, Options, build, pod, wait_until};
use flotilla_integration_tests::{
    census::forbidden,
    certificates::{WORKER_SECRET, mount_secret, wait_for_secret},
    crds,
    deployed::{COORDINATOR as SERVICE_ACCOUNT, kubectl},
    fleet::{Fleet, PATIENCE, Transport, wait_for_event, wait_until_running},
    helm::{chart, helm, objects, render, repository},
};
use flotilla_transport::Role;
use serde_json::{Value, json};

const HELM_LABELS: [&str; 4] =
    ["app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"];

/// Labels without selectors, which some objects of the overlays lack.
const OWN_LABELS: [&str; 2] = ["app.kubernetes.io/name", "app.kubernetes.io/part-of"];

fn essence(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !HELM_LABELS.contains(&key.as_str()));
            // Compare embedded files by content instead of layout.
            if let Some(Value::String(text)) = fields.get("config.yaml") {
                let read: Value = serde_yaml::from_str(text).expect("a configuration is YAML");
                fields.insert("config.yaml".to_owned(), read);
            }
            fields.values_mut().for_each(essence);
        }
        Value::Array(items) => items.iter_mut().for_each(essence),
        _ => {}
    }
}

fn essences(yaml: &str) -> Vec<(String, Value)> {
    let mut objects = objects(yaml).expect("objects");
    for (_, object) in &mut objects {
        essence(object);
        let Some(metadata) = object["metadata"].as_object_mut() else { continue };
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.retain(|key, _| !OWN_LABELS.contains(&key.as_str()));
        }
        metadata.retain(|key, value| key != "labels" || value.as_object().is_some_and(|labels| !labels.is_empty()));
    }
    objects
}

/// kustomize's output of the overlay with additional components of `deploy/components`.
async fn kustomized(overlay: &str, components: &[&str]) -> anyhow::Result<Vec<(String, Value)>> {
    let kubectl = build(&repository().join("target"), &Lines).await?.kubectl();
    let folder = tempfile::Builder::new().prefix("chart-").tempdir_in(repository().join("target"))?;
    let components: String =
        components.iter().map(|component| format!("- ../../deploy/components/{component}\n")).collect();
    let text = format!("resources:\n- ../../deploy/overlays/{overlay}\ncomponents:\n{components}");
    fs::write(folder.path().join("kustomization.yaml"), text.trim_end_matches("components:\n"))?;
    let output = Command::new(kubectl).arg("kustomize").arg(folder.path()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut objects = essences(&String::from_utf8(output.stdout)?);
    // Helm requires the namespace before it installs a chart.
    objects.retain(|(name, _)| !name.starts_with("Namespace "));
    // A release may share its namespace, and must not restrict other pods in it.
    for (name, object) in &mut objects {
        if name == "NetworkPolicy flotilla/flotilla-default-deny" {
            object["spec"]["podSelector"] = json!({ "matchLabels": { "app.kubernetes.io/name": "flotilla" } });
        }
    }
    Ok(objects)
}

fn differences(expected: &[(String, Value)], found: &[(String, Value)]) -> Vec<String> {
    let names: BTreeSet<&String> = expected.iter().chain(found).map(|(name, _)| name).collect();
    let of = |objects: &[(String, Value)], name: &str| {
        objects.iter().find(|(known, _)| known == name).map_or(Value::Null, |(_, object)| object.clone())
    };
    let mut lines = Vec::new();
    for name in names {
        compare(name, &of(expected, name), &of(found, name), &mut lines);
    }
    lines
}

fn compare(path: &str, expected: &Value, found: &Value, lines: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let [one, other] = [one, other].map(|fields| fields.get(key).unwrap_or(&Value::Null));
                compare(&format!("{path}/{key}"), one, other, lines);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                compare(&format!("{path}/{index}"), one, other, lines);
            }
        }
        _ if expected != found => lines.push(format!("{path}: kustomize has {expected}, the chart {found}")),
        _ => {}
    }
}

#[tokio::test]
async fn the_chart_renders_what_kustomize_makes_of_each_overlay() -> anyhow::Result<()> {
    let cases: [(&str, &[&str], &str); 5] = [
        ("second-scheduler", &[], ""),
        ("default-scheduler", &[], "defaultScheduler: {enabled: true}"),
        ("hpa", &[], "hpa: {enabled: true}"),
        ("second-scheduler", &["by-namespace"], "byNamespace: {enabled: true}"),
        ("second-scheduler", &["monitoring"], "monitoring: {enabled: true}"),
    ];
    for (overlay, components, values) in cases {
        let expected = kustomized(overlay, components).await?;
        let found = essences(&render("flotilla", values)?);
        let differences = differences(&expected, &found);
        assert!(differences.is_empty(), "{overlay} {components:?}, values {values:?}:\n{}", differences.join("\n"));
    }
    Ok(())
}

#[test]
fn helm_has_nothing_to_say_about_the_chart() -> anyhow::Result<()> {
    let output = helm(&["lint", "--strict", &chart().display().to_string()])?;
    assert!(output.status.success(), "{}{}", lossy(&output.stdout), lossy(&output.stderr));
    Ok(())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const COORDINATOR: &str = "Deployment flotilla/flotilla-coordinator";
const WORKER: &str = "Deployment flotilla/flotilla-worker";
const CONFIG: &str = "ConfigMap flotilla/flotilla";

/// A value and its effect: an object, a path in it, and the content there, or one element of arguments. `null`: the path is absent.
struct Case {
    values: &'static str,
    object: &'static str,
    pointer: &'static str,
    expected: Value,
}

fn case(values: &'static str, object: &'static str, pointer: &'static str, expected: Value) -> Case {
    Case { values, object, pointer, expected }
}

fn pod_cases() -> Vec<Case> {
    let toleration = json!([{ "key": "a", "operator": "Exists" }]);
    vec![
        case("scheduler: {replicaCount: 3}", COORDINATOR, "/spec/replicas", json!(3)),
        case("worker: {replicaCount: 7}", WORKER, "/spec/replicas", json!(7)),
        case("scheduler: {image: 'a/b:c'}", COORDINATOR, "/spec/template/spec/containers/0/image", json!("a/b:c")),
        case("scheduler: {image: 'a/b:c'}", WORKER, "/spec/template/spec/containers/0/image", json!("a/b:c")),
        case(
            "scheduler: {imagePullPolicy: Always}",
            WORKER,
            "/spec/template/spec/containers/0/imagePullPolicy",
            json!("Always"),
        ),
        case(
            "scheduler: {imagePullSecrets: [{name: s}]}",
            WORKER,
            "/spec/template/spec/imagePullSecrets/0/name",
            json!("s"),
        ),
        case("scheduler: {priorityClassName: p}", COORDINATOR, "/spec/template/spec/priorityClassName", json!("p")),
        case("worker: {priorityClassName: ''}", WORKER, "/spec/template/spec/priorityClassName", Value::Null),
        case(
            "scheduler: {resources: {requests: {cpu: 4}}}",
            COORDINATOR,
            "/spec/template/spec/containers/0/resources/requests/cpu",
            json!(4),
        ),
        case(
            "worker: {resources: {limits: {memory: 8Gi}}}",
            WORKER,
            "/spec/template/spec/containers/0/resources/limits/memory",
            json!("8Gi"),
        ),
        case("scheduler: {nodeSelector: {a: b}}", COORDINATOR, "/spec/template/spec/nodeSelector/a", json!("b")),
        case("worker: {nodeSelector: {a: b}}", WORKER, "/spec/template/spec/nodeSelector/a", json!("b")),
        case(
            "scheduler: {affinity: {nodeAffinity: {}}}",
            COORDINATOR,
            "/spec/template/spec/affinity",
            json!({ "nodeAffinity": {} }),
        ),
        case(
            "worker: {affinity: {nodeAffinity: {}}}",
            WORKER,
            "/spec/template/spec/affinity",
            json!({ "nodeAffinity": {} }),
        ),
        case(
            "scheduler: {tolerations: [{key: a, operator: Exists}]}",
            COORDINATOR,
            "/spec/template/spec/tolerations",
            toleration.clone(),
        ),
        case(
            "worker: {tolerations: [{key: a, operator: Exists}]}",
            WORKER,
            "/spec/template/spec/tolerations",
            toleration,
        ),
        case("scheduler: {verbosity: 4}", COORDINATOR, "/spec/template/spec/containers/0/args", json!("-v=4")),
        case(
            "scheduler: {extraArgs: ['--tie-break-seed=7']}",
            COORDINATOR,
            "/spec/template/spec/containers/0/args",
            json!("--tie-break-seed=7"),
        ),
        case("scheduler: {podAnnotations: {a: b}}", COORDINATOR, "/spec/template/metadata/annotations/a", json!("b")),
        case("worker: {podAnnotations: {a: b}}", WORKER, "/spec/template/metadata/annotations/a", json!("b")),
    ]
}

fn other_cases() -> Vec<Case> {
    let monitored =
        "monitoring: {enabled: true, interval: 5s, labels: {team: a}, prometheus: {serviceAccount: p, namespace: m}}";
    let (monitor, binding) = ("ServiceMonitor flotilla/flotilla-coordinator", "RoleBinding flotilla/p");
    let elects = "scheduler: {extraArgs: ['--feature-gates=GenericWorkload=true,CoordinatedLeaderElection=true']}";
    let others = "scheduler: {extraArgs: ['--feature-gates=CoordinatedLeaderElection=false']}";
    let by_namespace = "scheduler: {name: mine}\nbyNamespace: {enabled: true, label: a, value: b}";
    let selected = "/spec/matchResources/namespaceSelector/matchLabels/a";
    let scaler = "hpa: {enabled: true, minReplicas: 4, maxReplicas: 5, targetCPUUtilizationPercentage: 6}";
    let autoscaler = "HorizontalPodAutoscaler flotilla/flotilla-worker";
    let traced = "tracing: {endpoint: 'http://jaeger:4317', samplingRatio: 0.5}";
    vec![
        case("scheduler: {name: mine}", CONFIG, "/profiles/0/schedulerName", json!("mine")),
        case("scheduler: {leaderElect: false}", CONFIG, "/leaderElection/leaderElect", json!(false)),
        case("plugins: {enabled: [A]}", CONFIG, "/profiles/0/plugins/multiPoint/enabled", json!([{ "name": "A" }])),
        case("plugins: {disabled: [A]}", CONFIG, "/profiles/0/plugins/multiPoint/disabled", json!([{ "name": "A" }])),
        case("pluginConfig: [{name: A, args: {b: 1}}]", CONFIG, "/profiles/0/pluginConfig/0/args/b", json!(1)),
        case("configuration: {podMaxBackoffSeconds: 20}", CONFIG, "/podMaxBackoffSeconds", json!(20)),
        case("configuration: {podMaxBackoffSeconds: 20}", CONFIG, "/profiles/0/schedulerName", json!("flotilla")),
        case("configuration: {profiles: [{schedulerName: a}]}", CONFIG, "/profiles", json!([{ "schedulerName": "a" }])),
        case("defaultScheduler: {enabled: true}", CONFIG, "/leaderElection/resourceName", json!("kube-scheduler")),
        case(
            "nameOverride: other",
            "ConfigMap flotilla/flotilla-other",
            "/leaderElection/resourceName",
            json!("flotilla-other"),
        ),
        case("fullnameOverride: own", "Role flotilla/own-coordinator", "/rules/1/resourceNames/0", json!("own")),
        case(
            "fullnameOverride: own",
            "Deployment flotilla/own-coordinator",
            "/spec/template/spec/containers/0/args",
            json!("--worker-service=own-worker"),
        ),
        case(scaler, autoscaler, "/spec/minReplicas", json!(4)),
        case(scaler, autoscaler, "/spec/maxReplicas", json!(5)),
        case(scaler, autoscaler, "/spec/metrics/0/resource/target/averageUtilization", json!(6)),
        case(by_namespace, "MutatingAdmissionPolicyBinding /flotilla-scheduler-name", selected, json!("b")),
        case(
            by_namespace,
            "MutatingAdmissionPolicy /flotilla-scheduler-name",
            "/spec/mutations/0/applyConfiguration/expression",
            json!("Object{spec: Object.spec{schedulerName: 'mine'}}"),
        ),
        case(
            traced,
            COORDINATOR,
            "/spec/template/spec/containers/0/args",
            json!("--tracing-endpoint=http://jaeger:4317"),
        ),
        case(traced, COORDINATOR, "/spec/template/spec/containers/0/args", json!("--tracing-sampling-ratio=0.5")),
        case(traced, "NetworkPolicy flotilla/flotilla-tracing", "/spec/egress/0/ports/0/port", json!(4317)),
        case(monitored, monitor, "/spec/endpoints/0/interval", json!("5s")),
        case(monitored, monitor, "/metadata/labels/team", json!("a")),
        case(monitored, "PodMonitor flotilla/flotilla-worker", "/metadata/labels/team", json!("a")),
        case(monitored, binding, "/subjects/0/name", json!("p")),
        case(monitored, binding, "/subjects/0/namespace", json!("m")),
        case("networkPolicy: {enabled: false}", "NetworkPolicy flotilla/flotilla-default-deny", "", Value::Null),
        case("worker: {extraArgs: ['-v=4']}", WORKER, "/spec/template/spec/containers/0/args", json!("-v=4")),
        case(elects, "Role flotilla/flotilla-candidate", "/rules/0/resources/0", json!("leasecandidates")),
        case(elects, "RoleBinding flotilla/flotilla-candidate", "/subjects/0/name", json!("flotilla-coordinator")),
        case(others, "Role flotilla/flotilla-candidate", "/rules", Value::Null),
    ]
}

/// Paths of values in `tree` as in the table of the chart's README, such as `scheduler.name`.
fn paths(tree: &Value, before: &str, found: &mut BTreeSet<String>) {
    match tree {
        // Their contents are Kubernetes' own fields.
        Value::Object(fields) if !fields.is_empty() && !before.ends_with("resources.") => {
            for (name, inner) in fields {
                paths(inner, &format!("{before}{name}."), found);
            }
        }
        _ => {
            found.insert(before.trim_end_matches('.').to_owned());
        }
    }
}

fn documented() -> BTreeSet<String> {
    let values = fs::read_to_string(chart().join("values.yaml")).expect("values.yaml");
    let values: Value = serde_yaml::from_str(&values).expect("values.yaml is YAML");
    let mut found = BTreeSet::new();
    paths(&values, "", &mut found);
    found
}

#[test]
fn every_value_does_what_it_says() -> anyhow::Result<()> {
    let mut set = BTreeSet::new();
    for Case { values, object, pointer, expected } in pod_cases().into_iter().chain(other_cases()) {
        paths(&serde_yaml::from_str(values)?, "", &mut set);
        let objects = essences(&render("flotilla", values)?);
        let found = objects.iter().find(|(name, _)| name == object);
        let place =
            if object.starts_with("ConfigMap") { format!("/data/config.yaml{pointer}") } else { pointer.into() };
        let found = found.and_then(|(_, object)| object.pointer(&place)).unwrap_or(&Value::Null);
        let is_among = found.as_array().is_some_and(|found| pointer.ends_with("/args") && found.contains(&expected));
        assert!(is_among || found == &expected, "{values}: {place} of {object} is {found} and not {expected}");
    }
    let is_set = |path: &String| set.iter().any(|set| set == path || set.starts_with(&format!("{path}.")));
    let never: Vec<String> = documented().into_iter().filter(|path| !is_set(path)).collect();
    assert!(never.is_empty(), "no case above sets {never:?}");
    Ok(())
}

#[test]
fn every_flag_that_the_chart_gives_is_one_of_the_program() -> anyhow::Result<()> {
    let reference = fs::read_to_string(repository().join("docs/reference/command-line.md"))?;
    let of = |program: &str| {
        let rest = reference
            .split(&format!("\n## {program}\n"))
            .nth(1)
            .context("no such part in docs/reference/command-line.md")?;
        anyhow::Ok(rest.split("\n## ").next().unwrap_or_default().to_owned())
    };
    let rendered = essences(&render("flotilla", "fullnameOverride: own\nmonitoring: {enabled: true}")?);
    for role in ["coordinator", "worker"] {
        let (program, deployment) = (format!("flotilla-{role}"), format!("Deployment flotilla/own-{role}"));
        let flags = of(&program)?;
        let found = rendered.iter().find(|(name, _)| *name == deployment).context("no Deployment")?;
        let args = &found.1["spec"]["template"]["spec"]["containers"][0]["args"];
        for arg in args.as_array().context("no arguments")?.iter().filter_map(Value::as_str) {
            let flag = arg.split('=').next().unwrap_or(arg);
            assert!(flags.contains(&format!("`{flag}")), "{program} has no {flag}");
        }
    }
    Ok(())
}

#[test]
fn the_readme_of_the_chart_has_every_value() -> anyhow::Result<()> {
    let text = fs::read_to_string(chart().join("README.md"))?;
    let missing: Vec<String> =
        documented().into_iter().filter(|path| !text.contains(&format!("| `{path}` |"))).collect();
    assert!(missing.is_empty(), "deploy/helm/flotilla/README.md has no row for {missing:?}");
    Ok(())
}

#[test]
fn values_that_make_no_sense_are_refused_with_their_place() -> anyhow::Result<()> {
    let cases = [
        ("scheduler: {replicaCount: two}", "at '/scheduler/replicaCount': got string, want integer"),
        ("scheduler: {replicas: 2}", "additional properties 'replicas' not allowed"),
        ("shceduler: {}", "additional properties 'shceduler' not allowed"),
        ("scheduler: {name: Mine}", "at '/scheduler/name': 'Mine' does not match pattern"),
        ("scheduler: {imagePullPolicy: Sometimes}", "at '/scheduler/imagePullPolicy': value must be one of"),
        ("plugins: {enabled: [{name: A}]}", "at '/plugins/enabled/0': got object, want string"),
        ("pluginConfig: [{args: {}}]", "at '/pluginConfig/0': missing property 'name'"),
        ("tracing: {endpoint: 'jaeger:4317'}", "at '/tracing/endpoint': 'jaeger:4317' does not match pattern"),
        ("tracing: {samplingRatio: 2}", "at '/tracing/samplingRatio': maximum: got 2, want 1"),
        ("hpa: {enabled: 'yes'}", "at '/hpa/enabled': got string, want boolean"),
        (
            "scheduler: {extraArgs: [tie-break-seed=7]}",
            "at '/scheduler/extraArgs/0': 'tie-break-seed=7' does not match",
        ),
    ];
    for (values, expected) in cases {
        match render("flotilla", values) {
            Ok(_) => panic!("{values} is taken"),
            Err(error) => assert!(error.to_string().contains(expected), "{values}: {expected:?} is not in {error}"),
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_server_takes_what_the_chart_renders_without_a_warning() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, controller_manager: false, ..Options::default() }).await?;
    let kubectl = |arguments: &[&str]| -> anyhow::Result<String> {
        let kubeconfig = cluster.kubeconfig().display().to_string();
        let output = Command::new(cluster.kubectl()).args(["--kubeconfig", &kubeconfig]).args(arguments).output()?;
        ensure!(output.status.success(), "{}", lossy(&output.stderr));
        Ok(lossy(&output.stdout) + &lossy(&output.stderr))
    };
    kubectl(&["create", "namespace", "flotilla"])?;
    // Warns unless the pods satisfy the strictest pod security standard.
    kubectl(&["label", "namespace", "flotilla", "pod-security.kubernetes.io/warn=restricted"])?;
    for file in crds::prometheus_operator(&["podmonitors", "prometheusrules", "servicemonitors"])? {
        kubectl(&["apply", "--server-side", "-f", &file.display().to_string()])?;
    }
    kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all"])?;
    let cases = [
        "",
        "monitoring: {enabled: true, labels: {release: prometheus}}\nfullnameOverride: own",
        "defaultScheduler: {enabled: true}",
        "hpa: {enabled: true}",
        "byNamespace: {enabled: true}",
        "tracing: {endpoint: 'http://jaeger.observability:4317'}",
        "scheduler: {leaderElect: false, replicaCount: 1}\nfullnameOverride: own",
    ];
    for values in cases {
        let file = cluster.folder().join("rendered.yaml");
        fs::write(&file, render("flotilla", values)?)?;
        let file = file.display().to_string();
        let said = kubectl(&["apply", "--dry-run=server", "--validate=strict", "-f", &file])?;
        assert!(!said.contains("Warning"), "{values}: {said}");
    }
    Ok(())
}

fn release(cluster: &ControlPlane, arguments: &[&str]) -> anyhow::Result<()> {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let more = ["--namespace", "flotilla", "--kubeconfig", &kubeconfig];
    let output = helm(&[arguments, &more].concat())?;
    ensure!(output.status.success(), "helm {arguments:?}: {}", lossy(&output.stderr));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_has_the_rights_that_a_coordinator_needs_is_upgraded_while_it_runs_and_leaves_nothing()
-> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default().with_audit(AuditLevel::Metadata)).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    let chart = chart().display().to_string();
    release(&cluster, &["install", "flotilla", &chart, "--create-namespace"])?;
    let of_release = ["get", "configmap", "flotilla", "-n", "flotilla", "-o", "jsonpath={.data.config\\.yaml}"];

    // Run the release's coordinator as a process with its permissions and configuration.
    let fleet = Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(SERVICE_ACCOUNT, None)?);
    let mut fleet = fleet.over(Transport::OwnAuthority).with_args(["--worker-namespace=flotilla".to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&kubectl(&cluster, &of_release)?)?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    let secret = wait_for_secret(&cluster, "flotilla", WORKER_SECRET, |_| true).await?;
    mount_secret(&secret, &fleet.certificates(Role::Worker))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    cluster.create_pods([pod("web", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "web", 1).await?;
    wait_for_event(&cluster, "web", "Scheduled").await?;

    release(&cluster, &["upgrade", "flotilla", &chart, "--set", "plugins.disabled={ImageLocality}"])?;
    fs::write(&config, kubectl(&cluster, &of_release)?)?;
    wait_until("the upgraded configuration to be in force", PATIENCE, async || {
        match fleet.metric("coordinator", "flotilla_configuration_generation").await {
            Ok(Some(2.0)) => Ok(()),
            other => Err(format!("the generation is {other:?}")),
        }
    })
    .await?;
    assert_eq!(forbidden(&cluster, SERVICE_ACCOUNT)?, Vec::<String>::new());

    let kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,\
                 networkpolicies,poddisruptionbudgets,secrets";
    let selector = "app.kubernetes.io/instance=flotilla";
    let of_release = || kubectl(&cluster, &["get", kinds, "-A", "-l", selector, "-o", "name"]).context("cannot list");
    assert!(of_release()?.lines().count() > 20, "the selector finds what is there");
    cluster.processes().signal("coordinator", "TERM")?;
    release(&cluster, &["uninstall", "flotilla", "--wait"])?;
    assert_eq!(of_release()?, "", "these are left");
    Ok(())
}
