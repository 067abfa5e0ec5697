//! A kept decision as text.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table};
use flotilla_account::words;
use flotilla_coordinator::serve::explain::{
    ExplainedCandidate, ExplainedDecision, ExplainedNodes, ExplainedPreemption, ExplainedRefusal,
};

use super::words::time;
use crate::output::{printable, table};

/// The limit of nodes with scores, and of named infeasible nodes.
const MOST: usize = 5;

/// Prints a decision and an empty line.
pub(super) fn print(pod: &str, decision: &ExplainedDecision, is_wide: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}: {}", printable(pod), printable(&heading(decision)))?;
    for preemption in &decision.preemptions {
        writeln!(out, "  {}", printable(&made_room(preemption)))?;
    }
    if decision.asked_extenders {
        writeln!(
            out,
            "  HTTP extenders took part, and their results are not kept; these are the results of the \
        plugins"
        )?;
    }
    let Some(nodes) = &decision.nodes else {
        let why = decision.unknown.as_deref().unwrap_or("it is not remembered");
        return writeln!(out, "  the results of the plugins are no longer available: {}\n", printable(why));
    };
    writeln!(out, "  {}", printable(&summary(decision, nodes)))?;
    if !nodes.agrees && !decision.asked_extenders {
        writeln!(out, "  a second evaluation gives another decision; this is a bug of Flotilla")?;
    }
    if !nodes.candidates.is_empty() {
        writeln!(out, "\n{}", scores(nodes, is_wide).trim_fmt())?;
        let shown = shown(nodes, is_wide).count();
        if shown < nodes.feasible {
            let more = nodes.feasible - shown;
            writeln!(out, "... and {more} more feasible nodes")?;
        }
    }
    if !nodes.refused.is_empty() {
        writeln!(out, "\n{}", refusals(&nodes.refused).trim_fmt())?;
    }
    writeln!(out)
}

/// `on gpu-b since 2026-11-23T13:00:00Z, 2m5s ago: attempt 1 of flotilla, after 0.3 s, at revision 812`.
fn heading(decision: &ExplainedDecision) -> String {
    let ExplainedDecision { node, ago_ms, attempt, waited_ms, scheduler_name, revision, .. } = decision;
    let when =
        decision.time.split_once('.').map_or_else(|| decision.time.clone(), |(seconds, _)| format!("{seconds}Z"));
    let (ago, waited) = (time(*ago_ms), time(*waited_ms));
    format!(
        "{node} was chosen at {when}, {ago} ago, by profile {scheduler_name} in attempt {attempt} after {waited}, at \
         revision {revision}"
    )
}

fn made_room(ExplainedPreemption { node, victims, ago_ms }: &ExplainedPreemption) -> String {
    let pods = if victims.len() == 1 { "pod" } else { "pods" };
    format!("{} {pods} made room on {node} {} ago: {}", victims.len(), time(*ago_ms), victims.join(", "))
}

/// `12 of 20 nodes were feasible; n3 had 469, 4 more than n7`.
fn summary(decision: &ExplainedDecision, nodes: &ExplainedNodes) -> String {
    let ExplainedNodes { all, feasible, tied, was_nominated, runner_up, .. } = nodes;
    let fits = format!("{feasible} of {} were feasible", words::nodes(*all));
    let node = &decision.node;
    if *was_nominated {
        return format!("{fits}; the pod was nominated to {node}, so that the scores did not count");
    }
    let Some(runner_up) = runner_up else { return format!("{fits}; there was no other than {node}") };
    let total = decision.total;
    match runner_up.margin {
        Some(0) => {
            format!("{fits}; {node} had {total}, as had {} in all: a tie, decided by their ranks", words::nodes(*tied))
        }
        Some(margin) => format!("{fits}; {node} had {total}, {margin} more than {}", runner_up.node),
        None => format!("{fits}; {node} had {total}"),
    }
}

fn shown(nodes: &ExplainedNodes, is_wide: bool) -> impl Iterator<Item = &ExplainedCandidate> {
    nodes.candidates.iter().take(if is_wide { usize::MAX } else { MOST })
}

fn scores(nodes: &ExplainedNodes, is_wide: bool) -> Table {
    let plugins = nodes.candidates.first().map_or(&[][..], |first| &first.scores);
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut header = vec![Cell::new("NODE"), number("TOTAL".to_owned())];
    header.extend(plugins.iter().map(|score| number(score.plugin.clone())));
    let row = |candidate: &ExplainedCandidate| {
        let total = candidate.total.map_or_else(|| "-".to_owned(), |total| total.to_string());
        let mut row = vec![Cell::new(printable(&candidate.node)), number(total)];
        row.extend(candidate.scores.iter().map(|score| {
            number(if is_wide { format!("{} (raw {})", score.weighted, score.raw) } else { score.weighted.to_string() })
        }));
        row
    };
    table(header, shown(nodes, is_wide).map(row))
}

