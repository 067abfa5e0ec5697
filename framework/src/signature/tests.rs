//! Each selector in play matches the reduced labels if and only if it matches the original ones.

use std::sync::Arc;

use super::{Distinction, LabelProperty, OTHER, Scope, SelectorsInPlay};
use crate::{
    class::{Class, Owner, OwnerKind, SpreadConstraint},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    preemption::Budget,
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
    selectors.iter().for_each(|selector| known.enter(Scope::All, selector, &mut Vec::new()));
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
    let mut known = SelectorsInPlay::default();
    known.enter(Scope::Only(&"default".into()), &selector(&[("x", LabelOperator::NotIn, &["1"])]), &mut Vec::new());
    let class = |labels| Arc::new(Class { namespace: "default".into(), ..Class::clone(&class(labels)) });
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
        known.enter(Scope::All, selector, &mut distinctions);
        distinctions
    };
    let anywhere = |told| Distinction { namespace: None, told };
    let value = |value: &str| anywhere(LabelProperty::Value(("app".into(), value.into())));
    let presence = anywhere(LabelProperty::Presence("tier".into()));
    assert_eq!(distinctions(&mut known, &one), [value("a"), value("b"), presence]);
    assert_eq!(distinctions(&mut known, &other), [value("c")]);
    assert_eq!(distinctions(&mut known, &one), []);
}

#[test]
fn nothing_is_kept_of_selectors_that_have_left() {
    let one = selector(&[("app", LabelOperator::In, &["a", "b"]), ("tier", LabelOperator::Exists, &[])]);
    let other = selector(&[("app", LabelOperator::In, &["b"])]);
    let mut known = in_play(&[&one, &other]);
    known.leave(Scope::All, &one);
    assert_eq!(signed(&known, &[("app", "a"), ("tier", "x")]), []);
    assert_eq!(signed(&known, &[("app", "b")]), [("app".to_owned(), "b".to_owned())]);
    known.leave(Scope::All, &other);
    assert!(known.is_empty());
}

fn of(namespace: &str, labels: &[(&str, &str)]) -> Arc<Class> {
    Arc::new(Class { namespace: namespace.into(), ..Class::clone(&class(labels)) })
}

/// Selectors of all kinds with their namespaces: `None`: all, `Some("")`: those with certain labels.
fn scoped() -> Vec<(Option<&'static str>, LabelSelector)> {
    let selectors = [
        selector(&[("x", LabelOperator::In, &["a"])]),
        selector(&[("x", LabelOperator::In, &["a", "b"]), ("y", LabelOperator::In, &["a"])]),
        selector(&[("y", LabelOperator::NotIn, &["a"])]),
        selector(&[("y", LabelOperator::Exists, &[])]),
        LabelSelector::EVERYTHING,
        LabelSelector::Nothing,
    ];
    let scopes = [None, Some(""), Some("one"), Some("two")];
    scopes.iter().flat_map(|scope| selectors.iter().map(move |selector| (*scope, selector.clone()))).collect()
}

fn scope<'a>(name: Option<&str>, namespace: &'a Arc<str>) -> Scope<'a> {
    match name {
        None => Scope::All,
        Some("") => Scope::Some,
        Some(_) => Scope::Only(namespace),
    }
}

