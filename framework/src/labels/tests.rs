//! The cases of apimachinery's selector tests that apply to label selectors.

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Vec<(Arc<str>, Arc<str>)> {
    pairs.iter().map(|&(key, value)| (key.into(), value.into())).collect()
}

fn read(key: &str, operator: &str, values: &[&str]) -> Result<LabelRequirement, String> {
    let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
    LabelRequirement::read(key, operator, &values)
}

#[test]
fn requirements_hold_or_not() {
    let table: [(&str, &[&str], bool, bool, bool); 5] = [
        // operator, values, with value 1, with value 2, without the label
        ("In", &["1"], true, false, false),
        ("NotIn", &["1"], false, true, true),
        ("Exists", &[], true, true, false),
        ("DoesNotExist", &[], false, false, true),
        ("In", &["1", "2"], true, true, false),
    ];
    for (operator, values, one, two, none) in table {
        let selector = LabelSelector::Matching(vec![read("k", operator, values).expect("readable")]);
        let found = [labels(&[("k", "1")]), labels(&[("k", "2")]), labels(&[("a", "1"), ("z", "1")])]
            .map(|labels| selector.matches(&labels));
        assert_eq!(found, [one, two, none], "{operator} {values:?}");
    }
}

#[test]
fn no_selector_selects_nothing_and_an_empty_one_everything() {
    for labels in [labels(&[]), labels(&[("a", "1")])] {
        assert!(!LabelSelector::Nothing.matches(&labels));
        assert!(LabelSelector::EVERYTHING.matches(&labels));
    }
    assert!(LabelSelector::EVERYTHING.is_everything() && !LabelSelector::Nothing.is_everything());
}

#[test]
fn what_cannot_be_read_is_said_in_the_words_of_apimachinery() {
    let value = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
                 for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let key = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
               alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
               '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    let long = "a".repeat(64);
    let table: [(&str, &str, &[&str], String); 8] = [
        ("k", "Like", &["1"], "\"Like\" is not a valid label selector operator".to_owned()),
        (
            "k",
            "In",
            &[],
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty".to_owned(),
        ),
        (
            "k",
            "Exists",
            &["1"],
            "values: Invalid value: [\"1\"]: values set must be empty for exists and does not exist".to_owned(),
        ),
        ("k", "In", &["ok", "a b"], format!("values[1][k]: Invalid value: \"a b\": {value}")),
        ("k", "In", &[&long], format!("values[0][k]: Invalid value: {long:?}: must be no more than 63 bytes")),
        ("a b", "Exists", &[], format!("key: Invalid value: \"a b\": {key}")),
        ("/b", "Exists", &[], "key: Invalid value: \"/b\": prefix part must be non-empty".to_owned()),
        (
            "a b",
            "In",
            &["-"],
            format!("[key: Invalid value: \"a b\": {key}, values[0][a b]: Invalid value: \"-\": {value}]"),
        ),
    ];
    for (name, operator, values, expected) in table {
        assert_eq!(read(name, operator, values), Err(expected), "{name} {operator} {values:?}");
    }
}
