//! Written objects in both encodings.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use prost::Message as _;
use serde_json::{Value, json};

use crate::{Encoding, pb, protobuf::MAGIC};

/// A reference to an object.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reference<'a> {
    /// Group and version, such as `v1`; may be empty.
    pub api_version: &'a str,
    /// The kind, such as `Node`.
    pub kind: &'a str,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name.
    pub name: &'a str,
    /// The UID; may be empty.
    pub uid: &'a str,
    /// The `resourceVersion`; may be empty.
    pub version: &'a str,
}

impl Reference<'_> {
    fn message(&self) -> pb::ObjectReference {
        pb::ObjectReference {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
            resource_version: self.version.to_owned(),
        }
    }

    /// Omits empty fields, as the API server does.
    fn json(&self) -> Value {
        let fields = [
            ("apiVersion", self.api_version),
            ("kind", self.kind),
            ("namespace", self.namespace),
            ("name", self.name),
            ("uid", self.uid),
            ("resourceVersion", self.version),
        ];
        fields.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, json!(value))).collect()
    }
}

/// A Binding of a pod to a node.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The name of the pod.
    pub name: &'a str,
    /// The UID of the pod.
    pub uid: &'a str,
    /// The name of the node.
    pub node: &'a str,
}

impl Binding<'_> {
    /// The body of the request.
    #[must_use]
    pub fn encode(&self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Protobuf => self.protobuf(),
            Encoding::Json => self.json().to_string().into_bytes(),
        }
    }

    fn json(&self) -> Value {
        let Self { namespace, name, uid, node } = self;
        json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "namespace": namespace, "name": name, "uid": uid },
            "target": Reference { kind: "Node", name: node, ..Reference::default() }.json(),
        })
    }

    fn protobuf(&self) -> Vec<u8> {
        let metadata = pb::ObjectMeta {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            uid: self.uid.to_owned(),
            ..pb::ObjectMeta::default()
        };
        let target = Reference { kind: "Node", name: self.node, ..Reference::default() }.message();
        enveloped("v1", "Binding", &pb::Binding { metadata: Some(metadata), target: Some(target) })
    }
}

/// An event of `events.k8s.io/v1`.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The namespace of the event.
    pub namespace: &'a str,
    /// The name of the event.
    pub name: &'a str,
    /// First occurrence.
    pub time: Timestamp,
    /// Count and last occurrence; `None` outside a series.
    pub series: Option<(i32, Timestamp)>,
    /// The reporting controller.
    pub controller: &'a str,
    /// The replica of the controller.
    pub instance: &'a str,
    /// The action.
    pub action: &'a str,
    /// The reason, in CamelCase.
    pub reason: &'a str,
    /// The main object.
    pub regarding: Reference<'a>,
    /// The related object.
    pub related: Option<Reference<'a>>,
    /// The message.
    pub note: &'a str,
    /// `Normal` or `Warning`.
    pub kind: &'a str,
}

impl Event<'_> {
    /// The body of the request.
    #[must_use]
    pub fn encode(&self, encoding: Encoding) -> Vec<u8> {
        match encoding {
            Encoding::Protobuf => self.protobuf(),
            Encoding::Json => self.json().to_string().into_bytes(),
        }
    }

    fn json(&self) -> Value {
        let mut event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": { "namespace": self.namespace, "name": self.name },
            "eventTime": MicroTime(self.time),
            "reportingController": self.controller,
            "reportingInstance": self.instance,
            "action": self.action,
            "reason": self.reason,
            "regarding": self.regarding.json(),
            "note": self.note,
            "type": self.kind,
        });
        if let Some((count, last)) = self.series {
            event["series"] = json!({ "count": count, "lastObservedTime": MicroTime(last) });
        }
        if let Some(related) = &self.related {
            event["related"] = related.json();
        }
        event
    }

    fn protobuf(&self) -> Vec<u8> {
        let metadata = pb::ObjectMeta {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            ..pb::ObjectMeta::default()
        };
        let series =
            self.series.map(|(count, last)| pb::EventSeries { count, last_observed_time: Some(micro_time(last)) });
        enveloped(
            "events.k8s.io/v1",
            "Event",
            &pb::Event {
                metadata: Some(metadata),
                event_time: Some(micro_time(self.time)),
                series,
                reporting_controller: self.controller.to_owned(),
                reporting_instance: self.instance.to_owned(),
                action: self.action.to_owned(),
                reason: self.reason.to_owned(),
                regarding: Some(self.regarding.message()),
                related: self.related.map(|related| related.message()),
                note: self.note.to_owned(),
                r#type: self.kind.to_owned(),
            },
        )
    }
}

/// Truncated to microseconds, as the API server stores them.
fn micro_time(time: Timestamp) -> pb::MicroTime {
    let (seconds, microseconds) =
        (time.as_microsecond().div_euclid(1_000_000), time.as_microsecond().rem_euclid(1_000_000));
    pb::MicroTime { seconds, nanos: i32::try_from(microseconds * 1_000).unwrap_or_default() }
}

fn enveloped(api_version: &str, kind: &str, object: &impl prost::Message) -> Vec<u8> {
    let type_meta = pb::TypeMeta { api_version: api_version.to_owned(), kind: kind.to_owned() };
    let raw = object.encode_to_vec().into();
    let unknown = pb::Unknown { type_meta: Some(type_meta), raw, ..pb::Unknown::default() };
    let mut bytes = Vec::with_capacity(MAGIC.len() + unknown.encoded_len());
    bytes.extend_from_slice(&MAGIC);
    // Encoding into a growing Vec cannot fail.
    let _ = unknown.encode(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::written;

    fn json(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    #[test]
    fn a_binding_says_the_same_in_both_encodings() {
        let binding = Binding { namespace: "shop", name: "web-1", uid: "u1", node: "n1" };
        let said = json(&binding.encode(Encoding::Json));
        assert_eq!(said, written(&binding.encode(Encoding::Protobuf)));
        assert_eq!(said["target"], json!({ "kind": "Node", "name": "n1" }));
    }

    #[test]
    fn an_event_says_the_same_in_both_encodings() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let pod =
            Reference { kind: "Pod", namespace: "shop", name: "web-1", uid: "u1", version: "7", api_version: "v1" };
        let once = Event {
            namespace: "shop",
            name: "web-1.17a",
            time: at("2026-11-23T05:00:00.000123Z"),
            series: None,
            controller: "default-scheduler",
            instance: "default-scheduler-host",
            action: "Binding",
            reason: "Scheduled",
            regarding: pod,
            related: None,
            note: "Successfully assigned shop/web-1 to n1",
            kind: "Normal",
        };
        let related = Some(Reference { name: "web-2", uid: "u2", version: "", ..pod });
        let series = Some((3, at("2026-11-23T05:01:00.5Z")));
        for event in [once, Event { related, series, ..once }] {
            let (mut said, mut read) =
                (json(&event.encode(Encoding::Json)), written(&event.encode(Encoding::Protobuf)));
            assert_eq!(said["eventTime"].take(), "2026-11-23T05:00:00.000123Z");
            assert_eq!(read["eventTime"].take(), format!("{}.000123000", at("2026-11-23T05:00:00Z").as_second()));
            if event.series.is_some() {
                assert_eq!(said["series"]["lastObservedTime"].take(), "2026-11-23T05:01:00.500000Z");
                read["series"]["lastObservedTime"].take();
            }
            assert_eq!(said, read);
        }
    }
}
