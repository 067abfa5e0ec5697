//! The page in a real browser: every view, by pointer and by keyboard. Without Chromium each test prints a message and passes.
//!
//! With `FLOTILLA_RECORD=1` it writes the pictures in `docs/images`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

#[path = "page/browser.rs"]
mod browser;
#[path = "page/typing.rs"]
mod typing;

use browser::Browser;

const WINDOW: (u32, u32) = (1440, 900);

/// A cluster with markup in names, and labels that end scripts.
const HOSTILE: &str = r#"
apiVersion: v1
kind: Node
metadata:
  name: a
  labels: {topology.kubernetes.io/zone: "</script><script>document.title='run'</script>", "x": "<!--<script>"}
spec: {taints: [{key: "<img src=x onerror=document.title='run'>", value: "\u202egnp", effect: NoSchedule}]}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "5"}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0}
spec:
  nodeSelector: {"<b>x</b>": "</script><img src=x onerror=document.title='run'>"}
  containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]
"#;

/// A StatefulSet with a first pod that fits nowhere, and a Deployment over quota.
const REFUSED: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: "2", memory: 1Gi, pods: "5"}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: limited}
spec: {hard: {pods: "1"}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, resources: {requests: {cpu: "3"}}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: limited}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn flotilla(args: &[&str]) -> Vec<u8> {
    let command = Command::new(env!("CARGO_BIN_EXE_flotilla")).args(args).current_dir(root()).output();
    let output = command.expect("flotilla runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A report in a file, and its URL.
fn report(args: &[&str]) -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    fs::write(&file, flotilla(args)).expect("a file");
    let url = format!("file://{}", file.display());
    (folder, url)
}

fn browser() -> Option<Browser> {
    let Some(program) = browser::find() else {
        eprintln!(
            "skipped: no Chromium is in PATH (Debian: apt-get install chromium), and the page needs one to be seen"
        );
        return None;
    };
    Some(Browser::start(&program, WINDOW))
}

fn record(name: &str, picture: &[u8]) {
    assert!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
    if env::var_os("FLOTILLA_RECORD").is_some() {
        fs::write(root().join("docs/images").join(name), picture).expect("docs/images");
    }
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let text = browser
        .value(&format!("[...document.querySelectorAll({})].map((e) => e.innerText).join('|')", json!(selector)));
    text.as_str().unwrap_or_default().to_owned()
}

/// Every control has an accessible name.
fn assert_named(browser: &mut Browser) {
    let tree = browser.call("Accessibility.getFullAXTree", json!({}));
    let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
    let operable = [
        "button",
        "searchbox",
        "textbox",
        "radio",
        "tab",
        "grid",
        "listbox",
        "radiogroup",
        "tablist",
        "tabpanel",
        "dialog",
    ];
    let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
    let found: Vec<&Value> = nodes.iter().filter(|node| operable.contains(&role(node).as_str())).collect();
    assert!(found.len() > 10, "only {} parts can be operated", found.len());
    for node in found {
        let name = node["name"]["value"].as_str().unwrap_or_default();
        assert!(!name.is_empty() || node["ignored"] == json!(true), "{} has no name", role(node));
    }
}

#[test]
fn a_pending_pod_leads_to_its_reason_and_to_what_would_help() {
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["simulate", "-f", "examples/shop", "-o", "html"]);
    browser.prefer("light");
    browser.open(&url);
    browser.wait("document.querySelectorAll('#panel .row').length === 6");
    assert_eq!(text(&mut browser, "[role=tab][aria-selected=true]").replace('\n', " "), "Pending 6");
    assert_named(&mut browser);
    record("page-light.png", &browser.picture());
    browser.prefer("dark");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    record("page-dark.png", &browser.picture());
    browser.prefer("light");
    browser.wait("document.documentElement.dataset.theme === 'light'");

    browser.click("[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('inference-0'))");
    browser.wait("document.querySelector('.note.help') !== null");
    assert!(text(&mut browser, ".detail h2").contains("inference-0"));
    assert!(text(&mut browser, ".note.warn").contains("0/8 nodes are available"), "{}", text(&mut browser, ".note"));
    assert!(
        text(&mut browser, ".note.help").contains("It would fit on large-a with 1 more example.com/gpu"),
        "{}",
        text(&mut browser, ".note")
    );
    assert_eq!(browser.value("document.querySelectorAll('.sheet .row').length"), json!(8));
    assert_named(&mut browser);
    record("page-pod.png", &browser.picture());

    // Open a reason's nodes, then one of them, and go back.
    browser.click("document.querySelector('.group')");
    browser.wait("document.querySelectorAll('.sheet .row').length < 8");
    browser.click("document.querySelector('.sheet .row')");
    browser.wait("location.hash.startsWith('#node=')");
    assert!(text(&mut browser, ".use").contains("cpu"));
    assert_named(&mut browser);
    browser.press(&["Escape"]);
    browser.wait("location.hash === '#pending'");

    for (tab, rows) in [("pods", 30), ("nodes", 8)] {
        browser.click(&format!("document.getElementById('tab-{tab}')"));
        browser.wait(&format!("document.querySelector('.table').getAttribute('aria-rowcount') === '{}'", rows + 1));
    }
    assert_eq!(browser.complaints, [] as [&str; 0]);
    assert!(
        browser.requests.iter().all(|url| url.starts_with("file:") || url.starts_with("data:")),
        "{:?}",
        browser.requests
    );
}

