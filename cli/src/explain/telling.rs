//! Accounts as the page shows them, made without workers.
//!
//! Knows: which parts of an account the page has, and how a pod on a node is judged again. Must not know: the page.

use std::{
    collections::{BTreeSet, HashMap},
    io::{self, Write},
    sync::Arc,
};

use anyhow::Context as _;
use flotilla_framework::{
    class::{Class, PodInfo},
    explain::Outcome,
    profile::Profile,
    registry::Registry,
};

use super::{account, account::Account, answer::name, missing, preemption, words, world::World};
use crate::{
    cluster::Cluster,
    page::{
        self, Report,
        report::{Accounts, Stand},
        told::{Preemption, Refused, Told},
    },
};

/// Amounts that are missing are told apart so often; the rest of a reason's nodes follow as one.
const MOST_MISSES: usize = 40;

/// Gives account of pods, one at a time.
#[derive(Debug)]
pub(crate) struct Teller {
    world: World,
    profiles: Vec<Profile>,
}

impl Teller {
    /// Of the pods of a cluster. No extender is asked.
    pub(crate) fn new(registry: Registry, cluster: &Cluster, profiles: &[Profile]) -> Self {
        Self { world: World::new(registry, cluster, profiles), profiles: profiles.to_vec() }
    }

    /// The account of a pod. One that stands on a node is judged as if it had just been taken off it.
    ///
    /// # Errors
    /// Where no profile is responsible for the pod.
    pub(crate) fn tell(&mut self, pod: &Arc<PodInfo>) -> anyhow::Result<Told> {
        let profile = self.profiles.iter().find(|profile| profile.scheduler_name == pod.scheduler_name);
        let profile = profile.with_context(|| {
            format!("no profile is responsible for pod {}: its scheduler is {:?}", pod.key(), pod.scheduler_name)
        })?;
        let world = &mut self.world;
        if let Some(held) = account::held_back(pod, profile, world) {
            return Ok(told(&held, world));
        }
        let lifted = world.lift(pod);
        let subject = world.subject(&pod.class);
        let mut account = account::make(pod, profile, &subject, &[], world, true);
        account.preempted = preemption::make(pod, profile, &subject, &account.explanation, world);
        let told = told(&account, world);
        if let Some(lifted) = lifted {
            world.put_back(pod, lifted);
        }
        Ok(told)
    }

    /// The accounts of pods that stay pending. Pods that ask for the same share one.
    ///
    /// # Errors
    /// As for [`Self::tell`].
    pub(crate) fn tell_all<'a>(&mut self, pods: impl Iterator<Item = &'a Arc<PodInfo>>) -> anyhow::Result<Accounts> {
        let mut accounts = Accounts::default();
        let mut known: HashMap<(Arc<Class>, Arc<str>, i32, bool), usize> = HashMap::new();
        for pod in pods {
            // Another pod's account is this one's too, unless something is said of this one by name.
            let is_like_others = pod.gates.is_empty()
                && pod.nominated_node_name.is_none()
                && pod.scheduling_group.is_none()
                && pod.excess.is_none()
                && !pod.class.uses_objects();
            let key = (Arc::clone(&pod.class), Arc::clone(&pod.scheduler_name), pod.priority, pod.never_preempts);
            match known.get(&key).filter(|_| is_like_others) {
                Some(&other) => accounts.share(pod.key(), other),
                None => {
                    known.insert(key, accounts.len());
                    accounts.add(pod.key(), &self.tell(pod)?)?;
                }
            }
        }
        Ok(accounts)
    }
}

