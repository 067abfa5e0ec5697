//! Contents and length of the page as text.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, Common, PodInfo},
    node::NodeInfo,
    resources::Resources,
};

use super::{
    pod_explanation::{PodExplanation, Refused},
    report::{Accounts, MOST_ACCOUNT_BYTES, PodLocation, Serving, Stand},
    *,
};

/// The size limit of the page, which is most of a small report.
const MOST_BYTES: usize = 112 << 10;

fn node(name: &str, zone: &str) -> Arc<NodeInfo> {
    let labels = vec![("topology.kubernetes.io/zone".into(), zone.into())];
    let allocatable = Resources { milli_cpu: 4000, memory: 8 << 30, ..Resources::default() };
    Arc::new(NodeInfo { name: name.into(), labels, allocatable, allowed_pods: 10, ..NodeInfo::default() })
}

fn pod(name: &str) -> Arc<PodInfo> {
    let accounted = Resources { milli_cpu: 500, scalars: vec![("example.com/gpu".into(), 1)], ..Resources::default() };
    let common = Arc::new(Common { accounted, ..Common::default() });
    let class = Arc::new(Class { namespace: "shop".into(), common, ..Class::default() });
    let info = flotilla_framework::testing::pod(name).priority(7).build();
    Arc::new(PodInfo { class, ..info })
}

fn page(nodes: &[Arc<NodeInfo>], stands: &[Stand<'_>], accounts: Accounts) -> String {
    let mut report = Report::new(&[nodes], stands);
    accounts.put_into(&mut report).expect("accounts");
    written(&report)
}

fn written(report: &Report<'_>) -> String {
    let mut out = Vec::new();
    write(report, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("text")
}

fn data(page: &str) -> serde_json::Value {
    let data = between(page, "<script type=\"application/json\" id=\"data\">", "</script>");
    serde_json::from_str(data).expect("JSON")
}

/// The text between two marks, each of which occurs once.
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
    accounts.add("shop/web-1".to_owned(), &PodExplanation::default()).expect("an account");
    let page = page(&nodes, &stands, accounts);
    let data = data(&page);
    assert_eq!(data["resources"], serde_json::json!(["cpu", "memory", "pods", "example.com/gpu"]));
    assert_eq!(data["zones"], serde_json::json!(["", "east"]));
    assert_eq!(data["nodes"][0], serde_json::json!(["a", 1, 0, [], [0], [[4000, 8_589_934_592_u64, 10, 0]]]));
    assert_eq!(data["kinds"], serde_json::json!([[[500, 0, 1, 1], "default-scheduler", 7, []]]));
    assert_eq!(
        data["pods"],
        serde_json::json!([["shop/web-0", [0], [-1, 1], -1, -1], ["shop/web-1", [0], [-1, -1], 0, 0]])
    );
}

#[test]
fn where_the_sides_differ_each_has_its_own_nodes_and_its_own_pods() {
    let changed = |node: Arc<NodeInfo>, change: fn(&mut NodeInfo)| {
        let mut node = NodeInfo::clone(&node);
        change(&mut node);
        Arc::new(node)
    };
    let before = [node("gone", ""), node("same", ""), node("large", "")];
    let after =
        [node("same", ""), changed(node("large", ""), |node| node.allocatable.milli_cpu = 8000), node("new", "")];
    let after = after.map(|node| changed(node, |node| node.unschedulable = &*node.name == "same"));
    let (stays, goes, comes) = (pod("stays"), pod("goes"), pod("comes"));
    let urgent = Arc::new(PodInfo { priority: 9, ..PodInfo::clone(&stays) });
    let on = |node: &str| PodLocation::On(node.into());
    let stands = [
        Stand::compared([(Some(&stays), on("gone")), (Some(&urgent), on("new"))], ""),
        Stand::compared([(Some(&goes), on("same")), (None, PodLocation::Absent)], ""),
        Stand::compared([(None, PodLocation::Absent), (Some(&comes), PodLocation::Pending)], "0/3 nodes are available"),
        Stand::compared([(None, PodLocation::Absent), (None, PodLocation::Absent)], ""),
    ];
    let stands: Vec<Stand<'_>> = stands.into_iter().flatten().collect();
    let data = data(&written(&Report::new(&[&before, &after], &stands)));
    let part = |list: &str, places: [usize; 3]| -> Vec<serde_json::Value> {
        let row = |row: &serde_json::Value| places.iter().map(|place| row[*place].clone()).collect();
        data[list].as_array().expect("a list").iter().map(row).collect()
    };
    let (small, large) =
        (serde_json::json!([4000, 8_589_934_592_u64, 10, 0]), serde_json::json!([8000, 8_589_934_592_u64, 10, 0]));
    // Nodes of the last side come first, because numbers are indexes.
    let nodes = serde_json::json!([
        ["same", 2, [small]],
        ["large", 0, [small, large]],
        ["new", 0, [null, small]],
        ["gone", 0, [small, null]]
    ]);
    assert_eq!(serde_json::json!(part("nodes", [0, 2, 5])), nodes);
    let pods =
        serde_json::json!([["shop/stays", [0, 1], [3, 2]], ["shop/goes", [0], [0, -2]], ["shop/comes", [0], [-2, -1]]]);
    assert_eq!(serde_json::json!(part("pods", [0, 1, 2])), pods);
}

#[test]
fn no_name_ends_the_script_that_it_is_in() {
    let nodes = [node("</script><script>alert(1)</script>", "<!--<script>")];
    let pod = pod("</SCRIPT ><img src=x onerror=alert(1)>&lt;");
    let page = page(&nodes, &[Stand::new(&pod, [None], "]]></script>")], Accounts::default());
    let scripts = page.to_lowercase();
    assert_eq!((scripts.matches("<script").count(), scripts.matches("</script").count()), (4, 4));
    assert!(!page.contains("<img") && !page.contains("<!--"));
    let data = data(&page);
    assert_eq!(data["nodes"][0][0], "</script><script>alert(1)</script>");
}

#[test]
fn the_policy_names_the_script_and_the_style_that_are_there() {
    for serving in [None, Some(Serving { is_live: false }), Some(Serving { is_live: cfg!(feature = "cluster") })] {
        let mut report = Report::new(&[&[]], &[]);
        report.serving = serving;
        let asks = if serving.is_some() { "'self'" } else { "'none'" };
        assert_policy(&written(&report), "", asks);
        report.kept = Some(b"a cluster".to_vec());
        assert_policy(&written(&report), " 'wasm-unsafe-eval'", asks);
    }
}

fn assert_policy(page: &str, modules: &str, asks: &str) {
    let policy = between(page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"").to_owned();
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())));
    assert!(
        policy.contains(&format!("script-src {}{modules};", hash(between(page, "<script>", "</script>")))),
        "{policy}"
    );
    assert!(policy.contains(&format!("style-src {};", hash(between(page, "<style>", "</style>")))), "{policy}");
    assert!(policy.starts_with("default-src 'none'; ") && policy.contains(&format!("connect-src {asks};")), "{policy}");
}

