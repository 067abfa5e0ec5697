//! Which fault comes when: drawn from a seed, and from nothing else.
//!
//! Knows: the kinds of faults, how often and how long each is. Must not know: processes, or how a fault is made.

use std::{fmt, time::Duration};

use flotilla_transport::Role;
use rand::{Rng as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

/// How many coordinators there are.
pub(super) const COORDINATORS: usize = 3;
/// How many workers there are.
pub(super) const WORKERS: usize = 4;

/// One of the coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coordinator {
    /// Whichever leads when the fault begins.
    Leader,
    /// This one.
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

/// A process of Flotilla's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// A coordinator.
    Coordinator(Coordinator),
    /// The worker of this number.
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

/// The connections between two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Of a coordinator to the API server.
    ToApiServer(Coordinator),
    /// Of a coordinator to the worker of this number.
    ToWorker(Coordinator, usize),
    /// Of all coordinators to the worker of this number.
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

/// What is wrong with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// They are closed, and new ones too.
    Cut,
    /// Nothing comes through until this is over, then all that was sent.
    Stalled,
    /// Each piece of data comes so much later.
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

/// A part of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// etcd, of which there is one member.
    Etcd,
    /// The API server.
    ApiServer,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL. The process is started again.
    Kill(Process),
    /// SIGTERM. The process is started again once it has ended.
    Terminate(Process),
    /// SIGSTOP, at the end SIGCONT.
    Stop(Process),
    /// No file of the process may grow: each line of its log fails as on a full disk.
    FullDisk(Process),
    /// Connections that do not work.
    Network(Path, Trouble),
    /// The API server answers this many percent of a coordinator's requests with 429 and a Retry-After.
    TurnedAway(Coordinator, u32),
    /// This many percent of a coordinator's requests are carried out, and their answers are lost.
    AnswersLost(Coordinator, u32),
    /// SIGSTOP, at the end SIGCONT.
    Pause(Server),
    /// SIGKILL, and started again at the end.
    Restart(Server),
    /// All get new certificates of the same authority.
    CertificatesRenewed,
    /// All get certificates of another authority, after both are trusted for a while.
    AuthorityReplaced,
    /// All processes of a role get a certificate of an authority that nobody trusts, and at the end a good one again.
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

/// A fault and its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planned {
    /// How long after the beginning of the one before.
    pub(super) after: Duration,
    /// What goes wrong.
    pub(super) fault: Fault,
    /// For how long.
    pub(super) lasts: Duration,
}

/// Faults without end; the same ones for the same seed.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    rng: StdRng,
}

/// The kinds of faults, each as often as it is drawn among all.
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
    /// The faults of a seed.
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed) }
    }

    fn kind(&mut self) -> Kind {
        KINDS.choose_weighted(&mut self.rng, |(_, often)| *often).map_or(Kind::Kill, |(kind, _)| *kind)
    }

    /// Every second time the leader: what happens to it matters most.
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

    /// A fault, and how long it lasts. Some last longer than the lead of who is hit by them, most do not.
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
        // Thirty minutes are some five hundred faults.
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
