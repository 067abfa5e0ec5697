//! What the machine looks like from outside, in numbers.
//!
//! Knows: what is worth a metric, and the metric's name and help text. Must not know: any exporter, or what moves a number.

/// A metric of one number: its name, its help text and its value.
pub type Number = (&'static str, &'static str, u64);

/// Declares [`Status`] and the metric of each field. `Machine::status` sets the gauges; the code that counts sets the counters.
macro_rules! numbers {
    (
        gauges { $($gauge:ident $gauge_name:literal $gauge_help:literal;)* }
        counters { $($counter:ident $counter_name:literal $counter_help:literal;)* }
        parts { $($(#[$part_doc:meta])* $part:ident;)* }
    ) => {
        /// Gauges and counters. Gauges are of the moment; counters count since the start.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Status {
            $(#[doc = $gauge_help] pub $gauge: u64,)*
            $(#[doc = $counter_help] pub $counter: u64,)*
            $($(#[$part_doc])* pub $part: u64,)*
        }

        impl Status {
            /// The gauges that are metrics by themselves.
            #[must_use]
            pub fn gauges(&self) -> Vec<Number> {
                vec![$(($gauge_name, $gauge_help, self.$gauge)),*]
            }

            /// The counters that are metrics by themselves.
            #[must_use]
            pub fn counters(&self) -> Vec<Number> {
                vec![$(($counter_name, $counter_help, self.$counter)),*]
            }

            /// Adds what others have counted.
            pub(crate) const fn plus(&self, other: &Self) -> Self {
                Self {
                    $($gauge: self.$gauge + other.$gauge,)*
                    $($counter: self.$counter + other.$counter,)*
                    $($part: self.$part + other.$part,)*
                }
            }
        }
    };
}

numbers! {
    gauges {
        leading "flotilla_leading" "1 while this process leads";
        synced "flotilla_synced" "1 once the view of the cluster is whole";
        epoch "flotilla_epoch" "The epoch of the lead, 0 for a follower";
        generation "flotilla_configuration_generation" "The configuration in force";
        nodes "flotilla_nodes" "Nodes known";
        workers "flotilla_workers" "Workers attached";
        workers_ready "flotilla_workers_ready"
            "Workers that hold their shard and the configuration, and answer in time";
        workers_quarantined "flotilla_workers_quarantined" "Workers that are kept away for a while";
        pods_untold "flotilla_pods_untold"
            "Pods whose class is too large to be told to workers, so that their nodes are judged here";
        binds_in_flight "flotilla_binds_in_flight" "Binds that the machine waits for";
        evaluations_in_flight "flotilla_evaluations_in_flight" "Evaluations under way at workers";
        extensions_in_flight "flotilla_extensions_in_flight" "1 while extenders are asked about a pod";
        pod_groups "flotilla_pod_groups" "Pod groups known";
        // Whether the group has its turn yet or not.
        pods_in_groups "flotilla_pods_in_groups" "Pods that wait with a pod group";
        // Or are on a node, and their wishes about other pods do not count.
        pods_too_large "flotilla_pods_too_large" "Pods that are not tried because they are too large";
        classes "flotilla_classes" "Classes of pods known";
        text_bytes "flotilla_text_bytes" "Bytes of the strings that nodes have, or had";
        class_bytes "flotilla_class_bytes" "Bytes of the classes of pods";
        fact_bytes "flotilla_fact_bytes" "Bytes of what the whole cluster says about classes";
        decisions_kept "flotilla_decisions_kept" "Decisions that are kept to be explained";
        decision_bytes "flotilla_decision_bytes" "Bytes of the decisions that are kept";
        resource_bytes "flotilla_resource_bytes" "Bytes of the amounts of extended resources";
        taint_sets "flotilla_taint_sets" "Sets of taints that nodes have, or had";
        event_work_largest "flotilla_event_work_largest" "Largest work of one event, in units of some 10 ns";
        revision "flotilla_revision" "Changes of the cluster so far";
        preparations "flotilla_volume_preparations" "Pods whose volumes are being bound, before they are";
        preemptions_in_flight "flotilla_preemptions_in_flight" "Preemptions whose victims are being deleted";
        victims_in_flight "flotilla_victims_in_flight" "Pods that are being deleted for others";
    }
    counters {
        compacted "flotilla_tables_compacted_total" "Times that what no node has any more was cleared away";
        pods_signed_again "flotilla_pods_signed_again_total"
            "Times that a pod's class was computed again because another object changed";
        events_cut "flotilla_events_cut_total" "Events that ended by their work while pods waited";
        plugin_panics "flotilla_plugin_panics_total" "Panics of plugins that were contained";
        decisions "flotilla_decisions_total" "Decisions, whatever their outcome";
        placed "flotilla_placed_total" "Pods that got a node";
        unschedulable "flotilla_unschedulable_total" "Verdicts that no node will do";
        groups_placed "flotilla_pod_groups_placed_total" "Attempts that placed enough pods of a pod group";
        groups_refused "flotilla_pod_groups_refused_total" "Attempts that found no place for enough pods";
        bind_failures "flotilla_bind_failures_total" "Binds that failed";
        // One for each class and round.
        evaluations_asked "flotilla_evaluations_asked_total" "Evaluations asked of workers";
        evaluations_local "flotilla_evaluations_local_total" "Evaluations made here for want of workers";
        evaluations_partial "flotilla_evaluations_partial_total"
            "Evaluations of which a part was made here, for nodes of workers that were not ready";
        answers_late "flotilla_answers_late_total" "Answers of workers that were not waited for any more";
        evaluations_refuted "flotilla_evaluations_refuted_total"
            "Evaluations of workers whose counts over domains were not ours";
        offers_used "flotilla_offers_used_total" "Decisions for an offer as it came from a worker";
        offers_repaired "flotilla_offers_repaired_total" "Decisions for a node that was judged anew here";
        offers_dry "flotilla_offers_dry_total" "Times that the offers of a class ran dry";
        offers_refuted "flotilla_offers_refuted_total"
            "Nodes that were to be chosen and were not what had been said of them";
        refusals_refuted "flotilla_refusals_refuted_total"
            "Times that workers said that no node will do, or that a filter failed, and that was not so";
        answers_refused "flotilla_answers_refused_total" "Answers of workers that no worker with its shard can give";
        answers_unasked "flotilla_answers_unasked_total" "Messages of workers that nothing had asked for";
        extensions_asked "flotilla_extensions_asked_total" "Pods that extenders were asked about";
        extensions_discarded "flotilla_extensions_discarded_total" "Answers of extenders that came too late to count";
        extensions_lost "flotilla_extensions_lost_total" "Answers of extenders that never came";
        workers_dropped "flotilla_workers_dropped_total" "Workers given up for silence or nonsense";
        // Each is a wake-up that was missed.
        flushed "flotilla_flushed_total" "Pods tried again only because they had waited too long";
        invariant_violations "flotilla_invariant_violations_total" "Broken invariants that the audit found";
        preemption_victims "flotilla_preemption_victims_total" "Pods that were to make room";
    }
    // Each is a sample of a family whose samples differ in a label, so that the family is put together by the exporter.
    parts {
        /// Pods that no node would take and that room was looked for; upstream's `preemption_attempts_total`.
        preemption_attempts;
        /// Pods in activeQ.
        pods_active;
        /// Pods in backoffQ.
        pods_backoff;
        /// Pods that no node would take.
        pods_unschedulable;
        /// Pods kept out of the queue.
        pods_gated;
        /// Kinds of pods in backoffQ that were asked about a node before a pod that comes after them took it.
        ahead_asked;
        /// Of those, the ones that went first, for the node was feasible for them.
        ahead_first;
        /// Of those, the ones beyond the bound, which were not asked.
        ahead_unasked;
        /// Pods that others made room for.
        preemptions;
        /// Preemptions in which a victim could not be deleted.
        preemptions_failed;
        /// Preemptions that had to wait because too many victims were under way.
        preemptions_postponed;
        /// Answers to preemptions that had been given up when they came.
        preemptions_discarded;
        /// Dry runs of preemption asked of workers, one for each pod and round.
        dry_runs_asked;
        /// Dry runs of preemption made here.
        dry_runs_local;
        /// Dry runs whose answers did not count any more when they came.
        dry_runs_discarded;
        /// Candidates of workers that the dry run of the coordinator refuted.
        dry_runs_refuted;
    }
}
