//! Conversions of evaluation answers, the hot part of the protocol.
//!
//! Offers are columns and each domain is written once, which keeps the largest answer well below the size limit.

use std::sync::Arc;

use flotilla_framework::{
    evaluation::{Evaluation, MAX_OFFERS, Offer, Refused, Stratum},
    extension::{Domain, Tally},
    node::NodeId,
    shard::RequestId,
    status::{Code, Refusal},
};
use indexmap::{IndexMap, IndexSet};

use super::{DecodeError, Problem, at_most, narrow};
use crate::pb;

pub(super) fn encode(request: RequestId, evaluation: &Evaluation) -> pb::Evaluated {
    let Evaluation { covered, strata, refused, tallies } = evaluation;
    let mut table = Table::default();
    let strata = strata.iter().map(|stratum| encode_stratum(stratum, &mut table)).collect();
    let refused = refused.iter().map(|refused| encode_refused(refused, &mut table)).collect();
    let tallies = tallies.iter().map(|tally| encode_tally(tally, &mut table)).collect();
    pb::Evaluated { request, covered: *covered, strata, refused, tallies, domains: table.into_names() }
}

pub(super) fn decode(message: pb::Evaluated) -> Result<Evaluation, DecodeError> {
    let pb::Evaluated { request: _, covered, strata, refused, tallies, domains } = message;
    check_counts(covered, &strata, &refused)?;
    let names: Vec<Arc<str>> = super::decode_texts(domains);
    Ok(Evaluation {
        covered,
        strata: each("strata", strata, |stratum| decode_stratum(stratum, &names))?,
        refused: each("refused", refused, |refused| decode_refused(refused, &names))?,
        tallies: each("tallies", tallies, |tally| decode_tally(tally, &names))?,
    })
}

/// Merging answers adds their counts and requires that offers do not exceed their stratum.
fn check_counts(covered: u32, strata: &[pb::Stratum], refused: &[pb::Refused]) -> Result<(), DecodeError> {
    at_most("strata", strata.len(), MAX_OFFERS)?;
    at_most("strata.nodes", strata.iter().map(|stratum| stratum.nodes.len()).sum(), MAX_OFFERS)?;
    let feasible = strata.iter().map(|stratum| u64::from(stratum.size));
    let counted: u64 = feasible.chain(refused.iter().map(|refused| u64::from(refused.count))).sum();
    if counted <= u64::from(covered) {
        return Ok(());
    }
    let problem = Problem::OutOfRange { value: covered.into(), min: counted.into(), max: u32::MAX.into() };
    Err(DecodeError::new("covered", problem))
}

pub(super) fn each<M, T>(
    field: &str,
    list: Vec<M>,
    mut decode: impl FnMut(M) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let list = list.into_iter().enumerate();
    list.map(|(index, item)| decode(item).map_err(|error| error.within(&format!("{field}[{index}]")))).collect()
}

/// Numbers of domains: 0 for none, n for the n-th name.
#[derive(Debug, Default)]
pub(super) struct Table<'a> {
    names: IndexSet<&'a str>,
}

impl<'a> Table<'a> {
    fn number(&mut self, domain: Option<&'a str>) -> u32 {
        // Cannot overflow: a message holds fewer names than a u32 counts.
        domain.map_or(0, |name| u32::try_from(self.names.insert_full(name).0 + 1).unwrap_or(u32::MAX))
    }

    pub(super) fn numbers(&mut self, domains: &'a [Domain]) -> Vec<u32> {
        domains.iter().map(|domain| self.number(domain.as_deref())).collect()
    }

    pub(super) fn into_names(self) -> Vec<String> {
        self.names.into_iter().map(str::to_owned).collect()
    }
}

pub(super) fn decode_domains(numbers: &[u32], names: &[Arc<str>]) -> Result<Vec<Domain>, DecodeError> {
    // A number takes one byte on the wire and 16 in memory. A vector that grows by doubling would take three times as much.
    let mut domains = Vec::with_capacity(numbers.len());
    for &number in numbers {
        domains.push(if number == 0 { None } else { Some(decode_domain(number, names)?) });
    }
    Ok(domains)
}

fn decode_domain(number: u32, names: &[Arc<str>]) -> Result<Arc<str>, DecodeError> {
    let name = (number as usize).checked_sub(1).and_then(|index| names.get(index));
    name.cloned().ok_or_else(|| {
        let problem = Problem::OutOfRange { value: number.into(), min: 1, max: names.len() as i128 };
        DecodeError::new("domains", problem)
    })
}

