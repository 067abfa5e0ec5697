//! With terms about other pods, the best node, the totals and the refusals do not depend on the sharding or the history.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::{
    class::{Class, ClassId},
    evaluate::tallies,
    extension::DefaultSelector,
    matches::Matches,
    node::{NodeId, NodeInfo},
    prepared::{NodeResult, Prepared},
    registry::Registry,
    select::{Best, Ground, Move, Nominations, SortedNodes, View},
    snapshot::Snapshot,
    status::Refusal,
    testing::{PodBuilder, node, pod, profile, selecting},
    volumes::storage::Storage,
};
use proptest::{collection::vec, option, prelude::*, sample::select as one_of};

#[path = "support/cluster.rs"]
mod cluster;

use cluster::{World, evaluate, placed};

const KEYS: &[&str] = &["zone", "rack", "kubernetes.io/hostname"];

const APPS: &[(&str, &str)] = &[("app", "web"), ("app", "db")];

/// Any node: few zones, a few racks, now and then one without a label.
fn any_node(name: usize) -> impl Strategy<Value = NodeInfo> {
    let labels = (option::weighted(0.9, 0..3_u8), option::weighted(0.8, 0..5_u8), prop::bool::weighted(0.1));
    let cpu = one_of(&["1", "2", "4"][..]);
    (labels, cpu, prop::bool::weighted(0.15)).prop_map(move |((zone, rack, nameless), cpu, tainted)| {
        let mut built = node(&format!("n{name}")).capacity("cpu", cpu);
        built = zone.into_iter().fold(built, |node, zone| node.label("zone", &format!("z{zone}")));
        built = rack.into_iter().fold(built, |node, rack| node.label("rack", &format!("r{rack}")));
        built = if tainted { built.taint("t", "", "NoSchedule") } else { built };
        let mut built = built.build();
        if nameless {
            built.labels.retain(|(key, _)| &**key != "kubernetes.io/hostname");
        }
        built
    })
}

#[derive(Debug, Clone, Copy)]
enum Wish {
    Spread { required: bool, min_domains: i32, honors_taints: bool },
    Near,
    Far,
    PreferNear(i32),
    PreferFar(i32),
}

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => (any::<bool>(), 1..4, any::<bool>()).prop_map(|(required, min_domains, honors_taints)| Wish::Spread {
            required,
            min_domains,
            honors_taints
        }),
        1 => Just(Wish::Near),
        2 => Just(Wish::Far),
        1 => (1..100).prop_map(Wish::PreferNear),
        1 => (1..100).prop_map(Wish::PreferFar),
    ]
}

fn wishing(pod: PodBuilder, wish: Wish, key: &str, app: (&str, &str), skew: i32) -> PodBuilder {
    match wish {
        Wish::Spread { required, min_domains, honors_taints } => pod.spread_with(skew, key, app, |constraint| {
            constraint.required = required;
            constraint.min_domains = min_domains;
            constraint.honors_taints = honors_taints;
        }),
        Wish::Near => pod.near(key, app),
        Wish::Far => pod.far(key, app),
        Wish::PreferNear(weight) => pod.prefer_near(weight, key, app),
        Wish::PreferFar(weight) => pod.prefer_far(weight, key, app),
    }
}

fn any_class() -> impl Strategy<Value = Class> {
    let wishes = vec((any_wish(), one_of(KEYS), one_of(APPS), 1..4), 0..4);
    let size = one_of(&["0", "100m", "500m"][..]);
    (one_of(APPS), size, wishes, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |((key, value), cpu, wishes, terminating, elsewhere)| {
            let mut built = pod("p").label(key, value).request("cpu", cpu);
            built = if elsewhere { built.namespace("other") } else { built };
            built = wishes.into_iter().fold(built, |pod, (wish, key, app, skew)| wishing(pod, wish, key, app, skew));
            if terminating { built.terminating().into_class() } else { built.into_class() }
        },
    )
}

