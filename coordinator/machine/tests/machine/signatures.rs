//! Classes: pods that no plugin can distinguish share one, whatever their labels, until a selector distinguishes them.

use flotilla_framework::{
    class::{Owner, OwnerKind, PodInfo},
    labels::{LabelOperator, LabelRequirement, LabelSelector},
    preemption::Budget,
    testing::{self, PodBuilder, node, pod},
};
use flotilla_machine::event::{Event, Selecting, SelectingKind};

use crate::{simulation::Seed, world::World};

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

fn placed_beside(late: impl Fn() -> PodBuilder, tell: impl Fn(&mut World), workers: usize) -> Option<String> {
    let mut world = world(workers, 3);
    world.pod(member("web", 0).on("node-0").build());
    world.pod(member("web", 1).on("node-1").build());
    world.settle();
    tell(&mut world);
    world.pod(late().build());
    world.settle();
    // Without workers the coordinator waits for the grace period.
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
    // It selects one of them, like the per-pod services of a StatefulSet.
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
    // A thousand idle classes are kept.
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

fn job(namespace: &str, index: usize) -> PodBuilder {
    pod(&format!("job-{namespace}-{index}")).namespace(namespace).label("job", namespace).request("cpu", "10m")
}

#[test]
fn pods_of_many_namespaces_that_no_selector_reads_are_one_class_and_are_bound_in_their_own() {
    let mut world = world(2, 30);
    let before = world.machine.status().evaluations_asked;
    for index in 0..40 {
        world.pod(job(&format!("team-{}", index % 10), index).build());
    }
    world.settle();
    assert_eq!((world.bound.len(), world.machine.status().classes), (40, 1));
    assert!(world.machine.status().evaluations_asked - before <= 2);
    for pod in world.api.values().filter(|pod| pod.name.starts_with("job-")) {
        assert!(pod.name.contains(&*pod.class.namespace));
    }
}

#[test]
fn a_service_tells_pods_of_its_namespace_apart_and_of_no_other() {
    let mut world = world(2, 3);
    for (index, namespace) in ["one", "two", "three"].iter().enumerate() {
        world.pod(job(namespace, index).class(|class| class.labels = vec![("app".into(), "web".into())]).build());
    }
    world.settle();
    assert_eq!(world.machine.status().classes, 1);
    let object = Selecting { kind: SelectingKind::Service, namespace: "two".into(), name: "web".into() };
    let selector = requirement("app", LabelOperator::In, &["web"]);
    world.tell(Event::SelectorApplied { object: object.clone(), selector });
    assert_eq!(world.machine.status().classes, 2, "those of `one` and `three` still share");
    world.tell(Event::SelectorDeleted { object });
    assert_eq!(world.machine.label_keys_in_play(), 0);
}

#[test]
fn a_controller_that_is_known_late_spreads_its_pods_by_a_label_that_a_service_reads_too() {
    let mut world = world(2, 3);
    let object = |kind| Selecting { kind, namespace: "default".into(), name: "web".into() };
    let selector = || requirement("app", LabelOperator::In, &["web"]);
    world.tell(Event::SelectorApplied { object: object(SelectingKind::Service), selector: selector() });
    let owner = Owner { kind: OwnerKind::StatefulSet, name: "web".into() };
    let owned = |index| member("web", index).class(|class| class.owner = Some(owner.clone()));
    for index in 0..3 {
        world.pod(owned(index).gate("wait").build());
    }
    world.settle();
    // The service already distinguishes the pods; only the owner is new.
    let controller = object(SelectingKind::Controller(OwnerKind::StatefulSet));
    world.tell(Event::SelectorApplied { object: controller, selector: selector() });
    for index in 0..3 {
        world.pod(owned(index).build());
    }
    world.settle();
    let mut places: Vec<&str> = (0..3).filter_map(|index| world.place_of(&format!("web-{index}"))).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 3);
}

#[test]
fn a_standing_pod_that_loses_the_label_by_which_it_is_counted_wakes_a_pod_that_spreads() {
    for workers in [0, 2] {
        let mut world = world(workers, 1);
        world.node(node("full").label(ZONE, "b").capacity("cpu", "1").build());
        let standing = |app: &str| pod("standing").label("app", app).request("cpu", "10m").on("node-0").build();
        world.pod(standing("web"));
        world.pod(pod("filling").request("cpu", "1").on("full").build());
        world.pod(pod("late").label("app", "web").request("cpu", "100m").spread(1, ZONE, ("app", "web")).build());
        world.settle();
        world.advance(2_000);
        assert_eq!(world.place_of("late"), None, "zone b has room for none, and zone a is ahead");
        world.pod(standing("db"));
        world.settle();
        world.advance(2_000);
        assert_eq!(world.place_of("late"), Some("node-0"));
    }
}

fn budget(app: &str) -> Event {
    Event::BudgetApplied(std::sync::Arc::new(Budget {
        namespace: "default".into(),
        name: app.into(),
        selector: requirement("app", LabelOperator::In, &[app]),
        disruptions_allowed: 0,
        disrupted: Vec::new(),
    }))
}

