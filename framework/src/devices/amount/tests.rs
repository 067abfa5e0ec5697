//! Texts of amounts as in `resource.ParseQuantity` and `String` of apimachinery 0.37.2.

use super::*;

#[test]
fn a_text_is_kept_or_shortened_as_upstream_does() {
    let shown = [
        ("0", "0"),
        ("1Gi", "1Gi"),
        ("1024Mi", "1Gi"),
        ("1001Mi", "1001Mi"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("05", "05"),
        ("0.5", "500m"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("1e4", "10e3"),
        ("10e3", "10e3"),
        ("1000e3", "1e6"),
        ("12345678901234567890", "12345678901234567890"),
        ("-0", "0"),
        ("100Ei", "9223372036854775807"),
        ("0.0000000001", "1n"),
    ];
    for (text, wanted) in shown {
        let amount = Amount::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(&**amount.text(), wanted, "{text}");
    }
}

#[test]
fn only_binary_amounts_are_capped() {
    let units = |text: &str| Amount::parse(text).unwrap_or_else(|error| panic!("{error}")).nano() / NANO;
    assert_eq!(units("100E"), 100_000_000_000_000_000_000);
    assert_eq!(units("9223372036854775808"), 9_223_372_036_854_775_808);
    assert_eq!(units("100Ei"), i128::from(i64::MAX));
    assert_eq!(units("1e60"), MAX / NANO);
}

#[test]
fn amounts_that_were_worked_out_are_written_short() {
    let text = |units, format| Amount::from_units(units, format).text().to_string();
    assert_eq!(text(1024, Format::Binary), "1Ki");
    assert_eq!(text(512, Format::Binary), "512");
    assert_eq!(text(1536, Format::Binary), "1536");
    assert_eq!(text(2000, Format::Decimal), "2k");
    assert_eq!(text(2000, Format::Exponent), "2e3");
    assert_eq!(Amount::parse("-1.5").map(|amount| amount.units()), Ok(-2));
}

#[test]
fn an_integer_is_one_without_a_fraction_in_its_text() {
    let integers =
        [("8", Some(8)), ("1k", Some(1000)), ("2Ki", Some(2048)), ("1000m", None), ("1.0", None), ("1.5k", Some(1500))];
    for (text, wanted) in integers {
        assert_eq!(integer(text), wanted, "{text}");
    }
}
