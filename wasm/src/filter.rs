//! The per-node filter of a module for one class.

use std::{
    hash::Hash,
    sync::{Mutex, PoisonError},
};

use flotilla_framework::{
    extension::NodeFilter,
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};
use foldhash::fast::FixedState;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    encode::Nodes,
    error::{Fault, FaultKind},
    instance::{Answer, Instance, Status},
    subject::{Subject, Subjectless, filter_error},
    tally::Tally,
};

/// Number of nodes per instance, which bounds its state.
const CHUNK: usize = 512;

/// Maximum number of remembered answers of a class, 512 KiB; then all are forgotten.
const MOST_REMEMBERED: usize = 32_768;

/// Number of recent answers that a new one is compared with.
const LOOKED_AT: usize = 16;

pub(crate) struct ModuleFilter {
    plugin: &'static str,
    tally: &'static Tally,
    asking: Result<Asking<FilterResult>, String>,
}

/// Evaluates nodes with a module and remembers answers by visible fields. Pods on a node are not visible to a module.
pub(crate) struct Asking<T> {
    subject: Subject,
    /// Indices of answers, by a hash of a node's visible fields.
    remembered: Mutex<Remembered<T>>,
}

struct Remembered<T> {
    places: std::collections::HashMap<u64, u32, FixedState>,
    answers: Vec<T>,
}

impl<T: Clone + PartialEq + Hash + Send + std::fmt::Debug> Asking<T> {
    pub(crate) fn new(subject: Subject) -> Self {
        let remembered = Remembered { places: std::collections::HashMap::default(), answers: Vec::new() };
        Self { subject, remembered: Mutex::new(remembered) }
    }

    /// The answers of these nodes. `start` creates an instance for `ask`. `fail` creates the answer if either fails or the module is not
    /// pure.
    pub(crate) fn ask(
        &self,
        nodes: &Snapshot,
        slots: &[Slot],
        start: impl Fn(&Subject) -> Result<Instance, Fault>,
        ask: impl Fn(&Subject, &mut Instance) -> Result<T, Fault>,
        fail: impl Fn(&Fault) -> T,
    ) -> Vec<T> {
        let subject = &self.subject;
        let shown = Nodes::new(nodes, &subject.fields);
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::new();
        let mut instance: Option<Instance> = None;
        let (mut in_chunk, mut fresh) = (0, Vec::new());
        let one = |instance: &mut Option<Instance>, slot: Slot, bytes: &[u8]| -> Result<T, Fault> {
            let known = match instance.take() {
                Some(known) => known,
                None => start(subject)?,
            };
            let instance = instance.insert(known);
            instance.set_node(shown.name(slot), |node| node.extend_from_slice(bytes));
            subject.counted(ask(subject, instance))
        };
        let mut answers = Vec::with_capacity(slots.len());
        for &slot in slots {
            bytes.clear();
            shown.write(slot, &mut bytes);
            let key = xxh3_64_with_seed(&bytes, xxh3_64_with_seed(shown.name(slot).as_bytes(), 0));
            if let Some(known) = remembered.get(key) {
                answers.push(known);
                continue;
            }
            in_chunk += 1;
            if in_chunk > CHUNK {
                (instance, in_chunk) = (None, 1);
            }
            let answer = one(&mut instance, slot, &bytes).unwrap_or_else(|fault| {
                // The state after a failed call is discarded.
                instance = None;
                fail(&fault)
            });
            remembered.insert(key, &answer);
            fresh.push((slot, answers.len()));
            answers.push(answer);
        }
        // After a sequence of nodes, the last one is evaluated again in a new instance.
        if let Some(&(slot, place)) = fresh.last().filter(|_| fresh.len() > 1) {
            bytes.clear();
            shown.write(slot, &mut bytes);
            let again = one(&mut None, slot, &bytes).unwrap_or_else(|fault| fail(&fault));
            if again != answers[place] {
                let fault = impure(shown.name(slot), &answers[place], &again);
                subject.tally.count(subject.plugin, fault.kind);
                remembered.clear();
                fresh.into_iter().for_each(|(_, place)| answers[place] = fail(&fault));
            }
        }
        answers
    }
}

fn impure<T: std::fmt::Debug>(node: &str, first: &T, second: &T) -> Fault {
    let text = format!(
        "wasm: the guest is not pure: of node {node:?} it says {first:?} after others and {second:?} by itself; it may keep \
         nothing between nodes"
    );
    Fault::new(FaultKind::Answer, text)
}

impl<T: Clone + PartialEq> Remembered<T> {
    fn get(&self, key: u64) -> Option<T> {
        self.places.get(&key).and_then(|&place| self.answers.get(place as usize)).cloned()
    }

    fn insert(&mut self, key: u64, answer: &T) {
        if self.places.len() >= MOST_REMEMBERED {
            self.clear();
        }
        let recent = self.answers.len().saturating_sub(LOOKED_AT);
        let known = self.answers[recent..].iter().rposition(|known| known == answer).map(|place| recent + place);
        let known = known.unwrap_or_else(|| {
            self.answers.push(answer.clone());
            self.answers.len() - 1
        });
        self.places.insert(key, u32::try_from(known).unwrap_or(u32::MAX));
    }

    fn clear(&mut self) {
        self.places.clear();
        self.answers.clear();
    }
}

impl ModuleFilter {
    pub(crate) fn new((plugin, tally): Subjectless, subject: Result<Subject, String>) -> Self {
        Self { plugin, tally, asking: subject.map(Asking::new) }
    }

    fn verdicts(&self, nodes: &Snapshot, slots: &[Slot]) -> Vec<FilterResult> {
        match &self.asking {
            Err(error) => vec![Err(self.error(error)); slots.len()],
            Ok(asking) => asking.ask(
                nodes,
                slots,
                |subject| subject.start(false).map(|(instance, _)| instance),
                |subject, instance| instance.filter().map(|answer| self.verdict(subject, answer)),
                |fault| Err(self.error(&fault.text)),
            ),
        }
    }

    fn verdict(&self, subject: &Subject, Answer { status, reason }: Answer) -> FilterResult {
        let number = || self.tally.texts().number(&reason);
        match status {
            Status::Success => Ok(()),
            Status::Unschedulable => Err(Refusal::unschedulable(number())),
            Status::Unresolvable => Err(Refusal::unresolvable(number())),
            Status::Skip | Status::Error => {
                self.tally.count(subject.plugin, FaultKind::Status);
                Err(self.error(&reason))
            }
        }
    }

    fn error(&self, text: &str) -> Refusal {
        filter_error(self.tally, self.plugin, text)
    }
}

impl NodeFilter for ModuleFilter {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        self.verdicts(nodes, &[slot]).pop().unwrap_or(Ok(()))
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        vec![self.tally.texts().told(detail)]
    }

    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
        let mut verdicts = self.verdicts(nodes, todo).into_iter();
        todo.retain(|&slot| match verdicts.next() {
            Some(Err(refusal)) => {
                refused(slot, refusal);
                false
            }
            _ => true,
        });
    }
}
