//! Panics while one object is read.

use flotilla_encoding::{DecodeError, Metadata, Object, Pod};
use flotilla_framework::ingest::{Features, IngestError};
use serde::{Deserialize, Deserializer};

use super::*;
use crate::{status::Regarding, watch::known::Gone};

/// A pod that cannot be decoded if its name is `undecodable`.
struct Brittle(Pod);

impl Brittle {
    fn of(pod: Pod) -> Self {
        assert!(pod.metadata.name() != "undecodable", "as asked of the decoder");
        Self(pod)
    }
}

impl<'de> Deserialize<'de> for Brittle {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Pod::deserialize(from).map(Self::of)
    }
}

impl Object for Brittle {
    type Message = <Pod as Object>::Message;

    fn from_message(message: Self::Message) -> Result<Self, DecodeError> {
        Pod::from_message(message).map(Self::of)
    }

    fn metadata(&self) -> &Metadata {
        &self.0.metadata
    }
}

/// Pods, of which one named `unreadable` cannot be read.
struct BrittlePods;

impl Kind for BrittlePods {
    const PATH: &'static str = Pods::PATH;
    const WHAT: &'static str = Pods::WHAT;
    const FIELDS: Option<&'static str> = Pods::FIELDS;
    type Object = Brittle;

    fn applied(Brittle(pod): Brittle, features: Features) -> Result<Event, IngestError> {
        assert!(pod.metadata.name() != "unreadable", "as asked of the reader");
        Pods::applied(pod, features)
    }

    fn deleted(gone: Gone) -> Event {
        Pods::deleted(gone)
    }

    fn regarding(key: &str, uid: &str) -> Option<Regarding> {
        Pods::regarding(key, uid)
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_reader_panics_is_left_out_reported_and_stops_no_watch() {
    for name in ["undecodable", "unreadable"] {
        let server = Server::default();
        server.lists("10", &[pod(name, "u1", "5"), pod("a", "u2", "6")]);
        server.watches(&[line("MODIFIED", &pod(name, "u1", "11")), line("ADDED", &pod("b", "u3", "12"))]);
        let (mut heard, shared, reporter) = server.heard_of::<BrittlePods>();
        assert_eq!(told(&mut heard, 2).await, ["+u2", "+u3"], "{name}");
        assert_eq!(shared.tally().unusable, 2, "{name}");
        assert_eq!(reporter.events().tally().waiting, 2, "{name}");
        assert_eq!(shared.tally().lists, 1, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_in_protobuf_whose_decoder_panics_is_left_out() {
    let server = Server::default();
    protobuf::lists(&server, "10", &[("undecodable", "u1", "5"), ("a", "u2", "6")]);
    let (mut heard, shared, _) = server.heard_of::<BrittlePods>();
    assert_eq!(told(&mut heard, 1).await, ["+u2"]);
    assert_eq!(shared.tally().unusable, 1);
}
