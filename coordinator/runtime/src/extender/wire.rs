//! Requests and answers of extenders as JSON.
//!
//! `k8s.io/kube-scheduler/extender/v1`, as Go decodes it: names in any case, null as absent, text after the first value ignored.

use std::{collections::BTreeMap, sync::Arc};

use flotilla_framework::extender::{FilterAnswer, HostPriority, Proposal, Victims};
use flotilla_machine::action::Binding;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Deserializer, Value, json, value::RawValue};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Args<'a> {
    pod: &'a RawValue,
    nodes: Option<NodeList<'a>>,
    node_names: Option<&'a [Arc<str>]>,
}

#[derive(Serialize)]
struct NodeList<'a> {
    metadata: BTreeMap<(), ()>,
    items: &'a [Arc<RawValue>],
}

fn written(args: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(args).map_err(|error| error.to_string())
}

/// `ExtenderArgs` with names.
pub(super) fn names_args(pod: &RawValue, names: &[Arc<str>]) -> Result<Vec<u8>, String> {
    written(&Args { pod, nodes: None, node_names: Some(names) })
}

/// `ExtenderArgs` with whole nodes.
pub(super) fn nodes_args(pod: &RawValue, items: &[Arc<RawValue>]) -> Result<Vec<u8>, String> {
    written(&Args { pod, nodes: Some(NodeList { metadata: BTreeMap::new(), items }), node_names: None })
}

/// `ExtenderPreemptionArgs` with UIDs.
pub(super) fn meta_victims_args(pod: &RawValue, proposal: &Proposal) -> Result<Vec<u8>, String> {
    let meta = |victims: &Victims| {
        let pods: Vec<_> = victims.pods.iter().map(|uid| json!({ "UID": uid })).collect();
        json!({ "Pods": pods, "NumPDBViolations": victims.violations })
    };
    let nodes: BTreeMap<&Arc<str>, Value> =
        proposal.nodes.iter().map(|(node, victims)| (node, meta(victims))).collect();
    written(&json!({ "Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": nodes }))
}

/// `ExtenderPreemptionArgs` with the known pods in full.
pub(super) fn victims_args(
    pod: &RawValue,
    proposal: &Proposal,
    pods: &BTreeMap<Arc<str>, Arc<RawValue>>,
) -> Result<Vec<u8>, String> {
    let whole = |victims: &Victims| {
        let pods: Vec<&Arc<RawValue>> = victims.pods.iter().filter_map(|uid| pods.get(uid)).collect();
        json!({ "Pods": pods, "NumPDBViolations": victims.violations })
    };
    let nodes: BTreeMap<&Arc<str>, Value> =
        proposal.nodes.iter().map(|(node, victims)| (node, whole(victims))).collect();
    written(&json!({ "Pod": pod, "NodeNameToVictims": nodes, "NodeNameToMetaVictims": null }))
}

/// `ExtenderPreemptionResult`: the UIDs of victims and the number of violations, by node.
pub(super) fn meta_victims(body: &[u8]) -> Result<BTreeMap<String, (Vec<String>, i64)>, String> {
    let read = || {
        let nodes: Option<BTreeMap<String, Box<RawValue>>> =
            Fields::of(first(body)?.get())?.get("nodenametometavictims")?;
        let victims = |(node, victims): (String, Box<RawValue>)| {
            let fields = Fields::of(victims.get())?;
            let pods: Vec<Box<RawValue>> = fields.get("pods")?.unwrap_or_default();
            let uid = |pod: Box<RawValue>| Ok::<_, String>(Fields::of(pod.get())?.get("uid")?.unwrap_or_default());
            let uids = pods.into_iter().map(uid).collect::<Result<Vec<String>, String>>()?;
            Ok((node, (uids, fields.get("numpdbviolations")?.unwrap_or_default())))
        };
        nodes.unwrap_or_default().into_iter().map(victims).collect::<Result<_, String>>()
    };
    read().map_err(|reason| unreadable("ExtenderPreemptionResult", reason))
}

