//! Records of traced attempts, and their lack of side effects.

use std::sync::Arc;

use flotilla_framework::{
    class::PodInfo,
    testing::{node, pod, profile},
    trace::{Context, Parent, Sampling},
};
use flotilla_machine::{
    action::{Binding, Reason, Report},
    event::{BindFailure, Event},
    trace::{Decided, Evaluated, Failed, Part, Trace},
};

use crate::world::World;

const TWO_WORKERS: usize = 2;

fn traced(sampling: f64) -> World {
    World::with_tracing(TWO_WORKERS, profile(), Sampling::of(sampling))
}

fn evaluated(world: &World) -> Vec<&Evaluated> {
    world.traces.iter().filter_map(|trace| if let Trace::Evaluated(told) = trace { Some(told) } else { None }).collect()
}

fn decided(world: &World) -> Vec<&Decided> {
    world.traces.iter().filter_map(|trace| if let Trace::Decided(told) = trace { Some(told) } else { None }).collect()
}

fn failed(world: &World) -> Vec<&Failed> {
    world.traces.iter().filter_map(|trace| if let Trace::Failed(told) = trace { Some(told) } else { None }).collect()
}

fn made_by(parent: Parent, pod: PodInfo) -> PodInfo {
    PodInfo { trace_parent: Some(Box::new(parent)), ..pod }
}

fn course(world: &mut World) {
    for name in ["a", "b"] {
        world.node(node(name).capacity("cpu", "4").build());
    }
    for index in 0..4 {
        world.pod(pod(&format!("web-{index}")).request("cpu", "1").build());
    }
    world.pod(pod("huge").request("cpu", "64").build());
    world.settle();
    world.now_ms += 70_000;
    world.node(node("c").capacity("cpu", "64").build());
    world.settle();
}

#[test]
fn tracing_changes_nothing_but_what_is_told_of_it() {
    let (mut plain, mut observed) = (World::new(TWO_WORKERS), traced(1.0));
    course(&mut plain);
    course(&mut observed);
    assert_eq!(plain.traces, [], "none were asked for");
    assert!(!observed.traces.is_empty());
    assert_eq!(plain.bound, observed.bound);
    assert_eq!(plain.machine.status(), observed.machine.status());
    let told = |world: &World| -> Vec<Report> {
        world.reports.iter().cloned().map(|report| Report { trace: None, ..report }).collect()
    };
    assert_eq!(told(&plain), told(&observed));
    assert!(plain.reports.iter().all(|report| report.trace.is_none()));
    assert!(observed.reports.iter().all(|report| report.trace.is_some()));
}

#[test]
fn an_attempt_is_named_by_its_pod_and_number_and_ends_with_the_bind() {
    let mut world = traced(1.0);
    world.node(node("n").build());
    world.now_ms = 5;
    world.pod(pod("web").build());
    world.run_workers();
    let binding: Binding = world.binds[0].clone();
    let attempt = binding.trace.expect("it is traced");
    assert_eq!((attempt.context, attempt.parent), (Context::of_attempt("uid-web", 1), None));
    assert_eq!(attempt.queued_ms, 5);
    let decision = decided(&world)[0];
    assert_eq!((decision.nodes, decision.feasible, decision.evaluation), (1, Some(1), None));
    assert_eq!(decision.choice.as_ref().map(|choice| &*choice.node), Some("n"));
    let evaluation = evaluated(&world)[0];
    assert_eq!((evaluation.parent, evaluation.workers), (attempt.part(Part::Cycle).span, TWO_WORKERS));
    assert_eq!(evaluation.context.trace, attempt.context.trace);
    assert_eq!(failed(&world).len(), 0);
}

#[test]
fn an_evaluation_is_part_of_the_first_attempt_and_the_others_refer_to_it() {
    let mut world = traced(1.0);
    world.node(node("n").build());
    for index in 0..3 {
        world.pod(pod(&format!("web-{index}")).build());
    }
    world.settle();
    let evaluation = match evaluated(&world)[..] {
        [only] => only.context,
        ref others => panic!("{others:?}"),
    };
    assert_eq!(evaluation.trace, Context::of_attempt("uid-web-0", 1).trace);
    let links: Vec<_> = decided(&world).iter().map(|decision| decision.evaluation).collect();
    assert_eq!(links, [None, Some(evaluation), Some(evaluation)]);
}

#[test]
fn a_refused_attempt_is_told_once_and_the_next_one_has_a_trace_of_its_own() {
    let mut world = traced(1.0);
    world.node(node("small").capacity("cpu", "1").build());
    world.pod(pod("big").request("cpu", "2").build());
    world.settle();
    let told: Vec<_> = failed(&world).iter().map(|failed| (failed.number, failed.reason)).collect();
    assert_eq!(told, [(1, Reason::Unschedulable)]);
    assert_eq!(decided(&world)[0].choice, None);
    world.now_ms += 60_000;
    world.node(node("small").capacity("cpu", "4").build());
    world.settle();
    assert_eq!(world.place_of("big"), Some("small"));
    assert_eq!((decided(&world).len(), failed(&world).len()), (2, 1));
    assert_eq!(decided(&world)[1].attempt.context, Context::of_attempt("uid-big", 2));
}

