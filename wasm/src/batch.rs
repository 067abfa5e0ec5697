//! Batch filters and scores of a module.
//!
//! Instances are reused for any class: such a module keeps no state between calls, which samples check.

use std::{
    cell::RefCell,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use flotilla_framework::{
    extension::{FallibleScore, MAX_NODE_SCORE, NodeFilter, NodeScore, Normalizer},
    snapshot::{Slot, Snapshot},
    status::{FilterResult, Refusal},
};

use crate::{
    columns::{Answers, Block},
    describe::{Description, Normalization},
    error::{Fault, FaultKind},
    exports::Export,
    instance::Instance,
    subject::{Subject, Subjectless, filter_error, out_of_range, score_error},
};

/// Maximum number of idle instances per module: the number of concurrent threads.
const MOST_INSTANCES: usize = 16;
/// An instance is replaced after this many calls, which bounds the memory that its language leaks.
const MOST_CALLS: u32 = 10_000;
/// One in this many batches evaluates its last node again in a new instance.
const SAMPLE: u64 = 16;

#[derive(Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Worker>>,
    batches: AtomicU64,
}

struct Worker {
    instance: Instance,
    block: u32,
    room: usize,
    calls: u32,
}

thread_local! {
    /// The buffer for batches: a thread encodes one at a time.
    static BLOCK: RefCell<Block> = RefCell::default();
}

pub(crate) struct Batches {
    subject: Subject,
    description: Arc<Description>,
    pod: Arc<str>,
}

pub(crate) struct BatchFilter(pub(crate) Result<Batches, String>, pub(crate) Subjectless);
pub(crate) struct BatchScore(pub(crate) Result<Batches, String>, pub(crate) Subjectless);

impl Pool {
    fn take(&self, subject: &Subject) -> Result<Worker, Fault> {
        let known = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let known = idle.iter().rposition(|worker| worker.instance.is_under(&subject.setting));
            known.map(|place| idle.remove(place))
        };
        match known {
            Some(mut worker) => {
                worker.instance.reset(&subject.setting, &subject.pod);
                Ok(worker)
            }
            None => Self::start(subject),
        }
    }

    fn start(subject: &Subject) -> Result<Worker, Fault> {
        let instance = subject.module.start(&subject.setting, &subject.pod)?;
        Ok(Worker { instance, block: 0, room: 0, calls: 0 })
    }

    fn put(&self, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.calls >= MOST_CALLS {
            return;
        }
        // The oldest may have outdated arguments.
        if idle.len() >= MOST_INSTANCES {
            idle.remove(0);
        }
        idle.push(worker);
    }
}

impl Worker {
    fn ask<T>(
        &mut self,
        export: Export,
        (block, nodes): (&[u8], usize),
        answers: std::ops::Range<usize>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, Fault> {
        self.calls += 1;
        let broken = |text: String| Fault::new(FaultKind::Answer, format!("wasm: {} error: {text}", export.name()));
        if self.room < block.len() {
            let room = block.len().next_power_of_two();
            let wanted = i32::try_from(room).map_err(|_| broken("a batch of more than 2 GiB".to_owned()))?;
            let at: i32 = self.instance.named(Export::Alloc, wanted)?;
            (self.block, self.room) = (at.cast_unsigned(), room);
        }
        let at = self.block as usize;
        let outside =
            || broken(format!("flotilla_alloc gave {at}, from where there is no room for {} bytes", block.len()));
        let memory = self.instance.memory().get_mut(at..).and_then(|memory| memory.get_mut(..block.len()));
        memory.ok_or_else(outside)?.copy_from_slice(block);
        let code = self.instance.batch(export, self.block.cast_signed(), nodes)?;
        if code != 0 {
            let reason = self.instance.reason();
            let text = if reason.is_empty() { format!("{} answers {code}", export.name()) } else { reason.to_owned() };
            return Err(Fault::new(FaultKind::Status, text));
        }
        let memory = self.instance.memory().get(at..).and_then(|memory| memory.get(answers));
        Ok(read(memory.ok_or_else(outside)?))
    }
}

impl Batches {
    pub(crate) fn new(subject: Subject, description: Arc<Description>, pod: Arc<str>) -> Self {
        Self { subject, description, pod }
    }

