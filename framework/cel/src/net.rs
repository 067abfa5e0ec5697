//! IP addresses and CIDR prefixes, parsed and printed as Go's package netip does.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::go::quote;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

struct Parsed {
    address: IpAddr,
    zone: bool,
}

/// Parses an address. Errors are upstream's texts, also for addresses with a zone and for IPv4-mapped IPv6 addresses.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, String> {
    let parsed = parse(text)
        .map_err(|told| format!("IP Address {} parse error during conversion from string: {told}", quote(text)))?;
    if parsed.zone {
        return Err(format!("IP address {} with zone value is not allowed", quote(text)));
    }
    if is_mapped(parsed.address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
    }
    Ok(parsed.address)
}

/// Whether Go parses the text as an IPv6 address, with any zone. Errors are Go's texts.
pub(crate) fn is_v6(text: &str) -> Result<bool, String> {
    parse(text).map(|parsed| parsed.address.is_ipv6())
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn parse(text: &str) -> Result<Parsed, String> {
    let refused = |told: &str| format!("ParseAddr({}): {told}", quote(text));
    match text.find(['.', ':', '%']).map(|at| text.as_bytes()[at]) {
        Some(b'.') => {
            let address = v4(text, text)?;
            Ok(Parsed { address: Ipv4Addr::from(address).into(), zone: false })
        }
        Some(b':') => v6(text),
        Some(_) => Err(refused("missing IPv6 address")),
        None => Err(refused("unable to parse IP")),
    }
}

fn v4(whole: &str, text: &str) -> Result<[u8; 4], String> {
    let refused = |told: &str| format!("ParseAddr({}): {told}", quote(whole));
    let refused_at = |told: &str, at: usize| format!("ParseAddr({}): {told} (at {})", quote(whole), quote(&text[at..]));
    let bytes = text.as_bytes();
    let (mut fields, mut position, mut value, mut digits) = ([0; 4], 0, 0_u32, 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(refused("IPv4 field has octet with leading zero"));
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err(refused("IPv4 field has value >255"));
                }
            }
            b'.' => {
                if at == 0 || at == bytes.len() - 1 || bytes[at - 1] == b'.' {
                    return Err(refused_at("IPv4 field must have at least one digit", at));
                }
                if position == 3 {
                    return Err(refused("IPv4 address too long"));
                }
                fields[position] = value as u8;
                position += 1;
                (value, digits) = (0, 0);
            }
            _ => return Err(refused_at("unexpected character", at)),
        }
    }
    if position < 3 {
        return Err(refused("IPv4 address too short"));
    }
    fields[3] = value as u8;
    Ok(fields)
}

fn v6(whole: &str) -> Result<Parsed, String> {
    let refused = |told: &str| format!("ParseAddr({}): {told}", quote(whole));
    let (text, zone) = whole.split_once('%').map_or((whole, None), |(text, zone)| (text, Some(zone)));
    if zone == Some("") {
        return Err(refused("zone must be a non-empty string"));
    }
    let bytes = v6_bytes(whole, text)?;
    Ok(Parsed { address: Ipv6Addr::from(bytes).into(), zone: zone.is_some() })
}