#[test]
fn everything_can_be_reached_without_a_pointer() {
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["simulate", "-f", "examples/shop", "-o", "html"]);
    browser.prefer("dark");
    browser.open(&url);
    browser.wait("document.querySelectorAll('#panel .row').length === 6");
    assert_eq!(browser.value("document.documentElement.dataset.theme"), json!("dark"));
    let focused = "(document.activeElement.id || document.activeElement.className || document.activeElement.getAttribute('role'))";
    let mut stops = Vec::new();
    for _ in 0..20 {
        browser.press(&["Tab"]);
        stops.push(browser.value(focused).as_str().unwrap_or_default().to_owned());
    }
    for stop in ["skip", "keys", "theme", "tile", "find", "map", "tab-pending", "search", "cause0", "table"] {
        assert!(stops.iter().any(|known| known == stop), "{stop} is none of {stops:?}");
    }
    let at = |name: &str| stops.iter().position(|stop| stop == name);
    assert!(at("tile") < at("map") && at("map") < at("tab-pending") && at("tab-pending") < at("table"), "{stops:?}");

    // The map: open the second node.
    browser.value("document.getElementById('map').focus()");
    browser.press(&["Home", "ArrowRight"]);
    let told = browser.value(
        "document.getElementById(document.getElementById('map').getAttribute('aria-activedescendant')).textContent",
    );
    browser.press(&["Enter"]);
    browser.wait("location.hash.startsWith('#node=')");
    assert!(told.as_str().unwrap_or_default().starts_with(&text(&mut browser, ".detail h2")), "{told}");
    browser.wait("document.activeElement.id === 'subjectname'");
    browser.press(&["Escape"]);

    // The table: open the last pending pod, and return with the focus in the table.
    browser.wait("document.activeElement.className === 'table'");
    browser.press(&["End", "Enter"]);
    browser.wait("location.hash.startsWith('#pod=')");
    browser.press(&["Escape"]);
    browser.wait("document.activeElement.className === 'table'");

    // Select a resource with an arrow key, and the other theme with Enter.
    browser.value("document.querySelector('[role=radio].tile').focus()");
    browser.press(&["ArrowRight"]);
    browser.wait("document.getElementById('legend').innerText.includes('memory')");
    browser.press(&["/"]);
    assert_eq!(browser.value("document.activeElement.id"), json!("search"));
    browser.value("document.getElementById('theme').focus()");
    browser.press(&["Enter"]);
    browser.wait("document.documentElement.dataset.theme === 'light'");
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

