//! Reloads the configuration file while the process runs.
//!
//! Workers acknowledge a new configuration before the machine uses it. The file is read every second, which is cheap, rather than watched.
//! A ConfigMap's file is a link to a link that the kubelet swaps, and some file systems send no notifications.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use flotilla_configuration::{ConfigErrors, Configuration, named_modules};
use flotilla_framework::registry::Registry;
use flotilla_machine::event::Event;
use flotilla_runtime::{
    driver::Stopped,
    modules::{self, Looks},
};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::{error, info, warn};

use super::{Parts, configuration};
use crate::{
    args::Args,
    lease,
    status::{Regarding, ReloadOutcome},
    watch::Watches,
};

/// Between two reads of the file. The kubelet takes up to a minute to update a ConfigMap.
const LOOK: Duration = Duration::from_secs(1);
const UID_PATIENCE: Duration = Duration::from_secs(5);

/// For the initial lists of kinds that only the new profiles read.
const LIST_PATIENCE: Duration = Duration::from_secs(30);

type Seen = Result<Held, String>;

#[derive(Debug, Clone, PartialEq)]
struct Held {
    text: String,
    modules: Vec<Looks>,
}

impl Held {
    fn new(text: String) -> Self {
        let modules = modules::looks(&named_modules(&text));
        Self { text, modules }
    }
}

/// Results of reloads.
#[derive(Debug, Default)]
pub struct Reloads {
    applied: AtomicU64,
    unchanged: AtomicU64,
    refused: AtomicU64,
    stale: AtomicBool,
}

impl Reloads {
    /// Number of changes by result.
    #[must_use]
    pub fn outcomes(&self) -> [(&'static str, u64); 3] {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [("applied", get(&self.applied)), ("unchanged", get(&self.unchanged)), ("refused", get(&self.refused))]
    }

    /// Whether the current file is active.
    #[must_use]
    pub fn successful(&self) -> bool {
        !self.stale.load(Ordering::Relaxed)
    }
}

/// Distinguishes complete changes from files that are being written.
#[derive(Debug)]
struct Settling {
    /// The content applied last.
    known: Seen,
    /// The content read last, if different.
    candidate: Option<Seen>,
}

impl Settling {
    /// Whether `seen` is new and was read twice in a row: an editor may still be writing the file.
    fn has_changed(&mut self, seen: &Seen) -> bool {
        if *seen == self.known {
            self.candidate = None;
            return false;
        }
        if self.candidate.as_ref() != Some(seen) {
            self.candidate = Some(seen.clone());
            return false;
        }
        self.candidate = None;
        self.known = seen.clone();
        true
    }
}

#[derive(Debug, PartialEq)]
struct Plan {
    /// The configuration to apply; `None` if only comments, the order of keys, or the fields of `later` have changed.
    apply: Option<Configuration>,
    /// The changed fields that take effect at the next start.
    later: Vec<&'static str>,
}

fn plan(current: &Configuration, wanted: Configuration) -> Plan {
    let differences = [
        ("clientConnection", wanted.client_connection != current.client_connection),
        ("delayCacheUntilActive", wanted.delay_cache_until_active != current.delay_cache_until_active),
        ("leaderElection", wanted.leader_election != current.leader_election),
    ];
    let later: Vec<_> = differences.into_iter().filter_map(|(field, differs)| differs.then_some(field)).collect();
    let wanted = Configuration {
        client_connection: current.client_connection.clone(),
        delay_cache_until_active: current.delay_cache_until_active,
        leader_election: current.leader_election.clone(),
        ..wanted
    };
    let same = Configuration { warnings: current.warnings.clone(), ..wanted.clone() } == *current;
    Plan { apply: (!same).then_some(wanted), later }
}

pub(super) struct Reloader {
    pub(super) args: Args,
    pub(super) path: PathBuf,
    pub(super) registry: Registry,
    pub(super) configuration: Configuration,
    pub(super) text: String,
    pub(super) generation: u64,
    pub(super) parts: Parts,
    pub(super) watches: Watches,
}

impl Reloader {
    pub(super) async fn run(mut self) -> Stopped {
        let mut settling = Settling { known: Ok(Held::new(self.text.clone())), candidate: None };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let seen = self.look().await;
            if settling.has_changed(&seen)
                && let Err(stopped) = self.take_up(seen).await
            {
                return stopped;
            }
        }
    }

