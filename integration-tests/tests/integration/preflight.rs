//! `flotilla preflight` before and after the manifests, as an administrator, as the coordinator and as a user without permissions.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::ensure;
use flotilla_control_plane::{Component, ControlPlane, Options, free_port, wait_until};
use flotilla_integration_tests::{
    certificates,
    fleet::{Fleet, PATIENCE, binary, profile},
};
use flotilla_transport::Role;
use serde_json::Value;

const COORDINATOR: &str = "system:serviceaccount:flotilla:flotilla-coordinator";

fn manifest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base").join(name)
}

fn preflight(kubeconfig: &Path, arguments: &[&str]) -> anyhow::Result<Output> {
    let mut command = Command::new(binary("flotilla")?);
    command.arg("preflight").args(arguments).arg("--kubeconfig").arg(kubeconfig);
    command.env_remove("HTTPS_PROXY").env_remove("KUBERNETES_SERVICE_HOST");
    Ok(command.output()?)
}

fn apply(cluster: &ControlPlane, name: &str) -> anyhow::Result<()> {
    let mut command = Command::new(cluster.kubectl());
    command.args(["apply", "-f"]).arg(manifest(name)).arg("--kubeconfig").arg(cluster.kubeconfig());
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn verdict(checks: &[Value], name: &str) -> String {
    let found = checks.iter().find(|check| check["name"] == name);
    found.and_then(|check| check["verdict"].as_str()).unwrap_or("absent").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_rights_is_told_the_rules_that_are_missing_and_one_with_the_manifests_is_ready()
-> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    let config = manifest("config.yaml").display().to_string();
    let arguments = ["--config", &config];
    let admin = cluster.kubeconfig();

    let before = preflight(admin, &arguments)?;
    assert_eq!(before.status.code(), Some(1), "{}", text(&before));
    for expected in [
        "✓ API server: v1.37.2, the release that Flotilla answers as\n",
        "✗ rights: system:serviceaccount:flotilla:flotilla-coordinator lacks ",
        "    # ClusterRole flotilla-coordinator\n",
        "    - apiGroups: [\"\"]\n      resources: [\"pods/binding\"]\n      verbs: [\"create\"]\n",
        "    # Role flotilla-coordinator in namespace flotilla\n",
        "✗ namespace: there is no namespace flotilla\n    kubectl apply -f deploy/base/namespace.yaml\n",
    ] {
        assert!(text(&before).contains(expected), "{expected}\n{}", text(&before));
    }

    apply(&cluster, "namespace.yaml")?;
    apply(&cluster, "rbac.yaml")?;
    // The authorizer receives new roles by a watch.
    let ready = wait_until("nothing to fail", PATIENCE, async || {
        let after = preflight(admin, &arguments).map_err(|error| format!("{error:#}"))?;
        if after.status.success() { Ok(text(&after)) } else { Err(text(&after)) }
    })
    .await?;
    assert!(!ready.contains('✗') && ready.contains(" has all "), "{ready}");
    assert!(ready.contains("✓ namespace: flotilla is there; pod security enforces restricted"), "{ready}");

    // The coordinator's account checks itself; a user without permissions cannot check.
    let own = preflight(&cluster.kubeconfig_for(COORDINATOR, None)?, &["-o", "json"])?;
    let own: Vec<Value> = serde_json::from_slice(&own.stdout)?;
    assert_eq!(verdict(&own, "rights"), "passed", "{own:#?}");
    let nobody = preflight(&cluster.kubeconfig_for("nobody", None)?, &["-o", "json"])?;
    assert_eq!(nobody.status.code(), Some(0), "{}", text(&nobody));
    let nobody: Vec<Value> = serde_json::from_slice(&nobody.stdout)?;
    assert_eq!(
        (verdict(&nobody, "rights"), verdict(&nobody, "Lease")),
        ("unknown".into(), "unknown".into()),
        "{nobody:#?}"
    );

    let nowhere = free_port()?;
    let away = cluster.folder().join("away");
    std::fs::write(
        &away,
        std::fs::read_to_string(admin)?.replace(&cluster.url(), &format!("https://127.0.0.1:{nowhere}")),
    )?;
    let away = preflight(&away, &[])?;
    assert_eq!(away.status.code(), Some(1));
    assert!(text(&away).contains("✗ API server: ") && text(&away).contains("does not answer"), "{}", text(&away));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_shaken_hands_with_and_a_second_scheduler_of_the_same_pods_is_named() -> anyhow::Result<()> {
    let stock = Options { kwok: false, ..Options::default() }.with_kube_scheduler();
    let stock = stock.with_arg(Component::Scheduler, "--leader-elect=true");
    let cluster = ControlPlane::start(stock).await?;
    let mut fleet = Fleet::new(&cluster);
    fleet.reserve("worker-0")?;
    let folders = [Role::Coordinator, Role::Worker].map(|role| (role, fleet.certificates(role)));
    certificates::issue(&folders)?;
    fleet.start_worker("worker-0")?;
    let (there, away) = (fleet.worker_address("worker-0")?, format!("127.0.0.1:{}", free_port()?));
    let config = fleet.config(&profile("default-scheduler"))?.display().to_string();
    let (workers, folder) = (format!("{there},{away}"), folders[0].1.display().to_string());
    let arguments = ["--workers", &workers, "--worker-tls-dir", &folder, "--config", &config];
    wait_until("the worker to listen, and kube-scheduler to lead", PATIENCE, async || {
        let checked = preflight(cluster.kubeconfig(), &arguments).map_err(|error| format!("{error:#}"))?;
        let text = text(&checked);
        let expected = [
            format!("✓ workers: {there} has shown the certificate of a worker\n"),
            format!("✗ workers: {away}: cannot connect: "),
            "holds kube-system/kube-scheduler and schedules pods of default-scheduler, which a profile here serves too"
                .into(),
        ];
        if expected.iter().all(|line| text.contains(line)) { Ok(()) } else { Err(text) }
    })
    .await
}
