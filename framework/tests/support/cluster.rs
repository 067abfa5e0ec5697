//! Random clusters with few different values, so that nodes often agree, tie and refuse for the same reasons.

use std::sync::Arc;

use flotilla_framework::{
    class::{Class, ClassId},
    evaluate::{Columns, Scratch},
    evaluation::{Evaluation, Wanted},
    explain::shard::{self, Page},
    extension::{DefaultSelector, Extremes, Facts},
    node::{NodeId, NodeInfo},
    plugins::{image_locality, inter_pod_affinity},
    prepared::{NodeResult, Prepared},
    profile::{Profile, ResourceWeight, ScoringStrategyKind, ShapePoint},
    registry::Registry,
    select::Best,
    snapshot::{Slot, Snapshot},
    testing::{NodeBuilder, PodBuilder, node, pod, profile, storage as build},
    volumes::{
        objects::{CsiNode, StorageClass, StorageObject, Volume},
        storage::Storage,
    },
};
use proptest::{collection::vec, option, prelude::*, sample::select as one_of};

#[derive(Debug, Clone)]
pub(crate) struct World {
    /// The nodes; a node's number is its index.
    pub(crate) nodes: Vec<NodeInfo>,
    /// The classes of existing pods; a class's number is its index.
    pub(crate) classes: Vec<Arc<Class>>,
    pub(crate) standing: Vec<Vec<u64>>,
    pub(crate) class: Class,
    pub(crate) profile: Profile,
    pub(crate) storage: Storage,
    pub(crate) default_selector: DefaultSelector,
}

#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn any_node(name: usize) -> impl Strategy<Value = NodeInfo> {
    let size = (one_of(&["1", "2", "4"][..]), one_of(&["1Gi", "4Gi"][..]), one_of(&["2", "4", "110"][..]));
    let taints =
        vec((one_of(&["a", "b"][..]), one_of(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule"][..])), 0..3);
    let labels = (option::of(one_of(&["z1", "z2", "z3"][..])), option::of(one_of(&["1", "5", "9"][..])));
    let gpus = option::of(one_of(&["0", "1", "4"][..]));
    let images = (any::<bool>(), any::<bool>());
    (size, taints, labels, gpus, images, prop::bool::weighted(0.1)).prop_map(
        move |((cpu, memory, pods), taints, (zone, size), gpus, (large, small), cordoned)| {
            let mut built: NodeBuilder = node(&format!("n{name}")).capacity("cpu", cpu).capacity("memory", memory);
            built = built.capacity("pods", pods);
            for (key, effect) in taints {
                built = built.taint(key, "", effect);
            }
            built = zone.into_iter().fold(built, |node, zone| node.label("zone", zone));
            built = size.into_iter().fold(built, |node, size| node.label("size", size));
            built = gpus.into_iter().fold(built, |node, gpus| node.capacity("example.com/gpu", gpus));
            built = if large { built.image("large:latest", 900 << 20) } else { built };
            built = if small { built.image("small:latest", 200 << 20) } else { built };
            if cordoned { built.cordon().build() } else { built.build() }
        },
    )
}

/// Any pod: few sizes, and each kind of constraint now and then.
#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn any_class() -> impl Strategy<Value = Class> {
    let size = (one_of(&["0", "100m", "500m", "1", "3"][..]), one_of(&["0", "256Mi", "1Gi", "3Gi"][..]));
    let seldom = |wish| prop::bool::weighted(wish);
    let wishes = (seldom(0.3), seldom(0.15), seldom(0.5), seldom(0.2), seldom(0.05), seldom(0.2));
    let tolerations = vec((one_of(&["a", "b", ""][..]), one_of(&["", "NoSchedule", "PreferNoSchedule"][..])), 0..3);
    let image = one_of(&["large:latest", "small:latest", "none:latest"][..]);
    let label = one_of(&["web", "db"][..]);
    (size, wishes, tolerations, image, label).prop_map(|((cpu, memory), wishes, tolerations, image, label)| {
        let (gpu, port, prefers, requires, names, selects) = wishes;
        let mut built: PodBuilder =
            pod("p").request("cpu", cpu).request("memory", memory).image(image).label("app", label);
        for (key, effect) in tolerations {
            built = built.tolerate(key, "Exists", "", effect);
        }
        built = if gpu { built.request("example.com/gpu", "1") } else { built };
        built = if port { built.host_port(80) } else { built };
        if prefers {
            built = built.prefer(3, "zone", "In", &["z1"]).prefer(2, "size", "Gt", &["4"]);
        }
        built = if requires { built.require("zone", "In", &["z1", "z2"]) } else { built };
        built = if names { built.require_node("n1").require_node("n2") } else { built };
        built = if selects { built.node_selector("size", "5") } else { built };
        Class::clone(&built.build().class)
    })
}

#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    use ScoringStrategyKind::{LeastAllocated, MostAllocated, RequestedToCapacityRatio};
    (one_of(vec![LeastAllocated, MostAllocated, RequestedToCapacityRatio]), any::<bool>()).prop_map(|(kind, gpus)| {
        let mut profile = profile();
        let strategy = &mut profile.args.node_resources_fit.scoring_strategy;
        strategy.kind = kind;
        strategy.shape = vec![ShapePoint { utilization: 0, score: 10 }, ShapePoint { utilization: 90, score: 0 }];
        if gpus {
            let gpu = || ResourceWeight { name: "example.com/gpu".to_owned(), weight: 3 };
            strategy.resources.push(gpu());
            profile.args.node_resources_balanced_allocation.resources.push(gpu());
        }
        profile
    })
}

