//! What one worker is asked that somebody traces, as spans from the question to the answer.
//!
//! Knows: which words are questions and answers, and when they go over the stream. Must not know: what they say.
//!
//! One stream carries all questions to a worker, for as long as both live, so that a context cannot be in gRPC's metadata:
//! each question names its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Instant,
};

use flotilla_framework::{
    shard::{Command, FromWorker, Reply, RequestId, ToWorker},
    trace::Context,
};
use flotilla_telemetry::{Kind, Span, Spans, Value};

use super::lock;

/// Questions that were not answered yet.
pub(super) struct Asked {
    spans: Spans,
    address: Arc<str>,
    under_way: Mutex<BTreeMap<RequestId, UnderWay>>,
}

struct UnderWay {
    context: Context,
    parent: u64,
    begun: Instant,
}

impl Asked {
    pub(super) fn new(spans: Spans, address: Arc<str>) -> Self {
        Self { spans, address, under_way: Mutex::default() }
    }

    /// A word goes out. A question that is traced names the span of asking this worker from here on.
    pub(super) fn ask(&self, word: &mut ToWorker) {
        let Command::Evaluate { request, trace, .. } = &mut word.command else { return };
        if trace.is_empty() || !self.spans.are_wanted() {
            return;
        }
        let Ok((asker, _)) = Context::parse(trace) else { return };
        let context = asker.child(&self.address, 0);
        *trace = context.to_string().into();
        let under_way = UnderWay { context, parent: asker.span, begun: Instant::now() };
        lock(&self.under_way).insert(*request, under_way);
    }

    /// A word came in.
    pub(super) fn answered(&self, word: &FromWorker) {
        if !self.spans.are_wanted() {
            return;
        }
        let (request, error) = match &word.reply {
            Reply::Evaluated { request, .. } => (request, None),
            Reply::Unable { request, why } => (request, Some(format!("{why:?}"))),
            _ => return,
        };
        let under_way = lock(&self.under_way).remove(request);
        if let Some(under_way) = under_way {
            self.hand_over(under_way, error);
        }
    }

    /// The stream has ended: nothing more is answered.
    pub(super) fn end(&self, why: impl std::fmt::Display) {
        for under_way in std::mem::take(&mut *lock(&self.under_way)).into_values() {
            self.hand_over(under_way, Some(why.to_string()));
        }
    }

    fn hand_over(&self, under_way: UnderWay, error: Option<String>) {
        let UnderWay { context, parent, begun } = under_way;
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
