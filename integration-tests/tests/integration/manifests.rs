//! A real API server accepts `deploy/`, and its objects work.
//!
//! Pods are not scheduled. The API server's pod security decides about the pods of Deployments.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, bail, ensure};
use flotilla_control_plane::{ControlPlane, Options, ProcessGroup, free_port, wait_until};
use flotilla_integration_tests::{
    certificates::issue,
    crds,
    deployed::{self, kubectl},
    fleet::{PATIENCE, binary},
};
use flotilla_transport::Role;
use serde::Deserialize as _;
use serde_json::{Value, json};

/// A cluster without nodes, with the namespace of `deploy/`.
async fn cluster() -> anyhow::Result<ControlPlane> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    kubectl(&cluster, &["apply", "-f", &text(&deployed::path("base/namespace.yaml"))])?;
    wait_until("the service account of static pods", PATIENCE, async || {
        kubectl(&cluster, &["get", "serviceaccount", "--namespace=kube-system", "default"])
            .map_err(|error| format!("{error:#}"))
    })
    .await?;
    Ok(cluster)
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Folders in a folder of `deploy/`, so that none is omitted.
fn folders(inner: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(deployed::path(inner)).with_context(|| format!("cannot read deploy/{inner}"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    ensure!(!names.is_empty(), "deploy/{inner} is empty");
    Ok(names)
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (from, to) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() { copy(&from, &to)? } else { fs::write(&to, fs::read(&from)?)? }
    }
    Ok(())
}

/// A copy of `deploy/`, to which tests add kustomizations: kustomize cannot read other folders.
fn workplace(cluster: &ControlPlane) -> anyhow::Result<PathBuf> {
    let place = cluster.folder().join("deploy");
    for inner in ["base", "components", "overlays"] {
        copy(&deployed::path(inner), &place.join(inner))?;
    }
    Ok(place)
}

/// Writes a kustomization to `place/own/NAME`, and returns its folder.
fn compose(place: &Path, name: &str, kustomization: &Value) -> anyhow::Result<PathBuf> {
    let folder = place.join("own").join(name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("kustomization.yaml"), kustomization.to_string())?;
    Ok(folder)
}

fn objects(cluster: &ControlPlane, folder: &Path) -> anyhow::Result<Vec<Value>> {
    let made = kubectl(cluster, &["kustomize", &text(folder)])?;
    let documents = serde_yaml::Deserializer::from_str(&made);
    documents.map(|document| Value::deserialize(document).context("kustomize makes YAML")).collect()
}

/// Validates manifests with a server-side dry run. Unknown fields, invalid values and warnings (pod security, deprecations) are errors.
fn judge(cluster: &ControlPlane, objects: &[Value], more: &[&str]) -> anyhow::Result<String> {
    let file = cluster.folder().join("judged.json");
    fs::write(&file, json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string())?;
    let mut command = Command::new(cluster.kubectl());
    command.args(["apply", "--dry-run=server", "--validate=strict", "--output=name"]).args(more).arg("-f").arg(&file);
    let output = command.arg("--kubeconfig").arg(cluster.kubeconfig()).output()?;
    let words = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && words.trim().is_empty(), "{}", words.trim());
    Ok(String::from_utf8(output.stdout)?)
}

fn pods(objects: &[Value]) -> Vec<Value> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let pod = |deployment: &Value| {
        let (name, mut pod) = (&deployment["metadata"]["name"], deployment["spec"]["template"].clone());
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = name.clone();
        pod["metadata"]["namespace"] = deployment["metadata"]["namespace"].clone();
        // Its service account may not exist yet, and does not affect pod security.
        pod["spec"]["serviceAccountName"] = "default".into();
        pod
    };
    deployments.map(pod).collect()
}

/// Validates all objects of an overlay, and its pods.
fn judge_whole(cluster: &ControlPlane, folder: &Path) -> anyhow::Result<Vec<Value>> {
    let objects = objects(cluster, folder).with_context(|| text(folder))?;
    judge(cluster, &objects, &[]).with_context(|| format!("{} is not taken", folder.display()))?;
    let pods = pods(&objects);
    ensure!(!pods.is_empty(), "{} has no Deployment", folder.display());
    judge(cluster, &pods, &[]).with_context(|| format!("the pods of {} are not taken", folder.display()))?;
    Ok(objects)
}

