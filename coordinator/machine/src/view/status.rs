//! Gauges and counters of the machine, with the names and help texts of their metrics.

/// A metric without labels: name, help text and value.
pub type Number = (&'static str, &'static str, u64);

/// Declares [`Status`] and the metric of each field. `Machine::status` sets the gauges; the code that counts sets the counters.
macro_rules! numbers {
    (
        gauges { $($gauge:ident $gauge_name:literal $gauge_help:literal;)* }
        counters { $($counter:ident $counter_name:literal $counter_help:literal;)* }
        parts { $($(#[$part_doc:meta])* $part:ident;)* }
    ) => {
        /// Current gauges, and counters since the start.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Status {
            $(#[doc = $gauge_help] pub $gauge: u64,)*
            $(#[doc = $counter_help] pub $counter: u64,)*
            $($(#[$part_doc])* pub $part: u64,)*
        }

        impl Status {
            /// The gauges with their own metric.
            #[must_use]
            pub fn gauges(&self) -> Vec<Number> {
                vec![$(($gauge_name, $gauge_help, self.$gauge)),*]
            }

            /// The counters with their own metric.
            #[must_use]
            pub fn counters(&self) -> Vec<Number> {
                vec![$(($counter_name, $counter_help, self.$counter)),*]
            }

            /// Adds the counters of another status.
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
        leading "flotilla_leading" "1 if this process is the leader";
        synced "flotilla_synced" "1 if the initial lists are complete";
        epoch "flotilla_epoch" "Epoch of the leadership, 0 for a follower";
        generation "flotilla_configuration_generation" "Generation of the current configuration";
        nodes "flotilla_nodes" "Known nodes";
        workers "flotilla_workers" "Connected workers";
        workers_ready "flotilla_workers_ready"
            "Workers with the current configuration and shard, and without overdue answers";
        workers_quarantined "flotilla_workers_quarantined" "Quarantined workers";
        pods_untold "flotilla_pods_untold"
            "Pods of classes too large for workers; the coordinator evaluates their nodes";
        binds_in_flight "flotilla_binds_in_flight" "Binds in flight";
        evaluations_in_flight "flotilla_evaluations_in_flight" "Evaluations in flight to workers";
        extensions_in_flight "flotilla_extensions_in_flight" "1 while a call of extenders is in flight";
        pod_groups "flotilla_pod_groups" "Known pod groups";
        // Includes groups without a turn.
        pods_in_groups "flotilla_pods_in_groups" "Pods waiting with a pod group";
        // Includes placed pods with ignored affinities.
        pods_too_large "flotilla_pods_too_large" "Pods not tried because they are too large";
        classes "flotilla_classes" "Known classes of pods";
        text_bytes "flotilla_text_bytes" "Bytes of current and former strings of nodes";
        class_bytes "flotilla_class_bytes" "Bytes of the classes of pods";
        fact_bytes "flotilla_fact_bytes" "Bytes of the cluster-wide facts about classes";
        decisions_kept "flotilla_decisions_kept" "Decisions kept for explanations";
        decision_bytes "flotilla_decision_bytes" "Bytes of the kept decisions";
        resource_bytes "flotilla_resource_bytes" "Bytes of the amounts of extended resources";
        taint_sets "flotilla_taint_sets" "Current and former sets of taints of nodes";
        event_work_largest "flotilla_event_work_largest" "Largest work of one event, in units of some 10 ns";
        revision "flotilla_revision" "Number of changes of the cluster so far";
        preparations "flotilla_volume_preparations" "Pods in PreBind";
        preemptions_in_flight "flotilla_preemptions_in_flight" "Preemptions in flight";
        victims_in_flight "flotilla_victims_in_flight" "Victims of the preemptions in flight";
    }
    counters {
        compacted "flotilla_tables_compacted_total" "Compactions of tables of former node strings";
        pods_signed_again "flotilla_pods_signed_again_total"
            "Pod classes recomputed because of changes of other objects";
        events_cut "flotilla_events_cut_total" "Events ended by the work limit while pods waited";
        plugin_panics "flotilla_plugin_panics_total" "Contained panics of plugins";
        decisions "flotilla_decisions_total" "Scheduling decisions with any result";
        placed "flotilla_placed_total" "Decisions that placed a pod";
        unschedulable "flotilla_unschedulable_total" "Decisions without a feasible node";
        groups_placed "flotilla_pod_groups_placed_total" "Attempts that placed enough pods of a pod group";
        groups_refused "flotilla_pod_groups_refused_total" "Attempts that could not place enough pods of a pod group";
        bind_failures "flotilla_bind_failures_total" "Failed binds";
        // One per class and round.
        evaluations_asked "flotilla_evaluations_asked_total" "Evaluations requested from workers";
        evaluations_local "flotilla_evaluations_local_total"
            "Evaluations by the coordinator because no worker was ready";
        evaluations_partial "flotilla_evaluations_partial_total"
            "Evaluations partly by the coordinator, for nodes without a ready worker";
        answers_late "flotilla_answers_late_total" "Overdue answers of workers";
        evaluations_refuted "flotilla_evaluations_refuted_total"
            "Evaluations of workers with incorrect counts over domains";
        offers_used "flotilla_offers_used_total" "Decisions for an unchanged offer of a worker";
        offers_repaired "flotilla_offers_repaired_total" "Decisions for a node that the coordinator evaluated again";
        offers_dry "flotilla_offers_dry_total" "Times a class had no offers left";
        offers_refuted "flotilla_offers_refuted_total"
            "Best nodes that the coordinator did not confirm";
        refusals_refuted "flotilla_refusals_refuted_total"
            "Incorrect infeasible or error results of workers";
        answers_refused "flotilla_answers_refused_total" "Rejected answers of workers";
        answers_unasked "flotilla_answers_unasked_total" "Unexpected messages of workers";
        extensions_asked "flotilla_extensions_asked_total" "Calls of extenders";
        extensions_discarded "flotilla_extensions_discarded_total" "Discarded answers of extenders";
        extensions_lost "flotilla_extensions_lost_total" "Lost answers of extenders";
        workers_dropped "flotilla_workers_dropped_total" "Dropped workers";
        // Each indicates a missed wake-up.
        flushed "flotilla_flushed_total" "Unschedulable pods retried without an event";
        invariant_violations "flotilla_invariant_violations_total" "Violated invariants found by audits";
        preemption_victims "flotilla_preemption_victims_total" "Preemption victims";
    }
    // Samples of metrics with labels, which the exporter assembles.
    parts {
        /// Preemption attempts; kube-scheduler's `preemption_attempts_total`.
        preemption_attempts;
        /// Pods in activeQ.
        pods_active;
        /// Pods in backoffQ.
        pods_backoff;
        /// Unschedulable pods.
        pods_unschedulable;
        /// Gated pods.
        pods_gated;
        /// Kinds of pods in backoffQ that were checked against a node before a later pod takes it.
        ahead_asked;
        /// Those that went first, because the node was feasible.
        ahead_first;
        /// Those beyond the limit, which were not checked.
        ahead_unasked;
        /// Preemptions.
        preemptions;
        /// Preemptions with a failed deletion.
        preemptions_failed;
        /// Preemptions postponed because of too many victims in flight.
        preemptions_postponed;
        /// Pods that waited to preempt because of many victims in flight.
        preemptions_delayed;
        /// Answers to abandoned preemptions.
        preemptions_discarded;
        /// Dry runs of preemption sent to workers, one per pod and round.
        dry_runs_asked;
        /// Dry runs of preemption on the coordinator.
        dry_runs_local;
        /// Late answers to dry runs.
        dry_runs_discarded;
        /// Candidates of workers that the coordinator's dry run refuted.
        dry_runs_refuted;
    }
}
