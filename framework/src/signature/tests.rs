//! What is kept of labels tells each selector in play as much as the labels do.

use std::sync::Arc;

use super::{Distinction, OTHER, SelectorsInPlay};
use crate::{
    class::Class,
    labels::{LabelOperator, LabelRequirement, LabelSelector},
};

fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelRequirement {
    LabelRequirement { key: key.into(), operator, values: values.iter().map(|&value| value.into()).collect() }
}

fn selector(requirements: &[(&str, LabelOperator, &[&str])]) -> LabelSelector {
    LabelSelector::Matching(
        requirements.iter().map(|(key, operator, values)| requirement(key, *operator, values)).collect(),
    )
}

fn class(labels: &[(&str, &str)]) -> Arc<Class> {
    let labels = labels.iter().map(|&(key, value)| (key.into(), value.into())).collect();
    Arc::new(Class { labels, ..Class::default() })
}

fn in_play(selectors: &[&LabelSelector]) -> SelectorsInPlay {
    let mut known = SelectorsInPlay::default();
    selectors.iter().for_each(|selector| known.enter(selector, &mut Vec::new()));
    known
}

fn signed(known: &SelectorsInPlay, labels: &[(&str, &str)]) -> Vec<(String, String)> {
    let class = known.sign(&class(labels));
    let told = class.labels.iter().filter(|(key, _)| &**key != OTHER);
    told.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn a_label_that_no_selector_reads_distinguishes_no_pods() {
    let known = in_play(&[&selector(&[("app", LabelOperator::In, &["web"])])]);
    assert_eq!(signed(&known, &[("app", "web"), ("index", "7")]), [("app".to_owned(), "web".to_owned())]);
    assert_eq!(signed(&known, &[("app", "db"), ("index", "7")]), []);
}

#[test]
fn that_a_pod_has_labels_at_all_is_told() {
    let known = SelectorsInPlay::default();
    assert_ne!(known.sign(&class(&[("a", "1")])), known.sign(&class(&[])));
    assert_eq!(known.sign(&class(&[("a", "1")])), known.sign(&class(&[("b", "2"), ("c", "3")])));
}

#[test]
fn a_value_is_read_by_a_selector_that_excludes_it() {
    let known = in_play(&[&selector(&[("app", LabelOperator::NotIn, &["web"])])]);
    assert_eq!(signed(&known, &[("app", "web")]), [("app".to_owned(), "web".to_owned())]);
    assert_eq!(signed(&known, &[("app", "db")]), []);
}

#[test]
fn a_selector_that_asks_for_presence_tells_that_there_is_a_value_and_not_which() {
    let known = in_play(&[&selector(&[("app", LabelOperator::DoesNotExist, &[])])]);
    assert_eq!(signed(&known, &[("app", "web")]), [("app".to_owned(), OTHER.to_owned())]);
    assert_eq!(signed(&known, &[("app", "db")]), signed(&known, &[("app", "web")]));
}

#[test]
fn what_is_left_matches_if_and_only_if_the_labels_do() {
    let values = ["", "a", "b", "c"];
    let requirements: Vec<LabelSelector> = ["x", "y"]
        .into_iter()
        .flat_map(|key| {
            [
                selector(&[(key, LabelOperator::In, &["a"])]),
                selector(&[(key, LabelOperator::In, &["a", "b"])]),
                selector(&[(key, LabelOperator::NotIn, &["b"])]),
                selector(&[(key, LabelOperator::Exists, &[])]),
                selector(&[(key, LabelOperator::DoesNotExist, &[])]),
            ]
        })
        .chain([LabelSelector::EVERYTHING, LabelSelector::Nothing])
        .collect();
    for subset in 0_u32..1 << requirements.len() {
        let chosen: Vec<&LabelSelector> =
            requirements.iter().enumerate().filter(|(at, _)| subset >> at & 1 == 1).map(|(_, one)| one).collect();
        let known = in_play(&chosen);
        for (x, y) in values.iter().flat_map(|x| values.iter().map(move |y| (x, y))) {
            let labels: Vec<(&str, &str)> =
                [("x", *x), ("y", *y)].into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let (whole, signed) = (class(&labels), known.sign(&class(&labels)));
            for selector in &chosen {
                assert_eq!(
                    selector.matches(&whole.labels),
                    selector.matches(&signed.labels),
                    "{selector:?} {labels:?}"
                );
            }
        }
    }
}

#[test]
fn only_what_no_other_selector_could_tell_is_news() {
    let mut known = SelectorsInPlay::default();
    let one = selector(&[("app", LabelOperator::In, &["a", "b"]), ("tier", LabelOperator::Exists, &[])]);
    let other = selector(&[("app", LabelOperator::NotIn, &["b", "c"])]);
    let distinctions = |known: &mut SelectorsInPlay, selector: &LabelSelector| {
        let mut distinctions = Vec::new();
        known.enter(selector, &mut distinctions);
        distinctions
    };
    let value = |value: &str| Distinction::Value(("app".into(), value.into()));
    assert_eq!(distinctions(&mut known, &one), [value("a"), value("b"), Distinction::Presence("tier".into())]);
    assert_eq!(distinctions(&mut known, &other), [value("c")]);
    assert_eq!(distinctions(&mut known, &one), []);
}

#[test]
fn nothing_is_kept_of_selectors_that_have_left() {
    let one = selector(&[("app", LabelOperator::In, &["a", "b"]), ("tier", LabelOperator::Exists, &[])]);
    let other = selector(&[("app", LabelOperator::In, &["b"])]);
    let mut known = in_play(&[&one, &other]);
    known.leave(&one);
    assert_eq!(signed(&known, &[("app", "a"), ("tier", "x")]), []);
    assert_eq!(signed(&known, &[("app", "b")]), [("app".to_owned(), "b".to_owned())]);
    known.leave(&other);
    assert!(known.is_empty());
}
