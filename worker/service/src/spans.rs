//! Spans of traced evaluations.

use std::time::Instant;

use flotilla_framework::{
    evaluation::Evaluation,
    shard::{Command, FromWorker, Reply, ToWorker},
    trace::Context,
};
use flotilla_spans::{Kind, Span, Spans, Value};

#[derive(Debug)]
pub(crate) struct Begun {
    asker: Context,
    begun: Instant,
    attributes: Vec<(&'static str, Value)>,
}

impl Begun {
    /// `None` if not traced.
    pub(crate) fn of(word: &ToWorker, spans: &Spans) -> Option<Self> {
        let Command::Evaluate { profile, class, k, trace, .. } = &word.command else { return None };
        if trace.is_empty() || !spans.are_wanted() {
            return None;
        }
        let (asker, _) = Context::parse(trace).ok().filter(|(_, is_recorded)| *is_recorded)?;
        let attributes = vec![
            ("flotilla.profile", Value::from(profile.to_string())),
            ("flotilla.class", number(class.0)),
            ("flotilla.revision", number(word.revision)),
            ("flotilla.offers.wanted", number(u64::from(*k))),
        ];
        Some(Self { asker, begun: Instant::now(), attributes })
    }

    pub(crate) fn end(mut self, answer: Option<&FromWorker>, spans: &Spans) {
        let error = match answer.map(|answer| &answer.reply) {
            Some(Reply::Evaluated { evaluation, .. }) => {
                self.attributes.extend(told(evaluation));
                None
            }
            Some(Reply::Unable { why, .. }) => Some(format!("{why:?}")),
            _ => Some("there is no answer".to_owned()),
        };
        tracing::debug!(trace_id = %self.asker.trace_id(), error, "evaluated");
        spans.hand_over(Span {
            context: self.asker.child("worker", 0),
            parent: Some(self.asker.span),
            name: "evaluate shard".into(),
            kind: Kind::Server,
            from: spans.wall(self.begun),
            until: spans.wall(Instant::now()),
            attributes: self.attributes,
            links: Vec::new(),
            error,
        });
    }
}

fn told(evaluation: &Evaluation) -> [(&'static str, Value); 3] {
    let feasible = evaluation.strata.iter().map(|stratum| u64::from(stratum.size)).sum();
    let offers = evaluation.strata.iter().map(|stratum| stratum.offers.len() as u64).sum();
    [
        ("flotilla.nodes", number(u64::from(evaluation.covered))),
        ("flotilla.nodes.feasible", number(feasible)),
        ("flotilla.offers", number(offers)),
    ]
}

fn number(number: u64) -> Value {
    Value::I64(i64::try_from(number).unwrap_or(i64::MAX))
}