#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn any_world(most: usize) -> impl Strategy<Value = World> {
    (1..=most, vec(any_class(), 1..5), any_class(), any_profile()).prop_flat_map(|(count, classes, class, profile)| {
        let nodes: Vec<_> = (0..count).map(|name| any_node(name).boxed()).collect();
        let standing = vec(vec(0..classes.len() as u64, 0..4), count);
        (nodes, standing).prop_map(move |(nodes, standing)| World {
            nodes,
            classes: classes.iter().cloned().map(Arc::new).collect(),
            standing,
            class: class.clone(),
            profile: profile.clone(),
            storage: Storage::default(),
            default_selector: DefaultSelector::default(),
        })
    })
}

#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn any_world_with_volumes(most: usize) -> impl Strategy<Value = World> {
    let volume = (0..3_i64, option::of(one_of(&["z1", "z2"][..])));
    let node = vec((one_of(&["csi.example.com", "b.example.com"][..]), option::of(0..3_i32)), 0..3);
    let claims = vec(vec(one_of(&["free", "bound-0", "bound-1", "far", "made"][..]), 0..3), 6);
    (any_world(most), vec(volume, 0..5), vec(option::weighted(0.8, node), most), claims).prop_map(
        |(mut world, volumes, drivers, claims)| {
            let mut objects = storage_of(&volumes);
            for (node, drivers) in world.nodes.iter().zip(drivers) {
                let drivers: Option<CsiNode> = drivers.map(|drivers| build::csi_node(&node.name, &drivers));
                objects.extend(drivers.map(StorageObject::CsiNode));
            }
            world.storage = build::stored(objects);
            let mut claims = claims.into_iter();
            let mut with = |class: &Class| {
                let built = pod("p").class(|own| *own = class.clone());
                let names = claims.next().unwrap_or_default();
                names.into_iter().fold(built, |pod, name| pod.claim(name)).into_class()
            };
            world.class = with(&world.class);
            world.classes = world.classes.iter().map(|class| Arc::new(with(class))).collect();
            world
        },
    )
}

