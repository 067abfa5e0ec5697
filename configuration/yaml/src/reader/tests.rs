//! YAML as kubectl reads it. `integration-tests` has no case for it: the expected values are the output of `sigs.k8s.io/yaml`.

use serde_json::json;

use super::*;

#[test]
fn scalars_are_those_of_yaml_1_1() {
    let cases = [
        ("yes", json!(true)),
        ("On", json!(true)),
        ("n", json!(false)),
        ("OFF", json!(false)),
        ("~", json!(null)),
        ("Null", json!(null)),
        ("0o17", json!(15)),
        ("0777", json!(511)),
        ("0x1F", json!(31)),
        ("0b11", json!(3)),
        ("1_000", json!(1000)),
        ("1:30", json!("1:30")),
        ("1.20", json!(1.2)),
        ("1e9", json!(1_000_000_000)),
        ("99999999999999999999", json!(1e20)),
        ("2001-01-01", json!("2001-01-01")),
        ("500m", json!("500m")),
        ("=", json!("=")),
        ("'yes'", json!("yes")),
        ("\"1\"", json!("1")),
        ("!!str 1", json!("1")),
        ("!!int \"1\"", json!(1)),
        ("!vault secret", json!("secret")),
        ("|\n  a\n  b\n", json!("a\nb\n")),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&format!("a: {text}")), Ok(json!({ "a": expected })), "{text}");
    }
}

#[test]
fn keys_are_text() {
    let cases = [
        ("1: a", json!({"1": "a"})),
        ("yes: a", json!({"true": "a"})),
        ("1.20: a", json!({"1.2": "a"})),
        ("\"yes\": a", json!({"yes": "a"})),
        ("? a\n: b", json!({"a": "b"})),
        ("&k a: 1\nb: *k", json!({"a": 1, "b": "a"})),
    ];
    for (text, expected) in cases {
        let expected = if text.starts_with("&k") { json!({"a": 1}) } else { expected };
        let text = text.split("\nb: *k").next().expect("text");
        assert_eq!(read(text), Ok(expected), "{text}");
    }
}

#[test]
fn merge_keys_are_those_of_kubectl() {
    let cases = [
        ("a: &a {x: 1, q: 1}\nb: {<<: *a, q: 2}", json!({"x": 1, "q": 2})),
        ("a: &a {x: 1}\nc: &c {x: 2, z: 3}\nb: {<<: [*a, *c]}", json!({"x": 1, "z": 3})),
        ("a: &a {x: 1}\nc: &c {<<: *a, q: 2}\nb: {<<: *c, z: 3}", json!({"x": 1, "q": 2, "z": 3})),
        // kubectl's reader sets the keys in their written order.
        ("a: &a {x: 1}\nb: {x: 2, <<: *a}", json!({"x": 1})),
        ("a: &a {x: {q: 1, z: 1}}\nb: {<<: *a, x: {q: 2}}", json!({"x": {"q": 2}})),
        ("b: {<<: {x: 1}, q: 2}", json!({"x": 1, "q": 2})),
        ("b: {\"<<\": 1}", json!({"<<": 1})),
        ("a: &a [1]\nb: *a", json!([1])),
    ];
    for (text, expected) in cases {
        let value = read(text).expect(text);
        assert_eq!(value["b"], expected, "{text}");
    }
}

#[test]
fn faults_have_their_place_and_the_next_step() {
    let cases = [
        ("a:\n\tb: 1\n", (2, 1), "a tab indents this line; indent with spaces"),
        ("a: {<<: 1}\n", (1, 5), "a merge key has no mapping; expected a mapping or a list"),
        ("a: &a {b: *a}\n", (1, 11), "an alias is part of its anchor"),
        ("{a: 1}: b\n", (1, 1), "a key is a mapping or a list"),
        ("~: 1\n", (1, 1), "a key is empty"),
        ("a: .nan\n", (1, 4), ".nan is not a finite number"),
        ("a: !!int x\n", (1, 4), "\"x\" does not match its tag"),
        ("a: {{ .Values.x }}\n", (1, 5), "a key is a mapping or a list"),
        ("a: 1\nb: x\0\n", (2, 5), "the character U+0000 is not allowed"),
    ];
    for (text, (line, column), expected) in cases {
        let faults = read(text).expect_err(text);
        let fault = faults.first().expect("a fault");
        assert!(fault.text.contains(expected), "{text}: {}", fault.text);
        assert_eq!(fault.mark, Mark { line, column }, "{text}");
    }
}

#[test]
fn a_repeated_key_has_its_place_and_that_of_the_first() {
    let cases = [
        ("a: 1\nb: 2\na: 3\n", vec![((3, 1), (1, 1))]),
        ("a: 1\na: 2\na: 3\n", vec![((2, 1), (1, 1)), ((3, 1), (1, 1))]),
        ("x: {a: 1}\nw:\n  - z: {a: [1, {a: 2}]}\n    a: 1\n    z: 4\n", vec![((5, 5), (3, 5))]),
        ("yes: 1\ntrue: 2\n", vec![((2, 1), (1, 1))]),
        ("a: &a {x: 1}\nb: {<<: *a, x: 2, x: 3}\n", vec![((2, 19), (2, 13))]),
        ("{\"a\": 1, \"b\": {\"a\": 2},\n \"a\": 3}", vec![((2, 2), (1, 2))]),
    ];
    for (text, expected) in cases {
        let place = |mark: Mark| (mark.line, mark.column);
        let faults = read(text).expect_err(text);
        let found: Vec<_> =
            faults.iter().map(|fault| (place(fault.mark), place(fault.other.expect("a second place")))).collect();
        assert_eq!(found, expected, "{text}");
    }
}
