//! The score and normalization of a module for one class.
//!
//! Source: `RunScorePlugins` in `pkg/scheduler/framework/runtime/framework.go`.

use std::sync::{Arc, Mutex, PoisonError};

use flotilla_framework::{
    extension::{FallibleScore, MAX_NODE_SCORE, NodeScore, Normalizer},
    snapshot::{Slot, Snapshot},
    status::Refusal,
};

use crate::{
    encode,
    error::{Fault, FaultKind},
    filter::Asking,
    instance::Status,
    subject::{Subject, Subjectless, out_of_range, score_error},
    tally::Tally,
};

type Scored = Result<i64, Refusal>;

pub(crate) struct ModuleScore {
    plugin: &'static str,
    tally: &'static Tally,
    asking: Result<Asking<Scored>, String>,
    normalizer: Option<Arc<ModuleNormalizer>>,
}

pub(crate) struct ModuleNormalizer {
    subject: Subject,
    /// The last input and result: feasible nodes are often unchanged between decisions.
    last: Mutex<Option<Last>>,
}

struct Shared(Arc<ModuleNormalizer>);

type Raws = Vec<(i64, usize)>;
type Last = (Raws, Result<Vec<i64>, String>);

impl ModuleScore {
    pub(crate) fn new(
        (plugin, tally): Subjectless,
        subject: Result<Subject, String>,
        normalizer: Option<Arc<ModuleNormalizer>>,
    ) -> Self {
        Self { plugin, tally, asking: subject.map(Asking::new), normalizer }
    }

    fn scores(&self, nodes: &Snapshot, slots: &[Slot]) -> Vec<Scored> {
        match &self.asking {
            Err(error) => vec![Err(self.error(error)); slots.len()],
            Ok(asking) => asking.ask(
                nodes,
                slots,
                |subject| subject.start(true).map(|(instance, _)| instance),
                |subject, instance| {
                    instance.score().map(|(score, answer)| match answer.status {
                        Status::Success => self.in_range(score),
                        _ => {
                            self.tally.count(subject.plugin, FaultKind::Status);
                            Err(self.error(&answer.reason))
                        }
                    })
                },
                |fault| Err(self.error(&fault.text)),
            ),
        }
    }

    /// A score without normalization must be in range.
    fn in_range(&self, score: i64) -> Scored {
        if self.normalizer.is_some() || (0..=MAX_NODE_SCORE).contains(&score) {
            return Ok(score);
        }
        self.tally.count(self.plugin, FaultKind::Answer);
        Err(Refusal::error(self.tally.texts().number(&out_of_range(self.plugin, score))))
    }

    fn error(&self, text: &str) -> Refusal {
        score_error(self.tally, self.plugin, text)
    }
}

impl NodeScore for ModuleScore {
    /// Unused: scoring may fail, so errors need the other methods.
    fn score(&self, nodes: &Snapshot, slot: Slot) -> i64 {
        self.try_score(nodes, slot).unwrap_or(0)
    }

    fn fallible(&self) -> Option<&dyn FallibleScore> {
        Some(self)
    }

    fn normalizer(&self) -> Option<Box<dyn Normalizer>> {
        self.normalizer.as_ref().map(|normalizer| Box::new(Shared(Arc::clone(normalizer))) as Box<dyn Normalizer>)
    }
}

impl FallibleScore for ModuleScore {
    fn try_score(&self, nodes: &Snapshot, slot: Slot) -> Scored {
        self.scores(nodes, &[slot]).pop().unwrap_or(Ok(0))
    }

    fn try_add_column(
        &self,
        nodes: &Snapshot,
        todo: &[Slot],
        weight: i64,
        sums: &mut [i64],
        failed: &mut dyn FnMut(Slot, Refusal),
    ) {
        for ((score, sum), &slot) in self.scores(nodes, todo).into_iter().zip(sums).zip(todo) {
            match score {
                Ok(score) => *sum += weight * score,
                Err(refusal) => failed(slot, refusal),
            }
        }
    }

    fn reasons(&self, detail: u64) -> Vec<String> {
        vec![self.tally.texts().told(detail)]
    }
}

impl ModuleNormalizer {
    pub(crate) const fn new(subject: Subject) -> Self {
        Self { subject, last: Mutex::new(None) }
    }

    fn ask(&self, raws: &[(i64, usize)]) -> Result<Vec<i64>, String> {
        let plugin = self.subject.plugin;
        let failed = |text: &str| format!("running Normalize on Score plugins: plugin {plugin:?} failed with: {text}");
        let asked = self.subject.start(true).and_then(|(mut instance, _)| instance.normalize(raws.into()));
        let (answer, json) = self.subject.counted(asked).map_err(|fault| failed(&fault.text))?;
        if answer.status != Status::Success {
            self.subject.tally.count(plugin, FaultKind::Status);
            return Err(failed(&answer.reason));
        }
        let scores = match json {
            // The guest left them unchanged.
            None => Ok(raws.iter().map(|(raw, _)| *raw).collect()),
            Some(json) => encode::normalized(raws, &json),
        };
        let scores =
            scores.map_err(|text| Fault::new(FaultKind::Answer, format!("wasm: normalizescore error: {text}")));
        let scores: Vec<i64> = self.subject.counted(scores).map_err(|fault| failed(&fault.text))?;
        match scores.iter().find(|score| !(0..=MAX_NODE_SCORE).contains(*score)) {
            None => Ok(scores),
            Some(&score) => {
                self.subject.tally.count(plugin, FaultKind::Answer);
                Err(out_of_range(plugin, score))
            }
        }
    }
}

impl Normalizer for Shared {
    fn normalize(&self, raws: &[(i64, usize)]) -> Result<Vec<i64>, String> {
        let Self(normalizer) = self;
        let mut last = normalizer.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, scores)) = &*last
            && known == raws
        {
            return scores.clone();
        }
        let scores = normalizer.ask(raws);
        *last = Some((raws.to_vec(), scores.clone()));
        scores
    }
}