fn storage_of(free: &[(i64, Option<&str>)]) -> Vec<StorageObject> {
    let made = |(place, (size, zone)): (usize, &(i64, Option<&str>))| {
        let volume: Volume = build::volume(&format!("v{place}"), build::gibibytes(*size));
        zone.map_or(volume.clone(), |zone| build::only_where(volume, "zone", &[zone]))
    };
    let bound = build::only_where(build::volume("b1", build::gibibytes(1)), "zone", &["z1", "z3"]);
    let volumes = free.iter().enumerate().map(made).chain([build::volume("b0", build::gibibytes(1)), bound]);
    let zoned: StorageClass = StorageClass {
        allowed_topologies: vec![vec![("zone".into(), vec!["z2".into(), "z3".into()])]],
        ..build::storage_class("zoned", "b.example.com")
    };
    let claims = [
        build::claim("free"),
        build::bound("bound-0", "b0"),
        build::bound("bound-1", "b1"),
        build::bound("far", "nowhere"),
        flotilla_framework::volumes::objects::Claim { storage_class: "zoned".into(), ..build::claim("made") },
    ];
    let classes = [build::storage_class("later", "kubernetes.io/no-provisioner"), zoned];
    let claims = claims.into_iter().map(StorageObject::Claim);
    claims.chain(classes.map(StorageObject::StorageClass)).chain(volumes.map(StorageObject::Volume)).collect()
}

impl World {
    pub(crate) fn facts(&self) -> Facts {
        let contribution = |name: &Arc<str>| {
            let holds = |node: &&NodeInfo| node.images.iter().any(|(names, _)| names.contains(name));
            let with = self.nodes.iter().filter(holds).count();
            let size = self.nodes.iter().find_map(|node| node.images.iter().find(|(names, _)| names.contains(name)));
            image_locality::contribution(size.map_or(0, |(_, size)| *size), with, self.nodes.len())
        };
        let others = self.classes.iter().map(Arc::as_ref);
        let (repelling_keys, scoring_keys) = inter_pod_affinity::keys_in_play(&self.class, &[], others);
        Facts {
            image_contributions: self.class.images.iter().map(contribution).collect(),
            repelling_keys,
            scoring_keys,
            default_selector: self.default_selector.clone(),
            volumes: self.storage.facts(&self.class, &self.holdings()),
            ..Facts::default()
        }
    }

    fn holdings(&self) -> flotilla_framework::volumes::in_use::StorageInUse {
        let classes = self.standing.iter().flatten().map(|&class| (ClassId(class), &*self.classes[class as usize]));
        build::standing(&self.storage, classes)
    }

    pub(crate) fn snapshot(&self, places: impl IntoIterator<Item = usize>) -> Snapshot {
        let mut snapshot = Snapshot::new(11);
        for (number, class) in (0..).map(ClassId).zip(&self.classes) {
            snapshot.register_class(number, Arc::clone(class));
            snapshot.set_attachments(number, &self.storage.attached_by(class).unwrap_or_default().into());
        }
        for place in places {
            let id = NodeId(u32::try_from(place).expect("a small cluster"));
            let csi = self.storage.node_csi(&self.nodes[place].name);
            snapshot.upsert_node(id, &NodeInfo { csi, ..self.nodes[place].clone() });
            for &class in &self.standing[place] {
                assert!(snapshot.add_pod(id, ClassId(class)));
            }
        }
        snapshot
    }

    pub(crate) fn whole(&self) -> Snapshot {
        self.snapshot(0..self.nodes.len())
    }

    pub(crate) fn prepare(&self, registry: Registry, nodes: &mut Snapshot) -> Prepared {
        Prepared::new(registry, &self.profile, &self.class, &self.facts(), nodes)
    }

    /// The shards' answers: `owners` has the shard of each node.
    #[allow(dead_code, reason = "not every property draws from these")]
    pub(crate) fn answers(&self, registry: Registry, owners: &[usize], shards: usize, k: usize) -> Vec<Evaluation> {
        let answer = |shard| {
            let own = (0..self.nodes.len()).filter(|&place| owners[place % owners.len()] % shards == shard);
            let mut nodes = self.snapshot(own);
            let prepared = self.prepare(registry, &mut nodes);
            evaluate(&prepared, &nodes, k)
        };
        let answers: Vec<Evaluation> = (0..shards).map(answer).collect();
        let mut whole = self.whole();
        let prepared = self.prepare(registry, &mut whole);
        for answer in &answers {
            let wanted = Wanted { nodes: answer.covered, k: u32::try_from(k).unwrap_or(u32::MAX) };
            assert_eq!(answer.check(&prepared, wanted, |_| None), Ok(()), "what a shard says is sound");
        }
        answers
    }

