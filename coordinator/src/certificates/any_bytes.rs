//! Any bytes in the two Secrets give authorities and certificates, or an error with advice.
//!
//! The decoders are `k8s_openapi` for the Secret, [`Authorities::read`], [`read_pem`] and [`due`]. The PEM texts are read by
//! `flotilla_transport`, which has its own tests.

use flotilla_mutate::{Bound, Decoder, Form};
use flotilla_transport::Role;
use k8s_openapi::{ByteString, api::core::v1::Secret};

use super::contents::{Authorities, due, read_pem, write_pem};

/// A Secret in JSON is base64 text in a map; it is held decoded, as text, and parsed.
const BOUND: Bound = Bound { times: 16, plus: 64 << 10 };
const DAY_S: i64 = 86_400;

fn authorities() -> Authorities {
    let (first, _) = Authorities::default().at(0).expect("an authority");
    // Two authorities are trusted during a rotation.
    let both = first.at(flotilla_transport::AUTHORITY_LIFE_S - DAY_S).expect("another one").0;
    assert_eq!(both.count(), 2);
    both
}

#[test]
fn a_secret_of_authorities_is_read_within_a_multiple_of_its_bytes() {
    let secret = Secret { data: Some(authorities().write()), ..Secret::default() };
    let samples = [serde_json::to_vec(&secret).expect("JSON")];
    Decoder { name: "a Secret of authorities", samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| {
        let Ok(secret) = serde_json::from_slice::<Secret>(bytes) else { return false };
        let read = secret.data.as_ref().map(Authorities::read);
        read.is_some_and(|read| read.is_ok_and(|read| read.at(DAY_S).is_ok()))
    });
}

#[test]
fn the_texts_of_a_secret_are_read_within_a_multiple_of_their_bytes() {
    let data = authorities().write();
    let names: Vec<String> = data.keys().cloned().collect();
    let texts: Vec<Vec<u8>> = data.into_values().map(|text| text.0).collect();
    let samples = [texts.join(&0)];
    Decoder { name: "the texts of a Secret", samples: &samples, form: Form::Bytes, bound: BOUND }.stands(|bytes| {
        let texts = bytes.split(|byte| *byte == 0).map(|text| ByteString(text.to_vec()));
        let data = names.iter().cloned().zip(texts).collect();
        let Ok(read) = Authorities::read(&data) else { return false };
        read.at(DAY_S).is_ok_and(|(read, _)| read.issue(Role::Worker, DAY_S).is_ok())
    });
}

#[test]
fn a_secret_of_the_workers_is_read_within_a_multiple_of_its_bytes() {
    let authorities = authorities();
    let pem = authorities.issue(Role::Worker, 0).expect("a certificate");
    let secret = Secret { data: Some(write_pem(pem)), ..Secret::default() };
    let samples = [serde_json::to_vec(&secret).expect("JSON")];
    let bundle = authorities.bundle();
    Decoder { name: "a Secret of the workers", samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| {
        let Ok(secret) = serde_json::from_slice::<Secret>(bytes) else { return false };
        let there = secret.data.as_ref().and_then(read_pem);
        let _ = due(DAY_S, there.as_ref(), &bundle);
        there.is_some()
    });
}
