//! The spans of scheduling attempts, from the machine's and the binder's reports. See docs/tasks/tracing.md.
//!
//! The machine's milliseconds are rounded down, so that spans never begin too late. Their end is the time of the report.

use std::time::{Duration, Instant, SystemTime};

use flotilla_framework::trace::Context;
use flotilla_machine::{
    action::{Binding, PodName, Reason},
    event::{BindFailure, TimeMs},
    trace::{Decided, Evaluated, Failed, Part, Rivals, Trace, Traced},
};
use flotilla_runtime::driver::Moment;
use flotilla_spans::{Kind, Span, Spans, Value};

type Attributes = Vec<(&'static str, Value)>;

/// Records spans of traced attempts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    spans: Spans,
    started: Instant,
}

impl Recorder {
    /// `started` is the zero of the machine's clock.
    #[must_use]
    pub const fn new(spans: Spans, started: Instant) -> Self {
        Self { spans, started }
    }

    /// Records a report of the machine.
    pub fn record(&self, trace: Trace, moment: Moment) {
        match trace {
            Trace::Evaluated(evaluated) => self.evaluated(&evaluated, moment),
            Trace::Decided(decided) => self.decided(decided, moment),
            Trace::Failed(failed) => self.failed(failed),
        }
    }

    /// Records a bind request that began at `begun` and has ended.
    pub fn requested(&self, binding: &Binding, begun: Instant, error: Option<String>) {
        let Some(attempt) = binding.trace else { return };
        let binding_cycle = attempt.part(Part::Binding);
        let mut span = part(attempt, Part::Bind, "bind request", (self.at(begun), self.now()));
        (span.parent, span.kind, span.error) = (Some(binding_cycle.span), Kind::Client, error);
        span.attributes = vec![
            ("http.request.method", Value::from("POST")),
            (
                "url.path",
                Value::from(format!("/api/v1/namespaces/{}/pods/{}/binding", binding.namespace, binding.name)),
            ),
        ];
        self.spans.hand_over(span);
    }

    /// Records the outcome of a bind that began at `begun`.
    pub fn bound(&self, binding: &Binding, begun: Instant, outcome: Result<(), &BindFailure>) {
        let Some(attempt) = binding.trace else { return };
        let until = self.now();
        let error = outcome.err().map(|failure| match failure {
            BindFailure::Gone => "the pod is gone".to_owned(),
            BindFailure::Elsewhere => "the pod is bound already".to_owned(),
            BindFailure::Error(reason) => reason.clone(),
        });
        let from = match binding.prepared_ms {
            Some(_) => self.at_ms(binding.decided_ms),
            None => self.at(begun),
        };
        let mut span = part(attempt, Part::Binding, "binding cycle", (from, until));
        span.error.clone_from(&error);
        span.attributes = vec![("k8s.node.name", Value::from(binding.node.to_string()))];
        self.spans.hand_over(span);
        self.prepared(binding, attempt);
        let result = if error.is_some() { "error" } else { "scheduled" };
        let pod = [&binding.namespace, &binding.name, &binding.uid].map(|text| &**text);
        let mut attributes = of_pod(pod, &binding.scheduler_name, attempt, binding.attempt, result);
        attributes.extend([
            ("k8s.node.name", Value::from(binding.node.to_string())),
            ("flotilla.revision", number(binding.revision)),
            ("flotilla.queue_ms", number(binding.began_ms.saturating_sub(attempt.queued_ms))),
        ]);
        self.root(until, attempt, attributes, error);
    }

    /// Records the duration of each plugin's PreBind, until the pod's claims, volumes or devices are written and ready.
    fn prepared(&self, binding: &Binding, attempt: Traced) {
        let begun = self.at_ms(binding.decided_ms);
        for (place, &(plugin, took_ms)) in (0..).zip(&binding.pre_bound) {
            let until = begun + Duration::from_millis(took_ms);
            let mut span = part(attempt, Part::PreBind(place), "prebind", (begun, until));
            span.parent = Some(attempt.part(Part::Binding).span);
            span.attributes = vec![("flotilla.plugin", Value::from(plugin))];
            self.spans.hand_over(span);
        }
    }

