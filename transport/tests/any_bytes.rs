//! Any bytes as certificate or key are an identity, an authority, or an error that names the file.
//!
//! Covers `Identity::from_pem` and `Authority::from_pem`, for files and Secrets, and `Role::of` and `Validity::of`, which read a peer's
//! certificate. rustls performs the handshakes.

#![allow(missing_docs)]

use flotilla_mutate::{Bound, Decoder, Form};
use flotilla_transport::{Authority, Identity, Pem, Role, Validity};

/// A text is held as PEM, in DER and parsed; TLS settings take some kilobytes more.
const BOUND: Bound = Bound { times: 16, plus: 64 << 10 };
/// Separator of the texts of one input.
const BETWEEN: u8 = 0;

/// The texts of an input; missing ones are empty.
fn texts<const N: usize>(bytes: &[u8]) -> [Vec<u8>; N] {
    let mut parts = bytes.split(|byte| *byte == BETWEEN);
    std::array::from_fn(|_| parts.next().unwrap_or_default().to_vec())
}

#[test]
fn an_identity_is_read_within_a_multiple_of_its_bytes() {
    let authority = Authority::make(0).expect("an authority");
    let Pem { certificate, key, authorities } = authority.issue(Role::Worker, 0).expect("a certificate");
    let samples = [[certificate, key, authorities].join(&BETWEEN)];
    Decoder { name: "an identity", samples: &samples, form: Form::Bytes, bound: BOUND }.stands(|bytes| {
        let [certificate, key, authorities] = texts(bytes);
        match Identity::from_pem(Role::Worker, &Pem { certificate, key, authorities }) {
            Ok(identity) => {
                let _ = identity.is_of_its_authorities(0);
                true
            }
            Err(error) => {
                assert!(error.to_string().contains(".crt") || error.to_string().contains(".key"), "{error}");
                false
            }
        }
    });
}

#[test]
fn an_authority_is_read_within_a_multiple_of_its_bytes_and_one_that_is_read_can_sign() {
    let authority = Authority::make(0).expect("an authority");
    let samples = [[authority.certificate(), authority.key()].join("\0").into_bytes()];
    Decoder { name: "an authority", samples: &samples, form: Form::Bytes, bound: BOUND }.stands(|bytes| {
        let [certificate, key] = texts(bytes);
        match Authority::from_pem(&certificate, &key) {
            Ok(authority) => {
                authority.issue(Role::Worker, 0).expect("it can sign");
                true
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                false
            }
        }
    });
}

#[test]
fn what_a_peer_shows_is_read_within_a_multiple_of_its_bytes() {
    let authority = Authority::make(0).expect("an authority");
    let pem = authority.issue(Role::Worker, 0).expect("a certificate");
    let identity = Identity::from_pem(Role::Worker, &pem).expect("sound");
    let samples = [identity.chain()[0].to_vec()];
    Decoder { name: "a certificate", samples: &samples, form: Form::Bytes, bound: BOUND }.stands(|bytes| {
        let _ = Validity::of(bytes);
        Role::of(bytes).inspect_err(|error| assert!(!error.to_string().is_empty())).is_ok()
    });
}
