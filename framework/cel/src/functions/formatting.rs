//! The function `format`.

use flotilla_planted::planted;

use crate::{
    go::quote,
    value::{Value, convert, show},
};

const PRECISION: i64 = 6;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Clause {
    Text,
    Decimal,
    Fixed(i64),
    Scientific(i64),
    Binary,
    Hex { upper: bool },
    Octal,
}

pub(crate) enum Wrong {
    Formatting(String),
}

impl Clause {
    /// Upstream's message for a type that the clause does not accept.
    pub(crate) fn refuses(self, type_name: &str) -> String {
        let told = match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{told}, was given {type_name}")
    }

    /// Parses the clause after a percent sign. Returns it with its length.
    fn parse(text: &str) -> Result<(Self, usize), String> {
        let mut length = 0;
        let mut precision = PRECISION;
        if let Some(behind) = text.strip_prefix('.') {
            let figures = behind.bytes().take_while(u8::is_ascii_digit).count();
            if figures == behind.len() {
                return Err("error while parsing precision: could not find end of precision specifier".to_owned());
            }
            precision = behind[..figures].parse().map_err(|_| {
                let why = if figures == 0 { "invalid syntax" } else { "value out of range" };
                let told = "error while parsing precision: error while converting precision to integer";
                format!("{told}: strconv.Atoi: parsing {}: {why}", quote(&behind[..figures]))
            })?;
            length = figures + 1;
        }
        let letter = text.as_bytes().get(length).copied().map_or('\0', char::from);
        let clause = match letter {
            's' => Self::Text,
            'd' => Self::Decimal,
            'f' => Self::Fixed(precision),
            'e' => Self::Scientific(precision),
            'b' => Self::Binary,
            'x' | 'X' => Self::Hex { upper: letter == 'X' },
            'o' => Self::Octal,
            _ => return Err(format!("unrecognized formatting clause \"{letter}\"")),
        };
        Ok((clause, length + 1))
    }
}

/// Replaces each clause with the result of `apply`. Errors are upstream's texts. The type check and the evaluation report errors in a
/// different order.
pub(crate) fn interpolate(
    format: &str,
    size: usize,
    at_run_time: bool,
    apply: &mut dyn FnMut(Clause, usize) -> Result<String, Wrong>,
) -> Result<String, String> {
    let (mut made, mut rest, mut index) = (String::new(), format, 0);
    while let Some((before, behind)) = rest.split_once('%') {
        made.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            made.push('%');
            rest = behind;
            continue;
        }
        let is_out = index >= size;
        if behind.is_empty() && !(at_run_time && is_out) {
            return Err("unexpected end of string".to_owned());
        }
        if is_out {
            return Err(format!("index {index} out of range"));
        }
        let (clause, length) =
            Clause::parse(behind).map_err(|told| format!("could not parse formatting clause: {told}"))?;
        let Wrong::Formatting(told) = match apply(clause, index) {
            Ok(text) => {
                made.push_str(&text);
                rest = behind.get(length..).unwrap_or_default();
                index += 1;
                continue;
            }
            Err(wrong) => wrong,
        };
        return Err(format!("error during formatting: {told}"));
    }
    made.push_str(rest);
    Ok(made)
}

pub(crate) fn apply(clause: Clause, value: &Value) -> Result<String, Wrong> {
    let refused = || Err(Wrong::Formatting(clause.refuses(value.type_name())));
    match clause {
        Clause::Text => text(value),
        Clause::Decimal => match value {
            Value::Int(value) => Ok(value.to_string()),
            Value::Uint(value) => Ok(value.to_string()),
            _ => refused(),
        },
        Clause::Fixed(precision) | Clause::Scientific(precision)
            if precision / 10 > MAX_READ && double(value).is_some() =>
        {
            Ok(NO_VERB.to_owned())
        }
        Clause::Fixed(precision) => match double(value) {
            Some(value) => Ok(localized(value, &|value| grouped(&fixed(value, precision)))),
            None => refused(),
        },
        // Upstream uses the precision as the minimum width.
        Clause::Scientific(precision) => match double(value) {
            Some(value) => Ok(aligned(&localized(value, &scientific), precision)),
            None => refused(),
        },
        Clause::Binary => match value {
            Value::Int(value) => Ok(signed(*value, &|value| format!("{value:b}"))),
            Value::Uint(value) => Ok(format!("{value:b}")),
            Value::Bool(value) => Ok(i32::from(*value).to_string()),
            _ => refused(),
        },
        Clause::Octal => match value {
            Value::Int(value) => Ok(signed(*value, &|value| format!("{value:o}"))),
            Value::Uint(value) => Ok(format!("{value:o}")),
            _ => refused(),
        },
        Clause::Hex { upper } => {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let made = match value {
                Value::Int(value) => signed(*value, &|value| format!("{value:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                _ => return refused(),
            };
            Ok(if upper { made.to_uppercase() } else { made })
        }
    }
}

fn signed(value: i64, write: &dyn Fn(u64) -> String) -> String {
    format!("{}{}", if value < 0 { "-" } else { "" }, write(value.unsigned_abs()))
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        Value::String(text) if matches!(&**text, "NaN" | "Infinity" | "-Infinity") => text.parse().ok(),
        _ => None,
    }
}

fn localized(value: f64, write: &dyn Fn(f64) -> String) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "\u{221e}" } else { "-\u{221e}" }.to_owned();
    }
    write(value)
}

