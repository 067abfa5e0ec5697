//! Sequence of faults, drawn only from a seed.

use std::{fmt, time::Duration};

use flotilla_transport::Role;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

pub(super) const COORDINATORS: usize = 3;
pub(super) const WORKERS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coordinator {
    /// The leader at the start of the fault.
    Leader,
    Number(usize),
}

impl fmt::Display for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader => f.write_str("the leader"),
            Self::Number(number) => write!(f, "coordinator-{number}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    Coordinator(Coordinator),
    Worker(usize),
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coordinator(coordinator) => coordinator.fmt(f),
            Self::Worker(number) => write!(f, "worker-{number}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    ToApiServer(Coordinator),
    ToWorker(Coordinator, usize),
    AllToWorker(usize),
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToApiServer(from) => write!(f, "{from} to the API server"),
            Self::ToWorker(from, worker) => write!(f, "{from} to worker-{worker}"),
            Self::AllToWorker(worker) => write!(f, "all coordinators to worker-{worker}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Existing and new connections are closed.
    Cut,
    /// Data is held until the end of the fault.
    Stalled,
    /// Data is delayed.
    Slow(Duration),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut => f.write_str("cut"),
            Self::Stalled => f.write_str("stalled"),
            Self::Slow(by) => write!(f, "slower by {} ms", by.as_millis()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Etcd,
    ApiServer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL, and a restart.
    Kill(Process),
    /// SIGTERM, and a restart after its end.
    Terminate(Process),
    /// SIGSTOP, at the end SIGCONT.
    Stop(Process),
    /// The process's files cannot grow: logging fails as on a full disk.
    FullDisk(Process),
    Network(Path, Trouble),
    /// The API server answers this percentage of a coordinator's requests with 429 and a Retry-After.
    TurnedAway(Coordinator, u32),
    /// This percentage of a coordinator's requests is executed without a response.
    AnswersLost(Coordinator, u32),
    /// SIGSTOP, at the end SIGCONT.
    Pause(Server),
    /// SIGKILL, and a restart at the end.
    Restart(Server),
    /// All get new certificates of the same authority.
    CertificatesRenewed,
    /// All get certificates of a new authority, after a period that trusts both.
    AuthorityReplaced,
    /// All processes of a role get certificates of an untrusted authority until the end.
    CertificateWrong(Role),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = |server: &Server| match server {
            Server::Etcd => "etcd",
            Server::ApiServer => "the API server",
        };
        match self {
            Self::Kill(process) => write!(f, "SIGKILL for {process}"),
            Self::Terminate(process) => write!(f, "SIGTERM for {process}"),
            Self::Stop(process) => write!(f, "SIGSTOP for {process}"),
            Self::FullDisk(process) => write!(f, "full disk for the log of {process}"),
            Self::Network(path, trouble) => write!(f, "connections of {path} {trouble}"),
            Self::TurnedAway(coordinator, percent) => write!(f, "429 for {percent} % of the requests of {coordinator}"),
            Self::AnswersLost(coordinator, percent) => {
                write!(f, "no answer to {percent} % of the requests of {coordinator}")
            }
            Self::Pause(paused) => write!(f, "SIGSTOP for {}", server(paused)),
            Self::Restart(killed) => write!(f, "SIGKILL for {}", server(killed)),
            Self::CertificatesRenewed => f.write_str("certificates renewed"),
            Self::AuthorityReplaced => f.write_str("authority of certificates replaced"),
            Self::CertificateWrong(role) => write!(f, "wrong certificate for each {role}"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    /// Delay after the start of the previous fault.
    pub(super) after: Duration,
    pub(super) fault: Fault,
    pub(super) lasts: Duration,
}

/// Endless sequence of faults; the same for the same seed.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    rng: StdRng,
}

/// Kinds of faults with weights.
const KINDS: [(Kind, u32); 13] = [
    (Kind::Kill, 6),
    (Kind::Terminate, 3),
    (Kind::Stop, 5),
    (Kind::FullDisk, 4),
    (Kind::NetworkOfApi, 5),
    (Kind::NetworkOfWorker, 5),
    (Kind::TurnedAway, 3),
    (Kind::AnswersLost, 3),
    (Kind::Pause, 2),
    (Kind::Restart, 2),
    (Kind::Renewed, 1),
    (Kind::Replaced, 1),
    (Kind::Wrong, 2),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Kill,
    Terminate,
    Stop,
    FullDisk,
    NetworkOfApi,
    NetworkOfWorker,
    TurnedAway,
    AnswersLost,
    Pause,
    Restart,
    Renewed,
    Replaced,
    Wrong,
}

impl Plan {
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed) }
    }

    fn kind(&mut self) -> Kind {
        KINDS.choose_weighted(&mut self.rng, |(_, often)| *often).map_or(Kind::Kill, |(kind, _)| *kind)
    }

    /// The leader in half of the cases, because its faults matter most.
    fn coordinator(&mut self) -> Coordinator {
        if self.rng.random_bool(0.5) {
            Coordinator::Leader
        } else {
            Coordinator::Number(self.rng.random_range(0..COORDINATORS))
        }
    }

    fn worker(&mut self) -> usize {
        self.rng.random_range(0..WORKERS)
    }

    fn process(&mut self) -> Process {
        if self.rng.random_bool(0.65) {
            Process::Coordinator(self.coordinator())
        } else {
            Process::Worker(self.worker())
        }
    }

    fn trouble(&mut self) -> Trouble {
        match self.rng.random_range(0..3) {
            0 => Trouble::Cut,
            1 => Trouble::Stalled,
            _ => Trouble::Slow(self.ms(20..500)),
        }
    }

    fn server(&mut self) -> Server {
        if self.rng.random_bool(0.5) { Server::Etcd } else { Server::ApiServer }
    }

    fn percent(&mut self) -> u32 {
        self.rng.random_range(1..=8) * 10
    }

    fn ms(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.random_range(range))
    }

    /// A fault and its duration. Some exceed the lease duration of the affected leader, most do not.
    fn fault(&mut self) -> (Fault, Duration) {
        let lasts = self.ms(500..16_000);
        match self.kind() {
            Kind::Kill => (Fault::Kill(self.process()), self.ms(100..3_000)),
            Kind::Terminate => (Fault::Terminate(self.process()), Duration::ZERO),
            Kind::Stop => (Fault::Stop(self.process()), lasts),
            Kind::FullDisk => (Fault::FullDisk(self.process()), lasts),
            Kind::NetworkOfApi => (Fault::Network(Path::ToApiServer(self.coordinator()), self.trouble()), lasts),
            Kind::NetworkOfWorker => {
                let (from, worker) = (self.coordinator(), self.worker());
                let all = self.rng.random_bool(0.5);
                let path = if all { Path::AllToWorker(worker) } else { Path::ToWorker(from, worker) };
                (Fault::Network(path, self.trouble()), lasts)
            }
            Kind::TurnedAway => (Fault::TurnedAway(self.coordinator(), self.percent()), lasts),
            Kind::AnswersLost => (Fault::AnswersLost(self.coordinator(), self.percent()), lasts),
            Kind::Pause => (Fault::Pause(self.server()), lasts),
            Kind::Restart => (Fault::Restart(self.server()), self.ms(0..4_000)),
            Kind::Renewed => (Fault::CertificatesRenewed, Duration::ZERO),
            Kind::Replaced => (Fault::AuthorityReplaced, self.ms(2_000..6_000)),
            Kind::Wrong => {
                let role = if self.rng.random_bool(0.5) { Role::Coordinator } else { Role::Worker };
                (Fault::CertificateWrong(role), lasts)
            }
        }
    }
}

