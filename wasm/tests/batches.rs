//! Batch guests in WAT: content of blocks, results, and each failure.

#![allow(missing_docs)]

#[path = "support/alone.rs"]
mod support;

use flotilla_framework::testing::{NodeBuilder, PodBuilder, node, pod};
use serde_json::{Value, json};
use support::{Alone, Came};

/// Two zones, and a node without one; 1, 2 and 4 cores.
fn nodes() -> Vec<NodeBuilder> {
    let node = |name: &str, cpu: &str| node(name).capacity("cpu", cpu).capacity("pods", "10");
    vec![node("n1", "1").label("zone", "a"), node("n2", "2").label("zone", "b"), node("n3", "4")]
}

/// A guest with this description. Its block is at 65536, in a memory of 256 KiB.
fn batched(description: &Value, functions: &str) -> Vec<u8> {
    guest(&description.to_string(), functions, "(i32.const 65536)")
}

fn guest(description: &str, functions: &str, alloc: &str) -> Vec<u8> {
    let (text, len) = (description.replace('"', "\\22"), description.len());
    let module = format!(
        r#"(module
          (import "k8s.io/scheduler" "result.status_reason" (func $reason (param i32 i32)))
          (import "k8s.io/scheduler" "currentPod" (func $pod (param i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
          (memory (export "memory") 4)
          (data (i32.const 0) "not here")
          (data (i32.const 1024) "{text}")
          (func (export "flotilla_abi") (result i32) (i32.const 1))
          (func (export "flotilla_describe") (result i64)
            (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.const {len})))
          (func (export "flotilla_alloc") (param $len i32) (result i32) {alloc})
          ;; A word of the block, and the place that it names.
          (func $word (param $block i32) (param $number i32) (result i32)
            (i32.load (i32.add (local.get $block) (i32.mul (i32.const 4) (local.get $number)))))
          (func $place (param $block i32) (param $number i32) (result i32)
            (i32.add (local.get $block) (call $word (local.get $block) (local.get $number))))
          ;; The values of the first column.
          (func $values (param $block i32) (result i32)
            (i32.add (local.get $block) (i32.load offset=4 (call $place (local.get $block) (i32.const 5)))))
          {functions})"#
    );
    wat::parse_str(&module).unwrap_or_else(|error| panic!("{error}\n{module}"))
}

/// A filter or score with this answer for each node; `$at` is the index of the node.
fn each(export: &str, answer: &str) -> String {
    let (store, width) = if export == "flotilla_filter" { ("i32.store8", 1) } else { ("i64.store", 8) };
    format!(
        r#"(func (export "{export}") (param $block i32) (result i32) (local $at i32)
          (loop $next
            ({store}
              (i32.add (call $place (local.get $block) (i32.const 7)) (i32.mul (local.get $at) (i32.const {width})))
              {answer})
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $at) (call $word (local.get $block) (i32.const 0)))))
          (i32.const 0))"#
    )
}

/// The text of a node in the first column, counted from 1; 0 for none.
const TEXT: &str = "(i32.add (i32.const 1)
    (i32.load (i32.add (call $values (local.get $block)) (i32.mul (local.get $at) (i32.const 4)))))";
/// The number of a node in the first column, in thousands.
const THOUSANDS: &str = "(i64.div_s
    (i64.load (i32.add (call $values (local.get $block)) (i32.mul (local.get $at) (i32.const 8)))) (i64.const 1000))";

fn by_cpu(normalize: &str) -> Vec<u8> {
    let description = json!({ "podFields": [], "nodeFields": ["status.allocatable['cpu']"], "normalize": normalize });
    batched(&description, &each("flotilla_score", THOUSANDS))
}

fn placed_by(guest: &[u8], args: &Value, pod: &PodBuilder) -> Came {
    Alone::try_new(guest, args).unwrap_or_else(|error| panic!("{error}")).place(pod, &nodes())
}

