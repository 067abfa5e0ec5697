//! Mutates fields of protobuf messages at any depth and updates lengths.

use rand::{Rng as _, rngs::StdRng};

use crate::{MAX_BYTES, long_count, often, raw};

/// Groups are not parsed: they are obsolete.
#[derive(Debug, Clone)]
enum Value {
    Number(u64),
    Eight([u8; 8]),
    Text(Vec<u8>),
    Four([u8; 4]),
}

#[derive(Debug, Clone)]
struct Field {
    number: u64,
    value: Value,
}

pub(crate) fn changed(message: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let mut fields = parse(message).unwrap_or_default();
    let Some(at) = (!fields.is_empty()).then(|| rng.random_range(0..fields.len())) else {
        return nested(message, rng);
    };
    let inner = match &fields[at].value {
        Value::Text(bytes) if !bytes.is_empty() && parse(bytes).is_some() => Some(bytes.clone()),
        _ => None,
    };
    match inner {
        Some(inner) if rng.random_bool(0.75) => fields[at].value = Value::Text(changed(&inner, rng)),
        _ => change(&mut fields, at, rng),
    }
    written(&fields)
}

/// The message once per length-delimited field, at any depth, with the maximum number of empty copies.
pub(crate) fn long(message: &[u8]) -> Vec<Vec<u8>> {
    let fields = parse(message).unwrap_or_default();
    let mut messages = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let Value::Text(content) = &field.value else { continue };
        let with = |content: Vec<u8>| {
            let mut fields = fields.clone();
            fields[at].value = Value::Text(content);
            written(&fields)
        };
        messages.extend(long(content).into_iter().map(with));
        let mut fields = fields.clone();
        let empty = Field { value: Value::Text(Vec::new()), ..field.clone() };
        fields.splice(at..=at, vec![empty; long_count(2)]);
        messages.push(written(&fields));
    }
    messages
}

fn change(fields: &mut Vec<Field>, at: usize, rng: &mut StdRng) {
    let field = fields[at].clone();
    let room = |bytes: usize| MAX_BYTES / bytes.max(1);
    match rng.random_range(0..8) {
        // The maximum number of elements, at two bytes each.
        0 => {
            let empty = Field { value: Value::Text(Vec::new()), ..field };
            fields.splice(at..at, vec![empty; often(rng)]);
        }
        1 => {
            let count = often(rng).min(room(written(std::slice::from_ref(&field)).len()));
            fields.splice(at..at, vec![field; count]);
        }
        2 => drop(fields.remove(at)),
        3 => fields[at].number = if rng.random() { rng.random_range(1..20) } else { raw::number(rng) >> 3 },
        4 => fields[at].value = Value::Number(raw::number(rng)),
        5 => fields[at].value = Value::Text(nested(&written(fields), rng)),
        6 => fields[at].value = Value::Eight(raw::number(rng).to_le_bytes()),
        _ => match &mut fields[at].value {
            Value::Number(number) => *number = raw::number(rng),
            Value::Eight(bytes) => *bytes = rng.random(),
            Value::Four(bytes) => *bytes = rng.random(),
            Value::Text(bytes) => {
                let other = [bytes.clone()];
                raw::change(bytes, &other, rng);
            }
        },
    }
}

/// The message nested in itself, or unterminated groups of the same depth.
fn nested(message: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let depth = often(rng);
    let number = rng.random_range(1..20);
    if rng.random() {
        let mut groups = Vec::new();
        (0..depth).for_each(|_| write_number(number << 3 | 3, &mut groups));
        groups.extend(message);
        return groups;
    }
    let mut inner = message.to_vec();
    // Each level copies the levels below, and prost rejects the hundredth.
    for _ in 0..depth.min(300) {
        inner = written(&[Field { number, value: Value::Text(inner) }]);
    }
    inner
}

fn parse(mut bytes: &[u8]) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = read_number(&mut bytes)?;
        let value = match tag & 7 {
            0 => Value::Number(read_number(&mut bytes)?),
            1 => Value::Eight(*split(&mut bytes, 8)?.first_chunk()?),
            2 => {
                let length = usize::try_from(read_number(&mut bytes)?).ok()?;
                Value::Text(split(&mut bytes, length)?.to_vec())
            }
            5 => Value::Four(*split(&mut bytes, 4)?.first_chunk()?),
            _ => return None,
        };
        fields.push(Field { number: tag >> 3, value });
    }
    Some(fields)
}

fn split<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(first)
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *split(bytes, 1)?.first()?;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn written(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Field { number, value } in fields {
        let tag = |kind: u64, bytes: &mut Vec<u8>| write_number(number << 3 | kind, bytes);
        match value {
            Value::Number(number) => {
                tag(0, &mut bytes);
                write_number(*number, &mut bytes);
            }
            Value::Eight(eight) => {
                tag(1, &mut bytes);
                bytes.extend(eight);
            }
            Value::Text(text) => {
                tag(2, &mut bytes);
                write_number(text.len() as u64, &mut bytes);
                bytes.extend(text);
            }
            Value::Four(four) => {
                tag(5, &mut bytes);
                bytes.extend(four);
            }
        }
    }
    bytes
}

pub(crate) fn write_number(mut number: u64, to: &mut Vec<u8>) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_written_as_it_was_read() {
        let message = [
            &[0x08, 0xac, 0x02, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, b'h', b'i'][..],
            &[0x25, 1, 2, 3, 4, 0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        ];
        let message = message.concat();
        assert_eq!(written(&parse(&message).expect("a message")), message);
        assert!(parse(&message[..message.len() - 1]).is_none());
    }
}
