//! Incorrect answers of workers.

use std::collections::BTreeMap;

use flotilla_framework::{
    evaluation::{Evaluation, Offer, Refused},
    node::NodeId,
    shard::{FromWorker, Reply},
    status::{Code, Refusal},
};

use crate::seed::Seed;

/// Number of remembered answers for repetition.
const REMEMBERED: usize = 16;

#[derive(Debug, Default)]
pub(super) struct Lies {
    old: Vec<FromWorker>,
    /// Offers of nodes that it holds or once held.
    held: BTreeMap<NodeId, Offer>,
}

impl Lies {
    /// Records and returns the correct answer.
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

    /// Messages sent instead of an answer: none, an old one first, or an incorrect one.
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
                Reply::DryRunResults { outcomes, .. } => outcomes.reverse(),
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

/// Makes an answer incorrect. The worst error, that all nodes are infeasible, is the most frequent.
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
        // An infeasible node of its shard, which the coordinator can detect only by evaluating the node.
        12..=15 => {
            let held: Vec<Offer> = held.values().copied().collect();
            let Some(told) = seed.pick(&held).copied() else { return };
            any_offer(seed, evaluation).into_iter().for_each(|offer| (offer.node, offer.rank) = (told.node, told.rank));
        }
        _ => refuse(evaluation, Code::Unschedulable),
    }
}

/// Reports all offered nodes as infeasible.
fn refuse(evaluation: &mut Evaluation, code: Code) {
    let strata: Vec<_> = evaluation.strata.drain(..).collect();
    for stratum in strata {
        let refusal = Refusal { code, detail: 2 };
        evaluation.refused.push(Refused { order: 6, refusal, domains: Vec::new(), count: stratum.size });
    }
}
