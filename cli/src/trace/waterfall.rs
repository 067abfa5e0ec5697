//! The spans of a trace in display order, with their depth.
//!
//! Source: Jaeger's `internal/uimodel`; times are in microseconds.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
};

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Attributes about the transport, or shown elsewhere.
const UNSAID: [&str; 6] = [
    "error",
    "internal.span.format",
    "otel.scope.name",
    "otel.scope.version",
    "otel.status_code",
    "otel.status_description",
];
/// Longer instance names are cut in process names.
const LONGEST_INSTANCE: usize = 21;
const SHORT_INSTANCE: usize = 8;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Waterfall {
    pub(crate) id: String,
    /// The start, since 1970.
    pub(crate) from_us: u64,
    /// From the first start to the last end.
    pub(crate) takes_us: u64,
    /// The processes, in order of appearance.
    pub(crate) processes: Vec<Process>,
    /// The spans, each below its parent; never empty.
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Process {
    /// The service, with the instance if there are several.
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// The number of ancestors.
    pub(crate) depth: usize,
    #[serde(skip)]
    pub(crate) branch: String,
    #[serde(skip)]
    pub(crate) stem: String,
    pub(crate) name: String,
    /// The index of the process.
    pub(crate) process: usize,
    /// The start, relative to the trace.
    pub(crate) start_us: u64,
    pub(crate) takes_us: u64,
    /// Sorted by name.
    pub(crate) attributes: Vec<(String, String)>,
    /// The error message; empty if the span failed without one.
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

impl Waterfall {
    /// Reads a trace, or only the span `within` and its descendants.
    ///
    /// # Errors
    /// The value is not a trace, or there is nothing to show.
    pub(super) fn new(trace: &Value, within: Option<u64>) -> anyhow::Result<Self> {
        let ToldTrace { id, mut spans, processes } = ToldTrace::deserialize(trace)
            .context("this is no trace as Jaeger's API gives it; save one with `flotilla trace ... -o json`")?;
        // At equal starts the shorter span is first, because a longer one follows from it.
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
            bail!("the trace has no spans{which}; spans are sent when they end, so try again");
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

    /// The widths of the longest process name, and of the longest span name with its lines. Names of spans count as `longest` at most.
    pub(super) fn widths(&self, longest: usize) -> (usize, usize) {
        let process = self.processes.iter().map(|process| process.name.chars().count()).max();
        let span = self.rows.iter().map(|row| row.branch.chars().count() + row.name.chars().count().min(longest)).max();
        (process.unwrap_or_default(), span.unwrap_or_default())
    }
}

struct SpanRow {
    span: usize,
    depth: usize,
    branch: String,
    stem: String,
}

/// All spans, starting with those without a parent in the trace.
fn all(spans: &[ToldSpan]) -> Vec<SpanRow> {
    let children = children(spans);
    let is_child: BTreeSet<usize> = children.values().flatten().copied().collect();
    let roots: Vec<usize> = (0..spans.len()).filter(|span| !is_child.contains(span)).collect();
    let mut seen = BTreeSet::new();
    let mut places = below(&roots, &children, &mut seen);
    // Spans in a cycle are shown too, from the first one on.
    for span in 0..spans.len() {
        if !seen.contains(&span) {
            places.extend(below(&[span], &children, &mut seen));
        }
    }
    places
}

/// The children of each span, ordered by start.
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

/// The spans and their descendants. It is iterative, because the depth of a trace is unlimited.
fn below(roots: &[usize], children: &BTreeMap<usize, Vec<usize>>, seen: &mut BTreeSet<usize>) -> Vec<SpanRow> {
    let mut places = Vec::new();
    let place = |span: usize| SpanRow { span, depth: 0, branch: String::new(), stem: String::new() };
    let mut waiting: Vec<SpanRow> = roots.iter().rev().map(|root| place(*root)).collect();
    while let Some(place) = waiting.pop() {
        if !seen.insert(place.span) {
            continue;
        }
        let parts = children.get(&place.span).map(Vec::as_slice).unwrap_or_default();
        let ends = iter::once(("\u{2514} ", "  ")).chain(iter::repeat(("\u{251c} ", "\u{2502} ")));
        for (part, (branch, stem)) in parts.iter().rev().zip(ends) {
            let (branch, stem) = (format!("{}{branch}", place.stem), format!("{}{stem}", place.stem));
            waiting.push(SpanRow { span: *part, depth: place.depth + 1, branch, stem });
        }
        places.push(place);
    }
    places
}

fn row(place: &SpanRow, span: &ToldSpan, process: usize, from_us: u64) -> Row {
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

/// The attributes to show, by name.
fn said<'a>(tags: impl Iterator<Item = &'a Tag>) -> Vec<(String, String)> {
    let worth = tags.filter(|tag| !UNSAID.contains(&tag.key.as_str()));
    let mut said: Vec<_> = worth.map(|tag| (tag.key.clone(), text(&tag.value))).collect();
    said.sort();
    said
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The processes, with their instances if a service has several.
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
