//! URLs, parsed as Go's package net/url does.

use std::fmt;

use crate::{go::quote, net};

#[derive(Clone, Debug)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    opaque: Option<String>,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    /// Host and port, without escapes.
    pub(crate) host: String,
    omit_host: bool,
    path: Vec<u8>,
    raw_path: String,
    force_query: bool,
    raw_query: String,
    fragment: Option<(Vec<u8>, String)>,
}

impl Url {
    /// Approximate bytes of its parts.
    pub(crate) fn bytes(&self) -> usize {
        let user = self.user.as_ref().map_or(0, |(name, word)| name.len() + word.as_ref().map_or(0, Vec::len));
        let fragment = self.fragment.as_ref().map_or(0, |(plain, raw)| plain.len() + raw.len());
        let opaque = self.opaque.as_ref().map_or(0, String::len);
        let path = self.path.len() + self.raw_path.len() + self.raw_query.len();
        self.scheme.len() + opaque + user + self.host.len() + path + fragment
    }
}

/// Parts of a URL, which differ in the characters that must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

impl Part {
    fn allows(self, byte: u8) -> bool {
        let marks: &[u8] = match self {
            Self::Path => b"$&+,-./:;=@_~",
            Self::Host | Self::Zone => b"!\"$&'()*+,-.:;<=>[]_~",
            Self::User => b"$&+,-.;=_~",
            Self::Query => b"-._~",
            Self::Fragment => b"!$&()*+,-./:;=?@_~",
        };
        byte.is_ascii_alphanumeric() || marks.contains(&byte)
    }
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| (*byte as char).to_digit(16));
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte == b'%' {
            let bad = || {
                let end = bytes.len().min(at + 3);
                format!("invalid URL escape {}", quote(&String::from_utf8_lossy(&bytes[at..end])))
            };
            let (Some(high), Some(low)) = (hex(at + 1), hex(at + 2)) else { return Err(bad()) };
            let value = (high << 4 | low) as u8;
            let is_percent = bytes[at..at + 3] == *b"%25";
            if part == Part::Host && high < 8 && !is_percent {
                return Err(bad());
            }
            if part == Part::Zone && !is_percent && value != b' ' && !Part::Host.allows(value) {
                return Err(bad());
            }
            plain.push(value);
            at += 3;
            continue;
        }
        if matches!(part, Part::Host | Part::Zone) && byte < 0x80 && !part.allows(byte) {
            return Err(format!("invalid character {} in host name", quote(&text[at..=at])));
        }
        plain.push(if byte == b'+' && part == Part::Query { b' ' } else { byte });
        at += 1;
    }
    Ok(plain)
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut escaped = String::new();
    for byte in bytes {
        if part.allows(*byte) {
            escaped.push(char::from(*byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Whether `ParseRequestURI` accepts a text. Errors are Go's texts.
pub(crate) fn check_request(text: &str) -> Result<(), String> {
    parse(text, true).map(|_| ()).map_err(|told| format!("parse {}: {told}", quote(text)))
}

impl Url {
    /// Parses a URL as `ParseRequestURI` does. Errors are Go's texts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        check_request(text)?;
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = parse(rest, false).map_err(|told| format!("parse {}: {told}", quote(rest)))?;
        if !fragment.is_empty() {
            let plain = unescape(fragment, Part::Fragment).map_err(|told| format!("parse {}: {told}", quote(text)))?;
            url.fragment = Some((plain, fragment.to_owned()));
        }
        Ok(url)
    }

    /// Host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, which may be empty.
    pub(crate) fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rfind(':').filter(|at| is_port(&self.host[*at..])) {
            Some(at) => (&self.host[..at], &self.host[at + 1..]),
            None => (&self.host, ""),
        }
    }

    /// The path with escapes: the original text, if it is valid.
    pub(crate) fn escaped_path(&self) -> String {
        if !self.raw_path.is_empty() && is_valid(&self.raw_path, Part::Path) {
            return self.raw_path.clone();
        }
        if self.path == b"*" {
            return "*".to_owned();
        }
        escape(&self.path, Part::Path)
    }

    /// Query parameters by name, in order of first occurrence. Invalid parts are skipped.
    pub(crate) fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for parameter in self.raw_query.split('&').filter(|one| !one.is_empty() && !one.contains(';')) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (Ok(name), Ok(value)) = (unescape(name, Part::Query), unescape(value, Part::Query)) else { continue };
            let (name, value) = (lossy(&name), lossy(&value));
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => found.push((name, vec![value])),
            }
        }
        found
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_valid(raw: &str, part: Part) -> bool {
    raw.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || part.allows(byte))
}

fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse(text: &str, via_request: bool) -> Result<Url, String> {
    let mut url = Url {
        scheme: String::new(),
        opaque: None,
        user: None,
        host: String::new(),
        omit_host: false,
        path: Vec::new(),
        raw_path: String::new(),
        force_query: false,
        raw_query: String::new(),
        fragment: None,
    };
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && via_request {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, mut rest) = split_scheme(text)?;
    url.scheme = scheme.to_lowercase();
    if rest.ends_with('?') && rest.matches('?').count() == 1 {
        url.force_query = true;
        rest = &rest[..rest.len() - 1];
    } else if let Some((before, query)) = rest.split_once('?') {
        url.raw_query = query.to_owned();
        rest = before;
    }
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = Some(rest.to_owned());
            return Ok(url);
        }
        if via_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let has_scheme = !url.scheme.is_empty();
    if (has_scheme || (!via_request && !rest.starts_with("///"))) && rest.starts_with("//") {
        let behind = &rest[2..];
        let (authority, path) = behind.split_at(behind.find('/').unwrap_or(behind.len()));
        (url.user, url.host) = parse_authority(&url.scheme, authority)?;
        rest = path;
    } else if has_scheme && rest.starts_with('/') {
        url.omit_host = true;
    }
    url.path = unescape(rest, Part::Path)?;
    if escape(&url.path, Part::Path) != rest {
        url.raw_path = rest.to_owned();
    }
    Ok(url)
}

type User = Option<(Vec<u8>, Option<Vec<u8>>)>;

fn parse_authority(scheme: &str, authority: &str) -> Result<(User, String), String> {
    let Some((user, host)) = authority.rsplit_once('@') else {
        return Ok((None, parse_host(scheme, authority)?));
    };
    let host = parse_host(scheme, host)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(is_plain) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = user.split_once(':').map_or((user, None), |(name, password)| (name, Some(password)));
    let password = password.map(|password| unescape(password, Part::User));
    Ok((Some((unescape(name, Part::User)?, password.transpose()?)), host))
}

fn parse_host(scheme: &str, host: &str) -> Result<String, String> {
    match host.rfind('[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    if let Some(first) = host.find(':') {
        let last = host.rfind(':').unwrap_or(first);
        let at = if matches!(scheme, "http" | "https") { first } else { last };
        if !is_port(&host[at..]) {
            return Err(format!("invalid port {} after host", quote(&host[at..])));
        }
    }
    unescape(host, Part::Host).map(|plain| lossy(&plain))
}

fn parse_literal(host: &str) -> Result<String, String> {
    let close = host.rfind(']').ok_or("missing ']' in host")?;
    let port = &host[close + 1..];
    if !is_port(port) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let name = &host[1..close];
    let plain = match name.find("%25") {
        Some(zone) => [unescape(&name[..zone], Part::Host)?, unescape(&name[zone..], Part::Zone)?].concat(),
        None => unescape(name, Part::Host)?,
    };
    let plain = lossy(&plain);
    match net::is_v6(&plain) {
        Ok(true) => Ok(format!("[{plain}]{port}")),
        Ok(false) => Err("invalid IP-literal".to_owned()),
        Err(told) => Err(format!("invalid host: {told}")),
    }
}

impl fmt::Display for Url {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if let Some(opaque) = self.opaque.as_ref().filter(|opaque| !opaque.is_empty()) {
            text.push_str(opaque);
        } else {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            let omitted = self.omit_host && !has_authority;
            if (!self.scheme.is_empty() || has_authority) && !omitted {
                if has_authority || !self.path.is_empty() {
                    text.push_str("//");
                }
                if let Some((name, password)) = &self.user {
                    text.push_str(&escape(name, Part::User));
                    if let Some(password) = password {
                        text.push(':');
                        text.push_str(&escape(password, Part::User));
                    }
                    text.push('@');
                }
                text.push_str(&escape(self.host.as_bytes(), Part::Host));
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                text.push('/');
            }
            if text.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                text.push_str("./");
            }
            text.push_str(&path);
        }
        if self.force_query || !self.raw_query.is_empty() {
            text.push('?');
            text.push_str(&self.raw_query);
        }
        if let Some((fragment, raw)) = &self.fragment {
            text.push('#');
            let shown = if is_valid(raw, Part::Fragment) { raw.clone() } else { escape(fragment, Part::Fragment) };
            text.push_str(&shown);
        }
        formatter.write_str(&text)
    }
}
