//! From the decision to the bind, for pods whose volumes are not bound yet: what is promised, written and waited for.
//!
//! A pod that was decided holds its node and what its plan promises of claims and volumes (Reserve). What the API server
//! does not know of that yet is written, once; then the pod waits for what the watches tell until every claim is bound,
//! and is bound itself (PreBind). Whatever goes wrong on the way gives up all that is not written (Unreserve) and has
//! the pod tried again.
//!
//! Knows: which pods are on this way, what each waits for, and for how long. Must not know: whether a claim is bound
//! (that is [`flotilla_framework::volumes::binding`]), or how anything is written.
//!
//! Source: VolumeBinding's Reserve, PreBind and Unreserve, `BindPodVolumes`, `bindAPIUpdate`. Upstream looks once a
//! second at what it waits for; here each change of it is a reason to look.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flotilla_framework::{
    node::NodeInfo,
    profile::Profile,
    volumes::{
        binding::{self, Written, volume_key},
        objects::{ClaimReference, StorageKey, StorageKind, StorageObject},
        storage::{Plan, Storage},
    },
};

use crate::{
    action::{Action, Binding, ClaimWrite, VolumeBinding, VolumeWrite},
    event::{PreparationId, TimeMs},
    machine::Machine,
    pods::Stage,
    subject::{ProfileIndex, Uid},
};

/// The plugin whose points these are.
pub(crate) const VOLUME_BINDING: &str = "VolumeBinding";

/// How many pods may be on this way at once. They do not count among the binds under way, or ten minutes of a
/// provisioner's silence would keep everybody else from being decided. At some 1 KB each (the binding, the plan, what
/// was written) they take 16 MiB; a provisioner that needs a minute for each volume and has all of them under way at
/// once makes 273 pods a second. A pod more is tried again after its backoff. Those that get ready at once are binds
/// under way then: at most `max_binds_in_flight` and this many.
pub(crate) const MAX_PREPARATIONS: usize = 16_384;

/// A pod on its way.
#[derive(Debug)]
struct Preparation {
    id: PreparationId,
    /// What follows.
    binding: Binding,
    plan: Plan,
    /// What was written, and by now, what there is to wait for.
    written: Written,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The answer to the writes is not there yet. These are what was to be written, in order, and how long to wait then.
    Writing(Vec<StorageKey>, TimeMs),
    /// Until then for the claims to be bound.
    Waiting(TimeMs),
}

/// All pods on their way.
#[derive(Debug, Default)]
pub(crate) struct Preparations {
    by_pod: BTreeMap<Uid, Preparation>,
    /// Who waits for an object.
    by_object: BTreeMap<StorageKey, BTreeSet<Uid>>,
    deadlines: BTreeSet<(TimeMs, Uid)>,
    last_id: u64,
}

// === impl Preparations ===

impl Preparations {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether a pod is on its way.
    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        self.by_pod.contains_key(uid)
    }

    /// When the first of them has waited for too long.
    pub(crate) fn next_deadline(&self) -> Option<TimeMs> {
        self.deadlines.first().map(|(until_ms, _)| *until_ms)
    }

    /// Until when a pod waits for its claims, if everything is written that had to be.
    pub(crate) fn deadline(&self, uid: &Uid) -> Option<TimeMs> {
        match self.by_pod.get(uid)?.phase {
            Phase::Waiting(until_ms) => Some(until_ms),
            Phase::Writing(..) => None,
        }
    }

    /// All pods on their way.
    pub(crate) fn uids(&self) -> Vec<Uid> {
        self.by_pod.keys().cloned().collect()
    }

    fn next_id(&mut self) -> PreparationId {
        self.last_id += 1;
        PreparationId(self.last_id)
    }

    fn insert(&mut self, uid: &Uid, preparation: Preparation) {
        for key in keys(&preparation.plan) {
            self.by_object.entry(key).or_default().insert(Arc::clone(uid));
        }
        if let Phase::Waiting(until_ms) = preparation.phase {
            self.deadlines.insert((until_ms, Arc::clone(uid)));
        }
        self.by_pod.insert(Arc::clone(uid), preparation);
    }

    /// Takes out a preparation of a pod, unless it is another one by now.
    fn remove_if(&mut self, uid: &Uid, id: PreparationId) -> Option<Preparation> {
        self.by_pod.get(uid).filter(|known| known.id == id)?;
        self.remove(uid)
    }

    fn remove(&mut self, uid: &Uid) -> Option<Preparation> {
        let preparation = self.by_pod.remove(uid)?;
        for key in keys(&preparation.plan) {
            if let Some(uids) = self.by_object.get_mut(&key) {
                uids.remove(uid);
                if uids.is_empty() {
                    self.by_object.remove(&key);
                }
            }
        }
        if let Phase::Waiting(until_ms) = preparation.phase {
            self.deadlines.remove(&(until_ms, Arc::clone(uid)));
        }
        Some(preparation)
    }

    /// The pods for which a change of an object may be what they wait for. A volume that was made for a claim is known
    /// by the claim that it names.
    fn concerned(&self, key: &StorageKey, object: Option<&StorageObject>) -> BTreeSet<Uid> {
        let of = |key: &StorageKey| self.by_object.get(key).into_iter().flatten().cloned();
        let named = match object {
            Some(StorageObject::Volume(volume)) => volume.claim.as_ref().map(claim_key),
            _ => None,
        };
        of(key).chain(named.iter().flat_map(of)).collect()
    }

    fn on_node(&self, node: &str) -> Vec<Uid> {
        self.by_pod.iter().filter(|(_, known)| &*known.plan.node == node).map(|(uid, _)| Arc::clone(uid)).collect()
    }
}

