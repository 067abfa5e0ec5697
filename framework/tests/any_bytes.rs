//! Text parsers accept any input or explain the problem. For whole objects, see `coordinator/encoding/tests/any_bytes.rs`.

use flotilla_framework::{quantity::Quantity, trace::Context};
use flotilla_mutate::{Bound, Decoder, Form};

/// An error quotes the text.
const BOUND: Bound = Bound { times: 8, plus: 1024 };

#[test]
fn a_quantity_is_read_within_a_multiple_of_its_bytes() {
    let samples = ["500m", "2", "1.5Gi", "-0.000000001", "12E6", "9223372036854775807", "1e3", "+0005", "100n"];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    Decoder { name: "a quantity", samples: &samples, form: Form::Text, bound: BOUND }.stands(|bytes| {
        match Quantity::parse(&String::from_utf8_lossy(bytes)) {
            Ok(quantity) => {
                let both = quantity.plus(quantity);
                assert_eq!(both.is_negative(), quantity.is_negative());
                true
            }
            Err(error) => {
                assert!(error.to_string().contains("is not a quantity"));
                false
            }
        }
    });
}

#[test]
fn a_trace_is_read_within_a_multiple_of_its_bytes() {
    let samples = [
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
    ];
    let samples = samples.map(|text| text.as_bytes().to_vec());
    Decoder { name: "a trace", samples: &samples, form: Form::Text, bound: BOUND }
        .stands(|bytes| Context::parse(&String::from_utf8_lossy(bytes)).is_ok());
}
