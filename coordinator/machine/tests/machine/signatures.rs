//! Pods that no plugin can tell apart are of one class, whatever their labels; and are told apart as soon as one can.

use flotilla_framework::{
    class::{Owner, OwnerKind, PodInfo},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    preemption::Budget,
    testing::{PodBuilder, node, pod},
};
use flotilla_machine::event::{Event, Selecting, SelectingKind};

use crate::world::World;

const ZONE: &str = "topology.kubernetes.io/zone";

const HOST: &str = "kubernetes.io/hostname";

const INDEX: &str = "apps.kubernetes.io/pod-index";

fn world(workers: usize, nodes: usize) -> World {
    let mut world = World::new(workers);
    for index in 0..nodes {
        let name = format!("node-{index}");
        world.node(node(&name).label(ZONE, ["a", "b", "c"][index % 3]).label(HOST, &name).build());
    }
    world.settle();
    world
}

/// The pod of a StatefulSet with this number.
fn member(app: &str, index: usize) -> PodBuilder {
    pod(&format!("{app}-{index}"))
        .label("app", app)
        .label(INDEX, &index.to_string())
        .request("cpu", "10m")
        .request("memory", "1Mi")
}

fn requirement(key: &str, operator: LabelOperator, values: &[&str]) -> LabelSelector {
    let values = values.iter().map(|&value| value.into()).collect();
    LabelSelector::Matching(vec![LabelRequirement { key: key.into(), operator, values }])
}

fn service(name: &str, selector: LabelSelector) -> Event {
    let object = Selecting { kind: SelectingKind::Service, namespace: "default".into(), name: name.into() };
    Event::SelectorApplied { object, selector }
}

#[test]
fn a_label_that_no_selector_reads_makes_no_class_and_no_request() {
    let asked = |is_unique: bool| {
        let mut world = world(3, 30);
        for index in 0..40 {
            let label = if is_unique { index } else { 0 };
            let own = pod(&format!("p-{index}")).label("app", "web").label(INDEX, &label.to_string());
            world.pod(own.request("cpu", "10m").build());
        }
        world.settle();
        assert_eq!(world.bound.len(), 40);
        (world.machine.status().classes, world.machine.status().evaluations_asked)
    };
    assert_eq!(asked(true), asked(false));
}

#[test]
fn pods_that_count_each_other_share_what_is_known_whatever_labels_of_their_own_they_have() {
    let mut world = world(2, 30);
    for index in 0..60 {
        world.pod(member("web", index).spread(1, ZONE, ("app", "web")).build());
    }
    world.settle();
    assert_eq!(world.bound.len(), 60);
    let status = world.machine.status();
    assert!(status.classes <= 3, "{} classes", status.classes);
    assert!(status.evaluations_asked <= 4, "{} evaluations", status.evaluations_asked);
}

/// Where two members of `web` that stand make a pod go that comes then.
fn placed_beside(late: impl Fn() -> PodBuilder, tell: impl Fn(&mut World), workers: usize) -> Option<String> {
    let mut world = world(workers, 3);
    world.pod(member("web", 0).on("node-0").build());
    world.pod(member("web", 1).on("node-1").build());
    world.settle();
    tell(&mut world);
    world.pod(late().build());
    world.settle();
    // Without workers it is decided on when none has come for some time.
    world.advance(2_000);
    world.place_of("late").map(str::to_owned)
}

#[test]
fn a_selector_that_comes_into_play_tells_standing_pods_apart() {
    let late = || pod("late").request("cpu", "10m");
    type Build = Box<dyn Fn() -> PodBuilder>;
    let table: [(&str, Build, &str); 4] = [
        ("near the one with an index", Box::new(move || late().near(HOST, (INDEX, "1"))), "node-1"),
        ("near the other", Box::new(move || late().near(HOST, (INDEX, "0"))), "node-0"),
        ("far from all of the application", Box::new(move || late().far(HOST, ("app", "web"))), "node-2"),
        (
            "far from all that have an index",
            Box::new(move || {
                late().far(HOST, (INDEX, "0")).class(|class| {
                    class.pod_affinity.required_anti[0].selector = requirement(INDEX, LabelOperator::Exists, &[]);
                })
            }),
            "node-2",
        ),
    ];
    for (what, late, expected) in &table {
        for workers in [0, 1, 2] {
            let place = placed_beside(late, |_| (), workers);
            assert_eq!(place.as_deref(), Some(*expected), "{what}, {workers} workers");
        }
    }
}

