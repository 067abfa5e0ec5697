//! Events that repeat, as client-go's `events` package counts them: the first is created, the second makes it a series,
//! and what follows is counted here and written when the series rests or has gone on for long.
//!
//! Knows: which events are the same, and when a count is written. Must not know: how, or any clock.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use super::events::Event;

/// Series and single events that are remembered. kube-scheduler's remembers all; 8,192 of 1.5 KB each are 12 MB, and
/// more unschedulable pods than that say nothing more by being counted.
const REMEMBERED: usize = 8_192;
/// A series that rested for as long is written and forgotten; a single event is forgotten. As client-go.
const REST: Duration = Duration::from_secs(6 * 60);
/// A series that goes on is written this often, so that the API server does not forget it. As client-go.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// What is to be written of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// It is new.
    Create(Event),
    /// It has been seen this often, last at this time.
    Count(Event, Count),
}

/// How often an event was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count {
    /// At least 2.
    pub(super) seen: u32,
    /// The last time.
    pub(super) last: Timestamp,
}

/// The events of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Series {
    remembered: HashMap<Event, Entry>,
}

#[derive(Debug)]
struct Entry {
    /// When the first was seen. The one that was created carries it.
    first: Timestamp,
    count: Option<Count>,
    written: Timestamp,
}

impl Series {
    /// An event is seen. Returns what is to be written of it now.
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
        // One more than is remembered is created each time that it is seen.
        if self.remembered.len() < REMEMBERED {
            self.remembered.insert(event.clone(), Entry { first: event.time, count: None, written: now });
        }
        Some(Write::Create(event))
    }

    /// Forgets what has rested. Returns the counts that are to be written.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<Write> {
        let since = |then: Timestamp| now.duration_since(then).unsigned_abs();
        let mut writes = Vec::new();
        self.remembered.retain(|event, entry| {
            let Some(count) = entry.count else { return since(entry.first) < REST };
            let rests = since(count.last) >= REST;
            if rests || since(entry.written) >= REFRESH {
                writes.push(Write::Count(Event { time: entry.first, ..event.clone() }, count));
                entry.written = now;
            }
            !rests
        });
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
            controller: "default-scheduler".to_owned(),
            warning: true,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: note.to_owned(),
            regarding: Regarding::pod("default", "web-1", "u1"),
            related: None,
        }
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
    fn another_note_is_another_event() {
        let mut series = Series::default();
        series.observe(event("no", 0), at(0));
        assert_eq!(series.observe(event("never", 1), at(1)), Some(Write::Create(event("never", 1))));
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
            series.observe(event(&number.to_string(), 0), at(0));
        }
        assert_eq!(series.remembered.len(), REMEMBERED);
        let rest = event(&(2 * REMEMBERED - 1).to_string(), 0);
        assert_eq!(series.observe(rest.clone(), at(1)), Some(Write::Create(rest)));
    }
}
