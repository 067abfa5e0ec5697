//! Any bytes from an extender, and in its `tlsConfig`, give an answer or an error that names the object.
//!
//! The decoders are those of [`wire`], for each of the four verbs, and the PEM texts of [`tls`].

use flotilla_framework::extender::{Extender, ExtenderTlsConfig};
use flotilla_mutate::{Bound, Decoder, Form};
use k8s_openapi::ByteString;

use super::{tls, wire};

/// Each field of an answer is kept as text until its name is known; the largest measured factor is 42.
const BOUND: Bound = Bound { times: 128, plus: 64 << 10 };

fn stands<T>(name: &str, samples: &[&str], read: impl Fn(&[u8]) -> Result<T, String>) {
    let samples: Vec<Vec<u8>> = samples.iter().map(|sample| sample.as_bytes().to_vec()).collect();
    Decoder { name, samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| match read(bytes) {
        Ok(_) => true,
        Err(error) => {
            assert!(error == "EOF" || error.contains("the extender's answer is no "), "{error}");
            false
        }
    });
}

#[test]
fn an_answer_to_filter_is_read_within_a_multiple_of_its_bytes() {
    let samples = [
        r#"{"nodenames":["a","b"],"failedNodes":{"c":"full"},"failedAndUnresolvableNodes":{"d":"no"},"error":""}"#,
        r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{}},{}]},"Error":"e"}"#,
    ];
    stands("an answer to filter", &samples, wire::filter_answer);
}

#[test]
fn an_answer_to_prioritize_is_read_within_a_multiple_of_its_bytes() {
    let samples = [r#"[{"Host":"a","Score":7},{"host":"b","score":-1}]"#, "null"];
    stands("an answer to prioritize", &samples, wire::priorities);
}

#[test]
fn an_answer_to_preempt_is_read_within_a_multiple_of_its_bytes() {
    let samples =
        [r#"{"nodeNameToMetaVictims":{"a":{"pods":[{"uid":"u1"},{"uid":"u2"}],"numPDBViolations":1},"b":{}}}"#];
    stands("an answer to preempt", &samples, wire::meta_victims);
}

#[test]
fn an_answer_to_bind_is_read_within_a_multiple_of_its_bytes() {
    stands("an answer to bind", &[r#"{"error":"no"}"#, r#"{"Error":null,"x":[{"y":1}]}"#], wire::binding_error);
}

#[test]
fn certificates_and_keys_are_read_within_a_multiple_of_their_bytes() {
    let made = rcgen::generate_simple_self_signed(vec!["extender".to_owned()]).expect("a certificate");
    let samples = [made.cert.pem() + &made.signing_key.serialize_pem()].map(String::into_bytes);
    Decoder { name: "tlsConfig", samples: &samples, form: Form::Bytes, bound: BOUND }.stands(|bytes| {
        let text = || ByteString(bytes.to_owned());
        let tls =
            ExtenderTlsConfig { ca_data: text(), cert_data: text(), key_data: text(), ..ExtenderTlsConfig::default() };
        let extender = Extender { tls_config: Some(tls), ..Extender::default() };
        tls::client_config(&extender).inspect_err(|error| assert!(!error.to_string().is_empty())).is_ok()
    });
}
