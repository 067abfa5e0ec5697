//! Path of an `aws://` URL, with the errors of Go's net/url. All IP literals are rejected.

/// The unescaped path. Errors are those of `url.Parse` of Go 1.26.
pub(super) fn path(address: &str) -> Result<String, String> {
    let (before, fragment) = address.split_once('#').unwrap_or((address, ""));
    let refused = |address: &str, error: String| format!("parse {}: {error}", quoted(address));
    let path = whole(before).map_err(|error| refused(before, error))?;
    unescape(fragment, false).map_err(|error| refused(address, error))?;
    Ok(path)
}

fn whole(address: &str) -> Result<String, String> {
    if address.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let rest = address.strip_prefix("aws://").unwrap_or(address);
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    check_host(host)?;
    if let Some(user) = user {
        check_user(user)?;
    }
    unescape(path, false)
}

fn check_host(host: &str) -> Result<(), String> {
    if host.contains('[') {
        return Err("invalid IP-literal".to_owned());
    }
    if let Some(colon) = host.rfind(':') {
        let port = &host[colon..];
        if !port[1..].bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("invalid port {port:?} after host"));
        }
    }
    unescape(host, true).map(drop)
}

fn check_user(user: &str) -> Result<(), String> {
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    if !user.chars().all(is_good) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    user.splitn(2, ':').try_for_each(|part| unescape(part, false).map(drop))
}

/// Quotes a text as Go's `%q` does.
fn quoted(text: &str) -> String {
    let letter = |letter: char| match letter {
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\'' => "'".to_owned(),
        '\0'..='\u{1f}' | '\u{7f}' if !"\t\n\r".contains(letter) => format!("\\x{:02x}", u32::from(letter)),
        _ => letter.escape_debug().collect(),
    };
    format!("\"{}\"", text.chars().map(letter).collect::<String>())
}

/// Decodes `%2f` and similar. In a host, only bytes beyond ASCII may be escaped, and some characters are invalid.
fn unescape(text: &str, is_host: bool) -> Result<String, String> {
    let digit = |byte: Option<&u8>| {
        byte.and_then(|byte| char::from(*byte).to_digit(16)).and_then(|digit| u8::try_from(digit).ok())
    };
    let bytes = text.as_bytes();
    let mut written = Vec::with_capacity(bytes.len());
    let mut index = 0;
    while let Some(&byte) = bytes.get(index) {
        let escape = || {
            let end = bytes.len().min(index + 3);
            format!("invalid URL escape {:?}", String::from_utf8_lossy(&bytes[index..end]))
        };
        if byte == b'%' {
            let (Some(high), Some(low)) = (digit(bytes.get(index + 1)), digit(bytes.get(index + 2))) else {
                return Err(escape());
            };
            if is_host && high < 8 && (high, low) != (2, 5) {
                return Err(escape());
            }
            written.push(high << 4 | low);
            index += 3;
        } else {
            let is_host_letter = byte.is_ascii_alphanumeric() || br#"-._~!$&'()*+,;=:[]<>""#.contains(&byte);
            if is_host && byte.is_ascii() && !is_host_letter {
                return Err(format!("invalid character {:?} in host name", char::from(byte).to_string()));
            }
            written.push(byte);
            index += 1;
        }
    }
    Ok(String::from_utf8_lossy(&written).into_owned())
}
