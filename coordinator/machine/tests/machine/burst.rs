//! Work of a burst of events while many pods are in backoff. Work is counted, because time depends on the test's machine.

use flotilla_framework::{
    class::PodInfo,
    registry::Registry,
    testing::{node, pod, profile},
};
use flotilla_machine::{
    action::Action,
    event::{Configuration, Event},
    machine::Machine,
    status::Status,
};

/// Pods in backoff, and events of the burst.
const WAITING: usize = 5_000;
const EVENTS: u64 = 10_000;

const LIFE: usize = 100;

const BATCH: u64 = 256;

/// Time of an event, of a decision, and of the filters of a kind on one node, in an optimized build.
const EVENT_NS: u64 = 10_000;
const DECISION_NS: u64 = 20_000;
const KIND_NS: u64 = 300;

struct Burst {
    machine: Machine,
    now_ms: u64,
    events: u64,
}

impl Burst {
    /// Forty nodes, and infeasible pods of this many kinds and this priority, all in backoffQ.
    fn new(kinds: usize, priority: i32) -> Self {
        let mut burst = Self { machine: Machine::new(0, Registry::built_in()), now_ms: 0, events: 0 };
        let configuration = Configuration { worker_grace_ms: 0, ..Configuration::new(1, vec![profile()]) };
        burst.tell(Event::Configured(configuration.into()));
        for index in 0..40 {
            burst.tell(Event::NodeApplied(node(&format!("n{index}")).capacity("cpu", "16").build().into()));
        }
        burst.tell(Event::Synced);
        burst.tell(Event::Leading { epoch: 1 });
        burst.now_ms = 10_000;
        for index in 0..WAITING {
            let waits = pod(&format!("waits-{index}")).priority(priority);
            let waits = waits.request("cpu", &format!("{}m", 20_000 + index % kinds));
            burst.tell(Event::PodApplied(waits.build().into()));
        }
        assert_eq!(burst.machine.status().pods_unschedulable, WAITING as u64);
        burst
    }

    fn tell(&mut self, event: Event) {
        self.events += 1;
        for action in self.machine.apply(self.now_ms, event) {
            if let Action::Bind(binding) = action {
                let placed = PodInfo { node_name: Some(binding.node), ..small(&binding.name) };
                self.tell(Event::Bound { uid: binding.uid });
                self.tell(Event::PodApplied(placed.into()));
            }
        }
        if self.events.is_multiple_of(BATCH) && self.machine.next_wakeup().is_some_and(|at| at <= self.now_ms) {
            self.tell(Event::Tick);
        }
    }

    /// Pods come, are bound and go, ten events per millisecond. Returns the status before and after.
    fn run(&mut self) -> (Status, Status) {
        let (before, first) = (self.machine.status(), self.events);
        let mut next = 0;
        while self.events < first + EVENTS {
            self.now_ms = 10_100 + (self.events - first) / 100;
            self.tell(Event::PodApplied(small(&format!("small-{next}")).into()));
            if next >= LIFE {
                self.tell(Event::PodDeleted { uid: format!("uid-small-{}", next - LIFE).into() });
            }
            next += 1;
        }
        (before, self.machine.status())
    }
}

fn small(name: &str) -> PodInfo {
    pod(name).request("cpu", "100m").build()
}

fn work(kinds: usize, priority: i32) -> (u64, u64) {
    let (before, after) = Burst::new(kinds, priority).run();
    assert!(after.pods_backoff > 0, "they wait for the end of their backoff");
    assert_eq!(after.ahead_first, before.ahead_first, "none of them fits");
    assert!(after.placed - before.placed > EVENTS / 5);
    (after.decisions - before.decisions, after.ahead_asked - before.ahead_asked)
}

#[test]
fn a_burst_of_events_costs_a_fifth_more_at_most_because_pods_in_backoff_go_first() {
    for kinds in [20, WAITING] {
        let (decisions, none) = work(kinds, -10);
        assert_eq!(none, 0, "pods of lower priority are not asked");
        let (with, asked) = work(kinds, 10);
        assert_eq!(with, decisions, "no attempt is made for them");
        let cost = EVENTS * EVENT_NS + decisions * DECISION_NS;
        let more = asked * KIND_NS;
        assert!(asked > 0 && more * 5 <= cost, "{kinds} kinds: {asked} asked beside {decisions} decisions");
    }
}
