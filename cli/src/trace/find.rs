//! Finds the trace that the arguments name.

use std::{collections::BTreeMap, fs, io::Read as _, path::Path};

use anyhow::{Context as _, anyhow};
use flotilla_framework::trace::{ANNOTATION, Context, Parent};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{Found, args::TraceArgs, jaeger::Jaeger};
use crate::{
    live::{Connection, list},
    output::{Failure, print_notes},
};

/// Traces per request: their IDs make a URL of 3 KiB, and every server accepts 8 KiB.
const ASKED_AT_ONCE: u32 = 64;
/// The maximum number of consecutive missing attempts. For a pod that fails for long, only some attempts may be recorded.
const LONGEST_GAP: u32 = 512;

#[derive(Debug, PartialEq, Eq)]
enum Meant {
    /// A trace by its ID.
    Trace(u128),
    /// The scheduling attempts of a pod.
    Pod(Subject),
}

#[derive(Debug, PartialEq, Eq)]
struct Subject {
    /// For messages.
    name: String,
    uid: String,
    /// The client's span that created the pod.
    parent: Option<Parent>,
}

/// Finds the requested trace.
///
/// # Errors
/// There is no trace, or a server does not answer; with the next step.
pub(super) fn find(args: &TraceArgs) -> Result<Found, Failure> {
    if let Some(path) = &args.file {
        return from_file(path).map_err(|error| Failure::input(vec![format!("flotilla: {error:#}")]));
    }
    let target = target(&args.target).map_err(|error| Failure::input(vec![error]))?;
    if let (Some(Target::Trace(_)), Some(_)) = (&target, args.attempt) {
        let why =
            "--attempt chooses among the attempts to place a pod, and a trace's ID names one already; leave one out";
        return Err(Failure::input(vec![why.to_owned()]));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime").map_err(Failure::run)?;
    let found = runtime.block_on(async {
        let jaeger = Jaeger::new(&args.jaeger)?;
        let meant = match (target, &args.uid) {
            (Some(Target::Trace(trace)), _) => Meant::Trace(trace),
            (Some(Target::Pod(name)), _) => Meant::Pod(subject(args, &name).await?),
            (None, uid) => Meant::Pod(Subject::of_uid(uid.as_deref().unwrap_or_default())),
        };
        match meant {
            Meant::Trace(trace) => whole(&jaeger, trace).await,
            Meant::Pod(pod) => of_pod(&jaeger, &pod, args.attempt).await,
        }
    });
    found.map_err(Failure::run)
}

#[derive(Debug, PartialEq, Eq)]
enum Target {
    Trace(u128),
    Pod(String),
}

/// Parses the arguments; `None` without any.
fn target(words: &[String]) -> Result<Option<Target>, String> {
    let (kind, name) = match words {
        [] => return Ok(None),
        [kind, name] => (kind.as_str(), name.as_str()),
        [one, ..] => match trace_id(one) {
            Some(trace) => return Ok(Some(Target::Trace(trace))),
            None => one.split_once('/').unwrap_or((one, "")),
        },
    };
    let is_pod = matches!(kind.to_ascii_lowercase().as_str(), "pod" | "pods" | "po");
    if is_pod && !name.is_empty() && !name.contains('/') {
        return Ok(Some(Target::Pod(name.to_owned())));
    }
    Err(format!(
        "{:?} names no trace; write pod/NAME, with its namespace in --namespace, or the 32 digits of a trace's ID",
        words.join(" ")
    ))
}

/// The ID in hexadecimal, or that of a traceparent.
fn trace_id(word: &str) -> Option<u128> {
    if let Ok((context, _)) = Context::parse(word) {
        return Some(context.trace);
    }
    // Jaeger omits leading zeros; fewer than 16 digits are more likely something else.
    let is_id = (16..=32).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| u128::from_str_radix(word, 16).ok()).flatten()
}

