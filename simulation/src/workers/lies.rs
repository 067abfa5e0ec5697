//! The ways in which a worker's word can be wrong.
//!
//! Knows: what an answer is made of. Must not know: which of it anyone checks.

use std::collections::BTreeMap;

use flotilla_framework::{
    evaluation::{Evaluation, Offer, Refused},
    node::NodeId,
    shard::{FromWorker, Reply},
    status::{Code, Refusal},
};

use crate::seed::Seed;

/// Words that were said, of which one may be said again; more are forgotten.
const REMEMBERED: usize = 16;

/// What a worker remembers in order to lie.
#[derive(Debug, Default)]
pub(super) struct Lies {
    old: Vec<FromWorker>,
    /// Offers of nodes that it has made at some time, so that it holds them or did.
    held: BTreeMap<NodeId, Offer>,
}

impl Lies {
    /// A word as it is.
    pub(super) fn honest(&mut self, word: FromWorker) -> Vec<FromWorker> {
        if let Reply::Evaluated { evaluation, .. } = &word.reply {
            let offers = evaluation.strata.iter().flat_map(|stratum| &stratum.offers);
            self.held.extend(offers.map(|offer| (offer.node, *offer)));
        }
        if self.old.len() == REMEMBERED {
            self.old.remove(0);
        }
        self.old.push(word.clone());
        vec![word]
    }

    /// What is said in place of a word: nothing, an old one before it, or something else.
    pub(super) fn instead(&mut self, seed: &mut Seed, mut word: FromWorker) -> Vec<FromWorker> {
        let before = match seed.below(8) {
            0 => return Vec::new(),
            1 => seed.pick(&self.old).cloned(),
            _ => None,
        };
        if before.is_none() {
            match &mut word.reply {
                Reply::Evaluated { evaluation, .. } => distort(seed, evaluation, &self.held),
                Reply::Applied { nodes, generation } => (*nodes, *generation) = (1, seed.below(3)),
                Reply::Rehearsed { outcomes, .. } => outcomes.reverse(),
                Reply::Hello { .. } | Reply::Explained { .. } | Reply::Unable { .. } => {}
            }
        }
        before.into_iter().chain(self.honest(word)).collect()
    }
}

fn offers(evaluation: &mut Evaluation) -> impl Iterator<Item = &mut Offer> {
    evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.offers)
}

fn any_offer<'a>(seed: &mut Seed, evaluation: &'a mut Evaluation) -> Option<&'a mut Offer> {
    let count = offers(evaluation).count() as u64;
    let at = usize::try_from(seed.below(count.max(1))).unwrap_or(0);
    offers(evaluation).nth(at)
}

/// One of the ways in which an answer can be wrong. The worst of lies is said most often: that nothing fits.
fn distort(seed: &mut Seed, evaluation: &mut Evaluation, held: &BTreeMap<NodeId, Offer>) {
    const EXTREMES: [i64; 6] = [i64::MIN, i64::MAX, -1, 0, 1_000, 1 << 40];
    let extreme = seed.pick(&EXTREMES).copied().unwrap_or(0);
    let (any, other) = (seed.below(24), NodeId(u32::try_from(seed.below(9)).unwrap_or(0)));
    match any {
        0 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.node = NodeId(u32::MAX)),
        1 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.node = other),
        2 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.base = extreme),
        3 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.base = offer.base.wrapping_add(1)),
        4 => offers(evaluation).for_each(|offer| offer.base = offer.base.wrapping_add(7)),
        5 => any_offer(seed, evaluation).into_iter().for_each(|offer| offer.rank ^= 1),
        6 => evaluation.strata.iter_mut().flat_map(|stratum| &mut stratum.raws).for_each(|raw| *raw = extreme),
        7 => refuse(evaluation, Code::UnschedulableAndUnresolvable),
        8 => refuse(evaluation, Code::Error),
        9 => evaluation.tallies.iter_mut().flat_map(|tally| tally.0.values_mut()).for_each(|count| *count = extreme),
        10 => evaluation.strata.iter_mut().for_each(|stratum| stratum.domains.iter_mut().for_each(|it| *it = None)),
        11 => *evaluation = Evaluation { covered: evaluation.covered, ..Evaluation::default() },
        // A node of its own that may not be fit at all, and that nothing but a look at the node speaks against.
        12..=15 => {
            let held: Vec<Offer> = held.values().copied().collect();
            let Some(told) = seed.pick(&held).copied() else { return };
            any_offer(seed, evaluation).into_iter().for_each(|offer| (offer.node, offer.rank) = (told.node, told.rank));
        }
        _ => refuse(evaluation, Code::Unschedulable),
    }
}

/// Says of all nodes that were offered that they will not do.
fn refuse(evaluation: &mut Evaluation, code: Code) {
    let strata: Vec<_> = evaluation.strata.drain(..).collect();
    for stratum in strata {
        let refusal = Refusal { code, detail: 2 };
        evaluation.refused.push(Refused { order: 6, refusal, domains: Vec::new(), count: stratum.size });
    }
}
