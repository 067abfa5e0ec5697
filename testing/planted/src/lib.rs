//! Named defects that tests can switch on, to test the simulation.
//!
//! Where code keeps an invariant of docs/concepts/reliability.md, `planted("a-name")` disables it. Most defects are at a boundary: of the
//! machine (`simulation/src/defects.rs`) or of the API server's client. [`limit`] and [`loses`] are such places in the pure crates. Only
//! the simulation builds with the feature `planted`; otherwise no defect can be planted.
//!
//! The feature also meters work: code that loops over the contents of objects counts units of about 10 ns, and the simulation limits the
//! work per event. Nothing is timed, so a run has the same numbers on every machine.
//!
//! Contains: names of defects, and the work of an event. Does not depend on: the code with defects.

/// All defects, with the symptom that a simulation must detect.
pub const DEFECTS: &[(&str, &str)] = &[
    ("assumes-nothing", "S2: an assumed pod's requests are not added to its node"),
    ("backs-off-for-ever", "L1: a backoff never expires"),
    ("believes-workers", "the node of an offer is not verified against the coordinator's own snapshot (R1)"),
    ("binds-before-volumes", "V1: a pod does not wait for its volumes"),
    ("binds-by-name", "S4: a binding does not name the UID"),
    ("binds-without-a-lead", "S5: a request is sent after leadership has ended"),
    ("confuses-namesakes", "a new pod of the same name does not end the old pod"),
    (
        "counts-its-lead-from-the-answer",
        "S5: the Lease is counted from the answer to the renewal, not from its request",
    ),
    ("evicts-by-name", "S4: a deletion does not name the UID"),
    ("evicts-first", "P3: a pod preempts before it searches for a feasible node"),
    ("formats-any-precision", "O1: a selector formats with more decimals than Rust can (H1)"),
    ("guesses-bound", "L1: a binding without an answer counts as bound"),
    ("guesses-unbound", "S2: a binding without an answer counts as failed"),
    ("ignores-budgets", "P2: PodDisruptionBudgets are ignored"),
    ("ignores-cordons", "S6: pods are bound to cordoned nodes"),
    ("ignores-deleted-nodes", "S6: a deleted node stays in the cache"),
    ("ignores-deleted-pods", "L1: a deleted pod stays in the cache"),
    ("ignores-restores", "L1: objects that a restored backup removed stay in the cache (R14)"),
    ("ignores-taint-rules", "D4: DeviceTaintRules are ignored"),
    ("keeps-nominations", "L1: a nomination never ends"),
    ("keeps-what-a-list-lacks", "L1: an object that is missing in a relist stays in the cache"),
    ("lets-lower-priorities-first", "P4: a pod takes a node that one of higher priority in backoff waits for"),
    ("lets-panics-through", "L1: a panic of a plugin ends the process, and the next leader's (H1)"),
    ("listens-without-end", "W2: a worker that repeats its answers is not disconnected (H10)"),
    ("loses-errors", "L1: an attempt that failed is not repeated"),
    ("makes-results-of-any-size", "W1: an evaluation of a selector makes values without a bound (H3)"),
    ("never-forgets", "L1: a pod is not forgotten when its bind fails"),
    ("never-retries-a-bind", "L1: a pod is not requeued when its bind fails"),
    ("pauses-all-for-one", "L1: a 429 for one pod pauses the bindings of all (H9)"),
    ("releases-too-early", "S5: the Lease is released while binds are in flight (R9)"),
    ("repeats-the-epoch", "S5: a new leader has the previous leader's epoch, so that workers obey both"),
    ("reserves-nothing", "D1: devices are not reserved for an assumed pod"),
    ("searches-without-end", "W1: an attempt searches for devices without a bound (H2)"),
    ("signs-for-each-requirement", "W1: a pod is signed once for each requirement of a new selector (H4)"),
    ("skips-the-barrier", "S2: a new leader does not wait for the previous leader's requests (R9)"),
    ("sorts-without-an-order", "O1: a selector sorts NaN as equal to all numbers (H1)"),
    ("stands-too-early", "L6: a process stands for election before its initial lists complete (R8)"),
    ("takes-nodes-of-any-size", "S6: a node with too many labels or resources is accepted (H5)"),
    ("takes-ports-one-by-one", "W1: the ports of a deleted pod are searched one by one (H12)"),
    ("takes-selectors-of-any-size", "W1: a Service or disruption budget may select by any number of labels (H8)"),
    ("throttled-is-done", "L1: a request answered with 429 counts as done (R12)"),
    ("trusts-refusals", "L1: a worker's result without feasible nodes is not verified (R6)"),
    ("waits-for-late-workers", "L1: the coordinator waits for a silent worker without a deadline (R10)"),
    ("waits-for-silent-watches", "L1: a silent watch is kept (R15)"),
    ("wakes-itself", "L7: a status update of a pod contains the time and requeues the pod at once"),
    ("wakes-nobody-for-changed-nodes", "L1: a changed node wakes no pod"),
    ("wakes-nobody-for-deleted-rules", "L1: a deleted DeviceTaintRule wakes no pod (H7)"),
    ("wakes-nobody-for-new-nodes", "L1: a new node wakes no pod"),
    ("wakes-nobody-for-pods-that-go", "L1: a deleted pod wakes no other pod"),
    ("works-without-end", "W1: one event schedules all pending pods without a limit (H6)"),
];