    fn evaluated(&self, evaluated: &Evaluated, moment: Moment) {
        self.spans.hand_over(Span {
            context: evaluated.context,
            parent: Some(evaluated.parent),
            name: "evaluate".into(),
            kind: Kind::Internal,
            from: self.at_ms(evaluated.asked_ms),
            until: self.at(moment.taken_in),
            attributes: vec![
                ("flotilla.profile", Value::from(evaluated.profile.to_string())),
                ("flotilla.class", number(evaluated.class.0)),
                ("flotilla.revision", number(evaluated.revision)),
                ("flotilla.workers", number(evaluated.workers as u64)),
                ("flotilla.nodes", number(evaluated.nodes)),
            ],
            links: Vec::new(),
            error: evaluated.failure.map(str::to_owned),
        });
    }

    fn decided(&self, decided: Decided, moment: Moment) {
        let (attempt, began, until) = (decided.attempt, self.at_ms(decided.began_ms), self.now());
        self.spans.hand_over(part(attempt, Part::Queue, "queue", (self.at_ms(attempt.queued_ms), began)));
        let selecting = (until - moment.took).max(began);
        let mut select = part(attempt, Part::Select, "select", (selecting, until));
        select.parent = Some(attempt.part(Part::Cycle).span);
        let mut cycle = part(attempt, Part::Cycle, "scheduling cycle", (began, until));
        cycle.attributes =
            vec![("flotilla.revision", number(decided.revision)), ("flotilla.nodes", number(decided.nodes as u64))];
        cycle.attributes.extend(decided.feasible.map(|feasible| ("flotilla.nodes.feasible", number(feasible))));
        cycle.links.extend(decided.evaluation);
        if let Some(choice) = decided.choice {
            cycle.attributes.push(("k8s.node.name", Value::from(choice.node.to_string())));
            let offer = if choice.repaired { "repaired" } else { "used" };
            select.attributes =
                vec![("flotilla.offer", Value::from(offer)), ("flotilla.score", Value::I64(choice.total))];
            if let Some(Rivals { feasible, runner_up }) = choice.rivals {
                select.attributes.push(("flotilla.candidates", number(feasible)));
                if let Some((node, total)) = runner_up {
                    select.attributes.extend([
                        ("flotilla.runner_up", Value::from(node.to_string())),
                        ("flotilla.margin", Value::I64(choice.total.saturating_sub(total))),
                    ]);
                }
            }
        }
        self.spans.hand_over(select);
        self.spans.hand_over(cycle);
    }

    fn failed(&self, failed: Failed) {
        let Failed { attempt, pod: PodName { uid, namespace, name }, profile, number, reason, message } = failed;
        let result = match reason {
            Reason::Unschedulable => "unschedulable",
            Reason::SchedulerError => "error",
        };
        let attributes = of_pod([&*namespace, &*name, &*uid], &profile, attempt, number, result);
        self.root(self.now(), attempt, attributes, Some(message));
    }

    fn root(&self, until: SystemTime, attempt: Traced, attributes: Attributes, error: Option<String>) {
        self.spans.hand_over(Span {
            context: attempt.context,
            parent: attempt.parent,
            name: "schedule pod".into(),
            kind: Kind::Consumer,
            from: self.at_ms(attempt.queued_ms),
            until,
            attributes,
            links: Vec::new(),
            error,
        });
    }

    fn at(&self, instant: Instant) -> SystemTime {
        self.spans.wall(instant)
    }

    fn at_ms(&self, ms: TimeMs) -> SystemTime {
        self.at(self.started + Duration::from_millis(ms))
    }

    fn now(&self) -> SystemTime {
        self.at(Instant::now())
    }
}

fn part(attempt: Traced, part: Part, name: &'static str, (from, until): (SystemTime, SystemTime)) -> Span {
    Span {
        context: attempt.part(part),
        parent: Some(attempt.context.span),
        name: name.into(),
        kind: Kind::Internal,
        from,
        until,
        attributes: Vec::new(),
        links: Vec::<Context>::new(),
        error: None,
    }
}

fn of_pod(
    [namespace, name, uid]: [&str; 3],
    profile: &str,
    attempt: Traced,
    attempts: u32,
    result: &'static str,
) -> Attributes {
    vec![
        ("k8s.pod.name", Value::from(name.to_owned())),
        ("k8s.namespace.name", Value::from(namespace.to_owned())),
        ("k8s.pod.uid", Value::from(uid.to_owned())),
        ("flotilla.profile", Value::from(profile.to_owned())),
        ("flotilla.class", number(attempt.class.0)),
        ("flotilla.attempt", number(u64::from(attempts))),
        ("flotilla.result", Value::from(result)),
    ]
}

fn number(number: u64) -> Value {
    Value::I64(i64::try_from(number).unwrap_or(i64::MAX))
}
