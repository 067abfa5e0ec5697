//! WebAssembly plugins: the tutorial of docs/tasks/plugins.md, its Go project, and modules that the coordinator downloads, sends to workers,
//! reloads and records.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, ensure};
use axum::{Router, extract::State, routing::get};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::{
    certificates::acceptor,
    fleet::{Fleet, PATIENCE, binary, node_of, wait_until_refused, wait_until_running},
    tutorial::{commands, section, typed},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::net::TcpListener;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs commands in a folder with `flotilla` on the `PATH`.
fn typed_in(folder: &Path, commands: &[String]) -> anyhow::Result<String> {
    let flotilla = binary("flotilla")?;
    let (state, cache) = (folder.join("state"), root().join("target"));
    let variables = [("FLOTILLA_STATE_DIR", &*state), ("FLOTILLA_CACHE_DIR", &*cache)];
    typed(folder, flotilla.parent().context("a folder")?, &variables, commands, "flotilla down")
}

#[test]
fn the_tutorial_ends_with_a_pod_that_the_module_has_placed() -> anyhow::Result<()> {
    let page = fs::read_to_string(root().join("docs/tasks/plugins.md"))?;
    let tutorial = section(&page, "### Tutorial: write a module")?;
    let folder = tempfile::tempdir()?;
    let said = typed_in(folder.path(), &commands(tutorial))?;
    let places = |words: [&str; 2]| said.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(places(["default/web", "red-1"]), "flotilla simulate: {said}");
    assert!(places(["web ", "node-7"]), "flotilla up: {said}");
    Ok(())
}

#[test]
fn a_project_in_go_is_tested_built_and_looked_at_as_its_readme_says() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    typed_in(folder.path(), &["flotilla plugin new team-nodes --lang go".to_owned()])?;
    let project = folder.path().join("team-nodes");
    let readme = fs::read_to_string(project.join("README.md"))?;
    // The other tutorial needs a cluster.
    let commands: Vec<String> =
        commands(&readme).into_iter().filter(|command| !command.starts_with("flotilla up")).collect();
    assert!(commands.len() > 3, "{commands:?}");
    typed_in(&project, &commands)?;

    // The Go code of ported plugins in docs/tasks/plugins.md compiles with the project's SDK.
    let page = fs::read_to_string(root().join("docs/tasks/plugins.md"))?;
    let section = section(&page, "### Port to a module")?;
    let blocks = section.split("```go\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let ported: Vec<&str> = blocks.filter(|block| block.contains("plugin.Description")).collect();
    assert_eq!(ported.len(), 2, "{ported:?}");
    let begin = "package main\n\nimport (\n\t\"strconv\"\n\n\t\"flotilla.dev/plugin\"\n)\n\ntype myCustomPlugin struct{}\n\n\
                 type nodeNumber struct{}\n\n";
    fs::write(project.join("ported.go"), format!("{begin}{}\n", ported.join("\n\n")))?;
    typed_in(&project, &["go vet .".to_owned(), "test -z \"$(gofmt -l ported.go)\"".to_owned()])?;
    Ok(())
}

/// A guest that accepts nodes with names that end with the digit in its configuration, or all. It prefers higher digits, or lower ones with
/// `reverse`.
fn by_digit(reverse: bool) -> Vec<u8> {
    let score =
        if reverse { "(i32.sub (i32.const 57) (call $digit))" } else { "(i32.sub (call $digit) (i32.const 48))" };
    let text = format!(
        r#"(module
          (import "k8s.io/scheduler" "currentNodeName" (func $name (param i32 i32) (result i32)))
          (import "k8s.io/scheduler" "get_config" (func $config (param i32 i32) (result i32)))
          (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "node(s) had another digit")
          (func $digit (result i32)
            (i32.load8_u (i32.add (i32.const 1023) (call $name (i32.const 1024) (i32.const 256)))))
          (func (export "filter") (result i32)
            (if (i32.or (i32.eqz (call $config (i32.const 512) (i32.const 8)))
                        (i32.eq (call $digit) (i32.load8_u (i32.const 512))))
              (then (return (i32.const 0))))
            (call $reason (i32.const 0) (i32.const 25))
            (i32.const 2))
          (func (export "score") (result i64) (i64.shl (i64.extend_i32_u {score}) (i64.const 32))))"#
    );
    wat::parse_str(text).expect("sound text")
}

fn digest(file: &Path) -> anyhow::Result<String> {
    let output = Command::new("sha256sum").arg(file).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split(' ').next().context("a digest")?.to_owned())
}

/// Profiles with a module as plugin: one accepts all nodes, one only nodes with a digit that does not occur.
fn configuration(url: &str, sha256: Option<&str>) -> String {
    let sha256 = sha256.map(|sha256| format!("\n      sha256: '{sha256}'")).unwrap_or_default();
    let profile = |scheduler: &str, plugin: &str, config: &str| {
        format!(
            "- schedulerName: {scheduler}\n  plugins: {{multiPoint: {{enabled: [{{name: {plugin}, weight: 50}}]}}}}\n  \
             pluginConfig:\n  - name: {plugin}\n    args:\n      guestURL: {url}{sha256}\n      guestConfig: '{config}'\n      \
             podFields: [spec.nodeSelector]\n"
        )
    };
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n{}{}",
        profile("flotilla", "ByDigit", ""),
        profile("seven", "OnlySeven", "7")
    )
}