/// Whether work is metered and expensive checks run.
pub const METERED: bool = cfg!(feature = "planted");

#[cfg(feature = "planted")]
mod on {
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<&'static str>> = const { Cell::new(None) };
    }

    /// Plants a defect for this thread; `None` removes it.
    ///
    /// # Panics
    /// If no defect has this name.
    pub fn plant(name: Option<&str>) {
        let known = name.map(|name| {
            let found = super::DEFECTS.iter().find(|(known, _)| *known == name);
            found.map_or_else(|| panic!("there is no defect {name:?}"), |(known, _)| *known)
        });
        PLANTED.set(known);
    }

    /// Whether this defect is planted.
    #[must_use]
    pub fn planted(name: &str) -> bool {
        debug_assert!(super::DEFECTS.iter().any(|(known, _)| *known == name), "{name} is not in the list");
        PLANTED.get() == Some(name)
    }

    /// Whether pods do not wake for an event with this label of kube-scheduler. `removes`: an object of devices is deleted.
    #[must_use]
    pub fn loses(label: &str, removes: bool) -> bool {
        match PLANTED.get() {
            Some("wakes-nobody-for-new-nodes") => label == "NodeAdd",
            Some("wakes-nobody-for-changed-nodes") => label.starts_with("NodeUpdate"),
            Some("wakes-nobody-for-pods-that-go") => label == "AssignedPodDelete",
            // Rules have the label of the slices that they taint.
            Some("wakes-nobody-for-deleted-rules") => removes && label == "resource.k8s.io/ResourceSliceUpdate",
            _ => false,
        }
    }
}

/// No defect is planted.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn planted(_name: &str) -> bool {
    false
}

/// Every event wakes pods.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn loses(_label: &str, _removes: bool) -> bool {
    false
}

/// The unchanged limit.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn limit(_defect: &str, bound: u64) -> u64 {
    bound
}

/// As [`scaled`]; with this defect there is no limit.
#[cfg(feature = "planted")]
#[must_use]
pub fn limit(defect: &str, bound: u64) -> u64 {
    if planted(defect) { u64::MAX } else { scaled(bound) }
}

/// Divisor of some limits in simulations, so that cheap objects reach them.
#[cfg(feature = "planted")]
const SCALE: u64 = 512;

/// The unchanged limit.
#[cfg(not(feature = "planted"))]
#[must_use]
#[inline(always)]
pub const fn scaled(bound: u64) -> u64 {
    bound
}

#[cfg(feature = "planted")]
static SCALED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Makes [`scaled`] limits those of simulations in the whole process.
#[cfg(feature = "planted")]
pub fn scale_bounds() {
    SCALED.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// A limit, which is smaller in simulations.
#[cfg(feature = "planted")]
#[must_use]
pub fn scaled(bound: u64) -> u64 {
    if SCALED.load(std::sync::atomic::Ordering::Relaxed) { bound / SCALE } else { bound }
}

/// Counts nothing.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn spend(_units: u64) {}

/// Measures no event.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn begin_event() {}

/// Measures no event.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn end_event() {}

#[cfg(feature = "planted")]
mod meter {
    use std::cell::Cell;

    thread_local! {
        /// Work of the current event; `None` between events.
        static EVENT: Cell<Option<u64>> = const { Cell::new(None) };
        static MOST: Cell<u64> = const { Cell::new(0) };
    }

    /// Begins an event on this thread.
    pub fn begin_event() {
        EVENT.set(Some(0));
    }

    /// Ends the event.
    pub fn end_event() {
        let taken = EVENT.take().unwrap_or_default();
        MOST.set(MOST.get().max(taken));
    }

    /// Counts units of work during an event.
    pub fn spend(units: u64) {
        EVENT.set(EVENT.get().map(|taken| taken.saturating_add(units)));
    }

    /// The maximum work of an event since the last call.
    #[must_use]
    pub fn take_most() -> u64 {
        MOST.take()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_what_is_done_within_an_event_counts_and_the_largest_is_known() {
            spend(1_000);
            for rounds in [3, 7, 2] {
                begin_event();
                spend(rounds);
                spend(1);
                end_event();
            }
            spend(1_000);
            assert_eq!((take_most(), take_most()), (8, 0));
        }
    }
}

#[cfg(feature = "planted")]
pub use meter::{begin_event, end_event, spend, take_most};
#[cfg(feature = "planted")]
pub use on::{loses, plant, planted};
