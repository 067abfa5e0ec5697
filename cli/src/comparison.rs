//! Compares two lists of decisions, as JSON, YAML and text.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use clap::ValueEnum;
use flotilla_machine::comparison::{Compared, DecisionDifference, Theirs};
use serde::Serialize;

use crate::output::{json, printable, table, yaml};

/// The limit of printed decisions.
const MOST_CASES: usize = 10;

/// From this many nodes on, kube-scheduler may evaluate only a part of them.
const SAMPLED: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One JSON object
    Json,
    /// The same as YAML
    Yaml,
}

/// How two decisions compare, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ComparisonOutcome {
    Refused,
    PlacedHereOnly,
    Failed,
    LowerTotal,
    OtherReasons,
    NodeUnknown,
    EqualTotal,
    SameNode,
    NeitherPlaced,
}

impl ComparisonOutcome {
    const ALL: [Self; 9] = [
        Self::SameNode,
        Self::EqualTotal,
        Self::NeitherPlaced,
        Self::LowerTotal,
        Self::OtherReasons,
        Self::PlacedHereOnly,
        Self::Refused,
        Self::Failed,
        Self::NodeUnknown,
    ];

    fn words(self, here: &str) -> String {
        match self {
            Self::SameNode => "the same node".to_owned(),
            Self::EqualTotal => "another node of the same total".to_owned(),
            Self::NeitherPlaced => "no node, for the same reasons".to_owned(),
            Self::LowerTotal => "a node of a lower total".to_owned(),
            Self::OtherReasons => "no node, for other reasons".to_owned(),
            Self::PlacedHereOnly => format!("no node, where {here} has one"),
            Self::Refused => format!("a node that {here} refuses"),
            Self::Failed => format!("a decision that is an error in {here}"),
            Self::NodeUnknown => "a node that is not known".to_owned(),
        }
    }

    /// The label value in metrics.
    const fn label(self) -> &'static str {
        match self {
            Self::SameNode => "same_node",
            Self::EqualTotal => "equal_total",
            Self::NeitherPlaced => "neither_placed",
            Self::LowerTotal => "lower_total",
            Self::OtherReasons => "other_reasons",
            Self::PlacedHereOnly => "placed_here_only",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NodeUnknown => "node_unknown",
        }
    }

    const fn agrees(self) -> bool {
        matches!(self, Self::SameNode | Self::EqualTotal | Self::NeitherPlaced)
    }
}

/// The source of the decisions that are compared with Flotilla's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecisionSource {
    /// Another scheduler.
    Scheduler,
    /// A recording; Flotilla's decisions are those of its replay.
    Recording,
}

impl DecisionSource {
    const fn here(self) -> &'static str {
        match self {
            Self::Scheduler => "Flotilla",
            Self::Recording => "the replay",
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::Scheduler => "THE OTHER SCHEDULER CHOSE",
            Self::Recording => "THE RECORDING HAS",
        }
    }

    const fn missed(self) -> &'static str {
        match self {
            Self::Scheduler => "since too many waited",
            Self::Recording => "since no profile is for the pod, or it was not seen waiting",
        }
    }
}

#[derive(Debug)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "only metrics read it"))]
pub(crate) struct Found {
    pub(crate) outcome: &'static str,
    /// The plugins that cause the difference.
    pub(crate) plugins: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    outcome: ComparisonOutcome,
    pod: String,
    scheduler: String,
    /// The other scheduler's decision.
    theirs: String,
    /// Flotilla's decision.
    ours: String,
    /// The plugins that cause the difference.
    plugins: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    #[serde(skip)]
    beside: DecisionSource,
    schedulers: Vec<String>,
    pub(crate) compared: u64,
    pub(crate) missed: u64,
    /// The percentage of decisions that agree on the node, its total, or the reason that there is none.
    #[serde(serialize_with = "two_digits")]
    agreement_percent: f64,
    outcomes: BTreeMap<ComparisonOutcome, u64>,
    /// Differing decisions by plugin.
    by_plugin: BTreeMap<String, u64>,
    /// The maximum number of nodes.
    nodes: usize,
    /// One example of each kind of difference, the worst first.
    cases: Vec<Case>,
}

fn two_digits<S: serde::Serializer>(percent: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((percent * 100.0).round() / 100.0)
}

impl Report {
    pub(crate) const fn new(beside: DecisionSource, schedulers: Vec<String>) -> Self {
        Self {
            beside,
            schedulers,
            compared: 0,
            missed: 0,
            agreement_percent: 100.0,
            outcomes: BTreeMap::new(),
            by_plugin: BTreeMap::new(),
            nodes: 0,
            cases: Vec::new(),
        }
    }

