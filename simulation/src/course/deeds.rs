//! Execution of actions.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Course;
use crate::{
    coordinator,
    plan::{Deed, Hostile},
    workers::Manner,
};

impl Course<'_> {
    pub(super) async fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Create => self.cluster.create_pods(),
            Deed::CreateUrgent => self.cluster.create_urgent(),
            Deed::Delete => self.cluster.delete_pod(),
            Deed::Recreate => self.cluster.recreate_pod(),
            Deed::AddNode => self.cluster.add_node(),
            Deed::RemoveNode => self.cluster.remove_node(),
            Deed::Cordon => self.cluster.cordon(),
            Deed::Resize => self.cluster.resize(),
            Deed::Foreign => self.cluster.create_foreign(),
            Deed::CreateWithVolume if self.plan.with_volumes => self.cluster.create_with_volume(),
            Deed::CreateWithVolume => {}
            Deed::CreateSet => self.cluster.create_set(),
            Deed::Scale => self.cluster.scale(),
            Deed::Protect => self.cluster.protect(),
            Deed::Finish => self.cluster.finish(),
            Deed::Hostile => self.act_hostile(),
            Deed::CreateWithDevices
            | Deed::DeleteClaim
            | Deed::ChangeDevices
            | Deed::Taint
            | Deed::ChangeClass
            | Deed::Serve
            | Deed::Unprotect => {
                if self.plan.with_devices {
                    self.act_on_devices(deed);
                }
            }
            Deed::Kill | Deed::Terminate | Deed::Start | Deed::Partition | Deed::Deafen => {
                if self.seed.happens(500) {
                    // So that binding cycles are in flight.
                    self.cluster.create_pods();
                    sleep(Duration::from_millis(self.seed.below(12))).await;
                }
                self.act_on_coordinator(deed);
            }
            Deed::RestartApi => self.setup.api.restart(Duration::from_millis(self.seed.between(10, 10_000))),
            Deed::RestoreApi => self.restore(),
            Deed::RestartWorker | Deed::CutWorker | Deed::SilenceWorker | Deed::Mislead => self.act_on_worker(deed),
        }
    }

    fn act_hostile(&mut self) {
        match self.plan.hostile {
            None => {}
            Some(Hostile::Chatter) => {
                let index = usize::try_from(self.seed.below(self.plan.workers as u64)).unwrap_or(0);
                self.setup.workers.chatter(index);
            }
            Some(what) => self.cluster.act_hostile(what),
        }
    }

    fn act_on_devices(&mut self, deed: Deed) {
        match deed {
            Deed::CreateWithDevices => self.cluster.create_with_devices(),
            Deed::DeleteClaim => self.cluster.delete_claim(),
            Deed::ChangeDevices => self.cluster.change_devices(),
            Deed::Taint => self.cluster.taint(),
            Deed::ChangeClass => self.cluster.change_class(),
            Deed::Serve => self.cluster.serve(),
            _ => self.cluster.unprotect(),
        }
    }

    fn act_on_coordinator(&mut self, deed: Deed) {
        let index = usize::try_from(self.seed.below(self.coordinators.len() as u64)).unwrap_or(0);
        let Some(coordinator) = self.coordinators.get_mut(index) else { return };
        match deed {
            Deed::Kill => coordinator.kill(&self.setup.api),
            Deed::Terminate => coordinator.terminate(),
            Deed::Start => coordinator.start(&self.setup),
            Deed::Deafen => {
                let Some(name) = coordinator.name().map(str::to_owned) else { return };
                let name = if self.seed.happens(700) { coordinator::election_of(&name) } else { name };
                let time = Duration::from_millis(self.seed.between(200, 2_900));
                self.setup.api.deafen(&name, true);
                self.deaf.push((Instant::now() + time, name));
            }
            _ => {
                let Some(name) = coordinator.name().map(str::to_owned) else { return };
                // The election has a separate connection.
                let election = coordinator::election_of(&name);
                let names = [name, election];
                let first = usize::from(self.seed.happens(333));
                let count = if self.seed.happens(500) { 2 } else { first + 1 };
                for name in &names[first..count.max(first + 1)] {
                    let was_cut_off = self.cut_off.contains(name);
                    self.cut_off.retain(|cut_off| cut_off != name);
                    self.setup.api.partition(name, !was_cut_off);
                    if !was_cut_off {
                        self.cut_off.push(name.clone());
                    }
                }
            }
        }
    }

    /// Ends one-way partitions that are due. Ended processes stay partitioned.
    pub(super) fn end_deafness(&mut self, all: bool) {
        let now = Instant::now();
        let (over, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.deaf).into_iter().partition(|(until, _)| all || *until <= now);
        self.deaf = left;
        for (_, name) in over {
            let process = coordinator::process_of(&name);
            if self.coordinators.iter().any(|coordinator| coordinator.name() == Some(process)) {
                self.setup.api.deafen(&name, false);
            }
        }
    }

    /// Restores the API server to an earlier commit, but not before the start of the run.
    fn restore(&mut self) {
        self.check();
        let version = self.setup.api.look(|store| store.version()).saturating_sub(self.seed.below(60));
        let down = Duration::from_millis(self.seed.between(10, 5_000));
        self.setup.api.restore_and_bump(down, version.max(self.first_version));
        let (at_ms, checker) = (self.at_ms(), &mut self.checker);
        self.setup.api.look(|store| checker.restored(store, at_ms));
    }

    /// Makes a worker slow, incorrect or correct again; without other faults incorrect.
    pub(super) fn mislead(&mut self, always: bool) {
        let (workers, seed) = (&self.setup.workers, &mut self.seed);
        let index = usize::try_from(seed.below(self.plan.workers as u64)).unwrap_or(0);
        let delay_ms = [0, 20, 300, 3_000][usize::try_from(seed.below(4)).unwrap_or(0)];
        let lies_per_mille = [0, 0, 50, 500][usize::try_from(seed.below(4)).unwrap_or(0)];
        let manner =
            if always { Manner { delay_ms: 0, lies_per_mille: 500 } } else { Manner { delay_ms, lies_per_mille } };
        workers.behave(index, manner);
    }

    fn act_on_worker(&mut self, deed: Deed) {
        let index = usize::try_from(self.seed.below(self.plan.workers as u64)).unwrap_or(0);
        let (workers, seed) = (&self.setup.workers, &mut self.seed);
        match deed {
            Deed::RestartWorker => workers.restart(index, Duration::from_millis(seed.below(5_000))),
            Deed::CutWorker => workers.cut(index),
            Deed::SilenceWorker => workers.silence(index, Duration::from_millis(seed.below(8_000))),
            _ => self.mislead(false),
        }
    }
}
