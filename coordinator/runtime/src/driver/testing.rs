//! A machine that only listens, for the tests of those who tell it.

use std::sync::Arc;

use flotilla_framework::class::PodInfo;
use flotilla_machine::{
    action::Action,
    census::Census,
    event::{Event, TimeMs},
    outlook::{Outlook, PodName},
    overview::Overview,
    status::Status,
    tally::Ended,
};
use tokio::sync::mpsc;

use super::{Course, Handle, spawn_course};

struct Listener(mpsc::UnboundedSender<Event>);

impl Course for Listener {
    fn take_in(&mut self, _: TimeMs, event: Event) -> Option<&'static str> {
        // The test may be over.
        let _ = self.0.send(event);
        None
    }

    fn go_on(&mut self, _: TimeMs) -> Vec<Action> {
        Vec::new()
    }

    fn ended(&self) -> Ended<'_> {
        Ended::default()
    }

    fn next_wakeup(&self) -> Option<TimeMs> {
        None
    }

    fn status(&self) -> Status {
        Status::default()
    }

    fn outlook(&self, _: TimeMs, _: &PodName) -> Option<Outlook> {
        None
    }

    fn overview(&self, _: TimeMs) -> Overview {
        Overview::default()
    }

    fn census(&self) -> Census {
        Census::default()
    }

    fn pods(&self) -> Vec<Arc<PodInfo>> {
        Vec::new()
    }
}

/// A handle, and what was told through it.
#[must_use]
pub fn listener() -> (Handle, mpsc::UnboundedReceiver<Event>) {
    let (told, heard) = mpsc::unbounded_channel();
    let (handle, _thread) = spawn_course(Listener(told), |_| {});
    (handle, heard)
}
