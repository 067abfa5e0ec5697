//! The answer as JSON, YAML and table.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    sync::Arc,
};

use comfy_table::Cell;
use flotilla_account::{why::Refusal, words};
use serde::Serialize;

use super::{args::Format, candidates::Restricted};
use crate::{
    output::{json, printable, table, yaml},
    whatif::output::names,
};

const MOST_NODES: usize = 20;

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) pod: String,
    pub(super) fits: usize,
    /// The count stopped at the limit.
    pub(super) is_limit: bool,
    pub(super) nodes: BTreeMap<Arc<str>, usize>,
    /// The nodes on which copies were counted; absent without a restriction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) candidates: Option<Restricted>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// The API server refuses the next copy.
    #[serde(skip)]
    pub(super) is_refused: bool,
    pub(super) refusals: Vec<Refusal>,
    pub(super) changes: Vec<Admitting>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Admitting {
    /// `toleration`, `request`, `uncordon` or `node`.
    pub(super) kind: &'static str,
    pub(super) change: String,
    /// The copies that fit after the change.
    pub(super) fits: usize,
}

/// Prints the answers; several as a list.
pub(super) fn print(answers: &[Answer], format: Format, out: &mut dyn Write) -> io::Result<()> {
    match (format, answers) {
        (Format::Json, [one]) => json(one, out),
        (Format::Json, several) => json(&several, out),
        (Format::Yaml, [one]) => yaml(one, out),
        (Format::Yaml, several) => yaml(&several, out),
        (Format::Table, several) => several.iter().enumerate().try_for_each(|(place, answer)| {
            if place > 0 {
                writeln!(out)?;
            }
            answer.print_table(out)
        }),
    }
}

impl Answer {
    fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (at_least, fit) =
            (if self.is_limit { "at least " } else { "" }, if self.fits == 1 { "fits" } else { "fit" });
        writeln!(out, "{}: {at_least}{} more {fit}", printable(&self.pod), self.fits)?;
        if !self.nodes.is_empty() {
            let mut nodes: Vec<(&Arc<str>, &usize)> = self.nodes.iter().collect();
            nodes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), Arc::clone(name)));
            let shown = nodes.iter().take(MOST_NODES).map(|(name, count)| format!("{count} on {name}"));
            let more = nodes.len().saturating_sub(MOST_NODES);
            let more = (more > 0).then(|| format!("others on {more} more nodes"));
            writeln!(out, "  {}", printable(&shown.chain(more).collect::<Vec<_>>().join(", ")))?;
        }
        if let Some(Restricted { nodes, of, by }) = &self.candidates {
            writeln!(out, "  counted on {nodes} of {}: {}", words::nodes(*of), printable(&by.join(", ")))?;
        }
        if !self.message.is_empty() {
            writeln!(out, "\nthe next one: {}", printable(&self.message))?;
        }
        if !self.refusals.is_empty() {
            let row = |refusal: &Refusal| {
                let Refusal { plugin, reasons, nodes, lacks, nearest } = refusal;
                let lacks = if lacks.is_empty() { "-" } else { lacks };
                [*plugin, &nodes.to_string(), &reasons.join(", "), lacks, &names(nearest)]
                    .map(|text| Cell::new(printable(text)))
            };
            let header = ["REFUSED BY", "NODES", "REASON", "LACKS AT LEAST", "ON"];
            writeln!(out, "\n{}", table(header, self.refusals.iter().map(row)).trim_fmt())?;
        }
        if self.changes.is_empty() {
            let found = if self.message.is_empty() || self.is_refused {
                ""
            } else {
                "\nno single change was found that admits more\n"
            };
            return write!(out, "{found}");
        }
        let row = |admitting: &Admitting| {
            let fits = format!("{} (+{})", admitting.fits, admitting.fits - self.fits);
            [&admitting.change, &fits].map(|text| Cell::new(printable(text)))
        };
        writeln!(out, "\n{}", table(["WITH", "FIT"], self.changes.iter().map(row)).trim_fmt())
    }
}
