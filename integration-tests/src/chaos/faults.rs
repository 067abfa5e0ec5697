//! Injection and removal of faults.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use flotilla_control_plane::Component;
use flotilla_transport::{Authority, Role, now_s};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::time::sleep;

use super::{
    gate::Odds,
    plan::{Coordinator, Fault, Path, Planned, Process, Server, Trouble},
    scene::{Scene, locked, worker},
};
use crate::certificates::{mount, trusting};

/// Additional waits for a control plane component that is not ready in time. It does not end; a busy machine takes minutes.
const MORE_WAITS: usize = 4;

const ROLES: [Role; 2] = [Role::Coordinator, Role::Worker];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FaultOutcome {
    Over,
    /// Not injected: the place has another fault, or nothing to hit.
    Left(String),
}

pub(super) struct Faults<'a> {
    scene: &'a Scene<'a>,
    leader: AtomicUsize,
    busy: Mutex<BTreeSet<String>>,
}

/// Lock of a place with at most one fault, released on drop.
struct FaultLock<'a> {
    busy: &'a Mutex<BTreeSet<String>>,
    name: String,
}

impl Drop for FaultLock<'_> {
    fn drop(&mut self) {
        locked(self.busy).remove(&self.name);
    }
}

impl<'a> Faults<'a> {
    pub(super) fn new(scene: &'a Scene<'a>) -> Self {
        Self { scene, leader: AtomicUsize::new(0), busy: Mutex::default() }
    }

    pub(super) fn leader(&self) -> usize {
        self.leader.load(Ordering::Relaxed)
    }

    pub(super) fn set_leader(&self, number: usize) {
        self.leader.store(number, Ordering::Relaxed);
    }

    /// Whether a process is stopped, or has ended and must not be restarted yet.
    pub(super) fn is_kept_down(&self, process: &str) -> bool {
        locked(&self.busy).contains(process)
    }

    /// Injects a fault, waits for its duration, and removes it. `on_start` is called at its start.
    ///
    /// # Errors
    /// Injection or removal fails, which is a defect of the test.
    pub(super) async fn carry_out(
        &self,
        planned: &Planned,
        on_start: impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        let lasts = planned.lasts;
        let place = self.place(&planned.fault);
        let Some(place) = self.take(place) else {
            return Ok(FaultOutcome::Left("another fault is under way there".to_owned()));
        };
        let made = match planned.fault {
            Fault::Kill(process) => self.kill(&self.process(process), lasts, &on_start).await,
            Fault::Terminate(process) => self.terminate(&self.process(process), &on_start),
            Fault::Stop(process) => self.stop(&self.process(process), lasts, &on_start).await,
            Fault::FullDisk(process) => self.fill_disk(&self.process(process), lasts, &on_start).await,
            Fault::Network(path, trouble) => self.network(path, trouble, lasts, &on_start).await,
            Fault::TurnedAway(coordinator, percent) => {
                self.odds(coordinator, Odds { turned_away: percent, lost: 0 }, lasts, &on_start).await
            }
            Fault::AnswersLost(coordinator, percent) => {
                self.odds(coordinator, Odds { turned_away: 0, lost: percent }, lasts, &on_start).await
            }
            Fault::Pause(server) => self.stop(component(server).name(), lasts, &on_start).await,
            Fault::Restart(server) => self.restart(component(server), lasts, &on_start).await,
            Fault::CertificatesRenewed => self.renew(&on_start),
            Fault::AuthorityReplaced => self.replace_authority(lasts, &on_start).await,
            Fault::CertificateWrong(role) => self.wrong_certificate(role, lasts, &on_start).await,
        };
        drop(place);
        made
    }

    fn number(&self, coordinator: Coordinator) -> usize {
        match coordinator {
            Coordinator::Leader => self.leader(),
            Coordinator::Number(number) => number,
        }
    }

    fn process(&self, process: Process) -> String {
        match process {
            Process::Coordinator(coordinator) => self.scene.coordinators[self.number(coordinator)].name.clone(),
            Process::Worker(number) => worker(number),
        }
    }

    /// Place of a fault; faults of the same place do not overlap.
    fn place(&self, fault: &Fault) -> String {
        match fault {
            Fault::Kill(process) | Fault::Terminate(process) | Fault::Stop(process) => self.process(*process),
            Fault::FullDisk(process) => format!("the log of {}", self.process(*process)),
            Fault::Network(Path::ToApiServer(from), _) => format!("the link of {}", self.number(*from)),
            Fault::Network(Path::ToWorker(_, number) | Path::AllToWorker(number), _) => {
                format!("the links to {number}")
            }
            Fault::TurnedAway(coordinator, _) | Fault::AnswersLost(coordinator, _) => {
                format!("the gate of {}", self.number(*coordinator))
            }
            Fault::Pause(_) | Fault::Restart(_) => "the control plane".to_owned(),
            Fault::CertificatesRenewed | Fault::AuthorityReplaced | Fault::CertificateWrong(_) => {
                "certificates".to_owned()
            }
        }
    }

