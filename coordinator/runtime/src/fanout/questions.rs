//! Requests to one worker: round trips, spans, and durations of single plugins.
//!
//! One stream carries all requests to a worker, so that gRPC metadata cannot carry a trace context. Each request has its own.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use flotilla_framework::{
    prepared::parts::Point,
    registry::Registry,
    shard::{Command, FromWorker, Reply, RequestId, ToWorker},
    trace::Context,
};
use flotilla_proto::pb;
use flotilla_spans::{Kind, Span, Spans, Value};

use super::{Observer, PluginLap, lock};

/// Number of round trips behind the quantiles.
const TRIPS: usize = 256;
/// Bound of unanswered requests; the machine has 64 and a dry run in flight.
const UNDER_WAY: usize = 256;
/// One evaluation in so many is timed plugin by plugin, starting with the first, as `pluginMetricsSamplePercent` of kube-scheduler.
const TIMED: RequestId = 10;
/// Laps read from one answer: a registry has at most 64 plugins, and each filters and scores.
const LAPS: usize = 128;

pub(super) struct Questions {
    registry: Registry,
    spans: Spans,
    observer: Observer,
    address: Arc<str>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    under_way: BTreeMap<RequestId, Question>,
    took_us: VecDeque<u64>,
}

struct Question {
    profile: Arc<str>,
    begun: Instant,
    traced: Option<Traced>,
}

struct Traced {
    context: Context,
    parent: u64,
}

impl Questions {
    pub(super) fn new(registry: Registry, spans: Spans, observer: Observer, address: Arc<str>) -> Self {
        Self { registry, spans, observer, address, inner: Mutex::default() }
    }

    /// Registers an outgoing message. Puts the span of this worker's request into a traced one. Returns whether to time its plugins.
    pub(super) fn ask(&self, word: &mut ToWorker) -> bool {
        let (request, profile, traced) = match &mut word.command {
            Command::Evaluate { request, profile, trace, .. } => (*request, profile, self.traced(trace)),
            Command::DryRun { request, profile, .. } => (*request, profile, None),
            _ => return false,
        };
        let question = Question { profile: Arc::clone(profile), begun: Instant::now(), traced };
        let mut inner = lock(&self.inner);
        inner.under_way.insert(request, question);
        if inner.under_way.len() > UNDER_WAY {
            inner.under_way.pop_first();
        }
        request % TIMED == 1 && matches!(word.command, Command::Evaluate { .. })
    }

    fn traced(&self, trace: &mut Arc<str>) -> Option<Traced> {
        if trace.is_empty() || !self.spans.are_wanted() {
            return None;
        }
        let (asker, _) = Context::parse(trace).ok()?;
        let context = asker.child(&self.address, 0);
        *trace = context.to_string().into();
        Some(Traced { context, parent: asker.span })
    }

    /// Registers an incoming message and its plugin durations.
    pub(super) fn answered(&self, word: &FromWorker, laps: &[pb::Lap]) {
        let (request, error) = match &word.reply {
            Reply::Evaluated { request, .. } | Reply::DryRunResults { request, .. } => (request, None),
            Reply::Unable { request, why } => (request, Some(why)),
            _ => return,
        };
        let question = {
            let mut inner = lock(&self.inner);
            let Some(question) = inner.under_way.remove(request) else { return };
            inner.took_us.push_back(u64::try_from(question.begun.elapsed().as_micros()).unwrap_or(u64::MAX));
            if inner.took_us.len() > TRIPS {
                inner.took_us.pop_front();
            }
            question
        };
        let laps: Vec<PluginLap> = laps.iter().take(LAPS).filter_map(|lap| read(self.registry, lap)).collect();
        if !laps.is_empty() {
            (self.observer)(&question.profile, &laps);
        }
        self.hand_over(question, error.map(|why| format!("{why:?}")));
    }

    pub(super) fn end(&self, why: impl std::fmt::Display) {
        let under_way = std::mem::take(&mut lock(&self.inner).under_way);
        for question in under_way.into_values() {
            self.hand_over(question, Some(why.to_string()));
        }
    }

    /// The median and the 99th percentile of the last round trips in microseconds; `None` before the first.
    pub(super) fn quantiles(&self) -> Option<[u64; 2]> {
        let mut took: Vec<u64> = lock(&self.inner).took_us.iter().copied().collect();
        took.sort_unstable();
        let last = took.len().checked_sub(1)?;
        let at = |percent: usize| took.get((took.len() * percent).div_ceil(100).saturating_sub(1).min(last)).copied();
        Some([at(50)?, at(99)?])
    }

