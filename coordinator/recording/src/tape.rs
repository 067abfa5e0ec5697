//! Encodes a machine's inputs as frames and starts new parts. It runs on the machine's thread and does not block.

use flotilla_framework::registry::Registry;
use flotilla_machine::{
    action::Action,
    event::{Event, TimeMs},
};

use crate::{
    decision::TurnOutcome,
    entry::{Entry, Input},
    frame::FRAME_HEAD,
    needs::Needs,
    opaque::Marks,
    world::World,
};

/// Receives frames.
pub trait Sent {
    /// Accepts an entry. Returns `false` if the entry is lost for lack of room.
    fn entry(&mut self, bytes: Vec<u8>) -> bool;

    /// Whether a new part can begin.
    fn has_room(&self) -> bool;

    /// Begins a part with the state of the cluster. `dropped`: number of turns lost since the last frame.
    fn part(&mut self, known: World, dropped: u64);
}

/// Encodes frames.
#[derive(Debug)]
pub struct Tape<S> {
    sent: S,
    marks: Marks,
    world: World,
    needs: Needs,
    /// Bytes of the current turn; `None` if lost.
    turn: Option<Vec<u8>>,
    /// Bytes of this part's frames, without its initial state.
    bytes: u64,
    /// Size at which a new part begins.
    part_bytes: u64,
    dropped: u64,
}

impl<S: Sent> Tape<S> {
    /// A tape before the first event.
    #[must_use]
    pub fn new(sent: S, part_bytes: u64, registry: Registry) -> Self {
        let needs = Needs::new(registry);
        let (marks, world) = (Marks::default(), World::default());
        Self { sent, marks, world, needs, turn: None, bytes: 0, part_bytes, dropped: 0 }
    }

    /// The receiver of frames.
    pub const fn sent_mut(&mut self) -> &mut S {
        &mut self.sent
    }

    /// Records an event before the machine handles it.
    pub fn event(&mut self, now_ms: TimeMs, event: &Event) {
        // A part begins between two turns, with the state before this one.
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

    /// Records the result of the event.
    pub fn actions(&mut self, heard_ms: TimeMs, actions: &[Action]) {
        let outcome = TurnOutcome::of(heard_ms, actions);
        self.world.decided(&outcome.decisions);
        let turn = self.turn.take().and_then(|turn| outcome.encode(turn).ok());
        if !turn.is_some_and(|turn| self.send(turn)) {
            self.dropped += 1;
        }
    }

    /// Records the time at which requests of a slow turn were sent.
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

    /// Begins a part if this one is full, or if turns were lost and there is room.
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