/// The objects that a plan is about.
fn keys(plan: &Plan) -> impl Iterator<Item = StorageKey> {
    let bindings = plan.bindings.iter().flat_map(|binding| [binding.claim.storage_key(), volume_key(&binding.volume)]);
    bindings.chain(plan.provisions.iter().map(|claim| claim.storage_key()))
}

fn claim_key(claim: &ClaimReference) -> StorageKey {
    let (namespace, name) = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
    StorageKey { kind: StorageKind::Claim, namespace, name }
}

impl Machine {
    /// The decided pod's volumes are promised to it; then it is bound, as soon as they are.
    pub(crate) fn prepare(&mut self, profile: ProfileIndex, binding: Binding, plan: Option<Plan>) {
        let Some(plan) = plan else { return self.bind(binding) };
        let waits = self.profile(profile).filter(|profile| has(&profile.plugins.pre_bind)).map(timeout_ms);
        let (writes, targets) = writes(self.judge.cache().storage.objects(), &plan, &binding);
        self.judge.cache_mut().storage.assume(&plan);
        let Some(timeout_ms) = waits else { return self.bind(binding) };
        let (uid, id) = (Arc::clone(&binding.uid), self.preparations.next_id());
        if let Some(pod) = self.pods.get_mut(&uid) {
            pod.stage = Stage::Preparing(profile);
            pod.announced = true;
        }
        self.actions.push(Action::BindVolumes(VolumeBinding { id, ..writes }));
        let (written, phase) = (Written::new(), Phase::Writing(targets, timeout_ms));
        self.preparations.insert(&uid, Preparation { id, binding, plan, written, phase });
    }

    /// The API server has answered.
    pub(crate) fn volumes_written(
        &mut self,
        now_ms: TimeMs,
        uid: &Uid,
        id: PreparationId,
        versions: Vec<Arc<str>>,
        failure: Option<String>,
    ) {
        // Of a preparation that was given up meanwhile the watches will tell what came of it.
        let Some(mut preparation) = self.preparations.remove_if(uid, id) else { return };
        let Phase::Writing(targets, timeout_ms) = preparation.phase else { return };
        preparation.written.extend(targets.into_iter().zip(versions));
        preparation.phase = Phase::Waiting(now_ms.saturating_add(timeout_ms));
        self.preparations.insert(uid, preparation);
        match failure {
            None => self.look_at(now_ms, uid),
            Some(failure) => self.abandon(now_ms, uid, &failure),
        }
    }

    /// An object of storage has changed or is gone; `object` is as it is now, or was last.
    pub(crate) fn look_at_those_who_wait_for(
        &mut self,
        now_ms: TimeMs,
        key: &StorageKey,
        object: Option<&StorageObject>,
    ) {
        for uid in self.preparations.concerned(key, object) {
            self.look_at(now_ms, &uid);
        }
    }

    /// A node has changed or is gone.
    pub(crate) fn look_at_those_on(&mut self, now_ms: TimeMs, node: &str) {
        for uid in self.preparations.on_node(node) {
            self.look_at(now_ms, &uid);
        }
    }

    /// Those who have waited for too long are looked at for the last time.
    pub(crate) fn expire_preparations(&mut self, now_ms: TimeMs) {
        while let Some((until_ms, uid)) = self.preparations.deadlines.first().cloned()
            && until_ms <= now_ms
        {
            self.look_at(now_ms, &uid);
            if self.preparations.deadlines.contains(&(until_ms, Arc::clone(&uid))) {
                self.abandon(now_ms, &uid, "binding volumes: context deadline exceeded");
            }
        }
    }

    /// Gives up what a pod was promised and what is not written of it. What is written stays promised until the watches
    /// bring it.
    pub(crate) fn unreserve(&mut self, now_ms: TimeMs, uid: &Uid) {
        let Some(preparation) = self.preparations.remove(uid) else { return };
        let Preparation { mut plan, written, .. } = preparation;
        plan.bindings.retain(|binding| !written.contains_key(&volume_key(&binding.volume)));
        plan.provisions.retain(|claim| !written.contains_key(&claim.storage_key()));
        let before: Vec<_> = keys(&plan).map(|key| (self.judge.cache().storage.objects().get(&key), key)).collect();
        self.judge.cache_mut().storage.restore(&plan);
        for (old, key) in before {
            let new = self.judge.cache().storage.objects().get(&key);
            if old != new {
                self.wake_for_storage(now_ms, old.as_ref(), new.as_ref());
            }
        }
    }