#[test]
fn what_is_left_of_pods_in_namespaces_matches_if_and_only_if_the_pods_do() {
    let all = scoped();
    let values = ["", "a", "b"];
    // Three at a time are enough, because each is looked up separately.
    for (one, two) in (0..all.len()).flat_map(|one| (0..=one).map(move |two| (one, two))) {
        let chosen: Vec<_> = [one, two, (one * 7 + two) % all.len()].iter().map(|&at| &all[at]).collect();
        let mut known = SelectorsInPlay::default();
        for (name, selector) in &chosen {
            let namespace = name.unwrap_or_default().into();
            known.enter(scope(*name, &namespace), selector, &mut Vec::new());
        }
        for (x, y) in values.iter().flat_map(|x| values.iter().map(move |y| (x, y))) {
            let labels: Vec<(&str, &str)> =
                [("x", *x), ("y", *y), ("z", "c")].into_iter().filter(|(_, value)| !value.is_empty()).collect();
            for (namespace, labels) in [("one", labels.clone()), ("two", labels), ("one", Vec::new())] {
                let whole = of(namespace, &labels);
                let signed = known.sign(&whole);
                assert!(known.is_distinguished_by(&signed, &whole) && known.is_distinguished_by(&whole, &whole));
                for (name, selector) in &chosen {
                    let selects = |class: &Class| {
                        selector.matches(&class.labels)
                            && name.is_none_or(|name| name.is_empty() || *name == *class.namespace)
                    };
                    let what = format!("{chosen:?} {whole:?} {signed:?}");
                    assert_eq!(selects(&whole), selects(&signed), "{what}");
                    if name.is_some_and(str::is_empty) && selects(&whole) {
                        assert_eq!(signed.namespace, whole.namespace, "labels of its namespace decide: {what}");
                    }
                    let budget = |namespace: &str| Budget {
                        namespace: namespace.into(),
                        name: "b".into(),
                        selector: selector.clone(),
                        disruptions_allowed: 0,
                        disrupted: Vec::new(),
                    };
                    if let Some(budget) = name.filter(|name| !name.is_empty()).map(budget) {
                        let pod = "p".into();
                        assert_eq!(budget.covers(&whole, &pod), budget.covers(&signed, &pod), "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn whatever_changes_the_class_of_a_pod_is_told_as_a_distinction_of_it() {
    let all = scoped();
    for (first, second) in all.iter().flat_map(|first| all.iter().map(move |second| (first, second))) {
        let mut known = SelectorsInPlay::default();
        let mut enter = |(name, selector): &(Option<&str>, LabelSelector)| {
            let mut distinctions = Vec::new();
            let namespace = name.unwrap_or_default().into();
            known.enter(scope(*name, &namespace), selector, &mut distinctions);
            (known.clone(), distinctions)
        };
        let ((before, _), (after, distinctions)) = (enter(first), enter(second));
        for labels in [vec![], vec![("x", "a")], vec![("x", "b"), ("y", "a")], vec![("y", "c")]] {
            for namespace in ["one", "two"] {
                let whole = of(namespace, &labels);
                let signed = before.sign(&whole);
                let concerns = |distinction: &Distinction| {
                    distinction.namespace.as_deref().is_none_or(|known| known == namespace)
                        && match &distinction.told {
                            LabelProperty::Value(pair) => whole.labels.contains(pair),
                            LabelProperty::Presence(key) => whole.labels.iter().any(|(known, _)| known == key),
                            LabelProperty::Namespace => true,
                            LabelProperty::Owner(_) => false,
                        }
                };
                if !after.is_distinguished_by(&signed, &whole) {
                    assert!(distinctions.iter().any(concerns), "{first:?} {second:?} {whole:?} {distinctions:?}");
                }
            }
        }
    }
}

#[test]
fn pods_of_namespaces_that_nothing_tells_apart_are_of_one_class() {
    let mut known = SelectorsInPlay::default();
    let web = selector(&[("app", LabelOperator::In, &["web"])]);
    known.enter(Scope::Only(&"one".into()), &web, &mut Vec::new());
    let signed = |known: &SelectorsInPlay, namespace: &str, app: &str| known.sign(&of(namespace, &[("app", app)]));
    assert_eq!(signed(&known, "one", "job"), signed(&known, "two", "job"));
    assert_eq!(signed(&known, "two", "web"), signed(&known, "two", "job"), "no selector reads labels there");
    assert_ne!(signed(&known, "one", "web"), signed(&known, "two", "web"));
    assert_eq!(&*signed(&known, "one", "web").namespace, "one");
    known.leave(Scope::Only(&"one".into()), &web);
    assert!(known.is_empty());
    assert_eq!(signed(&known, "one", "web"), signed(&known, "two", "web"));
}

#[test]
fn a_pod_that_spreads_over_domains_keeps_its_namespace() {
    let constraint = SpreadConstraint {
        max_skew: 1,
        topology_key: "zone".into(),
        required: true,
        selector: Ok(selector(&[("app", LabelOperator::In, &["web"])])),
        min_domains: 1,
        honors_affinity: true,
        honors_taints: false,
    };
    let mut whole = of("one", &[("app", "db")]);
    Arc::make_mut(&mut whole).spread = vec![constraint];
    let mut known = SelectorsInPlay::default();
    known.enter_class(&whole, &mut Vec::new());
    assert_eq!(known.sign(&whole).namespace, whole.namespace);
    assert_eq!(&*known.sign(&of("one", &[("app", "db")])).namespace, "", "it is not counted");
    assert_eq!(&*known.sign(&of("one", &[("app", "web")])).namespace, "one");
    known.leave_class(&whole);
    assert!(known.is_empty());
}

#[test]
fn an_owner_is_told_as_long_as_it_is_known() {
    let owner = Owner { kind: OwnerKind::ReplicaSet, name: "web-1".into() };
    let mut whole = of("one", &[("app", "web")]);
    Arc::make_mut(&mut whole).owner = Some(owner.clone());
    let mut known = SelectorsInPlay::default();
    assert_eq!(known.sign(&whole), known.sign(&of("two", &[])));
    let mut distinctions = Vec::new();
    known.enter_owner(&"one".into(), &owner, &mut distinctions);
    assert_eq!(
        distinctions,
        [Distinction { namespace: Some("one".into()), told: LabelProperty::Owner(owner.clone()) }]
    );
    assert_eq!((&known.sign(&whole).owner, &known.sign(&whole).namespace), (&whole.owner, &whole.namespace));
    let elsewhere = Arc::new(Class { namespace: "two".into(), ..Class::clone(&whole) });
    assert_eq!(known.sign(&elsewhere).owner, None);
    known.leave_owner(&"one".into(), &owner);
    assert!(known.is_empty());
}
