//! Guests in WAT for each function, protocol rule and failure of the ABI.

#![allow(missing_docs)]

#[path = "support/alone.rs"]
mod support;

use flotilla_framework::testing::{NodeBuilder, node, pod};
use flotilla_wasm::FaultKind;
use serde_json::{Value, json};
use support::{Alone, Came, NAME, guest};

fn nodes() -> Vec<NodeBuilder> {
    ["n1", "n2", "n3"].map(|name| node(name).label("zone", name).capacity("cpu", "4").capacity("pods", "10")).to_vec()
}

fn placed(node: &str, totals: [i64; 3]) -> Came {
    let names = ["n1", "n2", "n3"].map(str::to_owned);
    Came::Placed(node.to_owned(), names.into_iter().zip(totals).collect())
}

fn refused(reasons: &str) -> Came {
    Came::Refused(format!("0/3 nodes are available: {reasons}."))
}

fn failed(text: &str) -> Came {
    Came::Failed(text.to_owned())
}

const SCORE_BY_DIGIT: &str = r#"(func (export "score") (result i64)
    (i64.shl (i64.extend_i32_u (call $digit)) (i64.const 32)))"#;

const FILTER_ALL: &str = r#"(func (export "filter") (result i32) (i32.const 0))"#;

fn check(rows: &[(&str, &str, Came)]) {
    for (what, functions, wanted) in rows {
        assert_eq!(Alone::new(functions).place(&pod("p"), &nodes()), *wanted, "{what}");
    }
}