/// Changes that move, add and remove pods, leave some pending, and add and remove a node.
const CHANGES: [&str; 9] = [
    "-f",
    "examples/shop",
    "--scale",
    "deployment/web=12",
    "--drain",
    "large-b",
    "--remove-node",
    "small-c",
    "--reschedule-all",
];

#[test]
fn what_a_change_does_is_shown_before_and_after() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let node = folder.path().join("node.yaml");
    let labels = "{topology.kubernetes.io/zone: zone-c, kubernetes.io/hostname: spare}";
    let text_of_node = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: spare, labels: {labels}}}\nstatus: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}}}\n"
    );
    fs::write(&node, text_of_node).expect("a file");
    let add = format!("1={}", node.display());
    let changes = [&["whatif", "-o", "html", "--add-nodes", &add][..], &CHANGES].concat();
    let (_folder, url) = report(&changes);
    browser.prefer("light");
    browser.open(&url);
    browser.wait("document.querySelectorAll('#panel .row').length > 5");
    assert_eq!(text(&mut browser, "[role=tab][aria-selected=true]").replace('\n', " "), "Changes 15");
    assert_named(&mut browser);
    for words in ["drain large-b", "remove small-c", "First bottleneck"] {
        assert!(text(&mut browser, ".changes").contains(words), "{words}: {}", text(&mut browser, ".changes"));
    }
    assert!(text(&mut browser, ".tile").contains("was"), "{}", text(&mut browser, ".tile"));
    browser.prefer("dark");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    record("whatif-dark.png", &browser.picture());
    browser.prefer("light");
    browser.wait("document.documentElement.dataset.theme === 'light'");
    record("whatif-light.png", &browser.picture());

    // Select one kind of change, one of its pods, and the side before.
    browser.click("document.getElementById('change-pending')");
    browser.wait("[...document.querySelectorAll('#panel .row')].every((row) => row.innerText.includes('pending'))");
    browser.click("document.querySelector('#panel .row')");
    browser.wait("document.querySelectorAll('.sheet .row').length === 8");
    assert!(text(&mut browser, ".note.warn").contains("nodes are available"), "{}", text(&mut browser, ".note"));
    browser.press(&["Escape"]);
    browser.wait("location.hash === '#changes'");
    // A removed node has no pods after the changes, and its pods before.
    browser.value("location.hash = '#node=small-c'");
    browser.wait("document.querySelector('.detail') !== null");
    assert!(text(&mut browser, ".detail").contains("not there after"), "{}", text(&mut browser, ".detail"));
    browser.click("document.querySelectorAll('#sides [role=radio]')[0]");
    browser.wait(
        "document.querySelector('.use') !== null && !document.querySelector('.detail').innerText.includes('not there')",
    );
    assert_eq!(browser.complaints, [] as [&str; 0]);

    // The server also evaluates placed pods.
    let server = Server::start(&CHANGES);
    browser.open(&format!("{}#pods", server.url));
    browser.click("[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('edge-a'))");
    browser.wait("document.querySelectorAll('.sheet .row').length === 7");
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