    fn ask<T: PartialEq + std::fmt::Debug + Clone>(
        &self,
        nodes: &Snapshot,
        slots: &[Slot],
        (export, kind): (Export, Answers),
        read: impl Fn(&[u8]) -> Vec<T>,
    ) -> Result<Vec<T>, Fault> {
        let subject = &self.subject;
        let pool = subject.module.pool();
        let one = |worker: &mut Worker, slots: &[Slot]| {
            BLOCK.with_borrow_mut(|block| {
                let texts = (&*self.pod, subject.setting.config.as_str());
                let at = block.write(nodes, slots, &self.description.node_fields, texts, kind);
                let width = if kind == Answers::Filter { 1 } else { 8 };
                worker.ask(export, (&block.bytes, slots.len()), at..at + slots.len() * width, &read)
            })
        };
        let asked = pool.take(subject).and_then(|mut worker| {
            // A failed instance is dropped.
            let answers = one(&mut worker, slots)?;
            pool.put(worker);
            Ok(answers)
        });
        let answers = subject.counted(asked)?;
        if let Some(&last) = slots.last()
            && slots.len() > 1
            && pool.batches.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE)
        {
            let mut fresh = subject.counted(Pool::start(subject))?;
            let again = subject.counted(one(&mut fresh, &[last]))?;
            if again.last() != answers.last() {
                let name = nodes.symbols.text(nodes.name(last));
                let text = format!(
                    "wasm: {} error: the guest is not pure: of node {name:?} it says {:?} among others and {:?} by itself in a \
                     fresh instance; it may keep nothing between calls, and an answer may depend on its node alone",
                    export.name(),
                    answers.last(),
                    again.last()
                );
                return subject.counted(Err(Fault::new(FaultKind::Answer, text)));
            }
        }
        Ok(answers)
    }
}

impl BatchFilter {
    fn error(&self, text: &str) -> Refusal {
        let Self(_, (plugin, tally)) = self;
        filter_error(tally, plugin, text)
    }

    /// For each node 0, or the number of a reason.
    fn codes(&self, nodes: &Snapshot, slots: &[Slot]) -> Result<Vec<u8>, Refusal> {
        let Self(batches, _) = self;
        let batches = batches.as_ref().map_err(|error| self.error(error))?;
        let asked = batches.ask(nodes, slots, (Export::FilterBatch, Answers::Filter), <[u8]>::to_vec);
        asked.map_err(|fault| self.error(&fault.text))
    }

    /// Verdicts by code; the last one is for invalid codes.
    fn verdicts(&self) -> Vec<FilterResult> {
        let Self(batches, (_, tally)) = self;
        let refusal = |reason: &crate::describe::Reason| {
            let number = tally.texts().number(&reason.text);
            if reason.unresolvable { Refusal::unresolvable(number) } else { Refusal::unschedulable(number) }
        };
        let reasons = batches.as_ref().map_or(&[][..], |batches| &batches.description.reasons);
        let known = std::iter::once(Ok(())).chain(reasons.iter().map(|reason| Err(refusal(reason))));
        let text = format!(
            "wasm: flotilla_filter error: it answers with the number of a reason that it does not describe; it has {}",
            reasons.len()
        );
        let unknown = Err(self.error(&text));
        known.chain(std::iter::once(unknown)).collect()
    }
}

impl NodeFilter for BatchFilter {
    fn filter(&self, nodes: &Snapshot, slot: Slot) -> FilterResult {
        let code = self.codes(nodes, &[slot])?.first().copied().unwrap_or(u8::MAX);
        let verdicts = self.verdicts();
        verdicts[usize::from(code).min(verdicts.len() - 1)]
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let Self(_, (_, tally)) = self;
        vec![tally.texts().told(detail)]
    }

