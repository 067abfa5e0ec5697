//! Measures single plugins if the request asks for it.

use std::time::{Duration, Instant};

use flotilla_framework::{laps::Laps, prepared::parts::Point};
use flotilla_proto::pb;

#[derive(Debug)]
pub(crate) struct Stopwatch {
    is_wanted: bool,
    last: Instant,
    laps: Vec<pb::Lap>,
}

impl Stopwatch {
    /// Without `is_wanted` it never reads the clock.
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, last: Instant::now(), laps: Vec::new() }
    }

    pub(crate) fn into_proto(self) -> Vec<pb::Lap> {
        self.laps
    }
}

impl Laps for Stopwatch {
    fn begin(&mut self) {
        if self.is_wanted {
            self.last = Instant::now();
        }
    }

    fn lap(&mut self, plugin: &'static str, point: Point, nodes: usize) {
        if !self.is_wanted {
            return;
        }
        let now = Instant::now();
        let took = now - std::mem::replace(&mut self.last, now);
        let point = match point {
            Point::Filter => pb::LapPoint::Filter,
            Point::Score => pb::LapPoint::Score,
            Point::PreFilter | Point::PreScore => return,
        };
        if nodes > 0 {
            self.laps.push(pb::Lap {
                plugin: plugin.to_owned(),
                point: point.into(),
                nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
                took_ns: nanoseconds(took),
            });
        }
    }
}

fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_through_nodes_is_told_and_only_where_it_is_wanted() {
        let told = |is_wanted| {
            let mut stopwatch = Stopwatch::new(is_wanted);
            stopwatch.begin();
            stopwatch.lap("NodePorts", Point::Filter, 3);
            stopwatch.lap("NodeName", Point::Filter, 0);
            stopwatch.lap("ImageLocality", Point::Score, 2);
            stopwatch.into_proto().into_iter().map(|lap| (lap.plugin, lap.point, lap.nodes)).collect::<Vec<_>>()
        };
        assert_eq!(told(true), [("NodePorts".to_owned(), 1, 3), ("ImageLocality".to_owned(), 2, 2)]);
        assert_eq!(told(false), []);
    }
}