/// A pod that is feasible on some nodes of the shop, with one best node.
const NEW_POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: cache-0, namespace: shop, labels: {app: cache}}
spec:
  priorityClassName: revenue
  nodeSelector: {disk: ssd}
  containers:
  - name: cache
    image: cache:1
    resources: {requests: {cpu: \"3\", memory: 6Gi}}
";

/// The answer of `flotilla explain` about a pod: the total of each node, `None` if infeasible, and the best nodes.
fn explained(files: &[&Path], pod: &str) -> (BTreeMap<String, Option<i64>>, BTreeSet<String>) {
    let mut args: Vec<String> = ["explain", "--pod", pod, "-o", "json"].map(str::to_owned).to_vec();
    args.extend(files.iter().flat_map(|file| ["-f".to_owned(), file.display().to_string()]));
    let answer = flotilla(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = answer["nodes"].as_array().expect("nodes").iter();
    let nodes = nodes.map(|node| (text(&node["node"]), node["total"].as_i64())).collect();
    (nodes, answer["best"].as_array().expect("the best").iter().map(text).collect())
}

/// The page's answer, from its table and heading.
fn answered(browser: &mut Browser) -> (BTreeMap<String, Option<i64>>, BTreeSet<String>) {
    let rows = browser.value("[...document.querySelectorAll('.sheet .row')].map((row) => [row.children[0].innerText.trim(), row.children[1].innerText.replace(/,/g, '')])");
    let rows: Vec<(String, String)> = serde_json::from_value(rows).expect("names and totals");
    let best = text(browser, ".asked[aria-pressed=true] .word");
    let names = best.rsplit([':', ' ']).next().map(str::to_owned).filter(|_| best.starts_with("goes to"));
    (rows.into_iter().map(|(node, total)| (node, total.parse().ok())).collect(), names.into_iter().collect())
}

/// Replaces the question and submits it, by keyboard only.
fn ask(browser: &mut Browser, question: &str) {
    browser.value("document.getElementById('question').focus()");
    browser.press_with_ctrl("a", 65, &["selectAll"]);
    browser.insert(question);
    browser.press_with_ctrl("Enter", 13, &[]);
    browser.wait("document.querySelector('#answer, #wrong') !== null");
}

#[test]
fn a_saved_report_answers_new_questions() {
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["explain", "-f", "examples/shop", "-o", "html"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("new.yaml");
    fs::write(&file, NEW_POD).expect("a file");
    let expected = explained(&[Path::new("examples/shop"), &file], "shop/cache-0");
    assert_eq!((expected.0.len(), expected.1.len()), (8, 1), "{expected:?}");

    // Go to the sheet with arrow keys, and into the text with Tab.
    browser.prefer("light");
    browser.open(&url);
    browser.wait("document.querySelectorAll('#panel .row').length > 5");
    browser.value("document.querySelector('[role=tab][aria-selected=true]').focus()");
    browser.press(&["ArrowLeft"]);
    browser.wait("location.hash === '#ask' && document.activeElement.id === 'tab-ask'");
    browser.wait("document.getElementById('question') !== null && document.getElementById('search') === null");
    browser.press(&["Tab"]);
    assert_eq!(browser.value("document.activeElement.id"), json!("question"));
    assert_named(&mut browser);
    ask(&mut browser, NEW_POD);
    browser.wait("document.querySelectorAll('.sheet .row').length === 8");
    assert_eq!(answered(&mut browser), expected);
    assert_eq!(browser.value("document.activeElement.id"), json!("answer"));
    assert_named(&mut browser);
    browser.value("document.getElementById('sheet').scrollTop = 0");
    record("ask-light.png", &browser.picture());
    browser.prefer("dark");
    browser.wait("document.documentElement.dataset.theme === 'dark'");
    browser.value("document.getElementById('sheet').scrollTop = 0");
    record("ask-dark.png", &browser.picture());

    // Remove the best node; the pod goes to another one.
    let best = expected.1.iter().next().expect("a node").clone();
    browser.value("document.getElementById('asknode').focus()");
    browser.insert(&best);
    browser.value("document.getElementById('ask-remove').focus()");
    browser.press(&["Enter"]);
    browser.wait("document.querySelector('.asking .chip.warn') !== null");
    ask(&mut browser, NEW_POD);
    let (nodes, others) = answered(&mut browser);
    assert!(nodes.len() == 7 && !nodes.contains_key(&best) && !others.contains(&best), "{nodes:?} {others:?}");
    let spare = "\n---\napiVersion: v1\nkind: Node\nmetadata: {name: spare, labels: {disk: ssd}}\nstatus: {allocatable: {cpu: 64, memory: 256Gi, pods: 110}}\n";
    ask(&mut browser, &format!("{NEW_POD}{spare}"));
    let (nodes, others) = answered(&mut browser);
    assert_eq!((nodes.len(), others), (8, BTreeSet::from(["spare".to_owned()])), "{nodes:?}");
    assert_eq!(browser.complaints, [] as [&str; 0]);
    assert!(
        browser.requests.iter().all(|url| url.starts_with("file:") || url.starts_with("data:")),
        "{:?}",
        browser.requests
    );

    let server = Server::start(&["-f", "examples/shop"]);
    browser.open(&format!("{}#ask", server.url));
    ask(
        &mut browser,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: edge}\nspec: {nodeSelector: {role: edge}, containers: [{name: c}]}",
    );
    browser.wait("document.querySelectorAll('.sheet .row').length === 8");
    assert_eq!(answered(&mut browser).1, BTreeSet::from(["edge-a".to_owned()]));
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn a_pending_pod_is_changed_in_the_page_and_asked_about_again() {
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["simulate", "-f", "examples/shop", "-o", "html"]);
    browser.open(&format!("{url}#pod=science%2Finference-0"));
    browser.wait("document.getElementById('askpod') !== null");
    browser.value("document.getElementById('askpod').focus()");
    browser.press(&["Enter"]);
    browser.wait("document.getElementById('question')?.value.includes('name: inference-0')");
    let manifest = browser.value("document.getElementById('question').value");
    let manifest = manifest.as_str().expect("text").to_owned();
    assert!(manifest.contains("example.com/gpu: '1'") || manifest.contains("example.com/gpu: \"1\""), "{manifest}");
    ask(&mut browser, &manifest);
    assert!(text(&mut browser, ".asked .word").starts_with("stays pending: "), "{}", text(&mut browser, ".asked"));
    assert!(text(&mut browser, ".note.help").contains("It would fit on large-a with 1 more example.com/gpu"));
    let without: Vec<&str> = manifest.lines().filter(|line| !line.contains("example.com/gpu: ")).collect();
    ask(&mut browser, &without.join("\n"));
    assert!(text(&mut browser, ".asked .word").starts_with("goes to "), "{}", text(&mut browser, ".asked"));
    // Without a text the page evaluates the pending pods of the report.
    ask(&mut browser, " ");
    assert_eq!(browser.value("document.querySelectorAll('.asked').length"), json!(6));
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn a_question_that_makes_no_sense_is_told_with_its_place() {
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["simulate", "-f", "examples/shop", "-o", "html"]);
    browser.open(&format!("{url}#ask"));
    browser.wait("document.getElementById('question') !== null");
    let pod = |spec: &str| format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: x}}\nspec:\n  {spec}\n");
    let cases = [
        (pod("containers: [{name: c}"), "Line 6, column 1", "cannot be read as YAML"),
        (pod("containers: [{name: c, resources: {requests: {cpu: lots}}}]"), "Line 5, column ", "cpu"),
        (pod("nodeSelektor: {a: b}\n  containers: [{name: c}]"), "Line 5, column 3", "nodeSelektor"),
        (pod("priorityClassName: none\n  containers: [{name: c}]"), "Line 5, column ", "revenue"),
        ("{\"kind\": \"Pod\"".to_owned(), "Line 1, column ", "cannot be read as JSON"),
        ("kind: Pot".to_owned(), "Line 1, column 7", "is not known"),
    ];
    for (question, place, words) in cases {
        ask(&mut browser, &question);
        let wrong = text(&mut browser, "#wrong, .asking .note");
        assert!(wrong.contains(place) && wrong.contains(words), "{question}: {wrong}");
    }
    // The position is a link to the text.
    browser.value("document.querySelector('#wrong button').focus()");
    browser.press(&["Enter"]);
    assert_eq!(browser.value("document.activeElement.id + document.activeElement.selectionStart"), json!("question6"));
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

/// A cluster with secrets that no scheduler reads.
const SECRETIVE: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: a, annotations: {note: hunter2-annotation}}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "5"}}
---
apiVersion: v1
kind: Pod
metadata:
  name: big-0
  labels: {app: big}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: hunter2-applied}
  managedFields: [{manager: hunter2-manager, operation: Apply}]