/// An account as the page shows it.
pub(super) fn told(account: &Account, world: &World) -> Told {
    let Account { gate, explanation, .. } = account;
    let scores = explanation.nodes.values().filter_map(|outcome| match outcome {
        Outcome::Feasible { scores, .. } => Some(scores),
        Outcome::Refused { .. } => None,
    });
    let mut plugins: BTreeSet<&str> = scores.flatten().map(|score| score.plugin).collect();
    let extenders = account.extended.iter().flat_map(|extended| &extended.priorities);
    plugins.extend(extenders.map(|priorities| &*priorities.extender));
    let plugins: Vec<&str> = plugins.into_iter().collect();
    let feasible = explanation.nodes.iter().filter_map(|(&id, outcome)| {
        let Outcome::Feasible { scores, total } = outcome else { return None };
        let mut values = vec![None; plugins.len()];
        let own = scores.iter().map(|score| (score.plugin, score.weighted));
        let others = account.priorities(name(world, id)).filter_map(|(extender, score)| Some((extender, score?.1)));
        for (plugin, score) in own.chain(others) {
            if let Ok(place) = plugins.binary_search(&plugin) {
                *values[place].get_or_insert(0) += score;
            }
        }
        Some((id.0, *total, values))
    });
    let preemption = account.preempted.as_ref().map(|preempted| Preemption {
        message: preempted.message.clone(),
        node: preempted.node.map(|id| id.0),
        candidates: preempted
            .candidates
            .iter()
            .map(|known| (known.node.0, known.victims.iter().map(|pod| world.key(pod)).collect()))
            .collect(),
    });
    Told {
        gate: gate.as_ref().map(|(plugin, reason)| ((*plugin).to_owned(), reason.clone())),
        error: explanation.error.as_deref().unwrap_or_default().to_owned(),
        message: explanation.message.clone(),
        advice: missing::advice(account, world).unwrap_or_default(),
        nominated: explanation.nominated.map(|id| id.0),
        best: explanation.best().into_iter().map(|id| id.0).collect(),
        feasible: feasible.collect(),
        refused: refused(account, world),
        plugins: plugins.into_iter().map(str::to_owned).collect(),
        preemption,
    }
}

fn refused(account: &Account, world: &World) -> Vec<Refused> {
    let places: HashMap<&str, u32> = account.explanation.nodes.keys().map(|&id| (name(world, id), id.0)).collect();
    let numbers = |names: &[&str]| names.iter().filter_map(|name| places.get(name).copied()).collect::<Vec<u32>>();
    let group = |group: missing::Group<'_>| {
        let (nearest, others) = group.misses.split_at(group.misses.len().min(MOST_MISSES));
        let mut misses: Vec<_> = nearest.iter().map(|miss| (miss.lacks.clone(), numbers(&miss.nodes))).collect();
        if !others.is_empty() {
            misses.push(("more than that".to_owned(), others.iter().flat_map(|miss| numbers(&miss.nodes)).collect()));
        }
        Refused { plugin: group.plugin.to_owned(), reasons: group.reasons.to_vec(), misses }
    };
    missing::groups(account, world).into_iter().map(group).collect()
}

/// A page in the making: accounts of pods of a cluster as it is.
#[derive(Debug, Default)]
pub(super) struct Pages {
    accounts: Accounts,
    /// What is said of each pod in short.
    messages: HashMap<String, String>,
}

impl Pages {
    /// Takes in one account.
    pub(super) fn add(&mut self, account: &Account, world: &World) -> io::Result<()> {
        let told = told(account, world);
        let reason = told.gate.as_ref().map(|(_, reason)| reason.as_str()).or(Some(told.error.as_str()));
        let message = match reason.filter(|reason| !reason.is_empty()).unwrap_or(&told.message) {
            "" => format!("would fit {}", words::nodes(told.feasible.len())),
            message => message.to_owned(),
        };
        self.messages.insert(account.pod.key(), message);
        Ok(self.accounts.add(account.pod.key(), &told)?)
    }

    /// Writes the page.
    pub(super) fn print(self, cluster: &Cluster, subject: String, out: &mut dyn Write) -> io::Result<()> {
        let pods = cluster.bound.iter().chain(&cluster.pending);
        let message = |pod: &PodInfo| self.messages.get(&pod.key()).map_or("", String::as_str);
        let stands = pods.map(|pod| Stand::new(pod, [pod.node_name.clone()], message(pod)));
        let stands: Vec<Stand<'_>> = stands.collect();
        let mut report = Report::new(&[&cluster.nodes], &stands);
        report.command = "explain";
        report.subject = subject;
        self.accounts.put_into(&mut report)?;
        page::write(&report, out)
    }
}
