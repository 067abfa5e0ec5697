//! The answer as a table.

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table};
use flotilla_account::{
    account::Account,
    advice, devices,
    missing::{self, Group, Miss},
    preemption::Preempted,
    words,
    world::World,
    world::name,
};
use flotilla_cluster::NotStarting;
use flotilla_framework::explain::{NodeExplanation, PluginScore};

use crate::output::{printable, table};

const MOST_FEASIBLE: usize = 10;
const MOST_GROUPS: usize = 10;
const MOST_MISSES: usize = 3;
const MOST_NAMES: usize = 5;
const MOST_VICTIMS: usize = 10;

struct Scored<'a> {
    node: &'a str,
    total: Option<i64>,
    scores: &'a [PluginScore],
}

/// Prints the answer about one pod and an empty line.
pub(super) fn print(
    account: &Account,
    starts: &[NotStarting],
    world: &World,
    is_wide: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let scored = scored(account, world);
    writeln!(out, "{}", printable(&heading(account, world, scored.len())))?;
    if let Some(text) = placed(account, world) {
        writeln!(out, "  {}", printable(&text))?;
    }
    if let Some(text) = alone(account, world) {
        writeln!(out, "  {}", printable(&text))?;
    }
    for found in starts.iter().filter(|found| account.pod.node_name.is_some() && found.pod == account.pod.key()) {
        writeln!(out, "  it does not start there: {}", printable(&found.reason))?;
    }
    let Account { gate, explanation, .. } = account;
    let gate = gate.as_ref().map(|(_, message)| message);
    for line in gate.into_iter().chain([&explanation.message]).chain(&explanation.error) {
        if !line.is_empty() {
            writeln!(out, "  {}", printable(line))?;
        }
    }
    if !scored.is_empty() {
        let shown = if is_wide { scored.len() } else { scored.len().min(MOST_FEASIBLE) };
        writeln!(out, "\n{}", scores(&scored[..shown], account, is_wide).trim_fmt())?;
        more(out, scored.len() - shown, "feasible nodes")?;
    }
    if let Some(preempted) = &account.preempted {
        writeln!(out, "  {}", printable(&preempted.message))?;
        if let Some(victims) = victims(preempted, world, is_wide) {
            writeln!(out, "  {}", printable(&victims))?;
        }
    }
    let groups = missing::groups(account, world);
    if !groups.is_empty() {
        let shown = if is_wide { groups.len() } else { groups.len().min(MOST_GROUPS) };
        writeln!(out, "\n{}", refusals(&groups[..shown], is_wide).trim_fmt())?;
        more(out, groups[shown..].iter().map(|group| group.count).sum(), "nodes refuse it for rarer reasons")?;
    }
    devices(account, world, is_wide, out)?;
    if !account.in_the_way.is_empty() {
        writeln!(out)?;
    }
    account.in_the_way.iter().try_for_each(|sentence| writeln!(out, "{}", printable(sentence)))?;
    if let Some(advice) = advice::advice(account) {
        writeln!(out, "\n{}", printable(&advice))?;
    }
    writeln!(out)
}

/// The victims on the node that preemption would choose.
fn victims(preempted: &Preempted, world: &World, is_wide: bool) -> Option<String> {
    let chosen = preempted.candidates.iter().find(|candidate| Some(candidate.node) == preempted.node)?;
    let shown = if is_wide { chosen.victims.len() } else { chosen.victims.len().min(MOST_VICTIMS) };
    let mut names: Vec<String> = chosen.victims[..shown].iter().map(|pod| world.key(pod)).collect();
    if shown < chosen.victims.len() {
        names.push(format!("{} more", chosen.victims.len() - shown));
    }
    let budgets = match chosen.violations {
        0 => String::new(),
        1 => "; a disruption budget allows no eviction of 1 of them".to_owned(),
        count => format!("; disruption budgets allow no eviction of {count} of them"),
    };
    Some(format!("victims on {}: {}{budgets}", name(world, chosen.node), words::list(&names)))
}