#[test]
fn classes_that_count_nothing_and_differ_in_labels_that_are_read_share_their_nodes() {
    let mut world = world(2, 30);
    for index in 0..30 {
        world.tell(budget(&format!("app-{index}")));
    }
    for index in 0..90 {
        let app = format!("app-{}", index % 30);
        world.pod(pod(&format!("p-{index}")).label("app", &app).request("cpu", "500m").build());
        world.settle();
    }
    assert_eq!(world.bound.len(), 90);
    let status = world.machine.status();
    assert!(status.classes > 30, "{} classes", status.classes);
    // The first is requested on its own, and the others together.
    assert_eq!(status.evaluations_asked, 2);
    let mut on_nodes: Vec<usize> = vec![0; 30];
    for node in world.bound.iter().filter_map(|(_, node)| node.strip_prefix("node-")?.parse::<usize>().ok()) {
        on_nodes[node] += 1;
    }
    assert_eq!(on_nodes, [3; 30], "each sees what the others have taken");
}

const NAMESPACES: [&str; 3] = ["one", "two", "three"];

const APPS: [&str; 3] = ["web", "db", "batch"];

/// A pod with random affinities over any namespace.
fn any_pod(seed: &mut Seed, index: u64) -> PodInfo {
    let mut any = |names: &[&'static str]| names[seed.below(names.len() as u64) as usize];
    let (namespace, app, other, team) = (any(&NAMESPACES), any(&APPS), any(&APPS), any(&["a", "b"]));
    let (key, wish) =
        (any(&[ZONE, HOST]), any(&["far", "near", "spread", "teams", "all", "soft", "owned", "", "", ""]));
    let pod = pod(&format!("pod-{index}")).namespace(namespace).request("cpu", "100m").label("app", app);
    let pod = if any(&["", "x"]).is_empty() { pod } else { pod.label("index", any(&["0", "1", "2"])) };
    let everywhere = |pod: PodBuilder, selector: LabelSelector| {
        pod.class(|class| {
            for (_, term) in &mut class.pod_affinity.preferred_anti {
                term.namespace_selector = selector.clone();
            }
        })
    };
    let pod = match wish {
        "far" => pod.far(key, ("app", other)),
        "near" => pod.prefer_near(7, key, ("app", other)),
        "spread" => pod.spread(3, key, ("app", app)),
        "teams" => everywhere(pod.prefer_far(9, key, ("app", other)), testing::selecting(("team", team))),
        "all" => everywhere(pod.prefer_far(9, key, ("app", other)), LabelSelector::EVERYTHING),
        "soft" => pod.prefer_spread(1, key, ("app", other)),
        "owned" => pod.class(|class| class.owner = Some(Owner { kind: OwnerKind::ReplicaSet, name: app.into() })),
        _ => pod,
    };
    pod.build()
}

fn any_selecting(seed: &mut Seed) -> Event {
    let mut any = |names: &[&'static str]| names[seed.below(names.len() as u64) as usize];
    let (namespace, app, team) = (any(&NAMESPACES), any(&APPS), any(&["a", "b"]));
    let kind = match any(&["service", "set", "namespace"]) {
        "service" => SelectingKind::Service,
        "set" => SelectingKind::Controller(OwnerKind::ReplicaSet),
        _ => return Event::NamespaceApplied { name: namespace.into(), labels: vec![("team".into(), team.into())] },
    };
    let object = Selecting { kind, namespace: namespace.into(), name: app.into() };
    match any(&["", "", "gone"]) {
        "gone" => Event::SelectorDeleted { object },
        _ => Event::SelectorApplied { object, selector: testing::selecting(("app", app)) },
    }
}

#[test]
fn pods_go_where_they_would_go_if_each_were_told_apart() {
    let places = |number: u64, apart: bool| {
        let mut seed = Seed(number);
        let mut world = world(2, 9);
        // Without preemption budgets change nothing, but they read every label and namespace.
        for (namespace, key) in NAMESPACES.iter().flat_map(|one| [(one, "app"), (one, "index")]).filter(|_| apart) {
            world.tell(Event::BudgetApplied(std::sync::Arc::new(Budget {
                namespace: (*namespace).into(),
                name: key.into(),
                selector: requirement(key, LabelOperator::NotIn, &["0", "1", "2", "web", "db", "batch"]),
                disruptions_allowed: 0,
                disrupted: Vec::new(),
            })));
        }
        for index in 0..60 {
            if seed.below(4) == 0 {
                world.tell(any_selecting(&mut seed));
            }
            // A class with a request is decided later than a known one, so each step settles.
            world.settle();
            world.pod(any_pod(&mut seed, index));
            world.settle();
            if seed.below(9) == 0 {
                world.delete_pod(&format!("uid-pod-{}", seed.below(index + 1)));
            }
        }
        world.settle();
        (world.bound.clone(), world.machine.status().classes)
    };
    let (mut shared, mut apart) = (0, 0);
    for seed in 0..16 {
        let ((here, few), (there, many)) = (places(seed, false), places(seed, true));
        assert_eq!(here, there, "seed {seed}");
        assert!(here.len() > 20, "seed {seed}: only {} are placed", here.len());
        shared += few;
        apart += many;
    }
    assert!(shared < apart, "{shared} classes, {apart} where each is told apart");
}