    #[allow(dead_code, reason = "not every property is about accounts")]
    pub(crate) fn pages(&self, registry: Registry, owners: &[usize], shards: usize, limit: usize) -> Vec<Page> {
        let answer = |shard| {
            let own = (0..self.nodes.len()).filter(|&place| owners[place % owners.len()] % shards == shard);
            let mut nodes = self.snapshot(own);
            let prepared = self.prepare(registry, &mut nodes);
            pages(&prepared, &nodes, limit)
        };
        (0..shards).flat_map(answer).collect()
    }
}

#[allow(dead_code, reason = "not every property is about accounts")]
pub(crate) fn pages(prepared: &Prepared, nodes: &Snapshot, limit: usize) -> Vec<Page> {
    let mut pages = vec![shard::page(prepared, nodes, None, limit)];
    while let Some(Page { nodes: accounts, more: true, .. }) = pages.last() {
        let after = accounts.last().map(|account| account.node);
        pages.push(shard::page(prepared, nodes, after, limit));
    }
    pages
}

#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn evaluate(prepared: &Prepared, nodes: &Snapshot, k: usize) -> Evaluation {
    let (mut columns, mut scratch) = (Columns::default(), Scratch::default());
    columns.refresh(prepared, nodes, &mut scratch);
    columns.answer_all(prepared, nodes, k, &mut scratch)
}

/// The best node and its total, computed naively: evaluates each node alone, normalises every score over all feasible nodes; the largest
/// sum wins, and the smaller rank breaks ties.
#[allow(dead_code, reason = "not every property has a slow way")]
pub(crate) fn best_by_hand(
    registry: Registry,
    profile: &Profile,
    prepared: &Prepared,
    nodes: &Snapshot,
) -> Option<(NodeId, i64)> {
    let judge = |slot: Slot| match prepared.judge(nodes, slot) {
        NodeResult::Feasible(feasible) => Some((slot, feasible)),
        NodeResult::Refused(..) => None,
    };
    let feasible: Vec<_> = nodes.live().filter_map(judge).collect();
    let weighted = profile.plugins.score.iter();
    let normalizing: Vec<_> =
        weighted.filter_map(|weighted| Some((weighted.weight, registry.find(&weighted.name)?.normalize()?))).collect();
    let total = |base: i64, raws: &[i64]| {
        // TaintToleration is never skipped and comes first; NodeAffinity has no raw score if it is skipped.
        let parts = raws.iter().enumerate().map(|(place, &raw)| {
            let column = || feasible.iter().map(|(_, other)| other.raws[place]);
            let extremes = Extremes { min: column().min().unwrap_or(0), max: column().max().unwrap_or(0) };
            let (weight, normalize) = normalizing[place];
            weight * normalize(raw, extremes)
        });
        base + parts.sum::<i64>()
    };
    let ranked = feasible.iter().map(|(slot, node)| (total(node.base, &node.raws), nodes.rank(*slot), *slot));
    let (total, _, slot) = ranked.min_by_key(|&(total, rank, _)| (std::cmp::Reverse(total), rank))?;
    Some((nodes.id(slot)?, total))
}

/// The node and total of a result, ignoring `repaired`.
#[allow(dead_code, reason = "not every property draws from these")]
pub(crate) fn placed(best: Best) -> Result<Option<(NodeId, i64)>, &'static str> {
    match best {
        Best::Node { offer, total, .. } => Ok(Some((offer.node, total))),
        Best::Nothing => Ok(None),
        Best::Dry => Err("dry"),
    }
}

/// An answer with its parts in an order that does not depend on arrival.
#[allow(dead_code, reason = "not every property compares answers")]
pub(crate) fn canonical(mut evaluation: Evaluation) -> Evaluation {
    evaluation.strata.sort_by(|left, right| (&left.raws, &left.domains).cmp(&(&right.raws, &right.domains)));
    evaluation.refused.sort_by(|left, right| {
        (left.order, left.refusal, &left.domains).cmp(&(right.order, right.refusal, &right.domains))
    });
    for tally in &mut evaluation.tallies {
        tally.0.sort_keys();
    }
    evaluation
}