    /// Gives up all preparations: whoever leads next finds in the API what was written of them.
    pub(crate) fn unreserve_all(&mut self, now_ms: TimeMs) {
        for uid in self.preparations.uids() {
            self.give_back(now_ms, &uid);
            self.admit(now_ms, &uid);
        }
    }

    /// Whether a pod's claims are bound by now.
    fn look_at(&mut self, now_ms: TimeMs, uid: &Uid) {
        let Some(preparation) = self.preparations.by_pod.get(uid) else { return };
        let Preparation { plan, written, phase: Phase::Waiting(_), .. } = preparation else { return };
        let node: Option<&NodeInfo> = self.judge.cache().nodes.get(&plan.node).map(|node| &*node.info);
        match binding::is_bound(self.judge.cache().storage.objects(), plan, written, node) {
            Ok(false) => {}
            Ok(true) => {
                let Some(Preparation { mut binding, .. }) = self.preparations.remove(uid) else { return };
                let Some(pod) = self.pods.get_mut(uid) else { return };
                let Stage::Preparing(profile) = pod.stage else { return };
                pod.stage = Stage::Assumed(profile);
                binding.waited_ms = now_ms.saturating_sub(pod.first_queued_ms.unwrap_or(now_ms));
                binding.prepared_ms = Some(now_ms.saturating_sub(binding.decided_ms));
                self.bind(binding);
            }
            Err(error) => self.abandon(now_ms, uid, &error),
        }
    }

    /// Something went wrong: the pod gives back its place and is tried again.
    fn abandon(&mut self, now_ms: TimeMs, uid: &Uid, error: &str) {
        self.status.volume_failures += 1;
        self.take_back(now_ms, uid, error);
    }

    /// A pod on its way gives back its place, for this reason, and is tried again.
    pub(crate) fn take_back(&mut self, now_ms: TimeMs, uid: &Uid, error: &str) {
        self.give_back(now_ms, uid);
        self.retry_later(now_ms, uid);
        self.report_failure(now_ms, uid, format!("running PreBind plugin \"{VOLUME_BINDING}\": {error}"));
    }

    /// A pod gives back its volumes and its place on the node.
    fn give_back(&mut self, now_ms: TimeMs, uid: &Uid) {
        self.unreserve(now_ms, uid);
        self.forget(now_ms, uid);
    }
}

fn has(plugins: &[String]) -> bool {
    plugins.iter().any(|name| name == VOLUME_BINDING)
}

fn timeout_ms(profile: &Profile) -> TimeMs {
    u64::try_from(profile.args.volume_binding.bind_timeout_seconds).unwrap_or(0).saturating_mul(1_000)
}

/// What of a plan the API server has to be told, and of which objects that is in order. What it has already, from an attempt
/// or a leader before, is not written again; upstream writes that too, which changes nothing.
///
/// Source: `AssumePodVolumes` and `GetBindVolumeToClaim`.
fn writes(storage: &Storage, plan: &Plan, binding: &Binding) -> (VolumeBinding, Vec<StorageKey>) {
    let mut targets = Vec::new();
    let (mut volumes, mut claims) = (Vec::new(), Vec::new());
    for planned in &plan.bindings {
        let claim = storage.api_claim(&planned.claim.namespace, &planned.claim.name);
        let (Some(volume), Some(claim)) = (storage.api_volume(&planned.volume), claim) else { continue };
        let (namespace, name) = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
        let wanted = ClaimReference { namespace, name, uid: Arc::clone(&planned.claim_uid) };
        if volume.claim.as_ref() == Some(&wanted) {
            continue;
        }
        let is_for_it = |set: &ClaimReference| {
            set.namespace == wanted.namespace
                && set.name == wanted.name
                && (set.uid.is_empty() || set.uid == wanted.uid)
        };
        targets.push(volume_key(&volume.name));
        volumes.push(VolumeWrite {
            name: Arc::clone(&volume.name),
            uid: Arc::clone(&volume.uid),
            resource_version: Arc::clone(&volume.resource_version),
            bound_by_controller: !volume.claim.as_ref().is_some_and(is_for_it),
            claim: wanted,
            claim_version: Arc::clone(&claim.resource_version),
        });
    }
    for key in &plan.provisions {
        let claim = storage.api_claim(&key.namespace, &key.name);
        let Some(claim) = claim.filter(|claim| claim.selected_node.as_ref() != Some(&plan.node)) else { continue };
        targets.push(key.storage_key());
        claims.push(ClaimWrite {
            name: Arc::clone(&claim.name),
            uid: Arc::clone(&claim.uid),
            resource_version: Arc::clone(&claim.resource_version),
        });
    }
    let writes = VolumeBinding {
        id: PreparationId::default(),
        uid: Arc::clone(&binding.uid),
        namespace: Arc::clone(&binding.namespace),
        name: Arc::clone(&binding.name),
        node: Arc::clone(&binding.node),
        volumes,
        claims,
    };
    (writes, targets)
}
