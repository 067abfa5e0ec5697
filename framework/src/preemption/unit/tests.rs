//! The order of units, exhausted budgets, and the order of reprieve.

use std::{collections::BTreeMap, sync::Arc};

use super::{Unit, UnitKind, reprieve, sort_by_importance, violations};
use crate::{
    class::{Class, ClassId},
    labels::LabelSelector,
    preemption::{Budget, PlacedPod},
    testing::pod,
};

fn standing(name: &str, started_ns: Option<i64>) -> PlacedPod {
    PlacedPod { started_ns, ..PlacedPod::of(&pod(name).build(), ClassId(1)) }
}

fn unit(priority: i32, is_of_group: bool, names: &[&str]) -> Unit<()> {
    let kind = if is_of_group { UnitKind::PodGroup } else { UnitKind::Pod };
    Unit { priority, kind, pods: names.iter().map(|name| (standing(name, None), ())).collect() }
}

fn names(units: &[Unit<()>]) -> Vec<String> {
    units.iter().map(|unit| unit.pods.iter().map(|(pod, ())| &*pod.name).collect::<Vec<_>>().join("+")).collect()
}

#[test]
fn priority_comes_before_kind_before_size_before_age_before_names() {
    let older = Unit { pods: vec![(standing("older", Some(1)), ())], ..unit(1, false, &[]) };
    let younger = Unit { pods: vec![(standing("aged", Some(2)), ())], ..unit(1, false, &[]) };
    let mut units = vec![
        unit(1, false, &["z"]),
        unit(1, false, &["y"]),
        younger,
        older,
        unit(1, true, &["one"]),
        unit(1, true, &["two", "more"]),
        Unit { kind: UnitKind::CompositePodGroup, ..unit(1, true, &["below"]) },
        unit(2, false, &["high"]),
    ];
    sort_by_importance(&mut units, i64::MAX);
    assert_eq!(names(&units), ["high", "below", "two+more", "one", "older", "aged", "y", "z"]);
}

#[test]
fn a_budget_is_used_up_unit_by_unit_and_one_pod_of_a_unit_is_enough() {
    let class: Arc<Class> = Arc::new(pod("p").label("app", "web").into_class());
    let classes = BTreeMap::from([(ClassId(1), class)]);
    let budget = Budget {
        namespace: "default".into(),
        name: "keep".into(),
        selector: LabelSelector::equal([(&"app".into(), &"web".into())]),
        disruptions_allowed: 2,
        disrupted: Vec::new(),
    };
    let units = [unit(1, false, &["a"]), unit(1, true, &["b", "c"]), unit(1, false, &["d"])];
    assert_eq!(violations(&units, &[&budget], |id| classes.get(&id)), [0, 1, 1]);
    assert_eq!(violations(&units, &[], |id| classes.get(&id)), [0; 3]);
}

#[test]
fn what_a_budget_protects_is_put_back_first() {
    let mut asked = Vec::new();
    let must_go = reprieve(&[false, true, false], |at| {
        asked.push(at);
        asked.len() < 3
    });
    assert_eq!(asked, [1, 0, 2]);
    assert_eq!(must_go, [false, false, true]);
}
