//! The state of the screen: the last report, and the decision rates of the last minutes.

use std::collections::VecDeque;

use crate::status::Report;

/// Stored rates, more than a screen is wide.
const RATES: usize = 300;

#[derive(Debug, Default)]
pub(super) struct View {
    /// `None` before the first answer.
    pub(super) report: Option<Report>,
    /// Decisions per second between two answers, the latest last.
    pub(super) rates: VecDeque<u64>,
    /// The leader of the last answer, its uptime and its decisions.
    last: Option<(String, u64, u64)>,
}

impl View {
    pub(super) fn take_in(&mut self, report: Report) {
        let now = report.leader().map(|leader| (leader.identity.clone(), leader.uptime_ms, leader.decisions.total));
        if let (Some((before, then_ms, decided)), Some((leader, now_ms, decisions))) = (&self.last, &now)
            && before == leader
            && now_ms > then_ms
        {
            let rate = decisions.saturating_sub(*decided) as f64 * 1_000.0 / (now_ms - then_ms) as f64;
            self.rates.push_back(rate.round() as u64);
        }
        if self.rates.len() > RATES {
            self.rates.pop_front();
        }
        self.last = now;
        self.report = Some(report);
    }
}