async fn subject(args: &TraceArgs, name: &str) -> anyhow::Result<Subject> {
    let connection = Connection::open(&args.server).await?;
    let namespace = args.namespace.as_deref().unwrap_or(&connection.namespace);
    let pod = list::pod(&connection.client, namespace, name, &connection.place).await?;
    Subject::of_pod(&pod)
}

/// Finds the trace of a scheduling attempt in a live cluster; without a number, of the last one recorded.
///
/// # Errors
/// As [`find`].
pub(super) async fn of_live(
    connection: &Connection,
    jaeger: &str,
    (namespace, name): (&str, &str),
    attempt: Option<u32>,
) -> anyhow::Result<Found> {
    let pod = list::pod(&connection.client, namespace, name, &connection.place).await?;
    of_pod(&Jaeger::new(jaeger)?, &Subject::of_pod(&pod)?, attempt).await
}

impl Subject {
    fn of_uid(uid: &str) -> Self {
        Self { name: format!("pod with UID {uid}"), uid: uid.to_owned(), parent: None }
    }

    fn of_pod(pod: &Pod) -> anyhow::Result<Self> {
        let metadata = &pod.metadata;
        let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(ANNOTATION));
        Ok(Self {
            name: format!(
                "pod {}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default()
            ),
            uid: metadata.uid.clone().context("the API server gave a pod without a UID")?,
            // Invalid contexts are ignored, as in the coordinator.
            parent: annotation.and_then(|text| {
                let (context, is_recorded) = Context::parse(text.trim()).ok()?;
                Some(Parent { context, is_recorded })
            }),
        })
    }

    fn attempt(&self, attempt: u32) -> Context {
        match self.parent {
            Some(Parent { context, .. }) => Context::of_attempt_within(context, &self.uid, attempt),
            None => Context::of_attempt(&self.uid, attempt),
        }
    }
}

async fn whole(jaeger: &Jaeger, id: u128) -> anyhow::Result<Found> {
    let found = jaeger.traces(&[id]).await?.pop();
    let (_, trace) = found.with_context(|| {
        format!(
            "Jaeger at {} has no trace {id:032x}; it may be gone, not recorded, or still on its way: spans are sent within \
             seconds",
            jaeger.url()
        )
    })?;
    Ok(Found { trace, within: None })
}

async fn of_pod(jaeger: &Jaeger, pod: &Subject, attempt: Option<u32>) -> anyhow::Result<Found> {
    match (pod.parent, attempt) {
        (Some(Parent { is_recorded: false, .. }), _) => {
            Err(anyhow!("the annotation {ANNOTATION} of {} disables its trace, so no spans were sent", pod.name))
        }
        (Some(Parent { context, .. }), None) => whole(jaeger, context.trace).await,
        (_, Some(attempt)) => {
            let context = pod.attempt(attempt);
            let mut found = jaeger.traces(&[context.trace]).await?;
            let (_, trace) = found.pop().ok_or_else(|| missing(jaeger, pod, &format!("attempt {attempt} of ")))?;
            Ok(Found { trace, within: pod.parent.map(|_| context.span) })
        }
        (None, None) => last(jaeger, pod).await,
    }
}

/// The last recorded attempt.
async fn last(jaeger: &Jaeger, pod: &Subject) -> anyhow::Result<Found> {
    let mut found: BTreeMap<u32, Value> = BTreeMap::new();
    let mut next = 1_u32;
    while next <= found.last_key_value().map_or(0, |(last, _)| *last).saturating_add(LONGEST_GAP) {
        let asked = next..next.saturating_add(ASKED_AT_ONCE);
        let names: BTreeMap<u128, u32> = asked.clone().map(|attempt| (pod.attempt(attempt).trace, attempt)).collect();
        let ids: Vec<u128> = names.keys().copied().collect();
        let traces = jaeger.traces(&ids).await?;
        found.extend(traces.into_iter().filter_map(|(id, trace)| Some((*names.get(&id)?, trace))));
        if asked.end == u32::MAX {
            break;
        }
        next = asked.end;
    }
    let count = found.len();
    let (attempt, trace) = found.pop_last().ok_or_else(|| missing(jaeger, pod, ""))?;
    if count > 1 {
        print_notes(&[format!(
            "attempt {attempt} of {}; {} before it are recorded too: --attempt shows another",
            pod.name,
            count - 1
        )]);
    }
    Ok(Found { trace, within: None })
}

