//! Values of number, string and bytes literals.

/// Parses a string literal with its prefix and quotes. Errors for invalid escape sequences are upstream's texts.
pub(crate) fn string(literal: &str) -> Result<String, &'static str> {
    let (body, is_raw) = body(literal);
    if is_raw || !body.contains('\\') {
        return Ok(body);
    }
    let mut made = String::new();
    let mut rest = body.chars();
    while let Some(one) = rest.next() {
        if one != '\\' {
            made.push(one);
            continue;
        }
        let code = escaped(&mut rest).ok_or("unable to unescape string")?;
        made.push(char::from_u32(code.value).ok_or("invalid unicode code point")?);
    }
    Ok(made)
}

/// Parses a bytes literal without its `b`: characters as UTF-8, escapes of two or three digits as one byte. Errors for escapes that are
/// valid only in strings are upstream's texts.
pub(crate) fn bytes(literal: &str) -> Result<Vec<u8>, &'static str> {
    let (body, is_raw) = body(literal);
    if is_raw {
        return Ok(body.into_bytes());
    }
    let mut made = Vec::new();
    let mut rest = body.chars();
    while let Some(one) = rest.next() {
        if one != '\\' {
            made.extend(one.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let code = escaped(&mut rest).filter(|code| !code.is_unicode).ok_or("unable to unescape string")?;
        made.push(code.value as u8);
    }
    Ok(made)
}

fn body(literal: &str) -> (String, bool) {
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let is_raw = literal.starts_with(['r', 'R']);
    let quoted = if is_raw { &literal[1..] } else { &literal[..] };
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    (quoted[quotes..quoted.len() - quotes].to_owned(), is_raw)
}

struct Escaped {
    value: u32,
    is_unicode: bool,
}

fn escaped(rest: &mut std::str::Chars<'_>) -> Option<Escaped> {
    let one = rest.next()?;
    let mut figures = |count: usize, radix: u32, first: u32| {
        (0..count).try_fold(first, |value, _| Some(value.wrapping_mul(radix) + rest.next()?.to_digit(radix)?))
    };
    let value = match one {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => u32::from(one),
        'x' | 'X' => figures(2, 16, 0)?,
        'u' => figures(4, 16, 0)?,
        'U' => figures(8, 16, 0)?,
        '0'..='3' => figures(2, 8, one.to_digit(8)?)?,
        _ => return None,
    };
    Some(Escaped { value, is_unicode: matches!(one, 'u' | 'U') })
}

pub(crate) fn int(sign: &str, text: &str) -> Option<i64> {
    let (figures, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    i64::from_str_radix(&format!("{sign}{figures}"), radix).ok()
}

/// Parses an unsigned literal with its `u`, if it fits.
pub(crate) fn uint(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['u', 'U']);
    let (figures, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    u64::from_str_radix(figures, radix).ok()
}