fn totals(came: Came) -> Vec<i64> {
    match came {
        Came::Placed(_, totals) => totals.into_iter().map(|(_, total)| total).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_are_numbered_and_the_answer_is_the_number_of_a_reason() {
    let description = json!({
        "podFields": [], "nodeFields": ["metadata.labels['zone']"],
        "reasons": [{ "text": "node(s) were in the first zone" }, { "text": "node(s) were in another", "unresolvable": true }],
    });
    let guest = batched(&description, &each("flotilla_filter", TEXT));
    let came = placed_by(&guest, &json!({}), &pod("p"));
    assert_eq!(came, Came::Placed("n3".to_owned(), vec![("n3".to_owned(), 1)]), "the node without a zone");
    let refusing = batched(&description, &each("flotilla_filter", "(i32.const 2)"));
    let came = placed_by(&refusing, &json!({}), &pod("p"));
    assert_eq!(came, Came::Refused("0/3 nodes are available: 3 node(s) were in another.".to_owned()));
}

#[test]
fn numbers_are_read_and_scores_are_scaled_as_the_guest_says() {
    for (normalize, expected) in [("none", [1, 2, 4]), ("default", [25, 50, 100]), ("reverse", [75, 50, 0])] {
        assert_eq!(totals(placed_by(&by_cpu(normalize), &json!({}), &pod("p"))), expected, "{normalize}");
    }
}

#[test]
fn a_block_has_the_pod_and_the_configuration() {
    let length = |word: i32| format!("(i64.extend_i32_u (call $word (local.get $block) (i32.const {word})))");
    let scores = |word: i32, args: &Value, pod: &PodBuilder| {
        let description = json!({ "podFields": ["metadata.labels['team']"], "nodeFields": [] });
        totals(placed_by(&batched(&description, &each("flotilla_score", &length(word))), args, pod))
    };
    let config = json!({ "guestConfig": "seven b" });
    assert_eq!(scores(4, &config, &pod("p")), [7; 3], "the length of the configuration");
    let text = r#"{"metadata":{"labels":{"team":"red"}},"spec":{}}"#;
    let expected = i64::try_from(text.len()).expect("short");
    let red = pod("p").label("team", "red").label("app", "web");
    assert_eq!(scores(2, &json!({}), &red), [expected; 3], "the pod has what is shown of it: {text}");
    assert_eq!(scores(6, &json!({}), &red), [0; 3], "the number of columns");
}

#[test]
fn an_instance_that_is_asked_again_knows_nothing_of_before() {
    // The first random_get in a call, and the length of the pod from currentPod.
    let functions = each("flotilla_score", "(local.get $drawn)").replace(
        "(local $at i32)",
        "(local $at i32) (local $drawn i64)
         (drop (call $random (i32.const 256) (i32.const 4)))
         (local.set $drawn (i64.extend_i32_u (i32.add (call $pod (i32.const 0) (i32.const 0))
           (i32.and (i32.const 31) (i32.load (i32.const 256))))))",
    );
    let description = json!({ "podFields": ["metadata.labels['team']"], "nodeFields": [] });
    let alone = Alone::try_new(&batched(&description, &functions), &json!({})).expect("sound");
    let one = vec![nodes().remove(0)];
    let (short, long) = (pod("p").label("team", "red"), pod("p").label("team", "dark-red"));
    let (of_short, of_long) = (totals(alone.place(&short, &one))[0], totals(alone.place(&long, &one))[0]);
    assert_eq!(of_long - of_short, 5, "the names of the teams");
    for _ in 0..3 {
        assert_eq!(totals(alone.place(&short, &nodes())), [of_short; 3]);
        assert_eq!(totals(alone.place(&long, &nodes())), [of_long; 3]);
    }
}

#[test]
fn what_goes_wrong_with_a_batch_is_an_error_of_the_attempt() {
    let description = json!({ "podFields": [], "nodeFields": [], "reasons": [{ "text": "node(s) were not wanted" }] });
    let filter = |body: &str| format!(r#"(func (export "flotilla_filter") (param $block i32) (result i32) {body})"#);
    let fails = |functions: &str| placed_by(&batched(&description, functions), &json!({}), &pod("p"));
    let of_filter = |text: &str| Came::Failed(format!("running \"Guest\" filter plugin: {text}"));
    for (what, functions, expected) in [
        ("a trap", filter("unreachable"), "wasm: flotilla_filter error: wasm error: unreachable"),
        ("an error with words", filter("(call $reason (i32.const 0) (i32.const 8)) (i32.const 1)"), "not here"),
        ("an error without", filter("(i32.const 9)"), "flotilla_filter answers 9"),
        (
            "a reason that there is not",
            each("flotilla_filter", "(i32.const 7)"),
            "wasm: flotilla_filter error: it answers with the number of a reason that it does not describe; it has 1",
        ),
        (
            "no end",
            filter("(loop $again (br $again)) (i32.const 0)"),
            "wasm: flotilla_filter error: the fuel of a call is used up (20000000 units): raise limits.fuelPerCall, or have the \
             guest do less",
        ),
    ] {
        assert_eq!(fails(&functions), of_filter(expected), "{what}");
    }
    for alloc in ["(i32.const 262143)", "(i32.const -8)"] {
        let guest = guest(&description.to_string(), &each("flotilla_filter", "(i32.const 0)"), alloc);
        let Came::Failed(text) = placed_by(&guest, &json!({}), &pod("p")) else { panic!("{alloc}: it is placed") };
        assert!(text.contains("flotilla_alloc gave ") && text.contains("there is no room for"), "{text}");
    }
    let score = |number: i64| {
        let description = json!({ "podFields": [], "nodeFields": [] });
        let functions = each("flotilla_score", &format!("(i64.const {number})"));
        placed_by(&batched(&description, &functions), &json!({}), &pod("p"))
    };
    for number in [-1, 101, i64::MAX] {
        let invalid = format!(
            "applying score defaultWeights on Score plugins: plugin \"Guest\" returns an invalid score {number}, it should in the \
             range of [0, 100] after normalizing"
        );
        assert_eq!(score(number), Came::Failed(invalid));
    }
    assert_eq!(totals(score(100)), [100; 3]);
}

#[test]
fn a_guest_whose_answer_depends_on_its_batch_is_found_out() {
    let description = json!({ "podFields": [], "nodeFields": [] });
    let guest = batched(&description, &each("flotilla_score", "(i64.extend_i32_u (local.get $at))"));
    let alone = Alone::try_new(&guest, &json!({})).expect("sound");
    let Came::Failed(text) = alone.decide(&pod("p"), &nodes()) else { panic!("it is placed") };
    let expected =
        "the guest is not pure: of node \"n3\" it says Some(2) among others and Some(0) by itself in a fresh instance";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_guest_that_describes_itself_wrongly_is_refused_with_what_is_wrong() {
    let refused = |guest: &[u8]| Alone::try_new(guest, &json!({})).err().expect("it is refused");
    let filter = each("flotilla_filter", "(i32.const 0)");
    for (description, part) in [
        ("{", "EOF while parsing"),
        (r#"{"nodeFields": ["spec.podCIDR"]}"#, "spec.podCIDR"),
        (r#"{"podFields": ["status.phase"]}"#, "status.phase"),
        (r#"{"normalize": "half"}"#, "half"),
        (r#"{"further": 1}"#, "further"),
    ] {
        let error = refused(&guest(description, &filter, "(i32.const 65536)"));
        assert!(error.contains(part), "{description}: {error}");
    }
    let args = json!({ "nodeFields": ["metadata.name"] });
    let error = Alone::try_new(&by_cpu("none"), &args).err().expect("columns are the guest's");
    assert!(error.contains("the module says itself which nodeFields it reads"), "{error}");
}
