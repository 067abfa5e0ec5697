//! The order of calls to plugins.

use super::*;
use crate::{
    profile::Profile,
    testing::{
        self,
        licences::{Licences, Log},
        node, pod,
        storage::claim,
    },
    volumes::{
        mounts::Mount,
        objects::{Claim, StorageObject},
    },
};

/// Two licence plugins, the second of which the registry lists first, and VolumeBinding.
fn objects(log: &Log) -> Objects {
    let plugin = |name| Box::new(Licences { name, timeout_ms: 5_000, log: log.clone() });
    let registry = Registry::built_in().with([plugin("Second") as Box<_>, plugin("First") as Box<_>]);
    Objects::of(registry.expect("two names"))
}

fn licence(namespace: &str, name: &str) -> Object {
    let claim = Claim { namespace: namespace.into(), resource_version: "7".into(), ..claim(name) };
    StorageObject::Claim(claim).into()
}

fn reserving(plugins: &[&str]) -> Profile {
    let mut profile = testing::profile();
    profile.plugins.reserve = plugins.iter().map(|&name| name.to_owned()).collect();
    profile.plugins.pre_bind.clone_from(&profile.plugins.reserve);
    profile
}

fn licensed(name: &str) -> PodInfo {
    pod(name).mount(Mount::Csi("example.com".into())).build()
}

fn plugins(reservations: &[Reservation]) -> Vec<&str> {
    reservations.iter().map(|reservation| reservation.plugin).collect()
}

#[test]
fn plans_are_made_in_the_profiles_order_and_nothing_is_reserved_by_them() {
    let log = Log::default();
    let mut objects = objects(&log);
    for name in ["first", "second"] {
        assert!(objects.apply(&licence(name, "a")).is_some());
    }
    let node = node("n1").build();
    let profile = reserving(&["First", "VolumeBinding", "Second", "Unknown"]);
    for _ in 0..2 {
        let plans = objects.plan(&licensed("p"), &node, &profile).expect("both have a licence");
        assert_eq!(plugins(&plans), ["First", "Second"], "VolumeBinding has nothing to do");
        assert_eq!(log.take(), ["First plans for p", "Second plans for p"]);
    }
    let plans = objects.plan(&licensed("p"), &node, &reserving(&["Second"])).expect("it has one");
    assert_eq!(plugins(&plans), ["Second"]);
}

#[test]
fn the_first_reserve_that_fails_ends_it_in_upstreams_words() {
    let log = Log::default();
    let mut objects = objects(&log);
    objects.apply(&licence("second", "a"));
    let failed = objects.plan(&licensed("p"), &node("n1").build(), &reserving(&["First", "Second"]));
    assert_eq!(failed.expect_err("it has none"), "running Reserve plugin \"First\": no licence is left");
    assert_eq!(log.take(), ["First plans for p"]);
}

#[test]
fn what_is_reserved_is_not_given_to_another_pod_until_it_is_taken_back() {
    let log = Log::default();
    let mut objects = objects(&log);
    objects.apply(&licence("first", "a"));
    let (node, profile) = (node("n1").build(), reserving(&["First"]));
    let key = licence("first", "a").key();
    let plans = objects.plan(&licensed("p"), &node, &profile).expect("a licence");
    let before = objects.get_for(&plans[0], &key);
    objects.reserve(&plans[0]);
    assert_ne!(objects.get_for(&plans[0], &key), before, "what is assumed is seen");
    assert!(objects.plan(&licensed("q"), &node, &profile).is_err());
    assert_eq!(objects.unreserve(&plans[0], &Written::new()).writes, []);
    assert_eq!(objects.get_for(&plans[0], &key), before);
    assert!(objects.plan(&licensed("q"), &node, &profile).is_ok());

    objects.reserve(&plans[0]);
    let written = Written::from([(key.clone(), "8".into())]);
    let [write] = &objects.unreserve(&plans[0], &written).writes[..] else {
        panic!("what is written is to be taken back")
    };
    assert_eq!((&write.object, &*write.resource_version), (&key, "8"));
}

#[test]
fn pre_bind_writes_and_waits_where_the_profile_runs_it() {
    let mut objects = objects(&Log::default());
    objects.apply(&licence("first", "a"));
    let (node, mut profile) = (node("n1").build(), reserving(&["First"]));
    let plans = objects.plan(&licensed("p"), &node, &profile).expect("a licence");
    let (writes, timeout_ms) = objects.pre_bind(&plans[0], &profile).expect("it runs");
    assert_eq!((writes.len(), timeout_ms), (1, 5_000));
    assert_eq!((&writes[0].object, &*writes[0].resource_version), (&licence("first", "a").key(), "7"));
    let is_bound = |objects: &Objects| objects.is_bound(&plans[0], &Written::new(), Some(&node));
    assert_eq!(is_bound(&objects), Ok(false));
    let good = Claim { namespace: "first".into(), bind_completed: true, ..claim("a") };
    objects.apply(&StorageObject::Claim(good).into());
    assert_eq!(is_bound(&objects), Ok(true));
    objects.delete(&plans[0].objects()[0]);
    assert_eq!(is_bound(&objects), Err(PreBindError::Other("the licence is gone".to_owned())));
    profile.plugins.pre_bind.clear();
    assert_eq!(objects.pre_bind(&plans[0], &profile), None);
}

#[test]
fn for_a_pod_that_uses_no_objects_no_plugin_is_asked() {
    let log = Log::default();
    let mut objects = objects(&log);
    let pod = pod("p").build();
    assert_eq!(objects.version(&pod.class), 0);
    objects.apply(&licence("first", "a"));
    assert_eq!(objects.version(&pod.class), 0);
    assert!(objects.version(&licensed("p").class) > 0);
    let plans = objects.plan(&pod, &node("n1").build(), &reserving(&["First", "Second"]));
    assert!(plans.is_ok_and(|plans| plans.is_empty()) && log.take().is_empty());
}

#[test]
fn an_object_that_several_plugins_keep_is_news_once() {
    let mut objects = objects(&Log::default());
    let object = licence("first", "a");
    assert_eq!(objects.apply(&object).expect("news").old, None);
    assert!(objects.apply(&object).is_none(), "neither VolumeBinding nor the plugin has news");
    assert_eq!(objects.delete(&object.key()).expect("it was there").old, Some(object.clone()));
    assert!(objects.delete(&object.key()).is_none() && !objects.contains(&object.key()));
}
