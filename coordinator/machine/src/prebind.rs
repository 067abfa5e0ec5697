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

use std::sync::Arc;

use flotilla_framework::{
    node::NodeInfo,
    profile::Profile,
    volumes::{
        binding::{self, Written, volume_key},
        objects::{ClaimReference, StorageKey, StorageObject},
        storage::{Plan, Storage},
    },
};

use crate::{
    action::{Action, Binding, ClaimWrite, VolumeBinding, VolumeWrite},
    event::{PreparationId, TimeMs},
    judge::storage::VOLUME_BINDING,
    machine::Machine,
    pods::Stage,
    preparations::{Phase, Preparation, keys},
    subject::{ProfileIndex, Uid},
};

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