    /// The names of all outcomes.
    #[cfg(feature = "cluster")]
    pub(crate) fn outcomes() -> impl Iterator<Item = &'static str> {
        ComparisonOutcome::ALL.into_iter().map(ComparisonOutcome::label)
    }

    pub(crate) fn add(&mut self, compared: &Compared) -> Found {
        let case = case(compared);
        let found = Found { outcome: case.outcome.label(), plugins: case.plugins.clone() };
        self.compared += 1;
        *self.outcomes.entry(case.outcome).or_default() += 1;
        case.plugins.iter().for_each(|plugin| *self.by_plugin.entry(plugin.clone()).or_default() += 1);
        self.nodes = self.nodes.max(compared.nodes);
        #[expect(clippy::cast_precision_loss, reason = "a percentage")]
        let percent = |count: u64, of: u64| 100.0 * count as f64 / of as f64;
        let agreed = self.outcomes.iter().filter(|(outcome, _)| outcome.agrees()).map(|(_, count)| count).sum();
        self.agreement_percent = percent(agreed, self.compared);
        self.keep(case);
        found
    }

    /// Keeps the first case of each kind of difference, and the worst kinds.
    fn keep(&mut self, case: Case) {
        let is_alike = |other: &Case| (other.outcome, &other.plugins) == (case.outcome, &case.plugins);
        if case.outcome.agrees() || self.cases.iter().any(is_alike) {
            return;
        }
        let place = self.cases.partition_point(|other| other.outcome <= case.outcome);
        self.cases.insert(place, case);
        self.cases.truncate(MOST_CASES);
    }

    /// Whether each pair of decisions has the same node, or none.
    pub(crate) fn is_same(&self) -> bool {
        self.outcomes
            .keys()
            .all(|outcome| matches!(outcome, ComparisonOutcome::SameNode | ComparisonOutcome::NeitherPlaced))
    }

    /// A line for the progress bar.
    pub(crate) fn headline(&self) -> String {
        format!("{} decisions compared, {:.2} % agree", self.compared, self.agreement_percent)
    }

    pub(crate) fn print(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.print_table(out),
            Format::Json => json(self, out),
            Format::Yaml => yaml(self, out),
        }
    }

    fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.compared == 0 {
            return writeln!(out, "{} decided on no pod that was seen waiting", self.schedulers.join(", "));
        }
        let here = self.beside.here();
        writeln!(out, "{}", self.headline())?;
        let count = |outcome: &ComparisonOutcome| self.outcomes.get(outcome).copied();
        let rows = ComparisonOutcome::ALL
            .iter()
            .filter_map(|outcome| Some([count(outcome)?.to_string(), outcome.words(here)]));
        writeln!(out, "\n{}", table(["DECISIONS", self.beside.heading()], rows))?;
        if !self.by_plugin.is_empty() {
            let rows = self.by_plugin.iter().map(|(plugin, count)| [plugin.clone(), count.to_string()]);
            writeln!(out, "\n{}", table(["PLUGIN", "DIFFERENCES"], rows))?;
        }
        for Case { outcome, pod, scheduler, theirs, ours, plugins } in &self.cases {
            let by = if plugins.is_empty() { String::new() } else { format!(" ({})", plugins.join(", ")) };
            let theirs_of = if self.beside == DecisionSource::Scheduler { scheduler.as_str() } else { "the recording" };
            writeln!(out, "\n{} of {scheduler}: {}{by}", printable(pod), outcome.words(here))?;
            writeln!(out, "  {theirs_of}: {}\n  {here}: {}", printable(theirs), printable(ours))?;
        }
        if self.missed > 0 {
            writeln!(out, "\n{} decisions were not compared, {}", self.missed, self.beside.missed())?;
        }
        if self.beside == DecisionSource::Scheduler
            && self.nodes >= SAMPLED
            && self.outcomes.contains_key(&ComparisonOutcome::LowerTotal)
        {
            writeln!(
                out,
                "\nFrom {SAMPLED} nodes on kube-scheduler filters a sample of them (percentageOfNodesToScore). Flotilla filters all."
            )?;
        }
        Ok(())
    }
}