    fn sieve(&self, nodes: &Snapshot, todo: &mut Vec<Slot>, refused: &mut dyn FnMut(Slot, Refusal)) {
        if todo.is_empty() {
            return;
        }
        match self.codes(nodes, todo) {
            Err(refusal) => todo.drain(..).for_each(|slot| refused(slot, refusal)),
            Ok(codes) => {
                let verdicts = self.verdicts();
                let last = verdicts.len() - 1;
                let mut codes = codes.into_iter();
                todo.retain(|&slot| match codes.next().map_or(Ok(()), |code| verdicts[usize::from(code).min(last)]) {
                    Ok(()) => true,
                    Err(refusal) => {
                        refused(slot, refusal);
                        false
                    }
                });
            }
        }
    }
}

impl BatchScore {
    fn normalization(&self) -> Normalization {
        let Self(batches, _) = self;
        batches.as_ref().map_or(Normalization::None, |batches| batches.description.normalization)
    }

    fn error(&self, text: &str) -> Refusal {
        let Self(_, (plugin, tally)) = self;
        score_error(tally, plugin, text)
    }

    fn raws(&self, nodes: &Snapshot, slots: &[Slot]) -> Result<Vec<i64>, Refusal> {
        let Self(batches, _) = self;
        let batches = batches.as_ref().map_err(|error| self.error(error))?;
        let read = |bytes: &[u8]| {
            let raw = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).unwrap_or(0);
            bytes.chunks_exact(8).map(raw).collect::<Vec<_>>()
        };
        let asked = batches.ask(nodes, slots, (Export::ScoreBatch, Answers::Score), read);
        asked.map_err(|fault| self.error(&fault.text))
    }

    /// Rejects scores out of range, and negative ones before normalization.
    fn checked(&self, raw: i64) -> Result<i64, Refusal> {
        let most = if self.normalization() == Normalization::None { MAX_NODE_SCORE } else { i64::from(i32::MAX) };
        if (0..=most).contains(&raw) {
            return Ok(raw);
        }
        let Self(_, (plugin, tally)) = self;
        tally.count(plugin, FaultKind::Answer);
        Err(Refusal::error(tally.texts().number(&out_of_range(plugin, raw))))
    }
}

impl NodeScore for BatchScore {
    /// Unused: scoring may fail, so errors need the other methods.
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        self.try_score(nodes, slot).unwrap_or(0)
    }

    fn fallible(&self) -> Option<&dyn FallibleScore> {
        Some(self)
    }

    fn normalizer(&self) -> Option<Box<dyn Normalizer>> {
        let how = self.normalization();
        (how != Normalization::None).then(|| Box::new(Scaled(how)) as Box<dyn Normalizer>)
    }
}

impl FallibleScore for BatchScore {
    fn try_score(&self, nodes: &Snapshot, slot: Slot) -> Result<i64, Refusal> {
        let raws = self.raws(nodes, &[slot])?;
        self.checked(raws.first().copied().unwrap_or(-1))
    }

    fn try_add_column(
        &self,
        nodes: &Snapshot,
        todo: &[Slot],
        weight: i64,
        sums: &mut [i64],
        failed: &mut dyn FnMut(Slot, Refusal),
    ) {
        if todo.is_empty() {
            return;
        }
        match self.raws(nodes, todo) {
            Err(refusal) => todo.iter().for_each(|&slot| failed(slot, refusal)),
            Ok(raws) => {
                for ((raw, sum), &slot) in raws.into_iter().zip(sums).zip(todo) {
                    match self.checked(raw) {
                        Ok(raw) => *sum += weight * raw,
                        Err(refusal) => failed(slot, refusal),
                    }
                }
            }
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        let Self(_, (_, tally)) = self;
        vec![tally.texts().told(detail)]
    }
}

struct Scaled(Normalization);

impl Normalizer for Scaled {
    fn normalize(&self, raws: &[(i64, usize)]) -> Result<Vec<i64>, String> {
        let Self(how) = self;
        let max = raws.last().map_or(0, |(raw, _)| *raw);
        Ok(raws.iter().map(|(raw, _)| how.scaled(*raw, max)).collect())
    }
}