/// Missing devices, the nearest miss first.
fn devices(account: &Account, world: &World, is_wide: bool, out: &mut dyn Write) -> io::Result<()> {
    let paragraphs = devices::paragraphs(account, world);
    let shown = if is_wide { paragraphs.len() } else { paragraphs.len().min(MOST_MISSES) };
    for (nodes, lines) in &paragraphs[..shown] {
        writeln!(out, "\n{}:", printable(&names(nodes, is_wide)))?;
        for line in lines {
            writeln!(out, "  {}", printable(line))?;
        }
    }
    more(out, paragraphs[shown..].iter().map(|(nodes, _)| nodes.len()).sum(), "nodes lack devices")
}

fn more(out: &mut dyn Write, count: usize, what: &str) -> io::Result<()> {
    if count == 0 { Ok(()) } else { writeln!(out, "... and {count} more {what}; -o wide shows all") }
}

fn heading(account: &Account, world: &World, feasible: usize) -> String {
    let pod = account.pod.key();
    if let Some((plugin, _)) = &account.gate {
        return format!("{pod}: {plugin} keeps it out of the queue");
    }
    let all = world.node_count();
    if account.explanation.nodes.is_empty() && all > 0 {
        return format!("{pod}: held back");
    }
    if let Some(nominated) = account.explanation.nominated {
        let node = name(world, nominated);
        return format!("{pod}: fits {feasible} of {}, takes {node}, which it is nominated to", words::nodes(all));
    }
    if account.explanation.error.is_some() {
        let feasible = match feasible {
            0 => String::new(),
            _ => format!("; the plugins find {feasible} of {} feasible", words::nodes(all)),
        };
        return format!("{pod}: the attempt fails{feasible}");
    }
    match (feasible, account.explanation.best().as_slice()) {
        (0, _) => format!("{pod}: fits none of {}", words::nodes(all)),
        (_, []) => format!("{pod}: fits {feasible} of {}", words::nodes(all)),
        (_, [one]) => format!("{pod}: fits {feasible} of {}, best {}", words::nodes(all), name(world, *one)),
        (_, many) => {
            format!("{pod}: fits {feasible} of {}, of which {} are equally good", words::nodes(all), many.len())
        }
    }
}

/// That a pending pod of a group is evaluated without the others.
fn alone(account: &Account, world: &World) -> Option<String> {
    let is_evaluated = account.pod.node_name.is_none() && !account.explanation.nodes.is_empty();
    let (group, pods) = world.groups().group(&account.pod).filter(|_| is_evaluated)?;
    let pods = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
    Some(format!("evaluated alone; PodGroup {} has {pods}, and `flotilla simulate` places them together", group.key()))
}

/// How its own node evaluates a pod that is placed already.
fn placed(account: &Account, world: &World) -> Option<String> {
    let own = account.pod.node_name.as_deref()?;
    let outcome = account.explanation.nodes.iter().find(|(id, _)| name(world, **id) == own).map(|(_, outcome)| outcome);
    let outcome = outcome?;
    if account.pod.class.resize_deferred {
        let fits = matches!(outcome, NodeExplanation::Feasible { .. });
        let evaluated = if fits { "fits there" } else { "does not fit there" };
        return Some(format!("is on {own}, where its resize is deferred: it {evaluated}"));
    }
    let evaluated = match outcome {
        NodeExplanation::Feasible { total: Some(total), .. } => {
            let better = account.explanation.nodes.values().filter(|one| one.total() > Some(*total)).count();
            match better {
                0 => format!("it is there with the highest total, {total}"),
                1 => format!("its total there is {total}, and 1 node has a higher one"),
                count => format!("its total there is {total}, and {count} nodes have higher ones"),
            }
        }
        NodeExplanation::Feasible { total: None, .. } => "it fits there".to_owned(),
        NodeExplanation::Refused { plugin, reasons, .. } => {
            let plugin = plugin.map(|plugin| format!(" by {plugin}")).unwrap_or_default();
            format!("it would be refused there now{plugin}: {}", reasons.join(", "))
        }
    };
    Some(format!("is on {own}, evaluated as if it were pending: {evaluated}"))
}