#[test]
fn an_attempt_whose_bind_fails_is_for_the_binder_to_tell() {
    let mut world = traced(1.0);
    world.node(node("n").build());
    world.pod(pod("web").build());
    world.run_workers();
    let failure = BindFailure::Error("the API server is overloaded".to_owned());
    world.tell(Event::BindFailed { uid: "uid-web".into(), failure });
    assert_eq!(world.reports[0].trace, Some(Context::of_attempt("uid-web", 1)));
    assert_eq!(failed(&world).len(), 0);
}

#[test]
fn a_pod_joins_the_trace_of_the_client_that_created_it_unless_its_flag_says_no() {
    let context = Context { trace: 7, span: 9 };
    for (is_recorded, ratio, traced_attempts) in [(true, 0.0, 0), (true, 1.0, 1), (false, 1.0, 0)] {
        let mut world = traced(ratio);
        world.node(node("n").build());
        world.pod(made_by(Parent { context, is_recorded }, pod("web").build()));
        world.settle();
        assert_eq!(world.place_of("web"), Some("n"));
        let attempts: Vec<_> = decided(&world).iter().map(|decision| decision.attempt).collect();
        assert_eq!(attempts.len(), traced_attempts, "{is_recorded} {ratio}");
        let joined = attempts.iter().all(|attempt| attempt.context.trace == 7 && attempt.parent == Some(9));
        assert!(joined, "{attempts:?}");
    }
}

#[test]
fn at_a_ratio_of_nothing_nothing_is_told_and_no_worker_hears_of_it() {
    let mut world = traced(0.0);
    course(&mut world);
    assert_eq!(world.traces, []);
}

#[test]
fn no_annotation_has_more_attempts_traced_than_the_ratio_says() {
    let mut world = traced(0.25);
    world.node(node("n").capacity("pods", "1000").build());
    for index in 0..400_u64 {
        // The smallest trace ID is below any ratio.
        let parent = Parent { context: Context { trace: 1, span: index + 1 }, is_recorded: true };
        world.pod(made_by(parent, pod(&format!("web-{index}")).build()));
    }
    world.settle();
    assert_eq!(world.bound.len(), 400);
    let traced = decided(&world).len();
    assert!((60..140).contains(&traced), "{traced} of 400");
}

#[derive(Debug, PartialEq, Eq)]
struct Traced {
    /// The spans of attempts, which depend only on the pod and the number of the attempt.
    attempts: Vec<u64>,
    /// The pod of each report, and whether the report is traced.
    reports: Vec<(Arc<str>, bool)>,
    evaluations: usize,
}

fn taken(world: &World) -> Traced {
    Traced {
        attempts: decided(world).iter().map(|decision| decision.attempt.context.span).collect(),
        reports: world.reports.iter().map(|report| (Arc::clone(&report.uid), report.trace.is_some())).collect(),
        evaluations: evaluated(world).len(),
    }
}

#[test]
fn what_authors_write_into_traceparent_changes_the_choice_of_no_attempt_but_to_no() {
    // Trace IDs that any ratio takes and that hardly any takes, one for all pods and one for each.
    let recorded: [fn(u64) -> String; 4] = [
        |_| "00-00000000000000000000000000000001-0000000000000001-01".to_owned(),
        |_| "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff".to_owned(),
        |index| format!("00-{:032x}-{:016x}-01", index + 1, index + 1),
        |index| format!("00-{:032x}-{:016x}-03", u128::from(index) << 64 | 1, index + 1),
    ];
    for ratio in [0.0, 0.01, 0.3, 1.0] {
        let run = |annotation: Option<fn(u64) -> String>| {
            let mut world = traced(ratio);
            world.node(node("n").capacity("cpu", "100").capacity("pods", "1000").build());
            for index in 0..200 {
                // Every fourth one is infeasible.
                let cpu = if index % 4 == 0 { "1000" } else { "1m" };
                let pod = pod(&format!("web-{index}")).request("cpu", cpu).build();
                let parent = annotation.map(|text| Context::parse(&text(index)).expect("a traceparent"));
                world.pod(match parent {
                    Some((context, is_recorded)) => made_by(Parent { context, is_recorded }, pod),
                    None => pod,
                });
            }
            world.settle();
            taken(&world)
        };
        let plain = run(None);
        // 150 pods are bound, and 50 refused.
        let share = plain.attempts.len() as f64 / 200.0;
        assert!((share - ratio).abs() < 0.06, "{share} of all attempts at a ratio of {ratio}");
        assert_eq!(plain.reports.len(), 50, "each refusal is told of");
        for annotation in recorded {
            assert_eq!(run(Some(annotation)), plain, "{ratio}, {}", annotation(0));
        }
        let none = run(Some(|_| "00-00000000000000000000000000000001-0000000000000001-00".to_owned()));
        let is_untraced =
            none.attempts.is_empty() && none.reports.iter().all(|(_, is_traced)| !is_traced) && none.evaluations == 0;
        assert!(is_untraced, "{ratio}: {none:?}");
    }
}
