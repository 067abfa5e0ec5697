//! The live page with a cluster of `flotilla up`: responses of its server, and its view in a browser. Without Chromium only the responses
//! are tested, and the test prints so. `FLOTILLA_RECORD=1` records the images in `docs/images`, after a minute or two of load.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::wait_until;
use flotilla_integration_tests::{
    fleet::PATIENCE,
    person::{Person, after, folder, signal, worker_in},
};
use serde_json::{Value, json};

#[path = "../../../cli/tests/page/browser.rs"]
mod browser;

use browser::Browser;

const WINDOW: (u32, u32) = (1440, 900);
/// An infeasible pod, a gated one, a unique one that workers have to evaluate, and a Deployment for load.
const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {schedulerName: flotilla, containers: [{name: c, image: i, resources: {requests: {cpu: "100"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulerName: flotilla, schedulingGates: [{name: example.com/approval}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {schedulerName: flotilla, containers: [{name: c, image: i, resources: {requests: {cpu: 123m}}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 20
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: flotilla
      terminationGracePeriodSeconds: 0
      containers: [{name: c, image: i, resources: {requests: {cpu: 10m, memory: 16Mi}}}]
"#;

struct Up {
    person: Person,
    printed: String,
}

impl Up {
    fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut up = Self { person: Person::new()?, printed: String::new() };
        let output = up.person.flotilla(&["up", "--detach"])?.args(arguments).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        up.printed = String::from_utf8(output.stdout)?;
        Ok(up)
    }

    fn after(&self, word: &str) -> anyhow::Result<&str> {
        after(&self.printed, word)
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let kubectl = folder(&self.printed)?.join("bin/kubectl");
        let mut command = Command::new(kubectl);
        command.args(arguments).env("KUBECONFIG", self.after("export KUBECONFIG=")?);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("a pipe")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Starts `flotilla ui` with the printed environment.
    fn ui(&self, more: &[&str]) -> anyhow::Result<Server> {
        let mut command = self.person.flotilla(&["ui", "--live", "--coordinator", self.after("--coordinator ")?])?;
        command
            .env("KUBECONFIG", self.after("export KUBECONFIG=")?)
            .env("FLOTILLA_JAEGER", self.after("FLOTILLA_JAEGER=")?);
        command.args(["--coordinator-ca", self.after("--coordinator-ca ")?]).args(more);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut url = String::new();
        BufReader::new(process.stdout.take().context("a pipe")?).read_line(&mut url)?;
        ensure!(url.starts_with("http://127.0.0.1:"), "it printed {url:?}");
        Ok(Server { process, url: url.trim().to_owned() })
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.person.flotilla(&["down"]).map(|mut command| command.output());
    }
}

struct Server {
    process: Child,
    url: String,
}

impl Server {
    /// Status and body of a response; the path is relative to the server's.
    fn ask(&self, request: &str) -> anyhow::Result<(u16, String)> {
        let path = &self.url[self.url.rfind(':').context("a port")?..];
        let path = &path[path.find('/').context("a path")?..];
        self.ask_outside(&request.replacen(" /", &format!(" {path}"), 1))
    }

    fn ask_outside(&self, request: &str) -> anyhow::Result<(u16, String)> {
        let (address, _) = self.url.trim_start_matches("http://").split_once('/').context("a path")?;
        let mut stream = TcpStream::connect(address)?;
        let request = request.replace("HERE", address);
        stream.write_all(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).context("a status")?.parse()?;
        Ok((status, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    fn get(&self, path: &str) -> anyhow::Result<(u16, String)> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: HERE"))
    }

    fn json(&self, path: &str) -> anyhow::Result<Value> {
        let (status, body) = self.get(path)?;
        ensure!(status == 200, "{path}: {status}: {body}");
        // A response of unknown length is chunked.
        let (from, until) = (body.find('{').context("an object")?, body.rfind('}').context("an object")?);
        Ok(serde_json::from_str(&body[from..=until])?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn records() -> bool {
    env::var_os("FLOTILLA_RECORD").is_some()
}

fn record(name: &str, browser: &mut Browser) -> anyhow::Result<()> {
    let picture = browser.picture();
    ensure!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    if records() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images").join(name), picture)?;
    }
    Ok(())
}

/// Records both modes, the dark one first.
fn record_both(name: &str, browser: &mut Browser) -> anyhow::Result<()> {
    for mode in ["dark", "light"] {
        browser.prefer(mode);
        browser.wait(&format!("document.documentElement.dataset.theme === '{mode}'"));
        // The charts are redrawn.
        thread::sleep(Duration::from_millis(1_500));
        record(&format!("{name}-{mode}.png"), browser)?;
    }
    Ok(())
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let text = browser
        .value(&format!("[...document.querySelectorAll({})].map((e) => e.innerText).join('|')", json!(selector)));
    text.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_page_of_a_live_cluster_shows_its_coordinator_its_workers_and_the_trace_of_a_pod() -> anyhow::Result<()> {
    let (nodes, workers) = if records() { ("40", "4") } else { ("6", "2") };
    let up = Up::start(&["--nodes", nodes, "--workers", workers, "--tracing"])?;
    up.kubectl(&["apply", "-f", "-"], PODS)?;
    up.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"], "")?;
    let server = up.ui(&[])?;
    up.kubectl(&["wait", "--for=condition=PodScheduled", "pod/alone", "--timeout=60s"], "")?;
    answers(&server, "alone", workers.parse()?).await?;
    let Some(program) = browser::find() else {
        eprintln!(
            "not all was tested: no Chromium is in PATH (Debian: apt-get install chromium), and the page needs one to be seen"
        );
        return Ok(());
    };
    let mut browser = Browser::start(&program, WINDOW);
    shown(&up, &server, &mut browser, "default/alone")
}

/// The server answers the page, and no other client.
async fn answers(server: &Server, name: &str, workers: usize) -> anyhow::Result<()> {
    let now = server.json("/live")?;
    assert_eq!(now["report"]["healthy"], true, "{now:#}");
    let status = &now["report"]["coordinators"][0]["status"];
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(workers), "{status:#}");
    assert_eq!((&status["queue"]["gated"], &status["latency"]["attempts"]["boundsUs"][0]), (&json!(1), &json!(1000)));
    wait_until("two samples with a rate between them", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let lines = server.json("/live").map_err(|error| format!("{error:#}"))?["lines"].clone();
        let rates = lines["decisionsPerSecond"].as_array().map(Vec::as_slice).unwrap_or_default();
        if rates.iter().any(Value::is_number) { Ok(()) } else { Err(lines.to_string()) }
    })
    .await?;

    let huge = server.json("/live/pods/default/huge")?;
    assert!(huge["lastMessage"].as_str().is_some_and(|words| words.contains("Insufficient cpu")), "{huge:#}");
    let bound = server.json(&format!("/live/pods/default/{name}"))?;
    assert_eq!((&bound["state"], &bound["decision"]["node"]), (&json!("Bound"), &bound["node"]), "{bound:#}");
    wait_until("the trace", PATIENCE, async || {
        let trace =
            server.json(&format!("/live/traces/default/{name}?attempt=1")).map_err(|error| format!("{error:#}"))?;
        let has = |name: &str| trace["rows"].as_array().is_some_and(|rows| rows.iter().any(|row| row["name"] == name));
        if has("schedule pod") && has("evaluate shard") { Ok(()) } else { Err(trace.to_string()) }
    })
    .await?;

    for (request, expected, words) in [
        ("GET /live HTTP/1.1\r\nHost: rebound.example", 403, "answers to 127.0.0.1"),
        ("GET /live HTTP/1.1\r\nHost: HERE\r\nSec-Fetch-Site: cross-site", 403, "no other site"),
        ("POST /live HTTP/1.1\r\nHost: HERE\r\nContent-Length: 0", 405, ""),
        ("DELETE /live/pods/default/huge HTTP/1.1\r\nHost: HERE", 405, ""),
        ("GET /live/pods/default/..%2f..%2fsecrets HTTP/1.1\r\nHost: HERE", 400, "no pod has this"),
        ("GET /live/traces/default/huge?attempt=0 HTTP/1.1\r\nHost: HERE", 400, "attempt=N"),
        ("GET /live/traces/default/huge?attempt=x HTTP/1.1\r\nHost: HERE", 400, "attempt=N"),
        ("GET /live/traces/default/none HTTP/1.1\r\nHost: HERE", 502, "there is no pod \"none\""),
        ("GET /live/traces/default/gated HTTP/1.1\r\nHost: HERE", 502, "has no trace of"),
        ("GET /account/1/0 HTTP/1.1\r\nHost: HERE", 410, "reload this one too"),
    ] {
        let (status, body) = server.ask(request)?;
        assert!(status == expected && body.contains(words), "{request}: {status}: {body}");
    }
    // Another local user can know only the port.
    for path in ["/", "/live", "/live/pods/default/huge", "/00000000000000000000000000000000/live"] {
        let (status, body) = server.ask_outside(&format!("GET {path} HTTP/1.1\r\nHost: HERE"))?;
        assert!(status == 403 && body.contains("open the whole address"), "{path}: {status}: {body}");
    }
    // The page does not contain credentials of the kubeconfig.
    let (_, page) = server.get("/")?;
    for secret in ["PRIVATE KEY", "client-key", "BEGIN CERTIFICATE", "eyJhbGciOi"] {
        assert!(!page.contains(secret) && !now.to_string().contains(secret), "{secret}");
    }
    Ok(())
}

fn shown(up: &Up, server: &Server, browser: &mut Browser, name: &str) -> anyhow::Result<()> {
    browser.prefer("light");
    browser.open(&server.url);
    browser.wait("document.querySelectorAll('#panel .row').length > 0");
    // As in a saved page: the pending pod links to its reason, and to its position in the queue.
    browser
        .click("[...document.querySelectorAll('#panel .row')].find((row) => row.innerText.includes('default/huge'))");
    browser.wait("document.querySelector('.note.help') !== null");
    browser.click("[...document.querySelectorAll('.chip')].find((chip) => chip.innerText.includes('its trace'))");
    browser.wait("document.querySelector('#livesheet .note.warn') !== null");
    let stands = text(browser, "#livesheet");
    assert!(stands.contains("Insufficient cpu") && stands.contains("attempt"), "{stands}");
    browser.press(&["Escape"]);
    browser.wait("location.hash === '#live' && document.querySelectorAll('#livepanel .row').length > 1");
    assert!(text(browser, "#livetiles").contains("healthy"), "{}", text(browser, "#livetiles"));
    browser.wait("document.querySelectorAll('.uplot canvas').length === 3");

    load(up)?;
    browser.wait("/decisions [\\d.,]+/.test(document.querySelector('.plot').getAttribute('aria-label'))");
    browser.wait("/p99 [\\d.]+ .?s/.test([...document.querySelectorAll('.plot')][2].getAttribute('aria-label'))");
    record_both("live", browser)?;

    browser.click("document.getElementById('livetab-waiting')");
    browser.wait("document.getElementById('livepanel').innerText.includes('default/huge')");
    browser.click("document.getElementById('livetab-slowest')");
    browser.click("document.getElementById('livetab-workers')");

    // A hung worker is shown before the next query is due.
    let worker = worker_in(&folder(&up.printed)?)?;
    signal("STOP", worker)?;
    up.kubectl(&["scale", "deployment/web", "--replicas=30"], "")?;
    browser.wait("document.querySelector('#livepanel .word.warn') !== null");
    signal("CONT", worker)?;
    browser.wait("document.querySelector('#livepanel .word.warn') === null");

    // With the keyboard: a worker, and back.
    browser.value("document.querySelector('#livepanel .table').focus()");
    browser.press(&["Home", "Enter"]);
    browser.wait("document.querySelector('#livesheet .facts') !== null");
    browser.press(&["Escape"]);
    browser.wait("document.querySelectorAll('#livepanel .row').length > 1");

    // Search for a pod: its decision, and its trace.
    browser.press(&["/"]);
    assert_eq!(browser.value("document.activeElement.id"), json!("livesearch"));
    browser.call("Input.insertText", json!({ "text": name }));
    browser.press(&["Enter"]);
    browser.wait("document.querySelectorAll('.span').length > 3 && document.querySelector('#livesheet .row') !== null");
    let (trace, sheet) = (text(browser, "#livemain"), text(browser, "#livesheet"));
    assert!(trace.contains("evaluate shard") && trace.contains("bind request"), "{trace}");
    assert!(sheet.contains("The decision") && sheet.contains("were feasible"), "{sheet}");
    record_both("trace", browser)?;
    browser.value("document.querySelector('.span').focus()");
    browser.press(&["ArrowDown", "Enter"]);
    browser.wait("document.querySelector('.span[aria-expanded=true]') !== null");
    assert!(text(browser, ".spans .facts").contains("process"), "{}", text(browser, ".spans .facts"));

    // A reload includes newer pods.
    let before = browser.value("document.getElementById('data').textContent.length");
    browser.open(&server.url);
    browser.wait("document.querySelectorAll('#panel .row').length > 0");
    assert!(browser.value("document.getElementById('data').textContent.length").as_u64() > before.as_u64());
    assert!(
        browser.requests.iter().all(|url| url.starts_with(&server.url) || url.starts_with("data:")),
        "{:?}",
        browser.requests
    );
    assert_eq!(browser.complaints, [] as [&str; 0]);
    Ok(())
}

/// Creates and deletes pods for some seconds, or longer for recorded images.
fn load(up: &Up) -> anyhow::Result<()> {
    let steps = if records() { &[80, 200, 120, 320, 240, 480, 300, 600][..] } else { &[60] };
    let began = Instant::now();
    for (step, replicas) in steps.iter().enumerate() {
        up.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")], "")?;
        let until = Duration::from_secs(12) * u32::try_from(step + 1).unwrap_or(1);
        // The image shows the last ones arriving.
        if records() && step + 1 < steps.len() {
            thread::sleep(until.saturating_sub(began.elapsed()));
        }
    }
    Ok(())
}