spec:
  resourceClaims: [{name: gpu, resourceClaimName: gpu}]
  volumes: [{name: s, secret: {secretName: hunter2-volume}}]
  containers:
  - name: c
    image: i
    command: [hunter2-command]
    env: [{name: TOKEN, value: hunter2-environment}]
    resources: {requests: {cpu: "100"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: gpu}
spec:
  devices:
    requests: [{name: one, exactly: {deviceClassName: gpu}}]
    config: [{opaque: {driver: d, parameters: {token: hunter2-claim}}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {config: [{opaque: {driver: d, parameters: {token: hunter2-class}}}]}
"#;

#[test]
fn a_report_keeps_no_more_of_a_cluster_than_a_scheduler_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secretive.yaml");
    fs::write(&file, SECRETIVE).expect("a file");
    let file = file.display().to_string();
    for args in [&["simulate", "-f", &file][..], &["explain", "-f", &file], &["whatif", "-f", &file, "--cordon", "a"]] {
        let page = String::from_utf8(flotilla(&[args, &["-o", "html"]].concat())).expect("text");
        let (_, kept) = page.split_once("<script type=\"text/plain\" id=\"kept\">").expect("it is kept");
        let kept = STANDARD.decode(kept.split_once('<').expect("an end").0).expect("base64");
        let kept = miniz_oxide::inflate::decompress_to_vec_zlib(&kept).expect("it is packed");
        let text = String::from_utf8_lossy(&kept);
        assert!(text.contains("big-0") && text.contains("default"), "{args:?}");
        for text in [&*text, &page] {
            let found = text.find("hunter2").map(|at| &text[at..(at + 30).min(text.len())]);
            assert_eq!(found, None, "{args:?}");
        }
    }
}

#[test]
fn a_report_that_answers_no_questions_has_neither_the_module_nor_the_cluster() {
    let page = |args: &[&str]| String::from_utf8(flotilla(args)).expect("text");
    let of = |page: &str| page.contains("wasm-unsafe-eval");
    let asked = page(&["simulate", "-f", "examples/shop", "-o", "html"]);
    let silent = page(&["simulate", "-f", "examples/shop", "-o", "html", "--no-questions"]);
    assert!(of(&asked) && !of(&silent));
    assert!(silent.len() < 300_000 && asked.len() < 2_800_000, "{} and {} bytes", silent.len(), asked.len());
    eprintln!("a report has {} bytes, {} without questions", asked.len(), silent.len());
    let Some(mut browser) = browser() else { return };
    let (_folder, url) = report(&["simulate", "-f", "examples/shop", "-o", "html", "--no-questions"]);
    browser.open(&format!("{url}#ask"));
    browser.wait("document.querySelectorAll('#panel .row').length === 6");
    assert_eq!(browser.value("document.getElementById('tab-ask')"), Value::Null);
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn pods_that_are_not_created_are_listed_with_the_reason() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("refused.yaml");
    fs::write(&file, REFUSED).expect("a file");
    let file = file.to_string_lossy();
    for args in [&["simulate", "-f", &file, "-o", "html"][..], &["whatif", "-f", &file, "--cordon", "a", "-o", "html"]]
    {
        let (_folder, url) = report(args);
        browser.open(&url);
        browser.click("document.querySelector('#tab-pending')");
        browser.wait("document.querySelector('#panel .missing .note') !== null");
        let shown = text(&mut browser, "#panel .missing .note");
        assert!(shown.contains("StatefulSet default/db: 2 pods are not created: it is OrderedReady"), "{shown}");
        assert!(shown.contains("exceeded quota: q, requested: pods=1"), "{shown}");
    }
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn names_that_are_markup_stay_names() {
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile.yaml");
    fs::write(&file, HOSTILE).expect("a file");
    let (_folder, url) = report(&["simulate", "-f", &file.to_string_lossy(), "-o", "html"]);
    browser.open(&url);
    browser.click("document.querySelector('#panel .row')");
    browser.wait("document.querySelector('.sheet .group') !== null");
    assert!(text(&mut browser, ".detail").contains("node selector <b>x</b>"), "{}", text(&mut browser, ".detail"));
    browser.value("location.hash = '#node=a'");
    browser.wait("document.querySelector('.use') !== null");
    let detail = text(&mut browser, ".detail");
    assert!(detail.contains("taint <img src=x") && detail.contains("=\u{fffd}gnp"), "{detail}");
    assert_ne!(browser.value("document.title"), json!("run"));
    assert_eq!(browser.value("document.querySelectorAll('img').length"), json!(0));
    assert_eq!(browser.value("document.querySelectorAll('script').length"), json!(4));
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn five_thousand_nodes_are_drawn_smoothly() {
    let Some(mut browser) = browser() else { return };
    let cluster = "nodes=5000,pods=2000,shape=mixed";
    let (folder, url) = report(&["simulate", "--generate", cluster, "-o", "html"]);
    let bytes = fs::metadata(folder.path().join("report.html")).expect("the report").len();
    browser.prefer("light");
    browser.open(&url);
    browser.wait("document.querySelectorAll('#panel .row').length > 5");
    browser.click(
        "[...document.querySelectorAll('.cause')].find((cause) => cause.innerText.includes('Insufficient cpu'))",
    );
    browser.click("document.querySelector('#panel .row')");
    browser.wait("document.querySelector('.note.help') !== null");
    record("page-5000.png", &browser.picture());
    // Move the pointer over the map, one frame for each position.
    let frame_ms = browser.value(
        "(async () => {
          const map = document.getElementById('map');
          const box = map.getBoundingClientRect();
          const began = performance.now();
          for (let frame = 0; frame < 60; frame += 1) {
            map.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + 40 + frame * 9, clientY: box.top + 60 + frame * 5 }));
            await new Promise((done) => requestAnimationFrame(done));
          }
          return (performance.now() - began) / 60;
        })()",
    );
    let frame_ms = frame_ms.as_f64().expect("a number");
    eprintln!("a frame takes {frame_ms:.1} ms, the file {bytes} bytes");
    // A display shows a frame every 16.7 ms; a busy machine without a GPU gets six times that.
    assert!(frame_ms < 100.0, "a frame takes {frame_ms} ms");
    assert!(bytes < 16 << 20, "the file has {bytes} bytes");
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

