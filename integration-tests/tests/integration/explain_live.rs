//! `flotilla explain pod` against a live cluster, and authorization of queries.

use std::{
    path::Path,
    process::{Command, Output},
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    deployed::{COORDINATOR, LEASE, grant, kubectl},
    fleet::{Fleet, PATIENCE, binary, profile, wait_until_refused, wait_until_running},
};
use k8s_openapi::api::core::v1::PodSchedulingGate;
use serde_json::Value;

fn flotilla(kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(binary("flotilla")?);
    command.args(["explain"]).args(arguments).arg("--kubeconfig").arg(kubeconfig).env_remove("HTTPS_PROXY");
    Ok(command.output()?)
}

/// Runs the command directly against a coordinator as an administrator, and returns its output.
fn explain(fleet: &Fleet<'_>, cluster: &ControlPlane, coordinator: &str, words: &[&str]) -> anyhow::Result<String> {
    let url = fleet.url(coordinator)?;
    let there = ["--coordinator", &url, "--coordinator-insecure-skip-tls-verify"];
    let output = flotilla(cluster.kubeconfig(), &[words, &there].concat())?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && complaints.is_empty(), "{words:?}: {complaints}");
    Ok(String::from_utf8(output.stdout)?)
}

fn json(fleet: &Fleet<'_>, cluster: &ControlPlane, coordinator: &str, pod: &str) -> anyhow::Result<Value> {
    let text = explain(fleet, cluster, coordinator, &["pod", pod, "-n", "default", "-o", "json"])?;
    serde_json::from_str(&text).with_context(|| text.clone())
}

/// The leader explains the decision of a bound pod; a follower only evaluates the current nodes.
fn why_this_node(fleet: &Fleet<'_>, cluster: &ControlPlane) -> anyhow::Result<()> {
    let runs = json(fleet, cluster, "coordinator", "runs")?;
    assert_eq!((&runs["node"], &runs["queue"]["state"]), (&"small".into(), &"Bound".into()), "{runs}");
    let text = explain(fleet, cluster, "coordinator", &["pod/runs"])?;
    assert!(text.starts_with("default/runs: bound to small\n"), "{text}");
    assert!(text.contains("default/runs: small was chosen at "), "{text}");
    assert!(text.contains("1 of 2 nodes were feasible; there was no other than small"), "{text}");
    let nodes = &runs["queue"]["decision"]["nodes"];
    assert_eq!((&nodes["agrees"], &nodes["refused"][0]["plugin"]), (&true.into(), &"TaintToleration".into()), "{runs}");
    // A follower has no decisions, and evaluates the current nodes.
    let url = fleet.url("standby")?;
    let words = ["pod/runs", "--coordinator", &url, "--coordinator-insecure-skip-tls-verify", "-o", "json"];
    let output = flotilla(cluster.kubeconfig(), &words)?;
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("default/runs is on small, and its decision is not available"), "{told}");
    let present: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&present["boundTo"], &present["best"][0]), (&"small".into(), &"small".into()), "{present}");
    Ok(())
}

