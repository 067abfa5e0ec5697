//! What a machine is told, turned into frames for a file, and when another part begins.
//!
//! Knows: what is written for each turn, and what a new part needs. Must not know: files, threads or clocks: it is called on the
//! machine's thread, which waits for nothing.

use flotilla_framework::registry::Registry;
use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
};

use crate::{
    decision::Outcome,
    entry::{Entry, Input},
    frame::FRAME_HEAD,
    needs::Needs,
    opaque::Marks,
    world::World,
};

/// Where frames go.
pub trait Sent {
    /// Takes a frame's entry. `false`: there is no room for it, and it is lost.
    fn entry(&mut self, bytes: Vec<u8>) -> bool;

    /// Whether another part may begin.
    fn has_room(&self) -> bool;

    /// Another part begins, with the cluster as it is. `dropped`: how many turns are missing since the last frame.
    fn part(&mut self, known: World, dropped: u64);
}

/// Turns into frames.
#[derive(Debug)]
pub struct Tape<S> {
    sent: S,
    /// What stands for what only drivers of devices read.
    marks: Marks,
    world: World,
    needs: Needs,
    /// The bytes of the turn in hand; `None` where it is lost.
    turn: Option<Vec<u8>>,
    /// The bytes of the frames of this part, without what it began with.
    bytes: u64,
    /// Another part begins after so many.
    part_bytes: u64,
    /// How many turns are missing since the last frame.
    dropped: u64,
}

// === impl Tape ===

impl<S: Sent> Tape<S> {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(sent: S, part_bytes: u64, registry: Registry) -> Self {
        let needs = Needs::new(registry);
        let (marks, world) = (Marks::default(), World::default());
        Self { sent, marks, world, needs, turn: None, bytes: 0, part_bytes, dropped: 0 }
    }

    /// Where frames go.
    pub const fn sent_mut(&mut self) -> &mut S {
        &mut self.sent
    }

    /// An event is about to be taken in.
    pub fn event(&mut self, now_ms: TimeMs, event: &Event) {
        // A part begins between two turns, with what was so before this one.
        self.begin_part();
        for needed in self.needs.of(event) {
            let entry = needed.encode(Vec::new());
            if self.dropped > 0 || !entry.is_ok_and(|entry| self.send(entry)) {
                self.dropped += 1;
            }
        }
        let event = self.marks.left_out(event);
        self.turn = match self.dropped {
            0 => Entry::Turn { now_ms, input: Input::of(&event) }.encode(Vec::new()).ok(),
            _ => None,
        };
        self.world.apply(&event);
    }

    /// What came of the event.
    pub fn actions(&mut self, heard_ms: TimeMs, actions: &[Action]) {
        let outcome = Outcome::of(heard_ms, actions);
        self.world.decided(&outcome.decisions);
        let turn = self.turn.take().and_then(|turn| outcome.encode(turn).ok());
        if !turn.is_some_and(|turn| self.send(turn)) {
            self.dropped += 1;
        }
    }

    /// What was asked for at one time was asked at another.
    pub fn asked_at(&mut self, began_ms: TimeMs, now_ms: TimeMs) {
        let entry = Entry::AskedAt { began_ms, now_ms }.encode(Vec::new());
        if self.dropped > 0 || !entry.is_ok_and(|entry| self.send(entry)) {
            self.dropped += 1;
        }
    }

    fn send(&mut self, entry: Vec<u8>) -> bool {
        let length = (entry.len() + FRAME_HEAD) as u64;
        let is_sent = self.sent.entry(entry);
        self.bytes += if is_sent { length } else { 0 };
        is_sent
    }

    /// Begins another part where this one is full, and as soon as there is room where turns are missing.
    fn begin_part(&mut self) {
        let is_due = self.dropped > 0 || self.bytes >= self.part_bytes;
        if is_due && self.sent.has_room() {
            self.sent.part(self.world.clone(), self.dropped);
            self.needs.forget();
            self.bytes = 0;
            self.dropped = 0;
        }
    }
}
