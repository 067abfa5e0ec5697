//! Conversions of explanation pages.

use std::sync::Arc;

use flotilla_framework::{
    explain::shard::{Local, MAX_PAGE_NODES, NodeAccount, Page},
    node::NodeId,
    shard::RequestId,
    status::Refusal,
};

use super::{
    DecodeError, Problem, at_most,
    evaluation::{Table, decode_code, decode_domains, decode_tally, each, encode_code, encode_tally},
    narrow, present,
};
use crate::pb;

pub(super) fn encode(request: RequestId, page: &Page) -> pb::Explained {
    let Page { nodes, tallies, more } = page;
    let mut table = Table::default();
    let nodes = nodes.iter().map(|account| encode_account(account, &mut table)).collect();
    let tallies = tallies.iter().map(|tally| encode_tally(tally, &mut table)).collect();
    pb::Explained { request, nodes, tallies, more: *more, domains: table.into_names() }
}

pub(super) fn decode(message: pb::Explained) -> Result<Page, DecodeError> {
    let pb::Explained { request: _, nodes, tallies, more, domains } = message;
    at_most("nodes", nodes.len(), MAX_PAGE_NODES)?;
    // The next request continues after the last number, so numbers must increase.
    if !nodes.is_sorted_by(|left, right| left.node < right.node) {
        return Err(DecodeError::new("nodes", Problem::Unsorted));
    }
    if more && nodes.is_empty() {
        return Err(DecodeError::new("nodes", Problem::Missing));
    }
    let names: Vec<Arc<str>> = super::decode_texts(domains);
    Ok(Page {
        nodes: each("nodes", nodes, |account| decode_account(account, &names))?,
        tallies: each("tallies", tallies, |tally| decode_tally(tally, &names))?,
        more,
    })
}

fn encode_account<'a>(account: &'a NodeAccount, table: &mut Table<'a>) -> pb::NodeAccount {
    use pb::node_account::Verdict;
    let NodeAccount { node, domains, local } = account;
    let verdict = match local {
        Local::Refused(order, Refusal { code, detail }) => {
            Verdict::Refusal(pb::Refusal { order: u32::from(*order), code: encode_code(*code).into(), detail: *detail })
        }
        Local::Feasible(raws) => Verdict::Scores(pb::RawScores { raws: raws.clone() }),
    };
    pb::NodeAccount { node: node.0, domains: table.numbers(domains), verdict: Some(verdict) }
}

fn decode_account(message: pb::NodeAccount, names: &[Arc<str>]) -> Result<NodeAccount, DecodeError> {
    use pb::node_account::Verdict;
    let pb::NodeAccount { node, domains, verdict } = message;
    let local = match present("verdict", verdict)? {
        Verdict::Refusal(pb::Refusal { order, code, detail }) => {
            let refusal = Refusal { code: decode_code(code).map_err(|error| error.within("refusal"))?, detail };
            Local::Refused(narrow("refusal.order", order)?, refusal)
        }
        Verdict::Scores(pb::RawScores { raws }) => Local::Feasible(raws),
    };
    Ok(NodeAccount { node: NodeId(node), domains: decode_domains(&domains, names)?, local })
}