impl Iterator for Plan {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        let after = self.ms(1_000..6_000);
        let (fault, lasts) = self.fault();
        Some(Planned { after, fault, lasts })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn drawn(seed: u64, count: usize) -> Vec<Planned> {
        Plan::new(seed).take(count).collect()
    }

    #[test]
    fn a_seed_gives_the_same_faults_again_and_another_seed_gives_others() {
        assert_eq!(drawn(7, 200), drawn(7, 200));
        assert_ne!(drawn(7, 200), drawn(8, 200));
        assert_eq!(drawn(7, 50)[..], drawn(7, 200)[..50], "a longer run begins as a shorter one");
    }

    #[test]
    fn every_kind_and_every_part_is_drawn_within_a_run() {
        // Thirty minutes contain some five hundred faults.
        let words: BTreeSet<String> = drawn(1, 500).iter().map(|planned| planned.fault.to_string()).collect();
        let has =
            |what: &str| assert!(words.iter().any(|fault| fault.contains(what)), "no fault is {what:?}: {words:?}");
        for kind in [
            "SIGKILL for the leader",
            "SIGTERM for",
            "SIGSTOP for the leader",
            "full disk",
            "to the API server cut",
            "to the API server stalled",
            "429",
            "no answer",
            "SIGSTOP for etcd",
            "SIGSTOP for the API server",
            "SIGKILL for etcd",
            "SIGKILL for the API server",
            "renewed",
            "replaced",
            "wrong certificate",
        ] {
            has(kind);
        }
        (0..COORDINATORS).for_each(|number| has(&format!("coordinator-{number}")));
        (0..WORKERS).for_each(|number| has(&format!("worker-{number}")));
    }

    #[test]
    fn a_fault_comes_every_few_seconds_and_none_lasts_for_long() {
        let drawn = drawn(3, 1_000);
        let mean = drawn.iter().map(|planned| planned.after).sum::<Duration>() / 1_000;
        assert!(mean > Duration::from_secs(3) && mean < Duration::from_secs(4), "{mean:?}");
        assert!(drawn.iter().all(|planned| planned.lasts < Duration::from_secs(16)));
    }
}