fn case(compared: &Compared) -> Case {
    let Compared { pod, profile, theirs, verdict, .. } = compared;
    let node = match theirs {
        Theirs::Node(node) => node.to_string(),
        Theirs::Unschedulable(message) => message.to_string(),
    };
    let named = |plugin: &&str| (*plugin).to_owned();
    let (outcome, theirs, ours, plugins) = match verdict {
        DecisionDifference::SameNode => (ComparisonOutcome::SameNode, node.clone(), node, Vec::new()),
        DecisionDifference::EqualTotal { ours, total } => (
            ComparisonOutcome::EqualTotal,
            format!("{node}, total {total}"),
            format!("{ours}, total {total}"),
            Vec::new(),
        ),
        DecisionDifference::Lower { ours, totals, parts } => {
            let of = |node: &str, total: i64, pick: fn(&flotilla_machine::comparison::Part) -> i64| {
                let parts = parts.iter().map(|part| format!("{} {}", part.plugin, pick(part)));
                format!("{node}, total {total}: {}", parts.collect::<Vec<_>>().join(", "))
            };
            let plugins = parts.iter().map(|part| part.plugin.to_owned()).collect();
            let theirs = of(&node, totals.1, |part| part.theirs);
            (ComparisonOutcome::LowerTotal, theirs, of(ours, totals.0, |part| part.ours), plugins)
        }
        DecisionDifference::Refused { plugin, reasons } => {
            let plugins = plugin.iter().map(named).collect();
            (ComparisonOutcome::Refused, node, format!("refuses it: {}", reasons.join(", ")), plugins)
        }
        DecisionDifference::Feasible { ours } => {
            (ComparisonOutcome::PlacedHereOnly, node, ours.to_string(), Vec::new())
        }
        DecisionDifference::Neither { ours, same_words } => {
            let outcome = if *same_words { ComparisonOutcome::NeitherPlaced } else { ComparisonOutcome::OtherReasons };
            (outcome, node, ours.clone(), Vec::new())
        }
        DecisionDifference::Failed { error } => (ComparisonOutcome::Failed, node, error.clone(), Vec::new()),
        DecisionDifference::NodeUnknown => {
            (ComparisonOutcome::NodeUnknown, node, "it is not known".to_owned(), Vec::new())
        }
    };
    let pod = format!("{}/{}", pod.namespace, pod.name);
    Case { outcome, pod, scheduler: profile.to_string(), theirs, ours, plugins }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flotilla_machine::{action::PodName, comparison::Part};

    use super::*;

    fn compared(name: &str, theirs: Theirs, verdict: DecisionDifference) -> Compared {
        let pod = PodName { uid: name.into(), namespace: "shop".into(), name: name.into() };
        Compared { pod, profile: "default-scheduler".into(), theirs, nodes: 5, feasible: 2, verdict }
    }

    fn on(node: &str) -> Theirs {
        Theirs::Node(node.into())
    }

    fn report() -> Report {
        let mut report = Report::new(DecisionSource::Scheduler, vec!["default-scheduler".to_owned()]);
        let part = |plugin, ours, theirs| Part { plugin, ours, theirs };
        let lower = || DecisionDifference::Lower {
            ours: "b".into(),
            totals: (310, 290),
            parts: vec![part("NodeResourcesFit", 90, 70)],
        };
        let reasons: Arc<[String]> = vec!["Insufficient cpu".to_owned()].into();
        let refused = DecisionDifference::Refused { plugin: Some("NodeResourcesFit"), reasons };
        let message = Theirs::Unschedulable("0/5 nodes are available: 5 Insufficient cpu.".into());
        let neither = DecisionDifference::Neither {
            ours: "0/5 nodes are available: 5 Insufficient cpu.".into(),
            same_words: true,
        };
        [
            compared("web-0", on("a"), DecisionDifference::SameNode),
            compared("web-1", on("a"), DecisionDifference::EqualTotal { ours: "b".into(), total: 310 }),
            compared("web-2", on("a"), lower()),
            compared("web-3", on("a"), lower()),
            compared("huge", message, neither),
            compared("web-4", on("c"), refused),
        ]
        .iter()
        .for_each(|compared| _ = report.add(compared));
        report
    }

    #[test]
    fn each_way_to_differ_is_told_once_and_the_worst_first() {
        let mut text = Vec::new();
        report().print(Format::Table, &mut text).expect("memory can be written to");
        let text = String::from_utf8(text).expect("UTF-8");
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let expected = [
            "6 decisions compared, 50.00 % agree",
            "",
            "DECISIONS  THE OTHER SCHEDULER CHOSE",
            "1          the same node",
            "1          another node of the same total",
            "1          no node, for the same reasons",
            "2          a node of a lower total",
            "1          a node that Flotilla refuses",
            "",
            "PLUGIN            DIFFERENCES",
            "NodeResourcesFit  3",
            "",
            "shop/web-4 of default-scheduler: a node that Flotilla refuses (NodeResourcesFit)",
            "  default-scheduler: c",
            "  Flotilla: refuses it: Insufficient cpu",
            "",
            "shop/web-2 of default-scheduler: a node of a lower total (NodeResourcesFit)",
            "  default-scheduler: a, total 290: NodeResourcesFit 70",
            "  Flotilla: b, total 310: NodeResourcesFit 90",
        ];
        assert_eq!(lines, expected, "\n{text}");
    }

    #[test]
    fn programs_are_told_the_same() {
        let report = serde_json::to_value(report()).expect("JSON");
        assert_eq!(report["agreementPercent"], 50.0);
        assert_eq!(
            report["outcomes"],
            serde_json::json!({
                "sameNode": 1, "equalTotal": 1, "neitherPlaced": 1, "lowerTotal": 2, "refused": 1,
            })
        );
        assert_eq!(
            (&report["byPlugin"]["NodeResourcesFit"], &report["cases"][0]["outcome"]),
            (&3.into(), &"refused".into())
        );
    }

    #[test]
    fn without_a_decision_nothing_is_claimed() {
        let mut text = Vec::new();
        Report::new(DecisionSource::Scheduler, vec!["a".to_owned(), "b".to_owned()])
            .print(Format::Table, &mut text)
            .expect("memory can be written to");
        assert_eq!(String::from_utf8_lossy(&text), "a, b decided on no pod that was seen waiting\n");
    }
}