fn v6_bytes(whole: &str, text: &str) -> Result<[u8; 16], String> {
    let refused = |told: &str| format!("ParseAddr({}): {told}", quote(whole));
    let refused_at = |told: &str, rest: &str| format!("ParseAddr({}): {told} (at {})", quote(whole), quote(rest));
    let (mut address, mut at, mut ellipsis, mut rest) = ([0_u8; 16], 0, None, text);
    if let Some(behind) = rest.strip_prefix("::") {
        (ellipsis, rest) = (Some(0), behind);
        if rest.is_empty() {
            return Ok(address);
        }
    }
    while at < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(refused_at("each group must have 4 or less digits", rest));
        }
        if digits == 0 {
            return Err(refused_at("each colon-separated field must have at least one digit", rest));
        }
        if rest[digits..].starts_with('.') {
            if ellipsis.is_none() && at != 12 {
                let told = "embedded IPv4 address must replace the final 2 fields of the address";
                return Err(refused_at(told, rest));
            }
            if at + 4 > 16 {
                let told = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(refused_at(told, rest));
            }
            address[at..at + 4].copy_from_slice(&v4(whole, rest)?);
            (rest, at) = ("", at + 4);
            break;
        }
        let group = u16::from_str_radix(&rest[..digits], 16).unwrap_or_default();
        address[at..at + 2].copy_from_slice(&group.to_be_bytes());
        at += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        let Some(behind) = rest.strip_prefix(':') else {
            return Err(refused_at("unexpected character, want colon", rest));
        };
        if behind.is_empty() {
            return Err(refused_at("colon must be followed by more characters", rest));
        }
        rest = behind;
        if let Some(behind) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(refused_at("multiple :: in address", rest));
            }
            (ellipsis, rest) = (Some(at), behind);
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(refused_at("trailing garbage after address", rest));
    }
    match ellipsis {
        None if at < 16 => return Err(refused("address string too short")),
        Some(_) if at == 16 => return Err(refused("the :: must expand to at least one field of zeros")),
        Some(from) => {
            address.copy_within(from..at, 16 - (at - from));
            address[from..16 - (at - from)].fill(0);
        }
        None => {}
    }
    Ok(address)
}

/// Prints an address as Go does. Rust prints more IPv6 addresses with an embedded IPv4 address; Go only the mapped ones.
pub(crate) fn show(address: IpAddr) -> String {
    let IpAddr::V6(v6) = address else { return address.to_string() };
    if v6.to_ipv4_mapped().is_some() {
        return v6.to_string();
    }
    let groups = v6.segments();
    let (mut best, mut at) = ((0, 0), 0);
    while at < 8 {
        let zeroes = groups[at..].iter().take_while(|group| **group == 0).count();
        if zeroes >= 2 && zeroes > best.1 {
            best = (at, zeroes);
        }
        at += zeroes.max(1);
    }
    let join = |groups: &[u16]| groups.iter().map(|group| format!("{group:x}")).collect::<Vec<_>>().join(":");
    if best.1 == 0 {
        return join(&groups);
    }
    format!("{}::{}", join(&groups[..best.0]), join(&groups[best.0 + best.1..]))
}

impl Cidr {
    /// Parses a prefix. Errors are upstream's texts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let cidr = Self::parse_prefix(text).map_err(|told| {
            let prefix = "network address parse error during conversion from string";
            format!("{prefix}: netip.ParsePrefix({}): {told}", quote(text))
        })?;
        if is_mapped(cidr.address) {
            return Err(format!("IPv4-mapped IPv6 address {} is not allowed", quote(text)));
        }
        Ok(cidr)
    }

    fn parse_prefix(text: &str) -> Result<Self, String> {
        let (address, bits) = text.rsplit_once('/').ok_or("no '/'")?;
        let Parsed { address, zone } = parse(address)?;
        if zone {
            return Err("IPv6 zones cannot be present in a prefix".to_owned());
        }
        let bad = || format!("bad bits after slash: {}", quote(bits));
        if bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9') {
            return Err(bad());
        }
        let length: i64 = bits.parse().map_err(|_| bad())?;
        let most = if address.is_ipv6() { 128 } else { 32 };
        match u8::try_from(length) {
            Ok(bits) if bits <= most => Ok(Self { address, bits }),
            _ => Err("prefix length out of range".to_owned()),
        }
    }

    fn mask(self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(v4) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
        }
    }

    pub(crate) fn masked(self) -> Self {
        Self { address: self.mask(self.address), bits: self.bits }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && self.mask(self.address) == self.mask(address)
    }

    pub(crate) fn contains_cidr(self, other: Self) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", show(self.address), self.bits)
    }
}