fn filter(body: &str) -> String {
    format!(r#"(func (export "filter") (result i32) {body})"#)
}

#[test]
fn a_status_of_filter_is_what_it_is_in_kube_scheduler() {
    let with_reason = |code: i32| filter(&format!("(call $reason (i32.const 0) (i32.const 8)) (i32.const {code})"));
    let rows = [
        ("success", filter("(i32.const 0)"), placed_alike()),
        ("unschedulable", with_reason(2), refused("3 not here")),
        ("unschedulable and unresolvable", with_reason(3), refused("3 not here")),
        ("pending", with_reason(6), refused("3 not here")),
        ("error", with_reason(1), failed("running \"Guest\" filter plugin: not here")),
        ("wait", with_reason(4), failed("running \"Guest\" filter plugin: not here")),
        ("a code that there is not", with_reason(77), failed("running \"Guest\" filter plugin: not here")),
    ];
    for (what, functions, wanted) in rows {
        let functions = format!("{functions} {SCORE_BY_DIGIT}");
        assert_eq!(Alone::new(&functions).place(&pod("p"), &nodes()), wanted, "{what}");
    }
}

fn placed_alike() -> Came {
    placed("n3", [1, 2, 3])
}

#[test]
fn a_filter_sees_the_node_that_it_is_asked_about() {
    let only_2 = filter("(i32.mul (i32.const 2) (i32.ne (call $digit) (i32.const 2)))");
    let came = Alone::new(&only_2).place(&pod("p"), &nodes());
    assert_eq!(came, Came::Placed("n2".to_owned(), vec![("n2".to_owned(), 1)]));
    // A missing reason is empty, as in upstream.
    let none = Alone::new(&filter("(i32.const 2)")).place(&pod("p"), &nodes());
    assert_eq!(none, refused("3 "));
}

#[test]
fn what_does_not_fit_a_buffer_is_not_written_and_its_length_is_told() {
    // Code 2 unless the length is 2 and the memory is unchanged.
    let small = filter(
        "(i32.store (i32.const 200) (i32.const 77))
         (if (i32.ne (call $node_name (i32.const 200) (i32.const 1)) (i32.const 2)) (then (return (i32.const 2))))
         (i32.mul (i32.const 2) (i32.ne (i32.load (i32.const 200)) (i32.const 77)))",
    );
    let exact = filter(
        "(if (i32.ne (call $node_name (i32.const 200) (i32.const 2)) (i32.const 2)) (then (return (i32.const 2))))
         (i32.mul (i32.const 2) (i32.ne (i32.load8_u (i32.const 200)) (i32.const 110)))",
    );
    let empty = filter("(i32.mul (i32.const 2) (call $config (i32.const 200) (i32.const 100)))");
    let outside = filter("(call $node_name (i32.const 131071) (i32.const 64))");
    let node = filter(
        "(drop (call $node_name (i32.const 200) (i32.const 64)))
         (i32.mul (i32.const 2) (i32.lt_u (call $node (i32.const 200) (i32.const 2) (i32.const 300) (i32.const 1000))
           (i32.const 20)))",
    );
    let other_node =
        filter("(drop (call $node (i32.const 19) (i32.const 2) (i32.const 300) (i32.const 1000))) (i32.const 0)");
    check(&[
        ("too small", &small, zeros()),
        ("of just the size", &exact, zeros()),
        ("an empty text", &empty, zeros()),
        (
            "a buffer outside of the memory",
            &outside,
            failed(
                "running \"Guest\" filter plugin: wasm: filter error: out of memory: the buffer is outside of the memory",
            ),
        ),
        ("the node itself", &node, zeros()),
        (
            "another node",
            &other_node,
            failed(
                "running \"Guest\" filter plugin: wasm: filter error: node \"n3\" is not provided: a call sees one node, and \
                 now it is \"n1\"",
            ),
        ),
    ]);
}

fn zeros() -> Came {
    let alone = Alone::new(FILTER_ALL);
    alone.place(&pod("p"), &nodes())
}

#[test]
fn what_goes_wrong_in_a_call_is_an_error_of_the_attempt_and_is_counted() {
    let trap = filter("unreachable");
    let printed = filter("(drop (call $print (i32.const 2) (i32.const 64) (i32.const 1) (i32.const 80))) unreachable");
    let looping = filter("(loop $again (br $again)) (i32.const 0)");
    let growing = filter("(i32.const 2) (memory.grow (i32.const 8000)) i32.add");
    let recursive = format!("(func $deep (call $deep) (call $deep)) {}", filter("(call $deep) (i32.const 0)"));
    let copying =
        filter("(loop $again (call $log (i32.const 0) (i32.const 0) (i32.const 131072)) (br $again)) (i32.const 0)");
    let divided = filter("(i32.div_u (i32.const 1) (i32.const 0))");
    let exits = filter("(call $exit (i32.const 3)) (i32.const 0)");
    let lists = filter("(call $node_list (i32.const 0) (i32.const 0))");
    let scores = filter("(call $scores (i32.const 0) (i32.const 0))");
    let images = filter("(call $images (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0))");
    for (functions, kind, text) in [
        (trap, FaultKind::Trap, "wasm error: unreachable"),
        (printed, FaultKind::Trap, "not here\nwasm error: unreachable"),
        (
            looping,
            FaultKind::Fuel,
            "the fuel of a call is used up (100000 units): raise limits.fuelPerCall, or have the guest do less",
        ),
        (
            copying,
            FaultKind::Fuel,
            "the fuel of a call is used up (100000 units): raise limits.fuelPerCall, or have the guest do less",
        ),
        (growing, FaultKind::Memory, "the guest needs 524419072 bytes of memory, and limits.memory is 1048576"),
        (recursive, FaultKind::Trap, "wasm error: stack overflow"),
        (divided, FaultKind::Trap, "wasm error: integer divide by zero"),
        (exits, FaultKind::Trap, "module closed with exit_code(3)"),
        (lists, FaultKind::Import, "nodeList is not provided: a call sees one node"),
        (scores, FaultKind::Import, "nodeScoreList is not provided outside normalizescore"),
        (
            images,
            FaultKind::Import,
            "nodeImageStates is not provided: how many nodes hold an image is not known to one node",
        ),
    ] {
        let fuel = if kind == FaultKind::Fuel { 100_000 } else { 20_000_000 };
        let args = json!({ "limits": { "fuelPerCall": fuel, "memory": "1Mi" } });
        let alone = Alone::with(&functions, &args);
        let wanted = failed(&format!("running \"Guest\" filter plugin: wasm: filter error: {text}"));
        assert_eq!(alone.place(&pod("p"), &nodes()), wanted, "{functions}");
        let kinds: Vec<_> = alone.failures().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [kind.name()], "{functions}");
    }
}