#[test]
fn the_page_is_small_and_asks_for_nothing_from_elsewhere() {
    let all = format!("{FRAME}{}{}", style(false), script(false));
    assert!(all.len() <= MOST_BYTES, "{} bytes", all.len());
    assert_asks_for_nothing(&all);
    assert!(!script(false).contains("</script"));
    for mark in ["{{policy}}", "{{style}}", "{{engine}}", "{{kept}}", "{{data}}", "{{script}}"] {
        assert_eq!(FRAME.matches(mark).count(), 1, "{mark}");
    }
}

/// Rejects code that loads something or turns text into markup or code.
fn assert_asks_for_nothing(all: &str) {
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
}

/// uPlot from the npm registry: `npm pack uplot@1.6.32`, whose `dist.integrity` is
/// `sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==`.
#[cfg(feature = "cluster")]
const UPLOT: (&str, [(&str, &str, &str); 3]) = (
    "1.6.32",
    [
        (
            "dist/uPlot.iife.min.js",
            include_str!("../../assets/uplot/uPlot.iife.min.js"),
            "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        ),
        (
            "dist/uPlot.min.css",
            include_str!("../../assets/uplot/uPlot.min.css"),
            "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        ),
        (
            "LICENSE",
            include_str!("../../assets/uplot/LICENSE"),
            "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        ),
    ],
);

#[cfg(feature = "cluster")]
#[test]
fn the_library_of_charts_is_that_of_its_release_and_only_the_page_of_a_live_cluster_has_it() {
    let (version, files) = UPLOT;
    for (name, text, expected) in files {
        let hash: String = digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, expected, "{name} is not that of uPlot {version}; take it out of `npm pack uplot@{version}`");
    }
    let head = format!("/*! https://github.com/leeoniya/uPlot (v{version}) */\n");
    assert!(files[0].1.starts_with(&head), "another version is in the file");
    let live = script(true);
    assert!(live.contains(files[0].1) && live.contains(files[2].1) && style(true).contains(files[1].1));
    assert!(!script(false).contains("uPlot") && !style(false).contains("uplot"));
    assert_asks_for_nothing(&format!("{}{}", style(true), live.replace(&head, "")));
    assert!(!live.contains("</script"));
}

#[test]
fn accounts_are_kept_once_and_only_as_many_as_fit() {
    let told = |reason: &str| {
        let reasons = vec![reason.repeat(MOST_ACCOUNT_BYTES / 3)];
        let refused = vec![Refused { plugin: "NodeName".to_owned(), reasons, misses: Vec::new() }];
        PodExplanation { refused, ..PodExplanation::default() }
    };
    let pods: Vec<Arc<PodInfo>> = ["a", "b", "c", "d", "e"].map(pod).to_vec();
    let stands: Vec<Stand<'_>> = pods.iter().map(|pod| Stand::new(pod, [None], "")).collect();
    let mut accounts = Accounts::default();
    for (name, reason) in [("shop/a", "x"), ("shop/b", "y"), ("shop/c", "x"), ("shop/d", "z")] {
        accounts.add(name.to_owned(), &told(reason)).expect("an account");
    }
    accounts.share("shop/e".to_owned(), 1);
    let page = page(&[], &stands, accounts);
    let data = data(&page);
    let of_pods: Vec<i64> = data["pods"].as_array().expect("pods").iter().filter_map(|pod| pod[4].as_i64()).collect();
    assert_eq!(of_pods, [0, 1, 0, -1, 1]);
    assert_eq!((&data["unexplained"], data["accounts"].as_array().map(Vec::len)), (&serde_json::json!(1), Some(2)));
}