fn define_kinds(cluster: &ControlPlane) -> anyhow::Result<()> {
    for file in crds::prometheus_operator(&["podmonitors", "prometheusrules", "servicemonitors"])? {
        // Client-side apply would store an annotation beyond the size limit.
        kubectl(cluster, &["apply", "--server-side", "-f", &text(&file)])?;
    }
    kubectl(cluster, &["wait", "--for=condition=Established", "--timeout=60s", "customresourcedefinitions", "--all"])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_overlay_with_every_component_is_taken_and_its_pods_are_restricted() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    define_kinds(&cluster)?;
    let place = workplace(&cluster)?;
    let components = folders("components")?;
    for overlay in folders("overlays")? {
        let alone = judge_whole(&cluster, &place.join("overlays").join(&overlay))?;
        for component in &components {
            let own = format!("../../components/{component}");
            if overlay != *component {
                let both = json!({ "resources": [format!("../../overlays/{overlay}")], "components": [own] });
                let folder = compose(&place, &format!("{overlay}-{component}"), &both)?;
                assert!(judge_whole(&cluster, &folder)?.len() > alone.len(), "{component} adds nothing to {overlay}");
            }
        }
    }

    // The validation fails for invalid input: a pod with more permissions, and an unknown field.
    let root = r#"[{"op": "remove", "path": "/spec/template/spec/securityContext/runAsNonRoot"}]"#;
    let patch = json!([{ "target": { "kind": "Deployment", "name": "flotilla-worker" }, "patch": root }]);
    let overlay = json!({ "resources": ["../../overlays/second-scheduler"], "patches": patch });
    let error = judge_whole(&cluster, &compose(&place, "root", &overlay)?).expect_err("it may be root");
    assert!(format!("{error:#}").contains("would violate PodSecurity \"restricted:latest\""), "{error:#}");
    let mut pod = pods(&objects(&cluster, &place.join("overlays/second-scheduler"))?).remove(0);
    pod["spec"]["hostNetwork"] = true.into();
    let error = judge(&cluster, &[pod], &[]).expect_err("it is in the network of its node");
    assert!(format!("{error:#}").contains("violates PodSecurity \"restricted:latest\": host namespaces"), "{error:#}");
    let unknown = json!({ "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
        "metadata": { "name": "wrong", "namespace": "flotilla" },
        "spec": { "selector": {}, "endpoints": [{ "prot": "https" }] } });
    let error = judge(&cluster, &[unknown], &[]).expect_err("a field that there is not");
    assert!(format!("{error:#}").contains("unknown field \"prot\""), "{error:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_the_deployments_are_made_and_the_static_pod_is_one() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    kubectl(&cluster, &["apply", "-k", &text(&deployed::path("overlays/second-scheduler"))])?;
    wait_until("the pods of both Deployments", PATIENCE, async || {
        let roles = "--output=jsonpath={.items[*].metadata.labels.app\\.kubernetes\\.io/component}";
        let found = kubectl(&cluster, &["get", "pods", "--namespace=flotilla", roles]);
        let found = found.map_err(|error| format!("{error:#}"))?;
        let mut found: Vec<&str> = found.split(' ').collect();
        found.sort_unstable();
        let wanted = ["coordinator", "coordinator", "worker", "worker", "worker"];
        if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await?;
    let file = fs::read_to_string(deployed::path("overlays/static-pod/coordinator.yaml"))?;
    let pod: Value = serde_yaml::from_str(&file)?;
    judge(&cluster, &[pod], &[])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_a_labelled_namespace_are_flotillas_unless_they_name_another_scheduler() -> anyhow::Result<()> {
    let cluster = cluster().await?;
    let place = workplace(&cluster)?;
    let component = compose(&place, "by-namespace", &json!({ "components": ["../../components/by-namespace"] }))?;
    kubectl(&cluster, &["apply", "-k", &text(&component)])?;
    for namespace in ["labelled", "other"] {
        kubectl(&cluster, &["create", "namespace", namespace])?;
    }
    kubectl(&cluster, &["label", "namespace", "labelled", "flotilla.io/scheduler=flotilla"])?;
    let examples = text(&deployed::path("examples/pods.yaml"));
    let create = |namespace: &str, more: &[&str]| {
        let schedulers = "--output=jsonpath={.items[*].spec.schedulerName}{.spec.schedulerName} ";
        let namespace = format!("--namespace={namespace}");
        kubectl(&cluster, &[&["create", "-f", &examples, &namespace, schedulers], more].concat())
    };
    // The API server enforces a policy, and the service account is created, after a delay.
    wait_until("the policy to be in force", PATIENCE, async || {
        let found = create("labelled", &["--dry-run=server"]).map_err(|error| format!("{error:#}"))?;
        if found == "flotilla flotilla flotilla" { Ok(()) } else { Err(found) }
    })
    .await?;
    wait_until("pods to be taken elsewhere", PATIENCE, async || {
        create("other", &["--dry-run=server"]).map_err(|error| format!("{error:#}"))
    })
    .await?;
    assert_eq!(create("labelled", &[])?, "flotilla flotilla flotilla");
    assert_eq!(create("other", &[])?, "default-scheduler default-scheduler flotilla");
    let named = json!({ "spec": { "schedulerName": "somebody-else" } }).to_string();
    let overrides = format!("--overrides={named}");
    let run = ["run", "named", "--image=pause", "--namespace=labelled", &overrides];
    let schedulers = "--output=jsonpath={.spec.schedulerName}";
    assert_eq!(kubectl(&cluster, &[&run[..], &[schedulers]].concat())?, "somebody-else");
    Ok(())
}

fn container(object: &Value) -> &Value {
    let spec = if object["kind"] == "Pod" { &object["spec"] } else { &object["spec"]["template"]["spec"] };
    &spec["containers"][0]
}

fn arguments(container: &Value) -> Vec<&str> {
    container["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn documents(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_yaml::Deserializer::from_str(&text).map(|document| Ok(Value::deserialize(document)?)).collect()
}

/// Arguments that components add to a Deployment.
fn added(deployment: &str) -> anyhow::Result<Vec<String>> {
    let mut added = Vec::new();
    for component in folders("components")? {
        let kustomization = documents(&deployed::path(&format!("components/{component}/kustomization.yaml")))?;
        for patch in kustomization.iter().flat_map(|one| one["patches"].as_array().into_iter().flatten()) {
            let role = deployment.rsplit('-').next().unwrap_or(deployment);
            if !patch["target"]["name"].as_str().is_some_and(|name| name.contains(role)) {
                continue;
            }
            let steps: Vec<Value> = serde_yaml::from_str(patch["patch"].as_str().context("a patch")?)?;
            let steps = steps.iter().filter(|step| step["path"].as_str().is_some_and(|path| path.ends_with("/args/-")));
            added.extend(steps.filter_map(|step| step["value"].as_str().map(str::to_owned)));
        }
    }
    ensure!(!added.is_empty(), "no component adds anything to {deployment}");
    Ok(added)
}

#[test]
fn the_programs_take_the_arguments_that_the_manifests_give_them() -> anyhow::Result<()> {
    for file in ["base/coordinator.yaml", "base/worker.yaml", "overlays/static-pod/coordinator.yaml"] {
        let objects = documents(&deployed::path(file))?;
        let container = container(objects.first().context("a document")?);
        let program = container["command"][0].as_str().context("a command")?.trim_start_matches('/');
        let run = |more: &[&str]| {
            let arguments = [&arguments(container), more, &["--version"]].concat();
            Command::new(binary(program)?).args(arguments).output().context("it cannot be started")
        };
        let added = added(program)?;
        let output = run(&added.iter().map(String::as_str).collect::<Vec<_>>())?;
        assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!run(&["--no-such-flag"])?.status.success(), "{program} takes anything");
    }
    Ok(())
}

async fn probe(port: u16, path: &str) -> anyhow::Result<u16> {
    let mut config = kube::Config::new(format!("http://127.0.0.1:{port}").parse()?);
    config.proxy_url = None;
    let request = kube::api::Request::new("").get(path.trim_start_matches('/'), &kube::api::GetParams::default())?;
    match kube::Client::try_from(config)?.request_text(request).await {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_as_its_manifest_starts_it_lives_at_once_and_is_ready_when_its_secret_is_there() -> anyhow::Result<()>
{
    let folder = tempfile::tempdir()?;
    let objects = documents(&deployed::path("base/worker.yaml"))?;
    let container = container(objects.first().context("a Deployment")?);
    let mut command = Command::new(binary("flotilla-worker")?);
    let mut ports = Vec::new();
    for argument in arguments(container) {
        match argument.split_once("=0.0.0.0:") {
            Some((flag, port)) => {
                let here = free_port()?;
                ports.push((port.to_owned(), here));
                command.arg(format!("{flag}=127.0.0.1:{here}"));
            }
            None => _ = command.arg(argument),
        }
    }
    let mounted = container["volumeMounts"][0]["mountPath"].as_str();
    assert_eq!(mounted, Some("/etc/flotilla/worker-tls"), "the default of --worker-tls-dir");
    let certificates = folder.path().join("worker-tls");
    command.arg("--worker-tls-dir").arg(&certificates);
    let processes = ProcessGroup::new(folder.path().join("logs"))?;
    processes.spawn("worker", command)?;

    let health = |probe: &str| -> anyhow::Result<(u16, String)> {
        let get = &container[probe]["httpGet"];
        let named = container["ports"].as_array().into_iter().flatten().find(|port| port["name"] == get["port"]);
        let number = named.with_context(|| format!("no port {}", get["port"]))?["containerPort"].to_string();
        let here = ports.iter().find(|(port, _)| *port == number).context("no server listens there")?.1;
        Ok((here, get["path"].as_str().context("a path")?.to_owned()))
    };
    let answers = async |(port, path): (u16, String), wanted: u16| {
        wait_until(&format!("{path} to answer {wanted}"), PATIENCE, async || match probe(port, &path).await {
            Ok(code) if code == wanted => Ok(()),
            other => Err(format!("{other:?}\n{}", processes.log_tail("worker", 5))),
        })
        .await
    };
    answers(health("startupProbe")?, 200).await?;
    answers(health("readinessProbe")?, 500).await?;
    issue(&[(Role::Worker, certificates)])?;
    answers(health("readinessProbe")?, 200).await?;
    answers(health("livenessProbe")?, 200).await?;
    Ok(())
}

/// All PromQL of the rules and the dashboard, with its location.
fn expressions() -> anyhow::Result<Vec<(String, String)>> {
    let rules = documents(&deployed::path("components/monitoring/rules.yaml"))?;
    let groups = rules.iter().flat_map(|rules| rules["spec"]["groups"].as_array().into_iter().flatten());
    let rules = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
    let rules = rules.map(|rule| (rule["alert"].to_string(), rule["expr"].clone()));
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(deployed::path("components/monitoring/dashboard.json"))?)?;
    let panels = dashboard["panels"].as_array().cloned().unwrap_or_default();
    let targets = panels.into_iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (panel["title"].to_string(), target["expr"].clone()))
    });
    let all = rules.chain(targets).map(|(place, expression)| {
        // Substitute Grafana's variables.
        let expression = expression.as_str().with_context(|| format!("{place} has no expression"))?;
        Ok((place, expression.replace("$__rate_interval", "5m")))
    });
    all.collect()
}

fn metrics(expression: &str) -> anyhow::Result<BTreeSet<String>> {
    let names = std::cell::RefCell::new(BTreeSet::new());
    struct Names<'a>(&'a std::cell::RefCell<BTreeSet<String>>);
    impl promql_parser::util::ExprVisitor for Names<'_> {
        type Error = std::convert::Infallible;
        fn pre_visit(&mut self, expression: &promql_parser::parser::Expr) -> Result<bool, Self::Error> {
            let selector = match expression {
                promql_parser::parser::Expr::VectorSelector(selector) => Some(selector),
                promql_parser::parser::Expr::MatrixSelector(selector) => Some(&selector.vs),
                _ => None,
            };
            self.0.borrow_mut().extend(selector.and_then(|selector| selector.name.clone()));
            Ok(true)
        }
    }
    let parsed = promql_parser::parser::parse(expression).map_err(anyhow::Error::msg)?;
    promql_parser::util::walk_expr(&mut Names(&names), &parsed)?;
    Ok(names.into_inner())
}

