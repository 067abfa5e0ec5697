//! The spans of a trace, in the order and at the depth in which they are shown.
//!
//! Knows: how Jaeger's API writes a trace, and which span is part of which. Must not know: where the trace comes from, or
//! how it is shown.
//!
//! Source: Jaeger's `internal/uimodel`; times are in microseconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Attributes that say how a span was carried, or what is told in another place.
const UNSAID: [&str; 6] = [
    "error",
    "internal.span.format",
    "otel.scope.name",
    "otel.scope.version",
    "otel.status_code",
    "otel.status_description",
];
/// An instance that is longer is cut where it is part of a name.
const LONGEST_INSTANCE: usize = 21;
const SHORT_INSTANCE: usize = 8;

/// A trace, ready to be shown.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waterfall {
    /// Its ID.
    pub(crate) id: String,
    /// When it began, since 1970.
    pub(crate) from_us: u64,
    /// From the first beginning to the last end.
    pub(crate) takes_us: u64,
    /// Who took part, in the order in which they come.
    pub(crate) processes: Vec<Process>,
    /// Its spans, each below the one that it is part of; never empty.
    pub(crate) rows: Vec<Row>,
}

/// A process that took part.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// Its service, and its instance where there are several of that service.
    pub(crate) name: String,
    /// What it says of itself.
    pub(crate) attributes: Vec<(String, String)>,
}

