//! Families of classes with volumes: each pod gets the node that it gets on a new machine, where no other class of its family is known.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    testing::{PodBuilder, node, pod, storage as objects},
    volumes::objects::{
        AccessModes, Claim, InTree, StorageKey, StorageKind, StorageObject, Volume, VolumeAttachment, VolumeSource,
    },
};
use flotilla_machine::event::Event;
use proptest::{collection::vec, option, prelude::*};

use crate::{storage, world::World};

const NODES: usize = 6;
const DRIVER: &str = "csi.example.com";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The claim of a pod.
#[derive(Debug, Clone)]
enum Claimed {
    /// Bound to a new volume that nodes of any zone, or of this one, reach.
    New(Option<usize>),
    /// As `New`, with the handle of an earlier volume.
    Again(usize),
    /// Bound to a new volume of an in-tree plugin.
    Migrated,
    /// An earlier claim, which may be in use.
    Known(usize),
    /// Not bound: for a provisioner.
    Provisioned,
}

/// A change between two pods.
#[derive(Debug, Clone)]
enum Change {
    Deleted(usize),
    /// A volume is attached to a node.
    Attached(usize, usize),
    Detached(usize),
    /// A node attaches this number of volumes.
    Limited(usize, i32),
    Moved(usize, usize),
}

fn any_claimed() -> impl Strategy<Value = Claimed> {
    prop_oneof![
        6 => Just(Claimed::New(None)),
        3 => (0..2_usize).prop_map(|zone| Claimed::New(Some(zone))),
        1 => (0..20_usize).prop_map(Claimed::Again),
        2 => Just(Claimed::Migrated),
        2 => (0..20_usize).prop_map(Claimed::Known),
        4 => Just(Claimed::Provisioned),
    ]
}

fn any_change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0..30_usize).prop_map(Change::Deleted),
        3 => (0..30_usize, 0..NODES).prop_map(|(volume, node)| Change::Attached(volume, node)),
        1 => (0..30_usize).prop_map(Change::Detached),
        2 => (0..NODES, 0..5_i32).prop_map(|(node, limit)| Change::Limited(node, limit)),
        1 => (0..NODES, 0..2_usize).prop_map(|(node, zone)| Change::Moved(node, zone)),
    ]
}

fn placed(index: usize, zone: usize) -> Event {
    let cpu = (index + 2).to_string();
    let node = node(&format!("n{index}")).label(ZONE, ["a", "b"][zone]).capacity("cpu", &cpu);
    Event::NodeApplied(Arc::new(node.capacity("pods", "20").build()))
}

fn csi(index: usize, limit: i32) -> StorageObject {
    let drivers = [(DRIVER, Some(limit)), ("pd.csi.storage.gke.io", Some(limit)), ("example.com/disk", Some(limit))];
    let mut csi = objects::csi_node(&format!("n{index}"), &drivers);
    csi.migrated_plugins.push("kubernetes.io/gce-pd".into());
    StorageObject::CsiNode(csi)
}

struct Cluster {
    world: World,
    workers: usize,
    claims: Vec<String>,
    volumes: Vec<Arc<str>>,
}

impl Cluster {
    fn new(workers: usize) -> Self {
        let mut world = World::with_volumes(workers);
        for index in 0..NODES {
            world.store(csi(index, 1 + index as i32 % 3));
            world.tell(placed(index, index % 2));
        }
        world.settle();
        world.advance(2_000);
        Self { world, workers, claims: Vec::new(), volumes: Vec::new() }
    }

    fn bound(&mut self, zone: Option<usize>, source: VolumeSource) -> String {
        let number = self.claims.len();
        let (claim, volume) = (format!("c{number}"), format!("v{number}"));
        let volume = Volume { is_available: false, source, ..objects::volume(&volume, objects::gibibytes(1)) };
        let volume = match zone {
            Some(zone) => objects::only_where(volume, ZONE, &[["a", "b"][zone]]),
            None => volume,
        };
        let modes = AccessModes::READ_WRITE_MANY;
        self.volumes.push(Arc::clone(&volume.name));
        self.world.store_claim(Claim { access_modes: modes, ..objects::bound(&claim, &volume.name) });
        self.world.store_volume(Volume { claim: None, ..volume });
        self.claims.push(claim.clone());
        claim
    }

    /// The name of the claim, which is created if necessary.
    fn claim(&mut self, claimed: &Claimed) -> String {
        let csi = |handle: String| VolumeSource::Csi { driver: DRIVER.into(), handle: handle.into() };
        let number = self.claims.len();
        match *claimed {
            Claimed::New(zone) => self.bound(zone, csi(format!("h{number}"))),
            Claimed::Again(handle) => self.bound(None, csi(format!("h{}", handle % number.max(1)))),
            Claimed::Migrated => {
                let (plugin, driver) = ("kubernetes.io/gce-pd".into(), "pd.csi.storage.gke.io".into());
                let handle = Ok(format!("h{number}").into());
                self.bound(None, VolumeSource::InTree(InTree { plugin, driver, handle, node_affinity: None }))
            }
            Claimed::Known(claim) if number > 0 => self.claims[claim % number].clone(),
            Claimed::Known(_) | Claimed::Provisioned => {
                let claim = format!("c{number}");
                self.world.store_claim(storage::claim(&claim, "made"));
                self.claims.push(claim.clone());
                claim
            }
        }
    }