#[test]
fn rules_and_dashboard_ask_for_metrics_that_there_are() -> anyhow::Result<()> {
    let known = ["reference/metrics", "concepts/transport"]
        .map(|page| fs::read_to_string(deployed::path(&format!("../docs/{page}.md"))));
    let known = known.into_iter().collect::<Result<String, _>>()?;
    let is_known = |name: &str| {
        let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        let short = whole.strip_prefix("scheduler_").unwrap_or(whole);
        [name, whole, short].iter().any(|name| ["`", "{"].iter().any(|end| known.contains(&format!("`{name}{end}"))))
            || name == "up"
            || name.starts_with("process_")
    };
    let expressions = expressions()?;
    ensure!(expressions.len() > 30, "there are only {}", expressions.len());
    for (place, expression) in expressions {
        let names = metrics(&expression).with_context(|| format!("{place}: {expression}"))?;
        ensure!(!names.is_empty(), "{place} reads no metric: {expression}");
        if let Some(name) = names.iter().find(|name| !is_known(name)) {
            bail!("{place} reads {name}, which neither docs/reference/metrics.md nor docs/concepts/transport.md has");
        }
    }
    assert!(!is_known("flotilla_made_up") && metrics("sum(rate(a[5m])) by").is_err());
    Ok(())
}
