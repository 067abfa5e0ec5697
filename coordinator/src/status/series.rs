//! Series of repeated events, as client-go's `events` package counts them.
//!
//! The first event is created and the second starts a series. Later ones are counted and written when the series rests or lasts long.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::events::Event;

/// Cached series and single events. kube-scheduler caches all; 65,536 of 300 B each are 20 MB, and the objects they refer to are the
/// machine's. Equal notes are shared: unschedulable pods mostly have the same.
const REMEMBERED: usize = 65_536;
/// Counts written per sweep. With a series for every pod, 1,000 each ten seconds are little load, and all are written in 11 minutes.
const WRITTEN_AT_ONCE: usize = 1_000;
/// A series that rested this long is written and dropped; a single event is dropped. As client-go.
const REST: Duration = Duration::from_secs(6 * 60);
/// A continuing series is written at this interval, so that the API server does not expire it. As client-go.
const REFRESH: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// It is new.
    Create(Event),
    /// It has occurred this often, the last time at this time.
    Count(Event, Count),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// At least 2.
    pub(super) seen: u32,
    pub(super) last: Timestamp,
}

#[derive(Debug, Default)]
pub(super) struct Series {
    remembered: HashMap<Event, Entry>,
    notes: HashSet<Arc<str>>,
}

#[derive(Debug)]
struct Entry {
    /// The time of the first occurrence, which the created event has.
    first: Timestamp,
    count: Option<Count>,
    written: Timestamp,
}

impl Series {
    /// Records an event. Returns the write that is due now.
    pub(super) fn observe(&mut self, event: Event, now: Timestamp) -> Option<Write> {
        if let Some((known, entry)) = self.remembered.get_key_value(&event) {
            let seen = entry.count.map_or(1, |count| count.seen).saturating_add(1);
            let (count, event) = (Count { seen, last: now }, Event { time: entry.first, ..known.clone() });
            let entry = self.remembered.get_mut(&event)?;
            let second = entry.count.replace(count).is_none();
            if second {
                entry.written = now;
            }
            return second.then_some(Write::Count(event, count));
        }
        // Events beyond the limit are created each time.
        let event = Event { note: self.shared(event.note), ..event };
        if self.remembered.len() < REMEMBERED {
            self.remembered.insert(event.clone(), Entry { first: event.time, count: None, written: now });
        }
        Some(Write::Create(event))
    }

    fn shared(&mut self, note: Arc<str>) -> Arc<str> {
        if let Some(known) = self.notes.get(&note) {
            return Arc::clone(known);
        }
        if self.notes.len() < REMEMBERED {
            self.notes.insert(Arc::clone(&note));
        }
        note
    }

    /// Drops rested series. Returns the counts to write.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<Write> {
        let since = |then: Timestamp| now.duration_since(then).unsigned_abs();
        let mut writes = Vec::new();
        self.remembered.retain(|event, entry| {
            let Some(count) = entry.count else { return since(entry.first) < REST };
            let rests = since(count.last) >= REST;
            if writes.len() >= WRITTEN_AT_ONCE {
                return true;
            }
            if rests || since(entry.written) >= REFRESH {
                writes.push(Write::Count(Event { time: entry.first, ..event.clone() }, count));
                entry.written = now;
            }
            !rests
        });
        self.notes.retain(|note| Arc::strong_count(note) > 1);
        writes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::events::Regarding;