    fn hand_over(&self, question: Question, error: Option<String>) {
        let Question { begun, traced, .. } = question;
        let Some(Traced { context, parent }) = traced else { return };
        self.spans.hand_over(Span {
            context,
            parent: Some(parent),
            name: "ask worker".into(),
            kind: Kind::Client,
            from: self.spans.wall(begun),
            until: self.spans.wall(Instant::now()),
            attributes: vec![
                ("rpc.system", Value::from("grpc")),
                ("rpc.service", Value::from(flotilla_proto::SERVICE_NAME)),
                ("server.address", Value::from(self.address.to_string())),
            ],
            links: Vec::new(),
            error,
        });
    }
}

/// A lap of a plugin of this registry; another release may have more plugins.
fn read(registry: Registry, lap: &pb::Lap) -> Option<PluginLap> {
    let plugin = registry.find(&lap.plugin)?.name();
    let point = match lap.point() {
        pb::LapPoint::Filter => Point::Filter,
        pb::LapPoint::Score => Point::Score,
        pb::LapPoint::Unspecified => return None,
    };
    (lap.nodes > 0).then(|| PluginLap { plugin, point, nodes: lap.nodes, took: Duration::from_nanos(lap.took_ns) })
}

#[cfg(test)]
mod tests {
    use flotilla_framework::{class::ClassId, extension::Facts};

    use super::*;

    fn questions() -> Questions {
        Questions::new(Registry::built_in(), Spans::default(), Arc::new(|_, _| {}), "worker:1".into())
    }

    fn evaluate(request: RequestId) -> ToWorker {
        let (profile, facts, trace) = ("default-scheduler".into(), Facts::default(), "".into());
        let command =
            Command::Evaluate { request, generation: 1, profile, class: ClassId(1), facts: facts.into(), k: 1, trace };
        ToWorker { epoch: 1, revision: 1, command }
    }

    fn answer(request: RequestId) -> FromWorker {
        FromWorker { epoch: 1, revision: 1, reply: Reply::DryRunResults { request, outcomes: Vec::new() } }
    }

    #[test]
    fn half_and_nearly_all_of_the_answers_are_told_apart() {
        let questions = questions();
        assert_eq!(questions.quantiles(), None);
        lock(&questions.inner).took_us.extend(1..=100);
        assert_eq!(questions.quantiles(), Some([50, 99]));
        lock(&questions.inner).took_us = [7].into();
        assert_eq!(questions.quantiles(), Some([7, 7]));
    }

    #[test]
    fn an_answer_to_what_was_not_asked_counts_for_nothing_and_no_more_is_kept_than_fits() {
        let questions = questions();
        questions.answered(&answer(1), &[]);
        assert_eq!(questions.quantiles(), None);
        for request in 0..1_000 {
            questions.ask(&mut evaluate(request));
            questions.answered(&answer(request), &[]);
        }
        assert_eq!(lock(&questions.inner).took_us.len(), TRIPS);
        (0..1_000).for_each(|request| _ = questions.ask(&mut evaluate(request)));
        assert_eq!(lock(&questions.inner).under_way.len(), UNDER_WAY);
    }

    #[test]
    fn one_evaluation_in_ten_is_timed_and_what_is_said_of_unknown_plugins_is_passed_over() {
        let questions = questions();
        let timed = (0..100).filter(|&request| questions.ask(&mut evaluate(request))).count();
        assert_eq!(timed, 10);
        let lap = |plugin: &str, point: pb::LapPoint, nodes| pb::Lap {
            plugin: plugin.to_owned(),
            point: point.into(),
            nodes,
            took_ns: 5_000,
        };
        let laps = [
            lap("NodePorts", pb::LapPoint::Filter, 5),
            lap("Nobody", pb::LapPoint::Filter, 5),
            lap("NodePorts", pb::LapPoint::Unspecified, 5),
            lap("ImageLocality", pb::LapPoint::Score, 0),
        ];
        let read: Vec<_> = laps.iter().filter_map(|lap| read(Registry::built_in(), lap)).collect();
        let took = Duration::from_micros(5);
        assert_eq!(read, [PluginLap { plugin: "NodePorts", point: Point::Filter, nodes: 5, took }]);
    }
}