fn missing(jaeger: &Jaeger, pod: &Subject, which: &str) -> anyhow::Error {
    anyhow!(
        "Jaeger at {} has no trace of {which}{}; was it decided on by a coordinator with --tracing-endpoint, and is its \
         --tracing-sampling-ratio 1? Spans are sent within seconds, and `flotilla explain pod` shows the state of a \
         pod",
        jaeger.url(),
        pod.name
    )
}

fn from_file(path: &Path) -> anyhow::Result<Found> {
    let place = path.display();
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("cannot read the standard input")?;
    } else {
        text = fs::read_to_string(path).with_context(|| format!("cannot read {place}; check the path"))?;
    }
    let mut told: Value = serde_json::from_str(&text)
        .with_context(|| format!("{place} is no JSON; save a trace with `flotilla trace ... -o json`"))?;
    let trace = match told.get_mut("data").and_then(Value::as_array_mut).map(Vec::as_mut_slice) {
        None => told,
        Some([one]) => one.take(),
        Some([]) => return Err(anyhow!("{place} holds no trace")),
        Some(several) => {
            let ids = several.iter().filter_map(|trace| trace["traceID"].as_str()).take(5).collect::<Vec<_>>();
            return Err(anyhow!(
                "{place} holds {} traces ({}); leave one, such as with `jq '.data[0]'`",
                several.len(),
                ids.join(", ")
            ));
        }
    };
    Ok(Found { trace, within: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const NUMBER: u128 = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736;

    fn typed(words: &[&str]) -> Result<Option<Target>, String> {
        target(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_pod_a_trace_and_a_context_are_told_apart() {
        let pod = || Ok(Some(Target::Pod("web".to_owned())));
        let trace = |number| Ok(Some(Target::Trace(number)));
        assert_eq!(typed(&["pod/web"]), pod());
        assert_eq!(typed(&["po", "web"]), pod());
        assert_eq!(typed(&[ID]), trace(NUMBER));
        assert_eq!(typed(&[&format!("00-{ID}-00f067aa0ba902b7-01")]), trace(NUMBER));
        assert_eq!(typed(&["a3ce929d0e0e4736"]), trace(0xa3ce_929d_0e0e_4736));
        assert_eq!(typed(&[]), Ok(None));
    }

    #[test]
    fn what_is_neither_is_told_with_what_to_write() {
        for words in [&["web"][..], &["pod"], &["pod/"], &["pod/shop/web"], &["node/a"], &["abc123"]] {
            let error = typed(words).expect_err("neither");
            assert!(error.contains("write pod/NAME, with its namespace in --namespace"), "{error}");
        }
    }

    fn pod(annotation: Option<&str>) -> Subject {
        let annotations = annotation.map(|text| json!({ "traceparent": text }));
        let pod = json!({ "metadata": { "namespace": "shop", "name": "web", "uid": "u", "annotations": annotations } });
        Subject::of_pod(&serde_json::from_value(pod).expect("a pod")).expect("a UID")
    }

    #[test]
    fn attempts_are_part_of_the_trace_that_the_pod_names_and_have_their_own_else() {
        let text = format!("00-{ID}-00f067aa0ba902b7-01");
        assert_eq!(pod(Some(&text)).attempt(2).trace, NUMBER);
        assert_eq!(pod(Some(&text)).attempt(2).span, Context::of_attempt("u", 2).span);
        assert_eq!(pod(None).attempt(2), Context::of_attempt("u", 2));
        assert_eq!(pod(Some("nonsense")).attempt(2), Context::of_attempt("u", 2));
    }
}