/// Runs `flotilla ui`; dropping it stops the process.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flotilla"));
        let command = command.arg("ui").args(args).current_dir(root()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("flotilla runs");
        let mut url = String::new();
        let out = process.stdout.take().expect("its standard output");
        BufReader::new(out).read_line(&mut url).expect("the address");
        Self { process, url: url.trim().to_owned() }
    }

    /// Host with port, and the path prefix of the server.
    fn address(&self) -> (&str, &str) {
        let address = self.url.trim_start_matches("http://");
        address.split_at(address.find('/').expect("a path"))
    }

    /// Sends a request with these lines; its path is relative to the server's prefix.
    fn ask(&self, request: &str) -> String {
        self.ask_outside(&request.replacen(" /", &format!(" {}", self.address().1), 1))
    }

    /// Sends a request with these lines.
    fn ask_outside(&self, request: &str) -> String {
        let (address, _) = self.address();
        let mut stream = TcpStream::connect(address).expect("the server listens");
        let request = request.replace("HERE", address);
        stream.write_all(format!("{request}\r\nConnection: close\r\n\r\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_server_answers_under_the_printed_address_only_and_judges_any_pod() {
    let server = Server::start(&["-f", "examples/shop"]);
    assert!(server.url.starts_with("http://127.0.0.1:"), "{}", server.url);
    // Another user of this machine knows at most the port.
    for path in ["/", "/account/1/0", "/live", "/00000000000000000000000000000000/", "/favicon.ico"] {
        let answer = server.ask_outside(&format!("GET {path} HTTP/1.1\r\nHost: HERE"));
        assert!(answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
        assert!(answer.contains("open the whole address that flotilla ui has printed"), "{path}: {answer}");
    }
    let page = server.ask("GET / HTTP/1.1\r\nHost: HERE");
    assert!(
        page.starts_with("HTTP/1.1 200") && page.contains("connect-src 'self'"),
        "{}",
        page.get(..900).unwrap_or(&page)
    );
    // Accounts are only for the page that requests them.
    let made = page.split_once("\"madeMs\":").and_then(|(_, rest)| rest.split_once(',')).expect("a time").0;
    for (request, expected) in [
        ("GET / HTTP/1.1\r\nHost: rebound.example", "HTTP/1.1 403"),
        ("GET /account/MADE/0 HTTP/1.1\r\nHost: rebound.example", "HTTP/1.1 403"),
        ("GET /account/MADE/0 HTTP/1.1\r\nHost: HERE\r\nSec-Fetch-Site: cross-site", "HTTP/1.1 403"),
        ("GET /account/MADE/999999 HTTP/1.1\r\nHost: HERE", "HTTP/1.1 404"),
        ("GET /account/MADE/x HTTP/1.1\r\nHost: HERE", "HTTP/1.1 400"),
        ("GET /account/1/0 HTTP/1.1\r\nHost: HERE", "HTTP/1.1 410"),
        ("GET /live HTTP/1.1\r\nHost: HERE", "HTTP/1.1 404"),
        ("POST / HTTP/1.1\r\nHost: HERE\r\nContent-Length: 0", "HTTP/1.1 405"),
        ("GET /other HTTP/1.1\r\nHost: HERE", "HTTP/1.1 404"),
    ] {
        let answer = server.ask(&request.replace("MADE", made));
        assert!(answer.starts_with(expected), "{request}: {answer}");
        assert!(answer.contains("frame-ancestors 'none'"), "{request}: {answer}");
    }
    // Ask twice about a bound pod, because each evaluation removes it from its node and adds it again.
    let account = format!("GET /account/{made}/0 HTTP/1.1\r\nHost: HERE");
    let first = server.ask(&account);
    let body = |answer: &str| answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("feasible"), "{first}");
    assert_eq!(body(&first), body(&server.ask(&account)));

    let Some(mut browser) = browser() else { return };
    browser.open(&format!("{}#pods", server.url));
    browser.click("[...document.querySelectorAll('.row')].find((row) => row.innerText.includes('shop/web-1'))");
    browser.wait("document.querySelectorAll('.sheet .row').length === 8");
    assert!(text(&mut browser, ".detail").contains("feasible"), "{}", text(&mut browser, ".detail"));
    assert!(
        browser.requests.iter().all(|url| url.starts_with(&server.url) || url.starts_with("data:")),
        "{:?}",
        browser.requests
    );
    assert_eq!(browser.complaints, [] as [&str; 0]);
}

#[test]
fn an_explanation_is_a_page_too() {
    let page = String::from_utf8(flotilla(&["explain", "-f", "examples/shop", "--pod", "shop/db-1", "-o", "html"]))
        .expect("text");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let Some(mut browser) = browser() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("report.html");
    fs::write(&file, page).expect("a file");
    browser.open(&format!("file://{}#pod=shop%2Fdb-1", file.display()));
    browser.wait("document.querySelectorAll('.sheet .row').length === 8");
    assert!(text(&mut browser, ".head").contains("total"), "{}", text(&mut browser, ".head"));
    assert_eq!(browser.complaints, [] as [&str; 0]);
}
