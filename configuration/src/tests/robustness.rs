//! No text makes the reader panic. Messages on a terminal are in `cases/shown.txt`.

use super::super::ConfigErrors;
use super::super::decode::MAX_BYTES;
use super::load;
use super::with_header;

const SAMPLE: &str = r#"
leaderElection: {leaderElect: true, leaseDuration: 15s}
clientConnection:
  qps: 1.5
  contentType: "application/json" # a comment
profiles:
- schedulerName: 'one'
  plugins:
    score:
      enabled: [{name: NodeAffinity, weight: 2}]
      disabled:
      - name: "*"
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - {key: zone, operator: In, values: [ü, b]}
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"#;

/// Every error is in a line of the text, within or right after its characters.
fn assert_in_text(errors: &ConfigErrors, text: &str) {
    let lines: Vec<&str> = text.split('\n').collect();
    for error in &errors.errors {
        let in_text = error.line >= 1
            && error.column >= 1
            && lines.get(error.line - 1).is_none_or(|line| error.column <= line.chars().count() + 1)
            && error.line <= lines.len() + 1;
        assert!(in_text, "{error}\nin:\n{text}");
    }
    assert!(!errors.errors.is_empty() && !errors.to_string().is_empty());
}

#[test]
fn no_damage_to_a_text_brings_the_reader_down() {
    let text = with_header(&SAMPLE.replace('ü', "u"));
    let check = |damaged: &str| {
        if let Err(errors) = load(damaged, "f") {
            assert_in_text(&errors, damaged);
        }
    };
    for end in 0..=text.len() {
        check(&text[..end]);
        check(&text[end..]);
    }
    for (number, damage) in
        ["", ":", "- ", "{", "]", "\"", "\n", "\t", "&a ", "*a", "? ", "!x ", "|", "-1", "ü", "#", "'"]
            .iter()
            .cycle()
            .take(text.len())
            .enumerate()
    {
        let at = number % text.len();
        check(&format!("{}{damage}{}", &text[..at], &text[at + 1..]));
    }
}

#[test]
fn no_kind_of_value_anywhere_brings_the_reader_down() {
    let text = with_header(SAMPLE);
    let values: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
    for at in 0..values.len() {
        for value in [
            "null\n",
            "[]\n",
            "{}\n",
            "-1\n",
            "1e999\n",
            "''\n",
            "true\n",
            "[[1]]\n",
            "{a: {b: c}}\n",
            "9223372036854775808\n",
        ] {
            let mut damaged = values.clone();
            damaged[at] = value;
            let damaged = damaged.concat();
            if let Err(errors) = load(&damaged, "f") {
                assert_in_text(&errors, &damaged);
            }
        }
    }
}

#[test]
fn a_text_of_more_than_a_mebibyte_is_not_read() {
    let text = format!("{}#{}", with_header(""), "x".repeat(MAX_BYTES));
    let errors = load(&text, "f").map_err(|errors| errors.to_string());
    let expected = format!("f:1:1: document: found {} bytes; expected at most 1048576 bytes", text.len());
    assert!(errors.is_err_and(|shown| shown.starts_with(&expected)));
}

#[test]
fn texts_that_are_large_and_wrong_are_refused_in_reasonable_time() {
    let repeat = |piece: &str| with_header(&format!("profiles: {}", piece.repeat((MAX_BYTES - 200) / piece.len())));
    let keys: String = (0..20_000).map(|number| format!("k{number}: 1\n")).collect();
    for text in
        [repeat("["), repeat("{a: "), repeat("- "), repeat("? "), repeat("a "), repeat("[],"), with_header(&keys)]
    {
        assert!(load(&text, "f").is_err());
    }
}

#[test]
fn depth_is_refused_however_deep_it_is() {
    for depth in [65, 300, 100_000] {
        let shown =
            load(&with_header(&format!("profiles: {}", "[".repeat(depth))), "f").map_err(|errors| errors.to_string());
        assert!(shown.is_err_and(|shown| shown.contains("nested deeper than 64")), "{depth}");
    }
}

#[test]
fn after_a_thousand_errors_the_rest_is_counted() {
    // Each profile has an invalid percentage, and all but the first repeat a name.
    let text =
        with_header(&format!("profiles: [{}]", "{schedulerName: a, percentageOfNodesToScore: 101},".repeat(601)));
    let errors = load(&text, "f").err();
    assert!(errors.is_some_and(|errors| {
        (errors.errors.len(), errors.omitted) == (1000, 201) && errors.to_string().ends_with("\nand 201 more")
    }));
}

#[test]
fn a_long_line_is_cut_around_what_is_meant() {
    let shown = load(
        &with_header(&format!(
            "clientConnection: {{kubeconfig: \"{}\", burst: -1, contentType: \"{}\"}}",
            "k".repeat(500),
            "c".repeat(500)
        )),
        "f",
    );
    let shown = shown.map_err(|errors| errors.to_string()).err().unwrap_or_default();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.first().copied(), Some("f:3:543: clientConnection.burst: found -1; expected 0 or more"));
    assert!(lines.iter().all(|line| line.chars().count() <= 124));
    let caret = lines.get(2).and_then(|line| line.find('^')).unwrap_or_default();
    assert_eq!(lines.get(1).and_then(|line| line.get(caret..caret + 2)), Some("-1"));
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let shown = load(&with_header("parallelism: \"\\e[31m\"\nk\u{1b}: 1\n"), "f").map_err(|errors| errors.to_string());
    assert!(shown.is_err_and(|shown| !shown.contains('\u{1b}')));
    let shown = load(&with_header("parallelism: \"\\e[31m\"\n"), "f").map_err(|errors| errors.to_string());
    assert!(shown.is_err_and(|shown| !shown.contains('\u{1b}')));
}

/// Every line repeats the previous one `width` times.
fn laughs(lines: usize, width: usize) -> String {
    let line = |number: usize| match number {
        0 => "l0: &l0 [x]\n".to_owned(),
        _ => format!("l{number}: &l{number} [{}]\n", vec![format!("*l{}", number - 1); width].join(",")),
    };
    (0..lines).map(line).collect()
}

#[test]
fn a_text_that_expands_without_end_is_refused_at_the_alias() {
    let deep: String = (1..200).map(|number| format!("m{number}: &m{number} {{<<: *m{}}}\n", number - 1)).collect();
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), vec!["*a"; 1000].join(","));
    for (text, expected) in [
        (laughs(12, 10), "f:8:22: l5[3][6][2][6]: found aliases that expand to more than 100000 values; expected"),
        (laughs(80, 1), "f:66:12: l63[0]"),
        (format!("m0: &m0 {{a: 1}}\n{deep}"), "f:68:16: m65: found merge keys nested deeper than 64"),
        (long, "f:4:"),
    ] {
        let shown = load(&with_header(&text), "f").map_err(|errors| errors.to_string()).err().unwrap_or_default();
        assert!(shown.starts_with(expected), "{shown}");
    }
}
