//! Conversions of preemption dry runs.

use flotilla_framework::{
    class::ClassId,
    node::NodeId,
    preemption::{DryRunResult, Trial},
    shard::{MAX_TRIAL_PODS, MAX_TRIALS, RequestId},
    status::Refusal,
};

use super::{
    DecodeError, Problem, at_most,
    evaluation::{decode_code, each, encode_code},
    narrow, present,
};
use crate::pb;

pub(super) fn encode_trials(trials: &[Trial]) -> Vec<pb::Trial> {
    let encode = |trial: &Trial| {
        let (victims, violating) = trial.victims.iter().map(|(class, violates)| (class.0, *violates)).unzip();
        let beside = trial.beside.iter().map(|class| class.0).collect();
        pb::Trial { node: trial.node.0, victims, violating, units: trial.units.clone(), beside }
    };
    trials.iter().map(encode).collect()
}

pub(super) fn decode_trials(trials: Vec<pb::Trial>) -> Result<Vec<Trial>, DecodeError> {
    at_most("trials", trials.len(), MAX_TRIALS)?;
    let pods = trials.iter().map(|trial| trial.victims.len().saturating_add(trial.beside.len()));
    at_most("trials.victims", pods.fold(0, usize::saturating_add), MAX_TRIAL_PODS)?;
    each("trials", trials, |pb::Trial { node, victims, violating, units, beside }| {
        if victims.len() != violating.len() {
            return Err(DecodeError::new("violating", Problem::Missing));
        }
        let victims = victims.into_iter().map(ClassId).zip(violating).collect();
        let trial = Trial { node: NodeId(node), victims, units, beside: beside.into_iter().map(ClassId).collect() };
        if !trial.is_sound() {
            return Err(DecodeError::new("units", Problem::Missing));
        }
        Ok(trial)
    })
}

pub(super) fn encode(request: RequestId, outcomes: &[DryRunResult]) -> pb::DryRunResults {
    pb::DryRunResults { request, outcomes: outcomes.iter().map(encode_outcome).collect() }
}

pub(super) fn decode(message: pb::DryRunResults) -> Result<Vec<DryRunResult>, DecodeError> {
    at_most("outcomes", message.outcomes.len(), MAX_TRIALS)?;
    each("outcomes", message.outcomes, decode_outcome)
}

fn encode_outcome(outcome: &DryRunResult) -> pb::TrialOutcome {
    use pb::trial_outcome::Outcome as Message;
    let miss = |miss: pb::TrialMiss| Message::Miss(miss.into());
    let outcome = match outcome {
        DryRunResult::Victims { indexes, violations } => {
            Message::Victims(pb::TrialVictims { indexes: indexes.clone(), violations: *violations })
        }
        DryRunResult::Refused(order, Refusal { code, detail }) => {
            Message::Refusal(pb::Refusal { order: u32::from(*order), code: encode_code(*code).into(), detail: *detail })
        }
        DryRunResult::NoVictims => miss(pb::TrialMiss::NoVictims),
        DryRunResult::Needless => miss(pb::TrialMiss::Needless),
        DryRunResult::Stale => miss(pb::TrialMiss::Stale),
    };
    pb::TrialOutcome { outcome: Some(outcome) }
}

fn decode_outcome(message: pb::TrialOutcome) -> Result<DryRunResult, DecodeError> {
    use pb::trial_outcome::Outcome as Message;
    Ok(match present("outcome", message.outcome)? {
        Message::Victims(pb::TrialVictims { indexes, violations }) => {
            if indexes.is_empty() {
                return Err(DecodeError::new("victims.indexes", Problem::Missing));
            }
            if !indexes.is_sorted_by(|left, right| left < right) {
                return Err(DecodeError::new("victims.indexes", Problem::Unsorted));
            }
            DryRunResult::Victims { indexes, violations }
        }
        Message::Refusal(pb::Refusal { order, code, detail }) => {
            let code = decode_code(code).map_err(|error| error.within("refusal"))?;
            DryRunResult::Refused(narrow("refusal.order", order)?, Refusal { code, detail })
        }
        Message::Miss(miss) => match pb::TrialMiss::try_from(miss) {
            Ok(pb::TrialMiss::NoVictims) => DryRunResult::NoVictims,
            Ok(pb::TrialMiss::Needless) => DryRunResult::Needless,
            Ok(pb::TrialMiss::Stale) => DryRunResult::Stale,
            Ok(pb::TrialMiss::Unspecified) => return Err(DecodeError::new("miss", Problem::Missing)),
            Err(_) => return Err(DecodeError::range("miss", miss, pb::TrialMiss::Stale as i32)),
        },
    })
}