fn any_world(most: usize) -> impl Strategy<Value = World> {
    (1..=most, vec(any_class(), 1..6), any_class(), any::<bool>()).prop_flat_map(|(count, classes, class, serviced)| {
        let nodes: Vec<_> = (0..count).map(|name| any_node(name).boxed()).collect();
        let standing = vec(vec(0..classes.len() as u64, 0..4), count);
        (nodes, standing).prop_map(move |(nodes, standing)| World {
            nodes,
            classes: classes.iter().cloned().map(Arc::new).collect(),
            standing,
            class: class.clone(),
            profile: profile(),
            storage: Storage::default(),
            default_selector: if serviced {
                DefaultSelector(selecting(("app", "web")))
            } else {
                DefaultSelector::default()
            },
        })
    })
}

fn refusals(view: &View) -> BTreeMap<(u16, Refusal), u32> {
    let groups = view.refused().iter();
    groups.map(|group| ((group.order, group.refusal), group.count)).collect()
}

fn all(view: &View, prepared: &Prepared, world: &World) -> Vec<Option<Result<i64, (u16, Refusal)>>> {
    (0..).zip(&world.nodes).map(|(node, _)| view.judged(prepared, NodeId(node), None)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn wishes_about_other_pods_are_met_alike_however_nodes_are_split(
        world in any_world(20),
        owners in vec(0..7_usize, 20),
        shards in 1..=7_usize,
        k in one_of(vec![1, 3, usize::MAX]),
    ) {
        let mut nodes = world.whole();
        let prepared = world.prepare(Registry::built_in(), &mut nodes);
        let mut whole = View::new(&prepared, vec![evaluate(&prepared, &nodes, k)]);
        let mut split = View::new(&prepared, world.answers(Registry::built_in(), &owners, shards, k));
        prop_assert_eq!(split.best(&prepared, None), whole.best(&prepared, None));
        prop_assert_eq!(refusals(&split), refusals(&whole));
        prop_assert_eq!(all(&split, &prepared, &world), all(&whole, &prepared, &world));
        prop_assert_eq!(split.covered() as usize, world.nodes.len());
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(usize, u64),
    Remove(usize, u64),
    Resize(usize, &'static str),
}

fn any_step(places: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..places, 0..7_u64).prop_map(|(place, class)| Step::Add(place, class)),
        3 => (0..places, 0..7_u64).prop_map(|(place, class)| Step::Remove(place, class)),
        1 => (0..places, one_of(&["1", "4", "0"][..])).prop_map(|(place, cpu)| Step::Resize(place, cpu)),
    ]
}

/// A class on the sorted list of its family, if it has one.
struct Family {
    head: Arc<Prepared>,
    sorted: SortedNodes,
    view: View,
}

impl Family {
    fn new(world: &World, prepared: &Prepared, nodes: &mut Snapshot, owners: &[usize], shards: usize) -> Option<Self> {
        let mut family = world.clone();
        family.class = world.class.head();
        family.default_selector = DefaultSelector::default();
        let head = family.prepare(Registry::built_in(), nodes);
        if !prepared.is_wide() || !prepared.follows(&head) {
            return None;
        }
        let answers = family.answers(Registry::built_in(), owners, shards, usize::MAX);
        let sorted = SortedNodes::new(Ground::new(prepared, nodes), nodes, &answers).expect("every node is offered");
        let mut matches = Matches::default();
        matches.refresh(prepared, nodes);
        let view = View::over(prepared, nodes, &matches, &sorted);
        Some(Self { head: Arc::new(head), sorted, view })
    }

    fn follow(&mut self, prepared: &Prepared, nodes: &Snapshot, matches: &Matches, moved: Move<'_>) {
        let result = nodes.slot(moved.0).map(|slot| self.head.judge(nodes, slot));
        self.sorted.repair(nodes, moved.0, result.as_ref());
        self.view.follow(prepared, nodes, matches, &self.sorted, std::iter::once(moved));
    }

    fn equals(
        &mut self,
        prepared: &Prepared,
        nodes: &Snapshot,
        matches: &Matches,
        own_answers: &View,
        best: Best,
    ) -> Result<(), TestCaseError> {
        let (view, sorted) = (&mut self.view, Some(&self.sorted));
        let own = view.best(prepared, sorted);
        prop_assert_eq!(placed(own), placed(best));
        prop_assert_eq!(view.has_choice(sorted), own_answers.has_choice(None));
        for slot in nodes.live() {
            let node = nodes.id(slot).expect("it is live");
            prop_assert_eq!(
                view.judged(prepared, node, sorted),
                own_answers.judged(prepared, node, None),
                "{:?}",
                node
            );
        }
        if let (Best::Node { offer, total, .. }, Some(slot)) = (own, nodes.slot(node_of(own))) {
            let NodeResult::Feasible(feasible) = prepared.judge_with(nodes, slot, matches) else {
                return Err(TestCaseError::fail("the best node is refused"));
            };
            prop_assert!(view.confirms(offer, total, &feasible, sorted));
        }
        Ok(())
    }

    /// Compares it with the class's own answers for a pod with nominations; verifies that the next pod finds no trace of them.
    fn equals_beside(
        &mut self,
        prepared: &Prepared,
        nodes: &mut Snapshot,
        matches: &Matches,
        own_answers: &mut View,
        nominations: &Nominations,
    ) -> Result<(), TestCaseError> {
        for nominations in [nominations, &Nominations::default()] {
            let taken = own_answers.lay_over(prepared, nodes, matches, nominations, None);
            prop_assert_eq!(self.view.lay_over(prepared, nodes, matches, nominations, Some(&self.sorted)), taken);
            let best = own_answers.best(prepared, None);
            self.equals(prepared, nodes, matches, own_answers, best)?;
        }
        Ok(())
    }

    /// The same, with everything counted again.
    fn renewed(&self, prepared: &Prepared, nodes: &Snapshot, matches: &Matches) -> Self {
        let (head, sorted) = (Arc::clone(&self.head), self.sorted.regrouped(self.sorted.ground().clone(), nodes));
        let view = View::over(prepared, nodes, matches, &sorted);
        Self { head, sorted, view }
    }
}

fn node_of(best: Best) -> NodeId {
    match best {
        Best::Node { offer, .. } => offer.node,
        Best::Dry | Best::Nothing => NodeId(u32::MAX),
    }
}

fn follow(world: &World, owners: &[usize], shards: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut nodes = world.whole();
    // The class itself is one of those that are added to nodes.
    let own = ClassId(6);
    nodes.register_class(own, Arc::new(world.class.clone()));
    let prepared = world.prepare(Registry::built_in(), &mut nodes);
    let mut matches = Matches::default();
    matches.refresh(&prepared, &nodes);
    let mut view = View::new(&prepared, world.answers(Registry::built_in(), owners, shards, usize::MAX));
    let mut family = Family::new(world, &prepared, &mut nodes, owners, shards);
    for (done, step) in steps.iter().enumerate() {
        let place = match step {
            Step::Add(place, _) | Step::Remove(place, _) | Step::Resize(place, _) => place % world.nodes.len(),
        };
        let id = NodeId(u32::try_from(place).expect("a small cluster"));
        let slot = nodes.slot(id).expect("nodes stay");
        // Other pods are nominated to the changed node, before and after.
        let kept = Nominations::new(None, [(id, ClassId(done as u64 % 7))]);
        view.lay_over(&prepared, &mut nodes, &matches, &kept, None);
        let mut moved: Move<'_> = (id, &[], 0);
        match step {
            Step::Add(_, class) if nodes.add_pod(id, ClassId(*class)) => {
                moved = (id, matches.of(ClassId(*class)), 1);
            }
            Step::Remove(_, class) if nodes.remove_pod(id, ClassId(*class)) => {
                moved = (id, matches.of(ClassId(*class)), -1);
            }
            Step::Resize(_, cpu) => {
                let mut info = world.nodes[place].clone();
                info.allocatable.milli_cpu = cpu.parse::<i64>().expect("a number") * 1000;
                nodes.upsert_node(id, &info);
            }
            Step::Add(..) | Step::Remove(..) => {}
        }
        view.shift(&prepared, &nodes, slot, moved.1, moved.2);
        let result = prepared.judge_with(&nodes, slot, &matches);
        view.repair(&prepared, &nodes, &matches, id, Some(result));
        view.lay_over(&prepared, &mut nodes, &matches, &kept, None);
        // With one offer it would be dry where the nominated pods take that node.
        let mut fresh = View::new(&prepared, vec![evaluate(&prepared, &nodes, usize::MAX)]);
        fresh.lay_over(&prepared, &mut nodes, &matches, &kept, None);
        let (left, expected) = (view.best(&prepared, None), fresh.best(&prepared, None));
        prop_assert_eq!(placed(left), placed(expected), "beside {:?}, after step {} of {:?}", &kept, done, steps);
        view.lay_over(&prepared, &mut nodes, &matches, &Nominations::default(), None);
        let best = view.best(&prepared, None);
        if let Some(family) = &mut family {
            family.follow(&prepared, &nodes, &matches, moved);
            family.equals(&prepared, &nodes, &matches, &view, best)?;
            let kept = NodeId(u32::try_from((done * 7 + place) % world.nodes.len()).expect("a small cluster"));
            let beside = [(kept, ClassId(done as u64 % 7))];
            let nominations = Nominations::new((done % 3 == 0).then_some(id), beside);
            family.equals_beside(&prepared, &mut nodes, &matches, &mut view, &nominations)?;
            if done % 4 == 3 {
                *family = family.renewed(&prepared, &nodes, &matches);
                family.equals(&prepared, &nodes, &matches, &view, best)?;
            }
        }
        let mut fresh = View::new(&prepared, vec![evaluate(&prepared, &nodes, 1)]);
        prop_assert_eq!(placed(best), placed(fresh.best(&prepared, None)), "after step {} of {:?}", done, steps);
        prop_assert_ne!(best, Best::Dry);
        if prepared.is_wide() {
            prop_assert_eq!(all(&view, &prepared, world), all(&fresh, &prepared, world), "after step {}", done);
            prop_assert!(view.agrees(&prepared, &tallies(&prepared, &nodes, &matches)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_view_that_hears_of_every_pod_equals_a_fresh_one(
        mut world in any_world(12),
        owners in vec(0..4_usize, 12),
        shards in 1..=4_usize,
        steps in vec(any_step(12), 1..40),
    ) {
        // Other classes are registered first, so that their keys are in play from the start.
        let own = Arc::new(world.class.clone());
        world.classes.resize(6, Arc::default());
        world.classes.push(own);
        follow(&world, &owners, shards, &steps)?;
    }
}

/// 200 racks and hosts: more than are numbered.
#[test]
fn many_domains_are_told_apart_by_their_counts_alone() {
    let web = ("app", "web");
    let wide = |pod: PodBuilder| pod.label("app", "web").request("cpu", "100m");
    let classes = [
        wide(pod("a")).spread(1, "kubernetes.io/hostname", web).into_class(),
        wide(pod("b")).far("kubernetes.io/hostname", web).into_class(),
        wide(pod("c")).spread(2, "rack", web).prefer_spread(1, "zone", web).prefer_spread(3, "rack", web).into_class(),
        wide(pod("e")).prefer_spread(3, "kubernetes.io/hostname", web).into_class(),
        wide(pod("d")).prefer_far(7, "rack", web).prefer_near(2, "zone", web).far("rack", ("app", "db")).into_class(),
    ];
    let place = |number: usize| {
        node(&format!("n{number}"))
            .label("rack", &format!("r{}", number / 2))
            .label("zone", &format!("z{}", number % 3))
            // The largest nodes stay the best except for counts on them.
            .capacity("cpu", ["4", "2", "64", "8", "1"][number % 5])
            .build()
    };
    for class in classes {
        let mut world = World {
            nodes: (0..200).map(place).collect(),
            classes: vec![Arc::new(wide(pod("other")).into_class()), Arc::new(class.clone())],
            standing: (0..200).map(|number| vec![0; number % 3 % 2]).collect(),
            class,
            profile: profile(),
            storage: Storage::default(),
            default_selector: DefaultSelector::default(),
        };
        world.classes.resize(6, Arc::default());
        world.classes.push(Arc::new(world.class.clone()));
        let steps: Vec<Step> = (0..120).map(|step| Step::Add(step * 37 % 200, [0, 6][step % 2])).collect();
        let owners: Vec<usize> = (0..200).map(|number| number * 7 % 5).collect();
        follow(&world, &owners, 3, &steps).expect("a repaired view equals a fresh one");
    }
}
