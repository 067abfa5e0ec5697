//! Documents of a file, with their positions.

use serde_json::json;

use super::*;
use crate::place::Path;

fn documents(text: &str) -> Vec<Result<Value, Vec<Fault>>> {
    let mut sources = Sources::default();
    sources.add("input".to_owned(), text.to_owned()).map(|document| sources.decode(document)).collect()
}

#[test]
fn documents_are_cut_where_yaml_and_json_cut_them() {
    let cases = [
        ("a: 1", vec![json!({"a": 1})]),
        ("a: 1\n---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("---\na: 1\n--- # more\nb: 2\n---\n", vec![json!({"a": 1}), json!({"b": 2}), Value::Null]),
        ("a: |\n  ---\n  text\n", vec![json!({"a": "---\ntext\n"})]),
        ("a: 1\r\n---\r\nb: 2\r\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("--- {a: 1}\n", vec![json!({"a": 1})]),
        ("{\"a\": 1}", vec![json!({"a": 1})]),
        ("{\"a\": 1}\n{\"b\": 2} {\"c\": 3}\n", vec![json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]),
        ("{a: 1}\n---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("# nothing\n", vec![Value::Null]),
        ("", vec![Value::Null]),
        ("memory: 99999999999999999999", vec![json!({"memory": 1e20})]),
        ("%YAML 1.1\n---\na: 1\n---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("# a comment\n%YAML 1.1\n# more\n---\na: 1\n", vec![json!({"a": 1})]),
        ("a: 1\n---\n%YAML 1.1\n---\nb: 2\n", vec![json!({"a": 1}), Value::Null, json!({"b": 2})]),
        ("a: 1\n...\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\n...\n%YAML 1.1\n---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\n---\n\u{feff}b: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("a: 1\n\u{feff}---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("\u{feff}{\"a\": 1}", vec![json!({"a": 1})]),
    ];
    for (text, expected) in cases {
        let values: Vec<Value> = documents(text).into_iter().map(|value| value.expect(text)).collect();
        assert_eq!(values, expected, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_told_with_its_place_in_the_file() {
    let deep_block = format!("a:\n  {}", "- ".repeat(100_000));
    let deep_flow = format!("a: {}", "[".repeat(100_000));
    let deep_json = "{\"a\":".repeat(100_000);
    let cases = [
        (
            "a: 1\n---\nb: c: d\n",
            (3, 5),
            "cannot be read as YAML: mapping values are not allowed in this context; put a",
        ),
        ("a: 1\nb: [1\n", (3, 1), "cannot be read as YAML: "),
        ("a: 1\nb: x\0\n", (2, 5), "cannot be read as YAML: the character U+0000 is not allowed; expected"),
        ("{\"a\": 1\n \"b\": 2}", (2, 2), "cannot be read as JSON: expected `,` or `}`; expected a Kubernetes object"),
        (
            "{\"a\": 1} {\"b\": 1, \"b\": 2}",
            (1, 19),
            "cannot be read as YAML: the key \"b\" occurs twice in the same mapping; expected",
        ),
        (&deep_block, (2, 257), "mappings and lists nest too deep; expected no more than 128 levels"),
        (&deep_flow, (1, 259), "mappings and lists nest too deep; expected no more than 128 levels"),
        (&deep_json, (1, 1276), "mappings and lists nest too deep; expected no more than 128 levels"),
    ];
    for (text, (line, column), expected) in cases {
        let start = text.chars().take(40).collect::<String>();
        let faults = documents(text).into_iter().find_map(Result::err).expect(&start);
        let fault = faults.first().expect("a fault");
        assert!(fault.text.starts_with(expected), "{start}: {}", fault.text);
        assert_eq!(fault.mark, Mark { line, column }, "{start}");
    }
}

#[test]
fn aliases_are_read_unless_they_stand_for_too_much() {
    let value = documents("a: &x {b: 1}\nc: *x\n").remove(0).expect("aliases are YAML");
    assert_eq!(value, json!({"a": {"b": 1}, "c": {"b": 1}}));

    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (before, name) in ('a'..='h').zip('b'..='i') {
        bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 10].join(",")));
    }
    let fault = documents(&bomb).remove(0).expect_err("a hundred million elements");
    let text = &fault.first().expect("a fault").text;
    assert!(text.contains("its aliases expand to too much; write out the values"), "{text}");
}

#[test]
fn positions_are_those_of_the_file() {
    let mut sources = Sources::default();
    let yaml = sources.add("one".to_owned(), "a: 1\n---\n# second\nb: 2\n".to_owned());
    let json = sources.add("two".to_owned(), "{\"a\": 1}\n  {\"b\": 2} {\"c\": 3}".to_owned());
    let key = |key: &str| Path::default().key(key);
    let at = |document: usize, name: &str| sources.positions(document, &[(&key(name), false)])[0].to_string();
    assert_eq!(at(yaml.start + 1, "b"), "one:4:4");
    assert_eq!(at(json.start + 1, "b"), "two:2:9");
    assert_eq!(at(json.start + 2, "c"), "two:2:18");
    assert!(sources.positions(99, &[]).is_empty());
}

#[test]
fn a_byte_order_mark_is_no_text() {
    let mut sources = Sources::default();
    let documents = sources.add("bom.yaml".to_owned(), "\u{feff}a: 1".to_owned());
    assert_eq!(sources.decode(documents.start), Ok(serde_json::json!({ "a": 1 })));
}