/// Changes are simulated on a copy of the live cluster.
fn what_a_change_would_do(cluster: &ControlPlane, config: &Path) -> anyhow::Result<()> {
    let ask = |words: &[&str]| -> anyhow::Result<Value> {
        let mut command = Command::new(binary("flotilla")?);
        command.args(words).args(["-o", "json", "--kubeconfig"]).arg(cluster.kubeconfig()).env_remove("HTTPS_PROXY");
        let output = command.output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let config = config.to_str().context("a path in UTF-8")?;
    let without = ask(&["whatif", "--current-config", config, "--remove-node", "small"])?;
    assert_eq!((&without["before"]["nodes"], &without["after"]["nodes"]), (&2.into(), &1.into()), "{without}");
    assert_eq!((&without["pods"][0]["pod"], &without["pods"][0]["change"]), (&"default/runs".into(), &"gone".into()));
    let file = cluster.folder().join("three.yaml");
    std::fs::write(&file, serde_json::to_string(&pod("three", "flotilla", &[("cpu", "3")]))?)?;
    let pod = file.to_str().context("a path in UTF-8")?;
    let more = ask(&["capacity", "--config", config, "--pod", pod])?;
    assert_eq!(more["fits"], 2, "{more}");
    let placed = ask(&["simulate", "--config", config])?;
    assert_eq!((&placed["summary"]["nodes"], &placed["summary"]["pending"]), (&2.into(), &2.into()), "{placed}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_is_told_where_it_stands_what_the_nodes_make_of_it_and_who_decides() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("small"), NodeBuilder::new("tainted").taint("gpu", "", "NoSchedule")]).await?;
    // Otherwise an idle coordinator would pop a pod from backoff immediately.
    let gates = "--feature-gates=SchedulerPopFromBackoffQ=false".to_owned();
    let mut fleet = Fleet::new(&cluster).with_args([gates]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let backoff = "podInitialBackoffSeconds: 600\npodMaxBackoffSeconds: 600\n";
    let config = fleet.config(&(profile("flotilla") + backoff))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    fleet.start_coordinator("standby", Some(&config))?;

    let mut gated = pod("gated", "flotilla", &[]);
    gated.spec.as_mut().expect("a spec").scheduling_gates =
        Some(vec![PodSchedulingGate { name: "example.com/quota".into() }]);
    let theirs = pod("theirs", "somebody-else", &[]);
    cluster
        .create_pods([gated, theirs, pod("runs", "flotilla", &[]), pod("huge", "flotilla", &[("cpu", "100")])])
        .await?;
    wait_until_running(&cluster, "runs", 1).await?;
    wait_until_refused(&cluster, "huge").await?;

    why_this_node(&fleet, &cluster)?;
    what_a_change_would_do(&cluster, &config)?;
    let theirs = json(&fleet, &cluster, "coordinator", "theirs")?;
    assert_eq!((&theirs["queue"]["state"], &theirs["queue"]["why"]), (&"NotOurs".into(), &"OtherScheduler".into()));
    assert_eq!(theirs["message"], "it asks for scheduler \"somebody-else\", and profiles are flotilla");

    let gated = json(&fleet, &cluster, "coordinator", "gated")?;
    assert_eq!((&gated["queue"]["state"], &gated["queue"]["plugin"]), (&"Gated".into(), &"SchedulingGates".into()));
    assert_eq!((&gated["gated"], &gated["plugin"]), (&true.into(), &"SchedulingGates".into()));

    let message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).";
    let huge = json(&fleet, &cluster, "coordinator", "huge")?;
    let queue = &huge["queue"];
    let with_preemption =
        format!("{message} preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.");
    assert_eq!((&huge["message"], &queue["lastMessage"]), (&message.into(), &with_preemption.into()), "{huge}");
    assert_eq!((&queue["state"], &queue["attempts"]), (&"Unschedulable".into(), &1.into()), "{queue}");
    assert_eq!(queue["rejectedBy"][0]["plugin"], "NodeResourcesFit");
    assert_eq!(
        queue["rejectedBy"][1]["waitsFor"],
        serde_json::json!(["NodeAdd", "NodeUpdateNodeTaint", "TargetPodUpdatePodToleration"])
    );
    let decides = &queue["coordinator"];
    assert_eq!(
        (&decides["leading"], &decides["workersReady"], &decides["nodes"]),
        (&true.into(), &1.into(), &2.into())
    );
    let text = explain(&fleet, &cluster, "coordinator", &["pod", "huge", "-o", "wide"])?;
    assert!(text.starts_with("default/huge: unschedulable for "), "{text}");
    assert!(
        text.contains("NodeResourcesFit waits for a pod to be deleted") && text.contains("fits none of 2 nodes"),
        "{text}"
    );

    // A larger node wakes it before its backoff has ended.
    cluster.add_nodes([NodeBuilder::new("large").capacity("cpu", "200").taint("gpu", "", "NoSchedule")]).await?;
    wait_until("huge to back off", PATIENCE, async || {
        let huge = json(&fleet, &cluster, "coordinator", "huge").map_err(|error| format!("{error:#}"))?;
        let left = huge["queue"]["leftMs"].as_u64();
        if huge["queue"]["state"] == "BackingOff" && left > Some(0) { Ok(()) } else { Err(huge.to_string()) }
    })
    .await?;
    let text = explain(&fleet, &cluster, "coordinator", &["pod", "huge"])?;
    assert!(text.starts_with("default/huge: backing off for another ") && text.contains("after 1 attempt\n"), "{text}");
    assert!(text.contains(&format!("last message: {message}")), "{text}");

    let seen = json(&fleet, &cluster, "standby", "huge")?;
    let leader = decides["identity"].as_str().context("the leader has a name")?;
    assert_eq!((&seen["queue"]["state"], &seen["queue"]["attempts"]), (&"Active".into(), &0.into()), "{seen}");
    let follower = &seen["queue"]["coordinator"];
    assert_eq!((&follower["leading"], &follower["leader"]), (&false.into(), &leader.into()));
    let text = explain(&fleet, &cluster, "standby", &["pod", "huge"])?;
    assert!(text.contains(&format!("; {leader} decides")), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_named_and_a_coordinator_that_cannot_be_asked_is_done_without() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    cluster.create_pods([pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    let run = |kubeconfig: &Path, words: &[&str]| -> anyhow::Result<(Option<i32>, String, String)> {
        let output = flotilla(kubeconfig, words)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((output.status.code(), text(output.stdout), text(output.stderr)))
    };
    let admin = cluster.kubeconfig();

    let (code, out, complaints) = run(admin, &["pod", "huge"])?;
    assert_eq!(code, Some(0), "{complaints}");
    assert!(out.starts_with("default/huge: fits none of 1 node") && out.contains("Insufficient cpu"), "{out}");
    let told: Vec<&str> = complaints.lines().collect();
    assert_eq!(told.len(), 2, "{complaints}");
    assert_eq!(
        told[0],
        "the state of the queue is not known: there is no Lease flotilla/flotilla, there is no Lease kube-system/flotilla, \
         there is no Lease kube-system/kube-scheduler; name the one in use with --lease"
    );
    assert!(told[1].starts_with("evaluated with kube-scheduler's default configuration; --config names another"));

    let (code, _, complaints) = run(admin, &["pod", "unheard-of", "-n", "shop"])?;
    assert_eq!(code, Some(1));
    assert!(complaints.contains("there is no pod \"unheard-of\" in namespace \"shop\" (context "), "{complaints}");
    let (code, _, complaints) = run(&cluster.kubeconfig_for("nobody", None)?, &["pod", "huge"])?;
    assert_eq!(code, Some(1));
    assert!(complaints.contains("User \"nobody\" cannot get resource \"pods\""), "{complaints}");
    let (code, _, complaints) = run(admin, &["pod", "huge", "--context", "elsewhere"])?;
    assert_eq!(code, Some(1));
    assert!(complaints.contains("choose with --context one of: "), "{complaints}");
    let (code, _, complaints) = run(admin, &["node", "n"])?;
    assert_eq!((code, complaints.contains("write pod NAME")), (Some(2), true), "{complaints}");

    // The Lease's holder is not a pod, as for all coordinators here.
    grant(&cluster)?;
    let fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let (code, out, complaints) = run(admin, &["pod", "huge"])?;
    assert_eq!(code, Some(0), "{complaints}");
    assert!(complaints.contains("pod flotilla/") && complaints.contains("not found"), "{complaints}");
    assert!(complaints.contains("which holds the Lease kube-system/flotilla"), "{complaints}");
    assert!(out.starts_with("default/huge: fits none of 1 node"), "{out}");
    drop(fleet);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_tells_only_those_whom_the_api_server_lets() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes([NodeBuilder::new("node")]).await?;
    grant(&cluster)?;
    let mut fleet =
        Fleet::new(&cluster).speaking_as(cluster.kubeconfig_for(COORDINATOR, None)?).with_args([LEASE.to_owned()]);
    fleet.reserve("worker-0")?;
    fleet.start_worker("worker-0")?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 1).await?;
    cluster.create_pods([pod("web", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "web", 1).await?;
    let path = "/explain/v1/namespaces/default/pods/web";
    let token = |account: &str, more: &[&str]| {
        kubectl(&cluster, &[&["create", "token", "-n", "flotilla", account], more].concat())
    };
    let bearer = |token: &str| vec![("authorization", format!("Bearer {token}"))];

    for path in ["/metrics", "/configz", "/status", path] {
        let (code, body) = fleet.get_with("coordinator", path, &[]).await?;
        assert_eq!((code, body.contains("Authorization: Bearer")), (401, true), "{path}: {body}");
        let (code, _) = fleet.get_with("coordinator", path, &bearer("made-up")).await?;
        assert_eq!(code, 401, "{path}");
    }
    assert_eq!(fleet.get_with("coordinator", "/readyz", &[]).await?, (200, "ok".to_owned()));

    // As Prometheus does.
    kubectl(&cluster, &["create", "serviceaccount", "prometheus", "-n", "flotilla"])?;
    let prometheus = bearer(&token("prometheus", &[])?);
    let (code, body) = fleet.get_with("coordinator", "/metrics", &prometheus).await?;
    assert_eq!(code, 403, "{body}");
    assert!(body.contains("system:serviceaccount:flotilla:prometheus") && body.contains("grant it"), "{body}");
    let (account, role) = ("--serviceaccount=flotilla:prometheus", "--clusterrole=flotilla-metrics");
    kubectl(&cluster, &["create", "clusterrolebinding", "metrics", account, role])?;
    wait_until("the metrics to be told", PATIENCE, async || {
        let answer = fleet.get_with("coordinator", "/metrics", &prometheus).await;
        let (code, body) = answer.map_err(|error| format!("{error:#}"))?;
        if code == 200 && body.contains("flotilla_workers_ready 1") { Ok(()) } else { Err(body) }
    })
    .await?;
    assert_eq!(fleet.get_with("coordinator", path, &prometheus).await?.0, 403);

    // As the command line does through the API server.
    let own = |token: String| vec![("x-flotilla-authorization", format!("Bearer {token}"))];
    let reader = own(token("flotilla-reader", &["--audience=flotilla-coordinator"])?);
    let (code, body) = fleet.get_with("coordinator", path, &reader).await?;
    assert_eq!((code, body.contains("\"state\":\"Bound\",\"node\":\"node\"")), (200, true), "{body}");
    for path in ["/configz", "/status"] {
        assert_eq!(fleet.get_with("coordinator", path, &reader).await?.0, 200, "{path}");
    }
    assert_eq!(fleet.get_with("coordinator", "/metrics", &reader).await?.0, 403);
    let powerful = own(token("flotilla-reader", &[])?);
    assert_eq!(fleet.get_with("coordinator", path, &powerful).await?.0, 401, "it is for the API server");

    // A user with permission for the path but not for the pod.
    let rule = ["create", "clusterrole", "explainer", "--verb=get", "--non-resource-url=/explain/*"];
    kubectl(&cluster, &rule)?;
    kubectl(&cluster, &["create", "serviceaccount", "team", "-n", "flotilla"])?;
    let account = "--serviceaccount=flotilla:team";
    kubectl(&cluster, &["create", "clusterrolebinding", "explainer", account, "--clusterrole=explainer"])?;
    let team = own(token("team", &["--audience=flotilla-coordinator"])?);
    let (code, body) = fleet.get_with("coordinator", path, &team).await?;
    assert_eq!((code, body.contains("cannot get pod \"default/web\"")), (403, true), "{body}");
    kubectl(&cluster, &["create", "rolebinding", "view", account, "--clusterrole=view", "-n", "default"])?;
    wait_until("the pod to be told", PATIENCE, async || {
        let answer = fleet.get_with("coordinator", path, &team).await;
        let (code, body) = answer.map_err(|error| format!("{error:#}"))?;
        if code == 200 { Ok(()) } else { Err(body) }
    })
    .await
}