/// A span.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// How many spans it is inside of.
    pub(crate) depth: usize,
    /// The lines that lead to it from those above.
    #[serde(skip)]
    pub(crate) branch: String,
    /// The same for what is told below it.
    #[serde(skip)]
    pub(crate) stem: String,
    /// What was done.
    pub(crate) name: String,
    /// Its process, by its place among them.
    pub(crate) process: usize,
    /// When it began, since the trace began.
    pub(crate) start_us: u64,
    /// What it took.
    pub(crate) takes_us: u64,
    /// What is said of it, by name.
    pub(crate) attributes: Vec<(String, String)>,
    /// Why it failed, where it did; empty where that is not said.
    pub(crate) error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldTrace {
    #[serde(rename = "traceID")]
    id: String,
    spans: Vec<ToldSpan>,
    #[serde(default)]
    processes: BTreeMap<String, ToldProcess>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldSpan {
    #[serde(rename = "spanID")]
    id: String,
    operation_name: String,
    #[serde(default)]
    references: Option<Vec<Reference>>,
    start_time: u64,
    duration: u64,
    #[serde(default)]
    tags: Option<Vec<Tag>>,
    #[serde(default)]
    logs: Option<Vec<Log>>,
    #[serde(rename = "processID", default)]
    process: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    ref_type: String,
    #[serde(rename = "traceID")]
    trace: String,
    #[serde(rename = "spanID")]
    span: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldProcess {
    service_name: String,
    #[serde(default)]
    tags: Option<Vec<Tag>>,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    value: Value,
}

#[derive(Deserialize)]
struct Log {
    timestamp: u64,
    #[serde(default)]
    fields: Option<Vec<Tag>>,
}

// === impl Waterfall ===

impl Waterfall {
    /// Reads a trace, or of it `within` alone and what is part of that.
    ///
    /// # Errors
    /// Where it is no trace, or there is nothing to show.
    pub(super) fn new(trace: &Value, within: Option<u64>) -> anyhow::Result<Self> {
        let ToldTrace { id, mut spans, processes } = ToldTrace::deserialize(trace)
            .context("this is no trace as Jaeger's API gives it; save one with `flotilla trace ... -o json`")?;
        // Of those that begin together the shorter is first: what takes no time comes before what follows from it.
        let order = |told: &ToldSpan| (told.start_time, told.duration);
        spans.sort_by(|one, other| (order(one), &one.id).cmp(&(order(other), &other.id)));
        let places = match within {
            None => all(&spans),
            Some(span) => {
                let root = spans.iter().position(|told| number(&told.id) == Some(span));
                root.map(|root| below(&[root], &children(&spans), &mut BTreeSet::new())).unwrap_or_default()
            }
        };
        let (Some(from_us), Some(until_us)) = (
            places.iter().map(|place| spans[place.span].start_time).min(),
            places.iter().map(|place| spans[place.span].start_time.saturating_add(spans[place.span].duration)).max(),
        ) else {
            let which = if within.is_some() { " of this attempt" } else { "" };
            bail!("the trace has no spans{which}; those of what is under way are sent once it is over, so ask again");
        };
        let mut order: Vec<&str> = Vec::new();
        for place in &places {
            let process = spans[place.span].process.as_str();
            if !order.contains(&process) {
                order.push(process);
            }
        }
        let rows = places.iter().map(|place| {
            let process = order.iter().position(|known| *known == spans[place.span].process);
            row(place, &spans[place.span], process.unwrap_or_default(), from_us)
        });
        let rows = rows.collect();
        Ok(Self { id, from_us, takes_us: until_us - from_us, processes: named(&order, &processes), rows })
    }

    /// The longest name of a process, and the longest of a span with its lines, in characters. Names of spans that are longer
    /// than `longest` count as that.
    pub(super) fn widths(&self, longest: usize) -> (usize, usize) {
        let process = self.processes.iter().map(|process| process.name.chars().count()).max();
        let span = self.rows.iter().map(|row| row.branch.chars().count() + row.name.chars().count().min(longest)).max();
        (process.unwrap_or_default(), span.unwrap_or_default())
    }
}

/// Where a span is shown.
struct Place {
    span: usize,
    depth: usize,
    branch: String,
    stem: String,
}

/// All spans: those first that are part of nothing that is here, with what is part of them.
fn all(spans: &[ToldSpan]) -> Vec<Place> {
    let children = children(spans);
    let is_child: BTreeSet<usize> = children.values().flatten().copied().collect();
    let roots: Vec<usize> = (0..spans.len()).filter(|span| !is_child.contains(span)).collect();
    let mut seen = BTreeSet::new();
    let mut places = below(&roots, &children, &mut seen);
    // Spans that are said to be part of each other are shown too, from the first one on.
    for span in 0..spans.len() {
        if !seen.contains(&span) {
            places.extend(below(&[span], &children, &mut seen));
        }
    }
    places
}

/// Which spans are part of which, in the order of their beginnings.
fn children(spans: &[ToldSpan]) -> BTreeMap<usize, Vec<usize>> {
    let by_id: BTreeMap<&str, usize> =
        spans.iter().enumerate().rev().map(|(at, span)| (span.id.as_str(), at)).collect();
    let mut children: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (at, span) in spans.iter().enumerate() {
        let mut references = span.references.iter().flatten();
        let parent = references.find(|reference| reference.ref_type == "CHILD_OF");
        if let Some(parent) = parent.and_then(|parent| by_id.get(parent.span.as_str())).filter(|parent| **parent != at)
        {
            children.entry(*parent).or_default().push(at);
        }
    }
    children
}

/// These spans with all that is part of them. Without recursion: a trace may be as deep as it likes.
fn below(roots: &[usize], children: &BTreeMap<usize, Vec<usize>>, seen: &mut BTreeSet<usize>) -> Vec<Place> {
    let mut places = Vec::new();
    let place = |span: usize| Place { span, depth: 0, branch: String::new(), stem: String::new() };
    let mut waiting: Vec<Place> = roots.iter().rev().map(|root| place(*root)).collect();
    while let Some(place) = waiting.pop() {
        if !seen.insert(place.span) {
            continue;
        }
        let parts = children.get(&place.span).map(Vec::as_slice).unwrap_or_default();
        let ends = iter::once(("\u{2514} ", "  ")).chain(iter::repeat(("\u{251c} ", "\u{2502} ")));
        for (part, (branch, stem)) in parts.iter().rev().zip(ends) {
            let (branch, stem) = (format!("{}{branch}", place.stem), format!("{}{stem}", place.stem));
            waiting.push(Place { span: *part, depth: place.depth + 1, branch, stem });
        }
        places.push(place);
    }
    places
}

fn row(place: &Place, span: &ToldSpan, process: usize, from_us: u64) -> Row {
    let tags = || span.tags.iter().flatten();
    let has_failed = tags().any(|tag| tag.key == "error" && tag.value != Value::Bool(false));
    let why = tags().find(|tag| tag.key == "otel.status_description");
    let mut attributes = said(tags());
    for reference in span.references.iter().flatten().filter(|reference| reference.ref_type != "CHILD_OF") {
        attributes.push(("link".to_owned(), format!("span {} of trace {}", reference.span, reference.trace)));
    }
    for log in span.logs.iter().flatten() {
        let fields = said(log.fields.iter().flatten()).into_iter().map(|(key, value)| format!("{key}={value}"));
        let at = super::words::duration(log.timestamp.saturating_sub(from_us));
        attributes.push(("event".to_owned(), format!("at {at}: {}", fields.collect::<Vec<_>>().join(", "))));
    }
    Row {
        depth: place.depth,
        branch: place.branch.clone(),
        stem: place.stem.clone(),
        name: span.operation_name.clone(),
        process,
        start_us: span.start_time - from_us,
        takes_us: span.duration,
        attributes,
        error: has_failed.then(|| why.map(|tag| text(&tag.value)).unwrap_or_default()),
    }
}

/// The attributes that are worth telling, by name.
fn said<'a>(tags: impl Iterator<Item = &'a Tag>) -> Vec<(String, String)> {
    let worth = tags.filter(|tag| !UNSAID.contains(&tag.key.as_str()));
    let mut said: Vec<_> = worth.map(|tag| (tag.key.clone(), text(&tag.value))).collect();
    said.sort();
    said
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The processes, with their instances where there are several of a service.
fn named(order: &[&str], processes: &BTreeMap<String, ToldProcess>) -> Vec<Process> {
    let told: Vec<Option<&ToldProcess>> = order.iter().map(|process| processes.get(*process)).collect();
    let service = |told: Option<&ToldProcess>| told.map_or("unknown", |told| told.service_name.as_str()).to_owned();
    let name = |(told, key): (&Option<&ToldProcess>, &&str)| {
        let tags = || told.iter().flat_map(|told| told.tags.iter().flatten());
        let mut name = service(*told);
        let alike = order.iter().filter(|other| service(processes.get(**other)) == name).count();
        if alike > 1 {
            let instance = tags().find(|tag| tag.key == "service.instance.id").map(|tag| text(&tag.value));
            name = format!("{name} {}", short(instance.as_deref().unwrap_or(key)));
        }
        Process { name, attributes: said(tags()) }
    };
    told.iter().zip(order).map(name).collect()
}

fn short(instance: &str) -> String {
    if instance.chars().count() <= LONGEST_INSTANCE {
        return instance.to_owned();
    }
    instance.chars().take(SHORT_INSTANCE).chain(['\u{2026}']).collect()
}

fn number(id: &str) -> Option<u64> {
    u64::from_str_radix(id, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn span(id: &str, parent: Option<&str>, start: u64, duration: u64) -> Value {
        let parent = parent.map(|parent| json!({ "refType": "CHILD_OF", "traceID": "1", "spanID": parent }));
        let references: Vec<Value> = parent.into_iter().collect();
        json!({
            "spanID": id, "operationName": id, "references": references, "startTime": start, "duration": duration,
            "processID": "p1",
        })
    }

    fn of(spans: &[Value]) -> Value {
        json!({ "traceID": "1", "spans": spans, "processes": { "p1": { "serviceName": "s" } } })
    }

    fn shown(trace: &Value, within: Option<u64>) -> Vec<String> {
        let waterfall = Waterfall::new(trace, within).expect("a trace");
        waterfall
            .rows
            .iter()
            .map(|row| format!("{}{} {}+{}", row.branch, row.name, row.start_us, row.takes_us))
            .collect()
    }

    #[test]
    fn each_span_is_below_the_one_that_it_is_part_of_in_the_order_of_time() {
        let trace = of(&[
            span("b2", Some("b"), 30, 5),
            span("c", Some("a"), 40, 10),
            span("a", None, 10, 90),
            span("b", Some("a"), 20, 20),
            span("b1", Some("b"), 20, 5),
        ]);
        assert_eq!(shown(&trace, None), ["a 0+90", "├ b 10+20", "│ ├ b1 10+5", "│ └ b2 20+5", "└ c 30+10"]);
    }

    #[test]
    fn of_a_trace_with_much_else_one_attempt_can_be_shown_from_its_own_beginning() {
        let trace = of(&[span("a", None, 10, 90), span("b", Some("a"), 20, 20), span("b1", Some("b"), 25, 5)]);
        assert_eq!(shown(&trace, Some(0xb)), ["b 0+20", "└ b1 5+5"]);
        let error = Waterfall::new(&trace, Some(7)).expect_err("no such span").to_string();
        assert!(error.starts_with("the trace has no spans of this attempt"), "{error}");
    }

    #[test]
    fn a_span_whose_parent_was_not_sent_is_shown_all_the_same_and_so_are_circles() {
        let trace = of(&[
            span("a", Some("lost"), 10, 1),
            span("b", Some("c"), 20, 1),
            span("c", Some("b"), 30, 1),
            span("d", Some("d"), 40, 1),
        ]);
        assert_eq!(shown(&trace, None), ["a 0+1", "d 30+1", "b 10+1", "└ c 20+1"]);
    }

    #[test]
    fn instances_are_named_where_a_service_has_several() {
        let mut spans = [span("a", None, 0, 1), span("b", None, 1, 1), span("c", None, 2, 1)];
        spans[1]["processID"] = json!("p2");
        spans[2]["processID"] = json!("p3");
        let instance = |name: &str| json!([{ "key": "service.instance.id", "value": name }]);
        let trace = json!({ "traceID": "1", "spans": spans, "processes": {
            "p1": { "serviceName": "one", "tags": instance("x") },
            "p2": { "serviceName": "two", "tags": instance("127.0.0.1:10270") },
            "p3": { "serviceName": "two", "tags": instance("3f9c1c56-7a52-4a0e-9d5a-0c7a7d5d8a11") },
        }});
        let waterfall = Waterfall::new(&trace, None).expect("a trace");
        let names: Vec<&str> = waterfall.processes.iter().map(|process| process.name.as_str()).collect();
        assert_eq!(names, ["one", "two 127.0.0.1:10270", "two 3f9c1c56\u{2026}"]);
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for (trace, expected) in [
            (json!({ "traceID": "1", "spans": [] }), "has no spans"),
            (json!({ "spans": 1 }), "no trace as Jaeger's API gives it"),
            (json!([]), "no trace as Jaeger's API gives it"),
        ] {
            let error = format!("{:#}", Waterfall::new(&trace, None).expect_err("no trace"));
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn times_beyond_all_measure_do_no_harm() {
        let trace = of(&[span("a", None, u64::MAX, u64::MAX), span("b", None, 0, u64::MAX)]);
        assert_eq!(Waterfall::new(&trace, None).expect("a trace").takes_us, u64::MAX);
    }
}