#[test]
fn waiting_pods_are_told_apart_by_a_service_that_comes_while_they_wait() {
    let mut world = world(2, 3);
    let standing = member("web", 0).on("node-0").build();
    world.pod(standing);
    for index in 1..7 {
        world.pod(member("web", index).gate("wait").build());
    }
    world.settle();
    let before = world.machine.status().classes;
    // It selects one of them alone, as the services of a StatefulSet's pods do.
    world.tell(service("third", requirement(INDEX, LabelOperator::In, &["3"])));
    assert!(world.machine.status().classes > before, "the third is told apart");
    world.tell(service("all", requirement("app", LabelOperator::In, &["web"])));
    for index in 1..7 {
        world.pod(member("web", index).build());
    }
    world.settle();
    assert_eq!(world.bound.len(), 6);
    for zone in ["node-0", "node-1", "node-2"] {
        let pods = world.bound.iter().filter(|(_, node)| node == zone).count();
        assert!((1..=3).contains(&pods), "{pods} pods on {zone}");
    }
}

#[test]
fn a_label_that_changes_wakes_a_pod_that_was_refused_for_want_of_company_of_its_own() {
    let mut world = world(2, 3);
    let lonely = |app: &str| pod("lonely").label("app", app).request("cpu", "10m").near(HOST, ("app", "web")).build();
    world.pod(lonely("db"));
    world.settle();
    assert_eq!(world.place_of("lonely"), None);
    world.pod(lonely("web"));
    world.settle();
    world.advance(1_000);
    assert!(world.place_of("lonely").is_some(), "it is the company that it wants");
}

#[test]
fn what_selectors_that_are_gone_told_apart_is_forgotten() {
    let mut world = world(1, 3);
    let classes = world.machine.status().classes;
    let uid = |index: usize| format!("uid-late-{index}");
    for round in 0..2_000 {
        let app = format!("app-{round}");
        world.pod(pod(&format!("late-{round}")).label("app", &app).far(HOST, ("app", &app)).on("node-0").build());
        world.delete_pod(&uid(round));
    }
    world.settle();
    // A thousand classes are kept for the next pod of their kind.
    assert!(world.machine.status().classes <= classes + 1_100, "{} classes", world.machine.status().classes);
    assert!(world.machine.label_keys_in_play() <= 1_100);
}

#[test]
fn a_budget_covers_the_pods_that_its_selector_tells_apart() {
    let budget = |selector: LabelSelector| Budget {
        namespace: "default".into(),
        name: "keep".into(),
        selector,
        disruptions_allowed: 0,
        disrupted: Vec::new(),
    };
    let victim = |index: usize, node: &str| member("web", index).request("cpu", "3").on(node).build();
    for (kept, expected) in [("0", "node-1"), ("1", "node-0")] {
        let mut world = World::with_workers(2, crate::world::preempting());
        world.node(node("node-0").build());
        world.node(node("node-1").build());
        world.pod(victim(0, "node-0"));
        world.pod(victim(1, "node-1"));
        world.tell(Event::BudgetApplied(std::sync::Arc::new(budget(requirement(INDEX, LabelOperator::In, &[kept])))));
        world.pod(pod("important").request("cpu", "3").priority(10).build());
        world.settle();
        world.finish_deletions();
        world.settle();
        world.advance(2_000);
        assert_eq!(world.place_of("important"), Some(expected), "the budget keeps {kept}");
    }
}

#[test]
fn the_owner_of_a_pod_is_told_apart_by_its_selector() {
    let mut world = world(2, 3);
    let object = |name: &str| Selecting {
        kind: SelectingKind::Controller(OwnerKind::StatefulSet),
        namespace: "default".into(),
        name: name.into(),
    };
    let owned = |app: &str, index: usize| -> PodInfo {
        let owner = Owner { kind: OwnerKind::StatefulSet, name: app.into() };
        member(app, index).class(|class| class.owner = Some(owner)).build()
    };
    for app in ["web", "db"] {
        let selector = requirement("app", LabelOperator::In, &[app]);
        world.tell(Event::SelectorApplied { object: object(app), selector });
    }
    for index in 0..3 {
        world.pod(owned("web", index));
        world.pod(owned("db", index));
    }
    world.settle();
    for app in ["web", "db"] {
        let mut places: Vec<&str> = (0..3).filter_map(|index| world.place_of(&format!("{app}-{index}"))).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 3, "{app} is spread");
    }
}
