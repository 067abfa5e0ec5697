//! The registry, the configuration, and the questions about a pod that depend only on them.

use std::{collections::BTreeSet, sync::Arc};

use flotilla_framework::{
    class::PodInfo,
    extender::Extender,
    extension::PodField,
    modules::named,
    pod_group::{Feasibility, Membership, PodGroup},
    profile::Profile,
    registry::Registry,
    shard::Generation,
};

use crate::{
    event::Configuration,
    pods::Pod,
    subject::{GroupKey, ProfileIndex},
};

/// One more millisecond per this many bytes of the profiles' modules: compiling takes some 1.5 s per MiB on a busy core.
const MODULE_BYTES_PER_MS: u64 = 512;

/// The plugins, the current configuration and its derived values. Until the first configuration there are no profiles.
#[derive(Debug)]
pub(crate) struct Settings {
    registry: Registry,
    configuration: Option<Arc<Configuration>>,
    /// Metadata fields that configured plugins read; all classes have them.
    shown: Vec<PodField>,
    membership: Membership,
}

impl Settings {
    pub(crate) fn new(registry: Registry) -> Self {
        Self { registry, configuration: None, shown: Vec::new(), membership: Membership::default() }
    }

    pub(crate) const fn registry(&self) -> Registry {
        self.registry
    }

    pub(crate) const fn configuration(&self) -> Option<&Arc<Configuration>> {
        self.configuration.as_ref()
    }

    /// Sets the configuration. Returns the previous one.
    pub(crate) fn configure(&mut self, configuration: &Arc<Configuration>) -> Option<Arc<Configuration>> {
        self.configuration.replace(Arc::clone(configuration))
    }

    /// Sets the rule for the groups of pods. Returns the previous rule if it differs.
    pub(crate) fn set_membership(&mut self, membership: Membership) -> Option<Membership> {
        (self.membership != membership).then(|| std::mem::replace(&mut self.membership, membership))
    }

    /// Sets the fields that classes have. `false`: they are the same.
    pub(crate) fn set_shown(&mut self, fields: Vec<PodField>) -> bool {
        let is_other = self.shown != fields;
        self.shown = fields;
        is_other
    }

    pub(crate) fn shown(&self) -> &[PodField] {
        &self.shown
    }

    pub(crate) fn generation(&self) -> Option<Generation> {
        self.configuration.as_ref().map(|configuration| configuration.generation)
    }

    pub(crate) fn profile(&self, index: ProfileIndex) -> Option<&Profile> {
        self.configuration.as_ref()?.profiles.get(index)
    }

    pub(crate) fn profile_index(&self, scheduler_name: &str) -> Option<ProfileIndex> {
        let profiles = &self.configuration.as_ref()?.profiles;
        profiles.iter().position(|profile| &*profile.scheduler_name == scheduler_name)
    }

    pub(crate) fn group_of(&self, info: &PodInfo) -> Option<GroupKey> {
        self.membership.group_of(info)
    }

    /// The group with which a pod is tried. A deferred resize is tried alone.
    pub(crate) fn waits_with(&self, info: &PodInfo) -> Option<GroupKey> {
        self.group_of(info).filter(|_| !info.class.resize_deferred)
    }

    /// The extenders that filter or score nodes for a pod.
    pub(crate) fn extenders_of(&self, pod: Option<&Pod>) -> Vec<Arc<Extender>> {
        let is_asked = |extender: &Extender| extender.is_filter() || extender.is_prioritizer();
        self.interested(pod).filter(|extender| is_asked(extender)).cloned().collect()
    }

    /// All extenders that are interested in a pod.
    pub(crate) fn interested<'a>(&'a self, pod: Option<&'a Pod>) -> impl Iterator<Item = &'a Arc<Extender>> {
        let extenders = self.configuration.as_ref().map_or(&[][..], |configuration| &*configuration.extenders);
        extenders.iter().filter(move |extender| pod.is_some_and(|pod| extender.is_interested(&pod.info)))
    }

    /// Whether a group can be placed, with this many members placed and left.
    pub(crate) fn feasibility(
        &self,
        object: &PodGroup,
        profile: ProfileIndex,
        scheduled: usize,
        remaining: usize,
    ) -> Feasibility {
        let profile = self.profile(profile);
        profile.map_or(Feasibility::Met, |profile| object.feasibility(&profile.plugins, scheduled, remaining))
    }

    pub(crate) fn announces_nodes(&self) -> bool {
        self.configuration.as_ref().is_some_and(|configuration| configuration.announces_nodes)
    }

    /// Additional time for a worker to compile the modules of the profiles, in milliseconds.
    pub(crate) fn allowance_for_modules_ms(&self) -> u64 {
        let Some((configuration, modules)) = self.configuration.as_ref().zip(self.registry.modules()) else { return 0 };
        let named: BTreeSet<_> = configuration.profiles.iter().flat_map(named).map(|(_, digest)| digest).collect();
        let bytes: usize = named.into_iter().filter_map(|digest| modules.bytes(digest)).map(|bytes| bytes.len()).sum();
        bytes as u64 / MODULE_BYTES_PER_MS
    }
}