    fn take(&self, name: String) -> Option<FaultLock<'_>> {
        locked(&self.busy).insert(name.clone()).then(|| FaultLock { busy: &self.busy, name })
    }

    fn runs(&self, process: &str) -> anyhow::Result<bool> {
        Ok(self.scene.cluster.processes().exit_status(process)?.is_none())
    }

    async fn kill(
        &self,
        process: &str,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        if !self.runs(process)? {
            return Ok(ended(process));
        }
        on_start(&process);
        self.scene.cluster.processes().kill(process)?;
        sleep(lasts).await;
        Ok(FaultOutcome::Over)
    }

    fn terminate(&self, process: &str, on_start: &impl Fn(&dyn fmt::Display)) -> anyhow::Result<FaultOutcome> {
        // It may end at any moment.
        if self.scene.cluster.processes().signal(process, "TERM").is_err() {
            return Ok(ended(process));
        }
        on_start(&process);
        Ok(FaultOutcome::Over)
    }

    async fn stop(
        &self,
        process: &str,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        let processes = self.scene.cluster.processes();
        if processes.signal(process, "STOP").is_err() {
            return Ok(ended(process));
        }
        on_start(&process);
        sleep(lasts).await;
        processes.signal(process, "CONT")?;
        Ok(FaultOutcome::Over)
    }

    async fn fill_disk(
        &self,
        process: &str,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        if !self.runs(process)? {
            return Ok(ended(process));
        }
        on_start(&process);
        self.limit_files(process, Some(0))?;
        sleep(lasts).await;
        // A restarted process has no limit, which is the desired state.
        self.limit_files(process, getrlimit(Resource::Fsize).current)?;
        Ok(FaultOutcome::Over)
    }

    /// Limits the size of the files that a process writes, in bytes.
    fn limit_files(&self, process: &str, current: Option<u64>) -> anyhow::Result<()> {
        if !self.runs(process)? {
            return Ok(());
        }
        let id = i32::try_from(self.scene.cluster.processes().id(process)?)?;
        let limit = Rlimit { current, maximum: getrlimit(Resource::Fsize).maximum };
        match prlimit(Pid::from_raw(id), Resource::Fsize, limit) {
            Ok(_) => Ok(()),
            // It has ended in the meantime.
            Err(_) if !self.runs(process)? => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot limit the files of {process}")),
        }
    }

    async fn network(
        &self,
        path: Path,
        trouble: Trouble,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        let coordinators = &self.scene.coordinators;
        let links = match path {
            Path::ToApiServer(from) => vec![&coordinators[self.number(from)].to_api_server],
            Path::ToWorker(from, number) => vec![&coordinators[self.number(from)].to_workers[number]],
            Path::AllToWorker(number) => coordinators.iter().map(|from| &from.to_workers[number]).collect(),
        };
        match path {
            Path::ToApiServer(from) | Path::ToWorker(from, _) => on_start(&coordinators[self.number(from)].name),
            Path::AllToWorker(number) => on_start(&worker(number)),
        }
        links.iter().for_each(|link| link.set(Some(trouble)));
        sleep(lasts).await;
        links.iter().for_each(|link| link.set(None));
        Ok(FaultOutcome::Over)
    }

    async fn odds(
        &self,
        coordinator: Coordinator,
        odds: Odds,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        let coordinator = &self.scene.coordinators[self.number(coordinator)];
        on_start(&coordinator.name);
        coordinator.gate.set(odds);
        sleep(lasts).await;
        coordinator.gate.set(Odds::default());
        Ok(FaultOutcome::Over)
    }

    async fn restart(
        &self,
        component: Component,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        on_start(&component.name());
        self.scene.cluster.kill(component)?;
        sleep(lasts).await;
        let mut ready = self.scene.cluster.restart(component).await;
        for _ in 0..MORE_WAITS {
            if ready.is_ok() {
                break;
            }
            ready = self.scene.cluster.ready(component).await;
        }
        ready.map(|()| FaultOutcome::Over)
    }

    fn renew(&self, on_start: &impl Fn(&dyn fmt::Display)) -> anyhow::Result<FaultOutcome> {
        on_start(&"all");
        let authority = self.scene.authority();
        for role in ROLES {
            mount(&self.scene.certificates(role), &authority.issue(role, now_s())?)?;
        }
        Ok(FaultOutcome::Over)
    }

    /// In an operator's order: trust both authorities, then use the new one, then drop the old one.
    async fn replace_authority(
        &self,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        on_start(&"all");
        let (old, new) = (self.scene.authority(), Arc::new(Authority::make(now_s())?));
        for (signer, trusted) in [(&old, vec![&*new, &old]), (&new, vec![&*new, &old]), (&new, vec![&*new])] {
            for role in ROLES {
                mount(&self.scene.certificates(role), &trusting(signer.issue(role, now_s())?, &trusted))?;
            }
            sleep(lasts).await;
        }
        self.scene.set_authority(new);
        Ok(FaultOutcome::Over)
    }

    async fn wrong_certificate(
        &self,
        role: Role,
        lasts: Duration,
        on_start: &impl Fn(&dyn fmt::Display),
    ) -> anyhow::Result<FaultOutcome> {
        on_start(&role);
        let (folder, authority) = (self.scene.certificates(role), self.scene.authority());
        let strange = Authority::make(now_s())?;
        mount(&folder, &trusting(strange.issue(role, now_s())?, &[&authority]))?;
        sleep(lasts).await;
        mount(&folder, &authority.issue(role, now_s())?)?;
        Ok(FaultOutcome::Over)
    }
}

fn ended(process: &str) -> FaultOutcome {
    FaultOutcome::Left(format!("{process} does not run"))
}

const fn component(server: Server) -> Component {
    match server {
        Server::Etcd => Component::Etcd,
        Server::ApiServer => Component::ApiServer,
    }
}