fn refusals(refused: &[ExplainedRefusal]) -> Table {
    let header = ["REFUSED BY", "NODES", "REASON", "ON"].map(Cell::new).to_vec();
    let row = |refusal: &ExplainedRefusal| {
        let shown = refusal.examples.len().min(MOST);
        let names = refusal.examples[..shown].join(", ");
        let more = refusal.nodes.saturating_sub(shown);
        let names = if more > 0 { format!("{names} and {more} more") } else { names };
        let plugin = refusal.plugin.as_deref().unwrap_or("-");
        vec![
            Cell::new(printable(plugin)),
            Cell::new(refusal.nodes),
            Cell::new(printable(&refusal.reasons.join(", "))),
            Cell::new(printable(&names)),
        ]
    };
    table(header, refused.iter().map(row))
}

#[cfg(test)]
mod tests {
    use flotilla_coordinator::serve::explain::{ExplainedRunnerUp, ExplainedScore};

    use super::*;

    fn candidate(node: &str, total: i64) -> ExplainedCandidate {
        let scores = vec![ExplainedScore { plugin: "NodeResourcesFit".to_owned(), raw: total, weighted: total }];
        ExplainedCandidate { node: node.to_owned(), total: Some(total), scores }
    }

    fn decision() -> ExplainedDecision {
        let refused = ExplainedRefusal {
            plugin: Some("TaintToleration".to_owned()),
            reasons: vec!["node(s) had untolerated taint(s)".to_owned()],
            nodes: 7,
            examples: ["t1", "t2", "t3", "t4", "t5"].map(str::to_owned).to_vec(),
        };
        let other = ExplainedRunnerUp { node: "b".to_owned(), total: Some(88), margin: Some(4) };
        ExplainedDecision {
            uid: "u".to_owned(),
            time: "2026-11-23T13:00:00.25Z".to_owned(),
            ago_ms: 125_000,
            attempt: 1,
            waited_ms: 300,
            scheduler_name: "flotilla".to_owned(),
            node: "a".to_owned(),
            total: 92,
            revision: 812,
            changes_since: Some(3),
            asked_extenders: false,
            preemptions: Vec::new(),
            nodes: Some(ExplainedNodes {
                all: 9,
                feasible: 2,
                tied: 1,
                was_nominated: false,
                agrees: true,
                runner_up: Some(other),
                candidates: vec![candidate("a", 92), candidate("b", 88)],
                refused: vec![refused],
            }),
            unknown: None,
        }
    }

    fn printed(decision: &ExplainedDecision) -> String {
        let mut out = Vec::new();
        print("shop/web", decision, false, &mut out).expect("a vector takes all");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn a_decision_is_told_with_its_time_the_runner_up_and_who_refused() {
        let text = printed(&decision());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "shop/web: a was chosen at 2026-11-23T13:00:00Z, 2m5s ago, by profile flotilla in attempt 1 after 0.3 s, at \
             revision 812"
        );
        assert_eq!(lines[1], "  2 of 9 nodes were feasible; a had 92, 4 more than b");
        assert!(lines[4].starts_with("a") && lines[4].contains("92"), "{text}");
        assert!(text.contains("t1, t2, t3, t4, t5 and 2 more"), "{text}");
    }

    #[test]
    fn what_is_not_known_any_more_and_who_made_room_is_told() {
        let room = ExplainedPreemption { node: "a".to_owned(), victims: vec!["shop/low".to_owned()], ago_ms: 9_000 };
        let unknown = Some("too many changes since the decision".to_owned());
        let text = printed(&ExplainedDecision { nodes: None, unknown, preemptions: vec![room], ..decision() });
        assert!(text.contains("  1 pod made room on a 9.0 s ago: shop/low\n"), "{text}");
        let wanted = "the results of the plugins are no longer available: too many changes since the decision";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn a_tie_and_a_lone_node_and_a_nominated_one_are_told_apart() {
        let summary = |change: &dyn Fn(&mut ExplainedNodes)| {
            let decision = decision();
            let mut nodes = decision.nodes.clone().expect("told");
            change(&mut nodes);
            summary(&decision, &nodes)
        };
        let tie = summary(&|nodes| {
            nodes.tied = 2;
            nodes.runner_up.as_mut().expect("there is one").margin = Some(0);
        });
        assert_eq!(tie, "2 of 9 nodes were feasible; a had 92, as had 2 nodes in all: a tie, decided by their ranks");
        let lone = summary(&|nodes| (nodes.runner_up, nodes.feasible) = (None, 1));
        assert_eq!(lone, "1 of 9 nodes were feasible; there was no other than a");
        let nominated = summary(&|nodes| nodes.was_nominated = true);
        assert!(nominated.ends_with("the pod was nominated to a, so that the scores did not count"), "{nominated}");
    }
}