    fn event(note: &str, at_s: i64) -> Event {
        Event {
            time: at(at_s),
            controller: "default-scheduler".into(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: note.into(),
            regarding: Regarding::pod("default", "web-1", "u1").at(7),
            related: None,
        }
    }

    /// Of a pod that has changed since.
    fn later(event: Event, version: u64) -> Event {
        Event { regarding: event.regarding.at(version), ..event }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("within range")
    }

    #[test]
    fn the_first_is_created_the_second_makes_a_series_and_the_third_only_counts() {
        let mut series = Series::default();
        assert_eq!(series.observe(event("no", 0), at(0)), Some(Write::Create(event("no", 0))));
        let second = Count { seen: 2, last: at(10) };
        assert_eq!(series.observe(event("no", 10), at(10)), Some(Write::Count(event("no", 0), second)));
        assert_eq!(series.observe(event("no", 20), at(20)), None);
    }

    #[test]
    fn another_note_about_the_same_pod_counts_and_one_about_a_pod_that_has_changed_is_another_event() {
        let mut series = Series::default();
        series.observe(event("no", 0), at(0));
        let Some(Write::Count(counted, count)) = series.observe(event("never", 1), at(1)) else { panic!("it counts") };
        assert_eq!((&*counted.note, count.seen), ("no", 2), "the event keeps its first note, as client-go's does");
        let changed = later(event("never", 2), 8);
        assert_eq!(series.observe(changed.clone(), at(2)), Some(Write::Create(changed)));
    }

    #[test]
    fn the_same_of_another_related_object_is_another_event() {
        let mut series = Series::default();
        let by = |name: &str| Event { related: Some(Regarding::pod("default", name, name)), ..event("no", 0) };
        assert!(matches!(series.observe(by("high-1"), at(0)), Some(Write::Create(_))));
        assert!(matches!(series.observe(by("high-2"), at(1)), Some(Write::Create(_))));
        assert!(matches!(series.observe(by("high-1"), at(2)), Some(Write::Count(_, Count { seen: 2, .. }))));
    }

    #[test]
    fn equal_notes_about_many_pods_are_kept_once_and_forgotten_with_the_last() {
        let mut series = Series::default();
        for version in 0..10 {
            series.observe(later(event("no", 0), version), at(0));
        }
        assert_eq!((series.remembered.len(), series.notes.len()), (10, 1));
        series.sweep(at(360));
        assert_eq!((series.remembered.len(), series.notes.len()), (0, 0));
    }

    #[test]
    fn the_counts_of_very_many_series_are_written_bit_by_bit_and_none_is_lost() {
        let mut series = Series::default();
        for version in 0..2_500 {
            let event = later(event("no", 0), version);
            series.observe(event.clone(), at(0));
            series.observe(event, at(1));
        }
        let writes: Vec<usize> = (0..4).map(|_| series.sweep(at(400)).len()).collect();
        assert_eq!(writes, [1_000, 1_000, 500, 0]);
        assert!(series.remembered.is_empty());
    }

    #[test]
    fn a_series_that_rests_is_written_once_more_and_forgotten() {
        let mut series = Series::default();
        for second in [0, 10, 20] {
            series.observe(event("no", second), at(second));
        }
        assert_eq!(series.sweep(at(379)), []);
        let last = Count { seen: 3, last: at(20) };
        assert_eq!(series.sweep(at(380)), [Write::Count(event("no", 0), last)]);
        assert_eq!(series.observe(event("no", 381), at(381)), Some(Write::Create(event("no", 381))));
    }

    #[test]
    fn a_single_event_is_forgotten_without_a_word() {
        let mut series = Series::default();
        series.observe(event("no", 0), at(0));
        assert_eq!(series.sweep(at(360)), []);
        assert!(series.remembered.is_empty());
    }

    #[test]
    fn a_series_that_goes_on_is_refreshed_every_half_hour() {
        let mut series = Series::default();
        let mut writes = 0;
        for second in (0..=3_600).step_by(60) {
            series.observe(event("no", second), at(second));
            writes += series.sweep(at(second)).len();
        }
        assert_eq!(writes, 1, "31 minutes in; the next is due at 61");
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_rest_is_written_as_it_comes() {
        let mut series = Series::default();
        for number in 0..2 * REMEMBERED {
            series.observe(later(event("no", 0), number as u64), at(0));
        }
        assert_eq!(series.remembered.len(), REMEMBERED);
        let rest = later(event("no", 0), 2 * REMEMBERED as u64 - 1);
        assert_eq!(series.observe(rest.clone(), at(1)), Some(Write::Create(rest)));
    }
}
