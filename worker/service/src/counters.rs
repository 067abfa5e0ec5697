//! Counters of a worker.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Registry, core::Collector, exponential_buckets};

/// Creates and registers metrics. All names are constants in this file.
struct Making(Registry);

impl Making {
    fn register<C: Collector + Clone + 'static>(&self, made: prometheus::Result<C>) -> C {
        let collector = made.expect("the names and buckets of this file are valid");
        self.0.register(Box::new(collector.clone())).expect("each name is registered once");
        collector
    }

    fn counter(&self, name: &str, help: &str) -> Counter {
        Counter(self.register(IntCounter::new(name, help)))
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.register(IntGauge::new(name, help))
    }
}

/// Declares and registers counters: field, metric name, help text. [`Counts`] has those of `read`.
macro_rules! counters {
    (
        read { $($read:ident $read_name:literal $read_help:literal;)* }
        others { $($other:ident $name:literal $help:literal;)* }
    ) => {
        /// Counts since the start of a worker, shared by all its streams.
        #[derive(Debug)]
        pub struct Counters {
            registry: Registry,
            $(pub(crate) $read: Counter,)*
            $(pub(crate) $other: Counter,)*
            nodes: IntGauge,
            revision: IntGauge,
            evaluations: Histogram,
        }

        /// A snapshot of [`Counters`].
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counts {
            $(#[doc = $read_help] pub $read: u64,)*
        }

        impl Default for Counters {
            fn default() -> Self {
                let registry = Registry::new();
                let make = Making(registry.clone());
                let buckets = exponential_buckets(0.000_05, 2.0, 16);
                let evaluation = HistogramOpts::new(
                    "flotilla_worker_evaluation_duration_seconds",
                    "Evaluations of a class over the nodes of this worker",
                );
                let evaluation = buckets.and_then(|buckets| Histogram::with_opts(evaluation.buckets(buckets)));
                Self {
                    $($read: make.counter($read_name, $read_help),)*
                    $($other: make.counter($name, $help),)*
                    nodes: make.gauge("flotilla_worker_nodes", "Nodes in the shard of the last leader"),
                    revision: make
                        .gauge("flotilla_worker_revision", "Revision of the cluster state in the last message of the leader"),
                    evaluations: make.register(evaluation),
                    registry,
                }
            }
        }

        impl Counters {
            /// The current counts.
            #[must_use]
            pub fn read(&self) -> Counts {
                Counts { $($read: self.$read.get()),* }
            }
        }
    };
}

counters! {
    read {
        attached "flotilla_worker_streams_attached_total" "Streams of attached leaders";
        refused "flotilla_worker_streams_refused_total" "Streams rejected for their number or an old leader";
        // Each ended its stream.
        unreadable "flotilla_worker_messages_unreadable_total" "Messages that could not be read";
        panicked "flotilla_worker_panics_total" "Evaluations and dry runs that panicked";
        words "flotilla_worker_messages_received_total" "Messages received";
        words_waited "flotilla_worker_messages_waited_total" "Messages that waited for a full channel";
        answers "flotilla_worker_answers_total" "Messages sent";
        answers_waited "flotilla_worker_answers_waited_total" "Answers that waited for a full channel";
        answers_too_large "flotilla_worker_answers_too_large_total"
            "Answers larger than a message";
    }
    others {
        word_bytes "flotilla_worker_received_bytes_total" "Bytes of messages received, without framing";
        answer_bytes "flotilla_worker_sent_bytes_total" "Bytes of messages sent, without framing";
    }
}

impl Counters {
    pub(crate) fn stands(&self, nodes: usize, revision: u64) {
        self.nodes.set(i64::try_from(nodes).unwrap_or(i64::MAX));
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
    }

    pub(crate) fn evaluated(&self, took: Duration) {
        self.evaluations.observe(took.as_secs_f64());
    }

    /// The registry for `/metrics`.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// One count. Counts have no ordering guarantee.
#[derive(Debug)]
pub(crate) struct Counter(IntCounter);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.inc();
    }

    pub(crate) fn add_many(&self, count: usize) {
        self.0.inc_by(count as u64);
    }

    fn get(&self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    #[test]
    fn a_worker_tells_what_it_holds_and_how_long_evaluations_took() {
        let counters = Counters::default();
        counters.stands(5_000, 17);
        counters.evaluated(Duration::from_micros(150));
        counters.words.add();
        let text = TextEncoder::new().encode_to_string(&counters.registry().gather()).expect("text");
        for line in [
            "flotilla_worker_nodes 5000\n",
            "flotilla_worker_revision 17\n",
            "flotilla_worker_messages_received_total 1\n",
            "flotilla_worker_evaluation_duration_seconds_bucket{le=\"0.0001\"} 0\n",
            "flotilla_worker_evaluation_duration_seconds_bucket{le=\"0.0002\"} 1\n",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }
}
