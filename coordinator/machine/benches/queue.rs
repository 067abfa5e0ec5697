//! Cost of infeasible pods for feasible ones: 1,000 pods come, are bound and go, and each that goes wakes all infeasible pods. There are
//! none of these, 50,000 equal ones, 50,000 of 500 classes, or 50,000 of 5,000.

use std::{sync::Arc, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flotilla_framework::{
    class::PodInfo,
    registry::Registry,
    testing::{node, pod, profile},
};
use flotilla_machine::{
    action::Action,
    event::{Configuration, Event},
    machine::Machine,
};

const NODES: u64 = 5_000;

/// Pods per iteration, one per millisecond.
const PODS: u64 = 1_000;

const WAITING: u64 = 50_000;

const LIFE: u64 = 100;

/// Events between two ticks, as under load.
const BATCH: u64 = 256;

struct Course {
    machine: Machine,
    now_ms: u64,
    events: u64,
    next: u64,
}

impl Course {
    /// 5,000 nodes, and infeasible pods of this many classes.
    fn new(waiting: u64, classes: u64) -> Self {
        let mut course = Self { machine: Machine::new(0, Registry::built_in()), now_ms: 0, events: 0, next: 0 };
        let mut configuration = Configuration::new(1, vec![profile()]);
        configuration.worker_grace_ms = 0;
        course.tell(Event::Configured(configuration.into()));
        for index in 0..NODES {
            let info = node(&format!("n{index}")).capacity("cpu", "64").capacity("memory", "256Gi").build();
            course.tell(Event::NodeApplied(info.into()));
        }
        course.tell(Event::Synced);
        course.tell(Event::Leading { epoch: 1 });
        course.now_ms += 1;
        for index in 0..waiting {
            let cpu = format!("{}m", 65_000 + index % classes.max(1));
            course.tell(Event::PodApplied(pod(&format!("waits{index}")).request("cpu", &cpu).build().into()));
        }
        course.now_ms += 60_000;
        assert_eq!(course.machine.status().pods_unschedulable, waiting);
        course
    }

    fn tell(&mut self, event: Event) {
        self.events += 1;
        let actions = self.machine.apply(self.now_ms, event);
        for action in actions {
            if let Action::Bind(binding) = action {
                let placed = fits(&binding.name, Some(binding.node));
                self.tell(Event::Bound { uid: binding.uid });
                self.tell(Event::PodApplied(placed.into()));
            }
        }
        if self.events.is_multiple_of(BATCH) && self.machine.next_wakeup().is_some_and(|at| at <= self.now_ms) {
            self.tell(Event::Tick);
        }
    }

    fn run(&mut self) {
        for _ in 0..PODS {
            self.now_ms += 1;
            let name = format!("web{}", self.next);
            self.tell(Event::PodApplied(fits(&name, None).into()));
            if self.next >= LIFE {
                self.tell(Event::PodDeleted { uid: format!("uid-web{}", self.next - LIFE).into() });
            }
            self.next += 1;
        }
        assert_eq!(self.machine.status().placed, self.next, "every pod that fits is placed at once");
    }
}

fn fits(name: &str, node: Option<Arc<str>>) -> PodInfo {
    PodInfo { node_name: node, ..pod(name).request("cpu", "100m").build() }
}

fn beside_pods_that_fit_nowhere(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("beside pods that fit nowhere");
    group.sample_size(20).measurement_time(Duration::from_secs(10)).throughput(Throughput::Elements(PODS));
    for (name, waiting, classes) in [
        ("none", 0, 0),
        ("50,000 of one class", WAITING, 1),
        ("50,000 of 500 classes", WAITING, 500),
        ("50,000 of 5,000 classes", WAITING, 5_000),
    ] {
        // Lazily, because creating 5,000 classes takes longer than the measurement.
        let mut course = None;
        group.bench_function(name, |bencher| {
            let course = course.get_or_insert_with(|| Course::new(waiting, classes));
            bencher.iter(|| course.run());
        });
        let Some(course) = course else { continue };
        let status = course.machine.status();
        println!("{name}: {} placed, {} refused, {} waiting", status.placed, status.unschedulable, waiting);
    }
    group.finish();
}

criterion_group!(benches, beside_pods_that_fit_nowhere);
criterion_main!(benches);