pub(super) fn binding_args(binding: &Binding) -> Vec<u8> {
    let Binding { uid, namespace, name, node, .. } = binding;
    let args = json!({ "PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node });
    args.to_string().into_bytes()
}

/// The non-null fields of an object, by their names in lower case.
struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    fn of(text: &str) -> Result<Self, String> {
        let read: Option<BTreeMap<String, Box<RawValue>>> = parsed(text)?;
        let fields = read.unwrap_or_default().into_iter().filter(|(_, value)| value.get() != "null");
        Ok(Self(fields.map(|(name, value)| (name.to_lowercase(), value)).collect()))
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        let value = self.0.get(name).map(|value| parsed(value.get()));
        value.transpose().map_err(|error| format!("{name}: {error}"))
    }
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

fn first(body: &[u8]) -> Result<Box<RawValue>, String> {
    let mut values = Deserializer::from_slice(body).into_iter();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(format!("the answer is no JSON: {error}")),
        // Go's text.
        None => Err("EOF".to_owned()),
    }
}

pub(super) fn filter_answer(body: &[u8]) -> Result<FilterAnswer, String> {
    let read = || -> Result<FilterAnswer, String> {
        let fields = Fields::of(first(body)?.get())?;
        let nodes = fields.get::<Box<RawValue>>("nodes")?.map(|list| names(&list)).transpose()?;
        Ok(FilterAnswer {
            nodes,
            node_names: fields.get("nodenames")?,
            failed_nodes: fields.get("failednodes")?.unwrap_or_default(),
            failed_and_unresolvable_nodes: fields.get("failedandunresolvablenodes")?.unwrap_or_default(),
            error: fields.get("error")?.unwrap_or_default(),
        })
    };
    read().map_err(|reason| unreadable("ExtenderFilterResult", reason))
}

fn names(list: &RawValue) -> Result<Vec<String>, String> {
    let items: Vec<Box<RawValue>> = Fields::of(list.get())?.get("items")?.unwrap_or_default();
    let name = |item: Box<RawValue>| {
        let metadata: Option<Box<RawValue>> = Fields::of(item.get())?.get("metadata")?;
        let name = metadata.map(|metadata| Fields::of(metadata.get())?.get("name")).transpose()?;
        Ok(name.flatten().unwrap_or_default())
    };
    items.into_iter().map(name).collect()
}

pub(super) fn priorities(body: &[u8]) -> Result<Vec<HostPriority>, String> {
    let read = || -> Result<Vec<HostPriority>, String> {
        let items: Option<Vec<Box<RawValue>>> = parsed(first(body)?.get())?;
        let priority = |item: Box<RawValue>| {
            let fields = Fields::of(item.get())?;
            let (host, score) = (fields.get("host")?, fields.get("score")?);
            Ok(HostPriority { host: host.unwrap_or_default(), score: score.unwrap_or_default() })
        };
        items.unwrap_or_default().into_iter().map(priority).collect()
    };
    read().map_err(|reason| unreadable("HostPriorityList", reason))
}

pub(super) fn binding_error(body: &[u8]) -> Result<String, String> {
    let read = || Ok(Fields::of(first(body)?.get())?.get("error")?.unwrap_or_default());
    read().map_err(|reason| unreadable("ExtenderBindingResult", reason))
}

fn unreadable(what: &str, reason: String) -> String {
    if reason == "EOF" { reason } else { format!("the extender's answer is no {what}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).expect("JSON")
    }

    #[test]
    fn questions_have_the_fields_that_go_writes() {
        let pod = raw(&json!({ "metadata": { "name": "p" } }));
        let names: Vec<Arc<str>> = vec!["a".into(), "b".into()];
        let text = String::from_utf8(names_args(&pod, &names).expect("JSON")).expect("text");
        assert_eq!(text, r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}"#);
        let node: Arc<RawValue> = raw(&json!({ "spec": {} })).into();
        let text = String::from_utf8(nodes_args(&pod, &[node]).expect("JSON")).expect("text");
        assert_eq!(
            text,
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"metadata":{},"items":[{"spec":{}}]},"NodeNames":null}"#
        );
    }

    #[test]
    fn answers_are_read_in_any_case_and_null_is_nothing() {
        let body =
            br#"{"nodenames":["a"],"FAILEDNODES":{"b":"full"},"failedAndUnresolvableNodes":null,"Error":null} x"#;
        let answer = filter_answer(body).expect("an answer");
        let failed_nodes = [("b".to_owned(), "full".to_owned())].into();
        let expected = FilterAnswer { node_names: Some(vec!["a".to_owned()]), failed_nodes, ..FilterAnswer::default() };
        assert_eq!(answer, expected);
        let body = br#"{"Nodes":{"items":[{"metadata":{"name":"a","labels":{}},"spec":{}},{}]}}"#;
        let expected = Some(vec!["a".to_owned(), String::new()]);
        assert_eq!(filter_answer(body).expect("an answer").nodes, expected);
        assert_eq!(filter_answer(b"null"), Ok(FilterAnswer::default()));
        let scores = priorities(br#"[{"Host":"a","Score":7},{"host":"b"}]"#).expect("scores");
        let of = |host: &str, score| HostPriority { host: host.to_owned(), score };
        assert_eq!(scores, [of("a", 7), of("b", 0)]);
        assert_eq!(priorities(b"null"), Ok(Vec::new()));
        assert_eq!(binding_error(b"{}"), Ok(String::new()));
        assert_eq!(binding_error(br#"{"error":"no"}"#), Ok("no".to_owned()));
    }

    #[test]
    fn victims_are_told_by_uid_or_whole_and_read_by_uid() {
        let pod = raw(&json!({ "spec": {} }));
        let victims = Victims { pods: vec!["u1".into()], violations: 2 };
        let proposal = Proposal::new([("a".into(), victims)].into(), BTreeMap::new());
        let read = |body: Result<Vec<u8>, String>| serde_json::from_slice::<Value>(&body.expect("JSON")).expect("JSON");
        let meta = read(meta_victims_args(&pod, &proposal));
        let expected = json!({ "a": { "Pods": [{ "UID": "u1" }], "NumPDBViolations": 2 } });
        assert_eq!((&meta["NodeNameToMetaVictims"], &meta["NodeNameToVictims"]), (&expected, &Value::Null));
        let known: Arc<RawValue> = raw(&json!({ "metadata": { "uid": "u1" } })).into();
        let whole = read(victims_args(&pod, &proposal, &[("u1".into(), known)].into()));
        let expected = json!({ "a": { "Pods": [{ "metadata": { "uid": "u1" } }], "NumPDBViolations": 2 } });
        assert_eq!((&whole["NodeNameToVictims"], &whole["Pod"]), (&expected, &json!({ "spec": {} })));
        let body = br#"{"nodeNameToMetaVictims":{"a":{"pods":[{"uid":"u1"}],"numPDBViolations":1},"b":{}}}"#;
        let expected = [("a".to_owned(), (vec!["u1".to_owned()], 1)), ("b".to_owned(), (Vec::new(), 0))];
        assert_eq!(meta_victims(body), Ok(expected.into()));
        assert_eq!(meta_victims(b"{}"), Ok(BTreeMap::new()));
        assert!(meta_victims(b"[]").is_err_and(|error| error.contains("ExtenderPreemptionResult")));
    }

    #[test]
    fn what_is_no_answer_is_named() {
        assert_eq!(filter_answer(b"  "), Err("EOF".to_owned()));
        for (body, part) in [("<html>", "no JSON"), ("[]", "ExtenderFilterResult"), (r#"{"NodeNames":7}"#, "nodenames")]
        {
            let error = filter_answer(body.as_bytes()).expect_err(body);
            assert!(error.contains(part), "{error}");
        }
        let error = priorities(br#"[{"Score":"7"}]"#).expect_err("a text");
        assert!(error.contains("HostPriorityList") && error.contains("score"), "{error}");
    }
}