fn encode_stratum<'a>(stratum: &'a Stratum, table: &mut Table<'a>) -> pb::Stratum {
    let Stratum { raws, domains, size, offers } = stratum;
    pb::Stratum {
        raws: raws.clone(),
        domains: table.numbers(domains),
        size: *size,
        nodes: offers.iter().map(|offer| offer.node.0).collect(),
        bases: offers.iter().map(|offer| offer.base).collect(),
        ranks: offers.iter().map(|offer| offer.rank).collect(),
    }
}

fn decode_stratum(message: pb::Stratum, names: &[Arc<str>]) -> Result<Stratum, DecodeError> {
    let pb::Stratum { raws, domains, size, nodes, bases, ranks } = message;
    same_length("bases", bases.len(), nodes.len())?;
    same_length("ranks", ranks.len(), nodes.len())?;
    at_most("nodes", nodes.len(), size as usize)?;
    let offers = nodes.into_iter().zip(bases).zip(ranks);
    Ok(Stratum {
        raws,
        domains: decode_domains(&domains, names)?,
        size,
        offers: offers.map(|((node, base), rank)| Offer { node: NodeId(node), base, rank }).collect(),
    })
}

fn encode_refused<'a>(refused: &'a Refused, table: &mut Table<'a>) -> pb::Refused {
    let Refused { order, refusal: Refusal { code, detail }, domains, count } = refused;
    pb::Refused {
        order: u32::from(*order),
        code: encode_code(*code).into(),
        detail: *detail,
        domains: table.numbers(domains),
        count: *count,
    }
}

fn decode_refused(message: pb::Refused, names: &[Arc<str>]) -> Result<Refused, DecodeError> {
    let pb::Refused { order, code, detail, domains, count } = message;
    Ok(Refused {
        order: narrow("order", order)?,
        refusal: Refusal { code: decode_code(code)?, detail },
        domains: decode_domains(&domains, names)?,
        count,
    })
}

pub(super) const fn encode_code(code: Code) -> pb::Code {
    match code {
        Code::Unschedulable => pb::Code::Unschedulable,
        Code::UnschedulableAndUnresolvable => pb::Code::UnschedulableAndUnresolvable,
        Code::Error => pb::Code::Error,
    }
}

pub(super) fn decode_code(code: i32) -> Result<Code, DecodeError> {
    match pb::Code::try_from(code) {
        Ok(pb::Code::Unschedulable) => Ok(Code::Unschedulable),
        Ok(pb::Code::UnschedulableAndUnresolvable) => Ok(Code::UnschedulableAndUnresolvable),
        Ok(pb::Code::Error) => Ok(Code::Error),
        Ok(pb::Code::Unspecified) => Err(DecodeError::new("code", Problem::Missing)),
        Err(_) => Err(DecodeError::range("code", code, pb::Code::Error as i32)),
    }
}

pub(super) fn encode_tally<'a>(tally: &'a Tally, table: &mut Table<'a>) -> pb::Tally {
    pb::Tally {
        terms: tally.0.keys().map(|(term, _)| u32::from(*term)).collect(),
        domains: tally.0.keys().map(|(_, domain)| table.number(Some(domain))).collect(),
        counts: tally.0.values().copied().collect(),
    }
}

pub(super) fn decode_tally(message: pb::Tally, names: &[Arc<str>]) -> Result<Tally, DecodeError> {
    let pb::Tally { terms, domains, counts } = message;
    same_length("domains", domains.len(), terms.len())?;
    same_length("counts", counts.len(), terms.len())?;
    let mut sums = IndexMap::with_capacity(terms.len());
    for ((term, domain), count) in terms.into_iter().zip(domains).zip(counts) {
        let key = (narrow("terms", term)?, decode_domain(domain, names)?);
        if sums.insert(key, count).is_some() {
            return Err(DecodeError::new("domains", Problem::Repeated));
        }
    }
    Ok(Tally(sums))
}

fn same_length(field: &str, length: usize, wanted: usize) -> Result<(), DecodeError> {
    if length == wanted {
        return Ok(());
    }
    let (value, only) = (length as i128, wanted as i128);
    Err(DecodeError::new(field, Problem::OutOfRange { value, min: only, max: only }))
}
