//! The page as text: what must not be in it, and how long it may be.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, PodInfo},
    node::NodeInfo,
    resources::Resources,
};

use super::{
    report::{Accounts, MOST_ACCOUNT_BYTES, Stand},
    told::{Refused, Told},
    *,
};

/// What the page itself may weigh. It has no library in it, and a report of a small cluster is mostly this.
const MOST_BYTES: usize = 96 << 10;

fn node(name: &str, zone: &str) -> Arc<NodeInfo> {
    let labels = vec![("topology.kubernetes.io/zone".into(), zone.into())];
    let allocatable = Resources { milli_cpu: 4000, memory: 8 << 30, ..Resources::default() };
    Arc::new(NodeInfo { name: name.into(), labels, allocatable, allowed_pods: 10, ..NodeInfo::default() })
}

fn pod(name: &str) -> Arc<PodInfo> {
    let accounted = Resources { milli_cpu: 500, scalars: vec![("example.com/gpu".into(), 1)], ..Resources::default() };
    let class = Arc::new(Class { namespace: "shop".into(), accounted, ..Class::default() });
    let info = flotilla_framework::testing::pod(name).priority(7).build();
    Arc::new(PodInfo { class, ..info })
}

fn page(nodes: &[Arc<NodeInfo>], stands: &[Stand<'_>], accounts: Accounts) -> String {
    let mut report = Report::new(nodes, stands);
    accounts.put_into(&mut report).expect("accounts");
    let mut out = Vec::new();
    write(&report, false, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

/// The text between two marks, each of which is there once.
fn between<'a>(page: &'a str, before: &str, behind: &str) -> &'a str {
    assert_eq!(page.matches(before).count(), 1, "{before}");
    page.split_once(before).and_then(|(_, rest)| rest.split_once(behind)).expect("both marks").0
}

#[test]
fn a_report_says_where_each_pod_is_and_what_it_asks_for() {
    let nodes = [node("a", "east"), node("b", "")];
    let (placed, pending) = (pod("web-0"), pod("web-1"));
    let stands = [
        Stand::new(&placed, [None, Some(Arc::from("b"))], ""),
        Stand::new(&pending, [None, None], "0/2 nodes are available"),
    ];
    let mut accounts = Accounts::default();
    accounts.add("shop/web-1".to_owned(), &Told::default()).expect("an account");
    let page = page(&nodes, &stands, accounts);
    let data = between(&page, "<script type=\"application/json\" id=\"data\">", "</script>");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["resources"], serde_json::json!(["cpu", "memory", "pods", "example.com/gpu"]));
    assert_eq!(data["zones"], serde_json::json!(["", "east"]));
    assert_eq!(data["nodes"][0], serde_json::json!(["a", 1, 0, [], [0], [4000, 8_589_934_592_u64, 10, 0]]));
    assert_eq!(data["kinds"], serde_json::json!([[[500, 0, 1, 1], "default-scheduler", 7, []]]));
    assert_eq!(
        data["pods"],
        serde_json::json!([["shop/web-0", 0, [-1, 1], -1, -1], ["shop/web-1", 0, [-1, -1], 0, 0]])
    );
}

#[test]
fn no_name_ends_the_script_that_it_is_in() {
    let nodes = [node("</script><script>alert(1)</script>", "<!--<script>")];
    let pod = pod("</SCRIPT ><img src=x onerror=alert(1)>&lt;");
    let page = page(&nodes, &[Stand::new(&pod, [None], "]]></script>")], Accounts::default());
    let scripts = page.to_lowercase();
    assert_eq!((scripts.matches("<script").count(), scripts.matches("</script").count()), (2, 2));
    assert!(!page.contains("<img") && !page.contains("<!--"));
    let data = between(&page, "<script type=\"application/json\" id=\"data\">", "</script>");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["nodes"][0][0], "</script><script>alert(1)</script>");
}

#[test]
fn the_policy_names_the_script_and_the_style_that_are_there() {
    let page = page(&[], &[], Accounts::default());
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"").to_owned();
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())));
    assert!(policy.contains(&format!("script-src {};", hash(between(&page, "<script>", "</script>")))), "{policy}");
    assert!(policy.contains(&format!("style-src {};", hash(between(&page, "<style>", "</style>")))), "{policy}");
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains("connect-src 'none'"), "{policy}");
}

#[test]
fn the_page_is_small_and_asks_for_nothing_from_elsewhere() {
    let all = format!("{FRAME}{STYLE}{}", SCRIPT.concat());
    assert!(all.len() <= MOST_BYTES, "{} bytes", all.len());
    let banned = [
        "http:",
        "https:",
        "//cdn",
        "@import",
        "url(",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "import(",
        " style=",
    ];
    for word in banned {
        assert!(!all.contains(word), "{word} is in the page");
    }
    assert!(!SCRIPT.concat().contains("</script"));
    for mark in ["{{policy}}", "{{style}}", "{{data}}", "{{script}}"] {
        assert_eq!(FRAME.matches(mark).count(), 1, "{mark}");
    }
}

#[test]
fn accounts_are_kept_once_and_only_as_many_as_fit() {
    let told = |reason: &str| {
        let reasons = vec![reason.repeat(MOST_ACCOUNT_BYTES / 3)];
        let refused = vec![Refused { plugin: "NodeName".to_owned(), reasons, misses: Vec::new() }];
        Told { refused, ..Told::default() }
    };
    let pods: Vec<Arc<PodInfo>> = ["a", "b", "c", "d", "e"].map(pod).to_vec();
    let stands: Vec<Stand<'_>> = pods.iter().map(|pod| Stand::new(pod, [None], "")).collect();
    let mut accounts = Accounts::default();
    for (name, reason) in [("shop/a", "x"), ("shop/b", "y"), ("shop/c", "x"), ("shop/d", "z")] {
        accounts.add(name.to_owned(), &told(reason)).expect("an account");
    }
    accounts.share("shop/e".to_owned(), 1);
    let page = page(&[], &stands, accounts);
    let data = between(&page, "<script type=\"application/json\" id=\"data\">", "</script>");
    let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let of_pods: Vec<i64> = data["pods"].as_array().expect("pods").iter().filter_map(|pod| pod[4].as_i64()).collect();
    assert_eq!(of_pods, [0, 1, 0, -1, 1]);
    assert_eq!((&data["unexplained"], data["accounts"].as_array().map(Vec::len)), (&serde_json::json!(1), Some(2)));
}