async fn serve(cluster: &ControlPlane, module: Vec<u8>) -> anyhow::Result<(String, Arc<AtomicU64>)> {
    let (certificate, key) = cluster.serving_certificate();
    let acceptor = acceptor(&certificate, &key)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://{}/guest.wasm", listener.local_addr()?);
    let asked = Arc::<AtomicU64>::default();
    let router = Router::new()
        .route(
            "/guest.wasm",
            get(|State((asked, module)): State<(Arc<AtomicU64>, Vec<u8>)>| async move {
                asked.fetch_add(1, Ordering::Relaxed);
                module
            }),
        )
        .with_state((Arc::clone(&asked), module));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
            });
        }
    });
    Ok((url, asked))
}

async fn nodes(cluster: &ControlPlane) -> anyhow::Result<()> {
    cluster.add_nodes((1..=6).map(|number| NodeBuilder::new(format!("node-{number}")))).await?;
    Ok(())
}

async fn wait_for_reload(fleet: &Fleet<'_>, outcome: &str) -> anyhow::Result<()> {
    wait_until(&format!("a change that is {outcome}"), PATIENCE, async || {
        let text = fleet.get("coordinator", "/metrics").await.map_err(|error| format!("{error:#}"))?;
        let line = format!("flotilla_configuration_reloads_total{{outcome=\"{outcome}\"}} ");
        let count = text.lines().find_map(|found| found.strip_prefix(&line)).unwrap_or("none");
        if count == "1" { Ok(()) } else { Err(format!("{count} are {outcome}")) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_at_https_goes_through_the_coordinator_to_workers_and_into_a_recording() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    nodes(&cluster).await?;
    let file = cluster.folder().join("guest.wasm");
    fs::write(&file, by_digit(false))?;
    let (url, asked) = serve(&cluster, by_digit(false)).await?;
    let recordings = cluster.folder().join("recordings");
    // Trusted certificates of the system, the default.
    let trusted = format!("SSL_CERT_FILE={}", cluster.authority_certificate().display());
    let fleet = Fleet::new(&cluster).launched_by(["env".to_owned(), trusted]);
    let mut fleet = fleet.with_args([format!("--record={}", recordings.display())]);
    for worker in ["worker-0", "worker-1", "worker-2"] {
        fleet.reserve(worker)?;
        fleet.start_worker(worker)?;
    }
    let sound = configuration(&url, Some(&digest(&file)?));
    let config = fleet.config(&sound)?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 3).await?;

    cluster.create_pods([pod("first", "flotilla", &[]), pod("seven", "seven", &[])]).await?;
    let running = wait_until_running(&cluster, "first", 1).await?;
    assert_eq!(running.first().and_then(node_of), Some("node-6"), "the highest digit");
    let (_, message) = wait_until_refused(&cluster, "seven").await?;
    assert!(message.contains("0/6 nodes are available: 6 node(s) had another digit."), "{message}");

    // A restarted worker has no modules.
    cluster.processes().kill("worker-1")?;
    fleet.start_worker("worker-1")?;
    fleet.wait_for_workers("coordinator", 3).await?;
    cluster.create_pods([pod("second", "flotilla", &[])]).await?;
    let running = wait_until_running(&cluster, "second", 1).await?;
    assert_eq!(running.first().and_then(node_of), Some("node-6"));
    assert_eq!(asked.load(Ordering::Relaxed), 1, "workers fetch nothing, and what is held is not fetched again");

    fs::write(&config, configuration(&url, Some(&"0".repeat(64))))?;
    wait_for_reload(&fleet, "refused").await?;
    cluster.create_pods([pod("third", "flotilla", &[])]).await?;
    wait_until_running(&cluster, "third", 1).await?;
    assert_eq!(fleet.metric("coordinator", "flotilla_invariant_violations_total").await?, Some(0.0));
    assert_eq!(fleet.metric("coordinator", "flotilla_workers_ready").await?, Some(3.0));

    assert!(cluster.processes().stop("coordinator", PATIENCE).await?, "it ends when it is asked to");
    let replayed = Command::new(binary("flotilla")?).arg("replay").arg(&recordings).output()?;
    let said = String::from_utf8_lossy(&replayed.stdout).into_owned();
    ensure!(replayed.status.success(), "{said}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(said.contains(" decisions are identical"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_is_taken_up_and_one_that_cannot_be_run_is_not() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    nodes(&cluster).await?;
    let file = cluster.folder().join("guest.wasm");
    fs::write(&file, by_digit(false))?;
    let mut fleet = Fleet::new(&cluster);
    for worker in ["worker-0", "worker-1"] {
        fleet.reserve(worker)?;
        fleet.start_worker(worker)?;
    }
    let config = fleet.config(&configuration(&format!("file://{}", file.display()), None))?;
    fleet.start_coordinator("coordinator", Some(&config))?;
    fleet.wait_for_workers("coordinator", 2).await?;
    let place = async |name: &str| -> anyhow::Result<Option<String>> {
        cluster.create_pods([pod(name, "flotilla", &[])]).await?;
        Ok(wait_until_running(&cluster, name, 1).await?.first().and_then(node_of).map(str::to_owned))
    };
    assert_eq!(place("first").await?.as_deref(), Some("node-6"));
    fs::write(&file, by_digit(true))?;
    wait_for_reload(&fleet, "applied").await?;
    fleet.wait_for_workers("coordinator", 2).await?;
    assert_eq!(place("second").await?.as_deref(), Some("node-1"));
    fs::write(&file, b"no module")?;
    wait_for_reload(&fleet, "refused").await?;
    assert_eq!(place("third").await?.as_deref(), Some("node-1"), "the one before is in force");
    Ok(())
}