    async fn look(&self) -> Seen {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || configuration::read(&path).map(Held::new)).await;
        match read {
            Ok(read) => read.map_err(|error| format!("{error:#}")),
            Err(error) => Err(format!("reading {} was cut short: {error}", self.path.display())),
        }
    }

    async fn take_up(&mut self, seen: Seen) -> Result<(), Stopped> {
        let wanted = match seen {
            Ok(held) => self.effective(held.text).await,
            Err(reason) => Err(reason),
        };
        let Plan { apply, later } = match wanted.map(|wanted| plan(&self.configuration, wanted)) {
            Ok(plan) => plan,
            Err(reason) => {
                self.refuse(&reason).await;
                return Ok(());
            }
        };
        for field in later {
            warn!("{field} in the configuration file takes effect when this process restarts");
        }
        match apply {
            Some(wanted) => match self.watches.provide(&wanted.profiles, LIST_PATIENCE).await {
                Ok(()) => self.apply(wanted).await,
                Err(unlisted) => {
                    let unlisted = unlisted.join(", ");
                    self.refuse(&format!(
                        "its plugins read {unlisted}, which the API server does not list; grant list and watch on it as \
                         deploy/base/rbac.yaml does, then write the file again"
                    ))
                    .await;
                    Ok(())
                }
            },
            None => {
                self.settle(&self.parts.reloads.unchanged);
                info!(generation = self.generation, "the configuration file has changed without effect");
                Ok(())
            }
        }
    }

    /// Parses the text. Modules are compiled meanwhile, which takes seconds.
    async fn effective(&self, text: String) -> Result<Configuration, String> {
        let (args, registry) = (self.args.clone(), self.registry);
        let read = move || configuration::effective(&args, Some(&text), registry).map_err(explain);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(format!("reading the configuration was cut short: {error}")))
    }

    async fn apply(&mut self, wanted: Configuration) -> Result<(), Stopped> {
        wanted.warnings.iter().for_each(|warning| warn!("{warning}"));
        self.generation += 1;
        let generation = self.generation;
        let machine = configuration::machine(&self.args, generation, &wanted);
        let profiles: Vec<_> = machine.profiles.iter().map(|profile| &*profile.scheduler_name).collect();
        info!(generation, ?profiles, "new configuration");
        let note = format!("generation {generation} with the profiles {}", profiles.join(", "));
        self.parts.configz.send_replace(configuration::shown(&wanted, generation));
        self.configuration = wanted;
        self.settle(&self.parts.reloads.applied);
        self.parts.handle.send_event(Event::Configured(Arc::new(machine))).await?;
        self.tell(ReloadOutcome::Reloaded, &note).await;
        Ok(())
    }

    async fn refuse(&self, reason: &str) {
        let generation = self.generation;
        self.parts.reloads.refused.fetch_add(1, Ordering::Relaxed);
        self.parts.reloads.stale.store(true, Ordering::Relaxed);
        error!("the changed configuration is invalid; generation {generation} stays active:\n{reason}");
        self.parts.configz.send_modify(|shown| shown["flotilla"]["refused"] = json!(reason));
        self.tell(ReloadOutcome::Refused, &format!("generation {generation} stays active: {reason}")).await;
    }

    fn settle(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
        self.parts.reloads.stale.store(false, Ordering::Relaxed);
        self.parts.configz.send_modify(|shown| {
            if let Some(ours) = shown["flotilla"].as_object_mut() {
                ours.remove("refused");
            }
        });
    }

    /// The leader writes an event on the Lease, the one object that every election has.
    async fn tell(&self, outcome: ReloadOutcome, note: &str) {
        if !self.configuration.leader_election.leader_elect
            || self.parts.leading.borrow().epoch_at(lease::now()).is_none()
        {
            return;
        }
        let election = &self.configuration.leader_election;
        let (namespace, name) = (&election.resource_namespace, &election.resource_name);
        // Prefer an event without the Lease's UID to a delayed reload.
        let uid = timeout(UID_PATIENCE, lease::uid(&self.parts.client, namespace, name)).await;
        let uid = uid.ok().and_then(Result::ok).unwrap_or_default();
        self.parts.reporter.events().configuration(Regarding::lease(namespace, name, &uid), outcome, note);
    }
}

/// Shows the line of the error, at a terminal and in the log.
fn explain(error: anyhow::Error) -> String {
    match error.downcast_ref::<ConfigErrors>() {
        Some(errors) => errors.to_string(),
        None => format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Seen {
        Ok(Held::new(text.to_owned()))
    }

    #[test]
    fn a_change_counts_when_it_has_been_seen_twice() {
        let mut settling = Settling { known: seen("a"), candidate: None };
        for (text, counts) in [
            ("a", false),
            ("a half-written", false),
            ("b", false),
            ("b", true),
            ("b", false),
            ("c", false),
            ("b", false),
            ("c", false),
            ("c", true),
        ] {
            assert_eq!(settling.has_changed(&seen(text)), counts, "{text}");
        }
        let gone = Err("no such file".to_owned());
        assert!(!settling.has_changed(&gone) && settling.has_changed(&gone) && !settling.has_changed(&gone));
    }

    #[test]
    fn what_a_process_reads_only_at_its_start_stays_and_is_named() {
        let current = Configuration::default();
        let mut wanted = current.clone();
        wanted.parallelism = 3;
        wanted.leader_election.resource_name = "another".to_owned();
        wanted.client_connection.burst = 7;
        wanted.delay_cache_until_active = true;
        let applied = Configuration { parallelism: 3, ..current.clone() };
        let later = vec!["clientConnection", "delayCacheUntilActive", "leaderElection"];
        assert_eq!(plan(&current, wanted.clone()), Plan { apply: Some(applied), later: later.clone() });
        wanted.parallelism = current.parallelism;
        assert_eq!(plan(&current, wanted), Plan { apply: None, later }, "nothing that could be a new generation");
    }

    #[test]
    fn another_warning_alone_is_no_change_in_effect() {
        let current = Configuration::default();
        let wanted =
            Configuration { warnings: vec!["scheduler.yaml:3:1: parallelism: …".to_owned()], ..current.clone() };
        assert_eq!(plan(&current, wanted), Plan { apply: None, later: Vec::new() });
        let profile = |name: &str| flotilla_framework::profile::Profile {
            scheduler_name: name.into(),
            ..current.profiles[0].clone()
        };
        let wanted = Configuration { profiles: vec![profile("another")], ..current.clone() };
        assert_eq!(plan(&current, wanted.clone()), Plan { apply: Some(wanted), later: Vec::new() });
    }
}