/// Go's package x/text rejects a precision if its digits before the last one exceed this number.
const MAX_READ: i64 = 1_000_000;
/// Output of x/text for an unreadable clause.
const NO_VERB: &str = "%!(NOVERB)";
/// Maximum decimals of a double, those of 2^-1074.
const MAX_DECIMALS: usize = 1_074;

/// Formats a double with decimals as x/text does. x/text truncates the minimum number of decimals to a byte, and the maximum to a signed
/// 16-bit integer. A negative maximum means none: the shortest text that identifies the double.
fn fixed(value: f64, precision: i64) -> String {
    let least = usize::from(precision as u8);
    let mut made = match usize::try_from(precision as i16) {
        _ if planted("formats-any-precision") => format!("{value:.*}", usize::try_from(precision).unwrap_or(0)),
        Ok(most) => format!("{value:.*}", most.min(MAX_DECIMALS.max(least))),
        Err(_) => value.to_string(),
    };
    if !made.contains('.') && least > 0 {
        made.push('.');
    }
    let decimals = |made: &str| made.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    while decimals(&made) > least && made.ends_with('0') {
        made.pop();
    }
    made.extend(std::iter::repeat_n('0', least.saturating_sub(decimals(&made))));
    made.trim_end_matches('.').to_owned()
}

/// Pads with blanks on the left to a width that x/text truncates to 16 bits.
fn aligned(text: &str, width: i64) -> String {
    let missing = usize::from(width as u16).saturating_sub(text.chars().count());
    let mut made = " ".repeat(missing);
    made.push_str(text);
    made
}

fn grouped(text: &str) -> String {
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |text| ("-", text));
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut made = String::from(sign);
    for (at, figure) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            made.push(',');
        }
        made.push(figure);
    }
    match fraction {
        Some(fraction) => format!("{made}.{fraction}"),
        None => made,
    }
}

/// `1.500000×10⁰³`, as in upstream's locale.
fn scientific(value: f64) -> String {
    const RAISED: [char; 10] = [
        '\u{2070}', '\u{b9}', '\u{b2}', '\u{b3}', '\u{2074}', '\u{2075}', '\u{2076}', '\u{2077}', '\u{2078}',
        '\u{2079}',
    ];
    let made = format!("{value:.6e}");
    let (figures, exponent) = made.split_once('e').unwrap_or((&made, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { "\u{207b}" } else { "" };
    let raised = |one: char| one.to_digit(10).and_then(|figure| RAISED.get(figure as usize)).copied();
    let raised: String = format!("{:02}", exponent.abs()).chars().filter_map(raised).collect();
    format!("{figures}\u{d7}10{sign}{raised}")
}

fn text(value: &Value) -> Result<String, Wrong> {
    match value {
        Value::List(list) => {
            let made = list.values().iter().map(inside).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", made.join(", ")))
        }
        Value::Map(map) => {
            let mut made = Vec::new();
            for (key, value) in map.entries() {
                let key = match &key {
                    Value::String(name) => quote(name),
                    Value::Bool(_) | Value::Int(_) | Value::Uint(_) => show::show(&key),
                    other => {
                        let told = format!("no formatting function for map key of type {}", other.type_name());
                        return Err(Wrong::Formatting(told));
                    }
                };
                made.push((key, inside(&value)?));
            }
            made.sort_by(|left, right| left.0.cmp(&right.0));
            let made: Vec<String> = made.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            Ok(format!("{{{}}}", made.join(", ")))
        }
        Value::Null => Ok("null".to_owned()),
        Value::Optional(_)
        | Value::Quantity(_)
        | Value::Semver(_)
        | Value::Url(_)
        | Value::Ip(_)
        | Value::Cidr(_)
        | Value::Format(_) => Err(Wrong::Formatting(Clause::Text.refuses(value.type_name()))),
        _ => convert::to_string(value).map_err(|failure| {
            Wrong::Formatting(format!("could not convert argument {} to string", quote(failure.text())))
        }),
    }
}

fn inside(value: &Value) -> Result<String, Wrong> {
    match value {
        Value::Double(double) if double.is_finite() => Ok(fixed(*double, PRECISION)),
        Value::Double(double) => Ok(quote(&show::double(*double))),
        Value::String(text) => Ok(quote(text)),
        Value::Bytes(bytes) => Ok(format!("b{}", quote(&String::from_utf8_lossy(bytes)))),
        Value::Timestamp(_) => Ok(format!("timestamp({})", quote(&text(value)?))),
        Value::Duration(_) => Ok(format!("duration({})", quote(&text(value)?))),
        Value::Optional(_)
        | Value::Quantity(_)
        | Value::Semver(_)
        | Value::Url(_)
        | Value::Ip(_)
        | Value::Cidr(_)
        | Value::Format(_) => Err(Wrong::Formatting(format!("no formatting function for {}", value.type_name()))),
        _ => text(value),
    }
}