/// The feasible nodes, the best first.
fn scored<'a>(account: &'a Account, world: &'a World) -> Vec<Scored<'a>> {
    let feasible = account.explanation.nodes.iter().filter_map(|(&id, outcome)| match outcome {
        NodeExplanation::Feasible { scores, total } => Some(Scored { node: name(world, id), total: *total, scores }),
        NodeExplanation::Refused { .. } => None,
    });
    let mut feasible: Vec<Scored<'_>> = feasible.collect();
    feasible.sort_unstable_by(|left, right| right.total.cmp(&left.total).then(left.node.cmp(right.node)));
    feasible
}

fn scores(nodes: &[Scored<'_>], account: &Account, is_wide: bool) -> Table {
    let plugins = nodes.first().map_or(&[][..], |node| node.scores);
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut header = vec![Cell::new("NODE"), number("TOTAL".to_owned())];
    header.extend(plugins.iter().map(|score| number(score.plugin.to_owned())));
    // Extenders have URLs as names.
    header.extend(account.priorities("").map(|(extender, _)| number(printable(extender).into_owned())));
    let cell = |weighted: i64, raw: i64| {
        number(if is_wide { format!("{weighted} (raw {raw})") } else { weighted.to_string() })
    };
    let score = |score: &PluginScore| cell(score.weighted, score.raw);
    let row = |node: &Scored<'_>| {
        let total = node.total.map_or_else(|| "-".to_owned(), |total| total.to_string());
        let is_own = account.pod.node_name.as_deref() == Some(node.node);
        let title = if is_own { format!("{} (its node)", node.node) } else { node.node.to_owned() };
        let mut row = vec![Cell::new(printable(&title)), number(total)];
        row.extend(node.scores.iter().map(score));
        let priorities = account.priorities(node.node);
        row.extend(
            priorities
                .map(|(_, score)| score.map_or_else(|| number("-".to_owned()), |(raw, weighted)| cell(weighted, raw))),
        );
        row
    };
    table(header, nodes.iter().map(row))
}

fn refusals(groups: &[Group<'_>], is_wide: bool) -> Table {
    let header = ["REFUSED BY", "NODES", "REASON", "LACKS", "ON"].map(Cell::new).to_vec();
    table(header, groups.iter().flat_map(|group| rows(group, is_wide)))
}

/// One row for each shortfall; the first names the group.
fn rows(group: &Group<'_>, is_wide: bool) -> Vec<Vec<Cell>> {
    let shown = if is_wide { group.misses.len() } else { group.misses.len().min(MOST_MISSES) };
    let (misses, others) = group.misses.split_at(shown);
    let mut rows: Vec<Vec<Cell>> = misses.iter().map(|miss| miss_row(miss, is_wide)).collect();
    let others: usize = others.iter().map(|miss| miss.nodes.len()).sum();
    if others > 0 {
        rows.push(vec![Cell::new("..."), Cell::new(format!("and {others} more"))]);
    }
    let plugin = if group.plugin.is_empty() { "-" } else { group.plugin };
    let title = [plugin.to_owned(), group.count.to_string(), printable(&group.reasons.join(", ")).into_owned()];
    let blank = [String::new(), String::new(), String::new()];
    let row = |(place, cells): (usize, Vec<Cell>)| {
        let title = if place == 0 { &title } else { &blank };
        title.iter().map(Cell::new).chain(cells).collect()
    };
    rows.into_iter().enumerate().map(row).collect()
}

fn miss_row(Miss { lacks, nodes }: &Miss<'_>, is_wide: bool) -> Vec<Cell> {
    let lacks = if lacks.is_empty() { "-" } else { lacks };
    vec![Cell::new(printable(lacks)), Cell::new(printable(&names(nodes, is_wide)))]
}

fn names(nodes: &[&str], is_wide: bool) -> String {
    let shown = if is_wide { nodes.len() } else { nodes.len().min(MOST_NAMES) };
    let names = nodes[..shown].join(", ");
    if shown < nodes.len() { format!("{names} and {} more", nodes.len() - shown) } else { names }
}