    fn change(&mut self, change: &Change) {
        let attachment = |volume: &Arc<str>| format!("attachment-of-{volume}").into();
        match *change {
            Change::Deleted(at) => {
                let mut pods: Vec<_> = self.world.api.values().map(|pod| (pod.name.clone(), pod.uid.clone())).collect();
                pods.sort_unstable();
                if let Some((_, uid)) = pods.get(at % pods.len().max(1)) {
                    self.world.delete_pod(uid);
                }
            }
            Change::Attached(at, node) => {
                let Some(volume) = self.volumes.get(at % self.volumes.len().max(1)) else { return };
                self.world.store(StorageObject::VolumeAttachment(VolumeAttachment {
                    name: attachment(volume),
                    attacher: DRIVER.into(),
                    node: format!("n{node}").into(),
                    volume: Some(Arc::clone(volume)),
                }));
            }
            Change::Detached(at) => {
                let Some(volume) = self.volumes.get(at % self.volumes.len().max(1)) else { return };
                let (kind, name) = (StorageKind::VolumeAttachment, attachment(volume));
                self.world.unstore(&StorageKey { kind, namespace: Arc::default(), name });
            }
            Change::Limited(node, limit) => self.world.store(csi(node, limit)),
            Change::Moved(node, zone) => self.world.tell(placed(node, zone)),
        }
        self.world.settle();
    }

    /// A new machine with the current objects and the pods on nodes.
    fn renewed(&self) -> World {
        let mut world = World::with_volumes(self.workers);
        self.world.storage.values().for_each(|object| world.store(object.clone()));
        self.world.known_nodes().into_iter().for_each(|node| world.tell(Event::NodeApplied(node)));
        let placed = self.world.api.values().filter(|pod| pod.node_name.is_some());
        placed.for_each(|pod| world.pod(pod.clone()));
        world.settle();
        world.advance(10_000);
        world
    }
}

/// The node of the pod, or the message about it.
fn decided(world: &mut World, pod: &PodInfo) -> (Option<String>, Option<String>) {
    world.pod(pod.clone());
    world.settle();
    while world.run_volume_controller() {
        world.settle();
    }
    let node = world.place_of(&pod.name).map(str::to_owned);
    let message = if node.is_some() { None } else { world.message_of(&pod.name).map(str::to_owned) };
    (node, message)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 300, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn a_pod_with_volumes_gets_the_node_that_it_gets_on_a_new_machine(
        workers in 0..3_usize,
        rounds in vec((vec(any_change(), 0..2), vec(any_claimed(), 1..3), option::of(0..NODES), any::<bool>()), 4..16),
    ) {
        let mut cluster = Cluster::new(workers);
        for (number, (changes, claimed, attached, spreads)) in rounds.iter().enumerate() {
            changes.iter().for_each(|change| cluster.change(change));
            let claims: Vec<String> = claimed.iter().map(|claimed| cluster.claim(claimed)).collect();
            cluster.world.settle();
            // The newest volume is attached to a node before its pod comes.
            let newest = cluster.volumes.len().saturating_sub(1);
            attached.iter().for_each(|&node| cluster.change(&Change::Attached(newest, node)));
            let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
            let mut builder: PodBuilder = pod(&format!("p{number}")).request("cpu", "100m").label("app", "x");
            if *spreads {
                builder = builder.spread(1, ZONE, ("app", "x"));
            }
            let pod = storage::with_claims(builder, &claims).build();
            let expected = decided(&mut cluster.renewed(), &pod);
            let found = decided(&mut cluster.world, &pod);
            if found.0.is_none() {
                cluster.world.delete_pod(&pod.uid);
            }
            prop_assert_eq!(found, expected, "pod {}", number);
        }
    }
}

#[test]
fn workers_are_asked_about_the_first_classes_of_a_family_only() {
    let mut cluster = Cluster::new(2);
    let mut asked = Vec::new();
    for number in 0..6 {
        let claim = cluster.claim(&Claimed::New(None));
        cluster.world.settle();
        let before = cluster.world.machine.status().evaluations_asked;
        let pod = storage::with_claims(pod(&format!("p{number}")).request("cpu", "100m"), &[&claim]).build();
        assert!(decided(&mut cluster.world, &pod).0.is_some());
        asked.push(cluster.world.machine.status().evaluations_asked > before);
    }
    assert_eq!(asked, [true, true, false, false, false, false]);
}