/// Fuel is charged before copying.
#[test]
fn a_call_passes_no_more_to_the_host_than_its_bound_and_its_fuel_allow() {
    let pre_filter =
        |body: &str| format!(r#"(func (export "prefilter") (result i32) {body} (i32.const 0)) {FILTER_ALL}"#);
    let grown = "(drop (memory.grow (i32.const 3000)))";
    // 1,024 entries of 100 MiB, all of the same bytes.
    let entries = format!(
        "(local $at i32) {grown} (local.set $at (i32.const 65536))
         (loop $next
           (i32.store (local.get $at) (i32.const 131072))
           (i32.store (i32.add (local.get $at) (i32.const 4)) (i32.const 104857600))
           (local.set $at (i32.add (local.get $at) (i32.const 8)))
           (br_if $next (i32.lt_u (local.get $at) (i32.const 73728))))"
    );
    let print = "(drop (call $print (i32.const 1) (i32.const 65536) (i32.const 1024) (i32.const 80)))";
    let printed = "(if (i32.ne (i32.load (i32.const 80)) (i32.const 1048576)) (then unreachable))";
    let once = pre_filter(&format!("{entries} {print} {printed}"));
    let for_ever = pre_filter(&format!("{entries} (loop $again {print} (br $again))"));
    let names = |bytes: usize| pre_filter(&format!("{grown} (call $names (i32.const 131072) (i32.const {bytes}))"));
    let reason = pre_filter(&format!("{grown} (call $reason (i32.const 131072) (i32.const 104857600))"));
    let random = pre_filter(&format!("{grown} (drop (call $random (i32.const 131072) (i32.const 104857600)))"));
    let scarce = pre_filter(&format!("{grown} (call $names (i32.const 131072) (i32.const 1048576))"));
    let logging = pre_filter(&format!(
        "{grown} (loop $again (call $log (i32.const 0) (i32.const 131072) (i32.const 104857600)) (br $again))"
    ));
    let used_up = |fuel: u64| {
        format!("the fuel of a call is used up ({fuel} units): raise limits.fuelPerCall, or have the guest do less")
    };
    for (functions, fuel, text) in [
        (once, 1_000_000, String::new()),
        (for_ever, 1_000_000, used_up(1_000_000)),
        (
            names(25 << 20),
            1_000_000,
            "result.node_names takes at most 1048576 bytes; the guest passes 26214400".to_owned(),
        ),
        (names(1 << 20), 1_000_000, "result.node_names takes at most 65536 names; the guest passes 1048576".to_owned()),
        (reason, 1_000_000, "result.status_reason takes at most 1048576 bytes; the guest passes 104857600".to_owned()),
        (random, 1_000_000, "random_get takes at most 1048576 bytes; the guest passes 104857600".to_owned()),
        (scarce, 10_000, used_up(10_000)),
        (logging, 20_000, used_up(20_000)),
    ] {
        let alone = Alone::with(&functions, &json!({ "limits": { "fuelPerCall": fuel, "memory": "256Mi" } }));
        let came = alone.place(&pod("p"), &nodes());
        let Came::Failed(error) = came else {
            assert_eq!((came, text), (zeros(), String::new()), "{functions}");
            continue;
        };
        // Its output precedes the error.
        assert!(error.starts_with("running PreFilter plugin \"Guest\": wasm: prefilter error: "), "{error}");
        assert!(error.ends_with(&text) && !text.is_empty(), "{functions}: {error}");
    }
}

#[test]
fn prefilter_leaves_nodes_skips_refuses_and_fails() {
    let with = |body: &str| format!(r#"(func (export "prefilter") (result i32) {body}) {FILTER_ALL} {SCORE_BY_DIGIT}"#);
    let names = with("(call $names (i32.const 16) (i32.const 6)) (i32.const 0)");
    let came = Alone::new(&names).place(&pod("p"), &nodes());
    assert_eq!(came, Came::Placed("n3".to_owned(), vec![("n1".to_owned(), 1), ("n3".to_owned(), 3)]));
    let reason = "(call $reason (i32.const 0) (i32.const 8))";
    check(&[
        (
            "skip",
            &format!(r#"(func (export "prefilter") (result i32) (i32.const 5)) {}"#, filter("unreachable")),
            zeros(),
        ),
        ("refuse", &with(&format!("{reason} (i32.const 3)")), Came::Refused("not here".to_owned())),
        ("fail", &with(&format!("{reason} (i32.const 1)")), failed("running PreFilter plugin \"Guest\": not here")),
        (
            "trap",
            &with("unreachable"),
            failed("running PreFilter plugin \"Guest\": wasm: prefilter error: wasm error: unreachable"),
        ),
    ]);
}

#[test]
fn a_cycle_begins_with_prefilter_and_state_goes_from_there_to_score() {
    let functions = format!(
        r#"(global $state (mut i32) (i32.const 0))
        (func (export "prefilter") (result i32) (global.set $state (i32.const 40)) (i32.const 0))
        (func (export "prescore") (result i32)
          (global.set $state (i32.add (global.get $state) (i32.const 2))) (i32.const 0))
        (func (export "score") (result i64) (i64.shl (i64.extend_i32_u (global.get $state)) (i64.const 32)))
        {FILTER_ALL}"#
    );
    let Came::Placed(_, totals) = Alone::new(&functions).place(&pod("p"), &nodes()) else { panic!("no node") };
    assert!(totals.iter().all(|(_, total)| *total == 42), "{totals:?}");
}

#[test]
fn prescore_and_score_fail_in_upstreams_words() {
    let reason = "(call $reason (i32.const 0) (i32.const 8))";
    let pre_score = |body: &str| format!(r#"(func (export "prescore") (result i32) {body}) {SCORE_BY_DIGIT}"#);
    let score = |body: &str| format!(r#"(func (export "score") (result i64) {body})"#);
    let invalid = "applying score defaultWeights on Score plugins: plugin \"Guest\" returns an invalid score 101, it should \
                   in the range of [0, 100] after normalizing";
    check(&[
        ("scores", SCORE_BY_DIGIT, placed("n3", [1, 2, 3])),
        (
            "prescore fails",
            &pre_score(&format!("{reason} (i32.const 1)")),
            failed("running PreScore plugin \"Guest\": not here"),
        ),
        (
            "prescore traps",
            &pre_score("unreachable"),
            failed("running PreScore plugin \"Guest\": wasm: prescore error: wasm error: unreachable"),
        ),
        (
            "prescore asks for all nodes",
            &pre_score("(call $filtered (i32.const 0) (i32.const 0))"),
            failed(
                "running PreScore plugin \"Guest\": wasm: prescore error: filteredNodeList is not provided: a call sees one \
                 node, and prescore none",
            ),
        ),
        (
            "score fails",
            &score(&format!("{reason} (i64.const 1)")),
            failed("running Score plugins: plugin \"Guest\" failed with: not here"),
        ),
        (
            "score traps",
            &score("unreachable"),
            failed("running Score plugins: plugin \"Guest\" failed with: wasm: score error: wasm error: unreachable"),
        ),
        ("score out of range", &score("(i64.const 433791696896)"), failed(invalid)),
    ]);
}

#[test]
fn normalizescore_sees_the_scores_of_feasible_nodes() {
    let normalize = |body: &str| format!(r#"(func (export "normalizescore") (result i32) {body}) {SCORE_BY_DIGIT}"#);
    // Writes 9 over the value of the first entry: {"000000-000000":1,...
    let changed = normalize(
        "(local $len i32)
         (local.set $len (call $scores (i32.const 2000) (i32.const 4096)))
         (i32.store8 (i32.const 2017) (i32.const 57))
         (call $normalized (i32.const 2000) (local.get $len))
         (i32.const 0)",
    );
    let text = "running Normalize on Score plugins: plugin \"Guest\" failed with:";
    check(&[
        ("changed", &changed, placed("n1", [9, 2, 3])),
        ("left as they are", &normalize("(i32.const 0)"), placed("n3", [1, 2, 3])),
        (
            "no scores",
            &normalize("(call $normalized (i32.const 0) (i32.const 0)) (i32.const 0)"),
            failed(&format!(
                "{text} wasm: normalizescore error: result.normalized_score_list: EOF while parsing a value at line 1 \
                 column 0"
            )),
        ),
        (
            "fails",
            &normalize("(call $reason (i32.const 0) (i32.const 8)) (i32.const 1)"),
            failed(&format!("{text} not here")),
        ),
        (
            "traps",
            &normalize("unreachable"),
            failed(&format!("{text} wasm: normalizescore error: wasm error: unreachable")),
        ),
    ]);
}

#[test]
fn events_that_a_guest_registers_wake_its_pods_and_without_any_all_do() {
    let events = |functions: &str| {
        let alone = Alone::new(&format!("{FILTER_ALL} {functions}"));
        alone.registry.find(NAME).expect("adopted").events()
    };
    let registers = r#"(func (export "enqueue") (call $events (i32.const 32) (i32.const 16)))"#;
    assert_eq!(events(registers), ["AssignedPodDelete", "NodeAdd"]);
    assert!(events(r#"(func (export "enqueue"))"#).is_empty());
    assert!(events("").is_empty());
    let trap = guest(&format!(r#"{FILTER_ALL} (func (export "enqueue") unreachable)"#));
    let error = Alone::try_new(&trap, &json!({})).err().expect("it cannot say its events");
    assert_eq!(error, "plugin \"Guest\": wasm: enqueue error: wasm error: unreachable");
}

#[test]
fn clock_and_randomness_are_the_same_for_every_node_and_instance() {
    // Rejects a node unless clock and random bytes equal those of prefilter.
    let told = "(drop (call $clock (i32.const 0) (i64.const 0) (i32.const 400)))
                (drop (call $random (i32.const 408) (i32.const 8)))";
    let functions = format!(
        r#"(global $clock (mut i64) (i64.const 0)) (global $random (mut i64) (i64.const 0))
        (func (export "prefilter") (result i32)
          {told} (global.set $clock (i64.load (i32.const 400))) (global.set $random (i64.load (i32.const 408)))
          (i32.const 0))
        (func (export "score") (result i64)
          (i64.shl (i64.and (i64.xor (global.get $clock) (global.get $random)) (i64.const 63)) (i64.const 32)))"#
    );
    let totals = |()| match Alone::new(&functions).place(&pod("p"), &nodes()) {
        Came::Placed(_, totals) => totals,
        other => panic!("{other:?}"),
    };
    assert_eq!(totals(()), totals(()));
}

#[test]
fn a_guest_that_keeps_something_between_nodes_is_found_out() {
    let functions = r#"(global $asked (mut i32) (i32.const 0))
        (func (export "filter") (result i32)
          (global.set $asked (i32.add (global.get $asked) (i32.const 1)))
          (i32.mul (i32.const 2) (i32.gt_u (global.get $asked) (i32.const 2))))"#;
    let alone = Alone::new(functions);
    let fields = flotilla_framework::testing::checks::snapshot(
        &nodes().into_iter().map(|node| (node, Vec::new())).collect::<Vec<_>>(),
    );
    let class = pod("p").into_class();
    let prepared = flotilla_framework::prepared::Prepared::new(
        alone.registry,
        &alone.profile,
        &class,
        &flotilla_framework::extension::Facts::default(),
        &fields,
    );
    let evaluation = flotilla_framework::testing::checks::evaluate(&prepared, &fields);
    let reasons: Vec<_> =
        evaluation.refused.iter().flat_map(|group| prepared.reasons(group.order, group.refusal.detail)).collect();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].contains("the guest is not pure: of node \"n3\" it says"), "{reasons:?}");
}

#[test]
fn a_module_that_cannot_be_a_plugin_is_refused_with_what_is_wrong() {
    let load = |text: &str| {
        let bytes = wat::parse_str(text).expect("sound text");
        Alone::try_new(&bytes, &json!({})).err().unwrap_or_else(|| panic!("{text} is accepted"))
    };
    for (text, error) in [
        (
            r#"(module (func (export "filter") (result i32) (i32.const 0)))"#,
            "wasm: guest doesn't export memory[memory]",
        ),
        (
            r#"(module (memory (export "memory") 1) (func (export "filter") (result i64) (i64.const 0)))"#,
            "wasm: guest exports the wrong signature for func[filter]. should be () -> (i32), and is () -> (i64)",
        ),
        (
            r#"(module (memory (export "memory") 1) (func (export "score") (param i32) (result i64) (i64.const 0)))"#,
            "wasm: guest exports the wrong signature for func[score]. should be () -> (i64), and is (i32) -> (i64)",
        ),
        (
            r#"(module (memory (export "memory") 1) (func (export "reserve") (result i32) (i32.const 0)))"#,
            "wasm: guest does not export any plugin functions that are run here: export filter or score; it exports reserve",
        ),
        (
            r#"(module (memory (export "memory") 1))"#,
            "wasm: guest does not export any plugin functions that are run here: export filter or score; it exports no \
             function",
        ),
        (
            r#"(module (import "env" "time" (func)) (memory (export "memory") 1)
               (func (export "filter") (result i32) (i32.const 0)))"#,
            "wasm: the guest imports env time as () -> (), which this host does not have",
        ),
        (
            r#"(module (import "k8s.io/klog" "severity" (func (result i64))) (memory (export "memory") 1)
               (func (export "filter") (result i32) (i32.const 0)))"#,
            "wasm: the guest imports k8s.io/klog severity as () -> (i64), which this host has as () -> (i32)",
        ),
        (
            r#"(module (memory (export "memory") 1) (func (export "flotilla_abi") (result i32) (i32.const 1))
               (func (export "flotilla_filter") (param i32) (result i32) (i32.const 0)))"#,
            "wasm: guest exports the wrong signature for func[flotilla_alloc]. should be (i32) -> (i32), and is not \
             exported, though flotilla_abi is",
        ),
        (
            r#"(module (memory (export "memory") 1) (func (export "_start") unreachable)
               (func (export "filter") (result i32) (i32.const 0)))"#,
            "plugin \"Guest\": wasm: instantiate error: wasm error: unreachable",
        ),
    ] {
        assert_eq!(load(text), error);
    }
    let other_files: [(&[u8], &str); 2] = [
        (b"\x7fELF", "it is no WebAssembly module: it does not begin with \\0asm"),
        (b"\0asm\x01\0\0\0junk", "wasm: error compiling guest: "),
    ];
    for (bytes, words) in other_files {
        let error = Alone::try_new(bytes, &json!({})).err().expect("not WebAssembly");
        assert!(error.starts_with(words), "{error}");
    }
    let large = Alone::try_new(&vec![0; (32 << 20) + 1], &json!({})).err().expect("too large");
    assert!(large.starts_with("the module has 33554433 bytes; at most 33554432 are accepted"), "{large}");
}

#[test]
fn a_guest_that_ends_its_start_with_exit_code_0_is_started() {
    let functions = format!(r#"(func (export "_start") (call $exit (i32.const 0))) {SCORE_BY_DIGIT}"#);
    assert_eq!(Alone::new(&functions).place(&pod("p"), &nodes()), placed("n3", [1, 2, 3]));
}

#[test]
fn what_is_wrong_with_arguments_is_said_at_its_place() {
    let alone = Alone::new(FILTER_ALL);
    let plugin = alone.registry.find(NAME).expect("adopted");
    let check = |args: Value| plugin.check_args(&args).map_err(|error| (error.path.len(), error.message));
    assert_eq!(
        check(json!({ "guestURL": "file:///a.wasm", "guestConfig": "{}", "logSeverity": 1, "args": ["a"] })),
        Ok(())
    );
    let wrong = |args: Value| check(args).expect_err("refused");
    assert_eq!(wrong(json!({})).1, "missing field `guestURL`");
    for (args, message) in [
        (json!({ "guestURL": "http://a/b" }), "found \"http://a/b\", expected file:///PATH or https://HOST/PATH"),
        (
            json!({ "guestURL": "https://a/b" }),
            "found no digest, expected one with a guestURL of https://; sha256sum FILE.wasm prints it",
        ),
        (json!({ "guestURL": "file:///a", "sha256": "ff" }), "found \"ff\", expected 64 hexadecimal digits"),
        (json!({ "guestURL": "file:///a", "logSeverity": 4 }), "found 4, expected 0 to 3"),
        (json!({ "guestURL": "file:///a", "limits": { "fuelPerCall": 0 } }), "found 0, expected at least 1"),
        (
            json!({ "guestURL": "file:///a", "limits": { "memory": "5Gi" } }),
            "found \"5Gi\", expected bytes from 64Ki to 4Gi, such as 256Mi",
        ),
    ] {
        assert_eq!(wrong(args).1, message);
    }
    let (depth, message) = wrong(json!({ "guestURL": "file:///a", "podFields": ["metadata.name", "status.phase"] }));
    assert!(depth == 2 && message.starts_with("found \"status.phase\", expected metadata.name, "), "{message}");
    let (depth, message) = wrong(json!({ "guestURL": "file:///a", "nodeFields": ["spec.podCIDR"] }));
    assert!(depth == 2 && message.starts_with("found \"spec.podCIDR\", expected metadata.name, "), "{message}");
}
