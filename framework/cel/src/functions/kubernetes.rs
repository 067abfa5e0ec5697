//! Kubernetes' functions on quantities, versions, URLs, addresses and named formats.

use std::{net::IpAddr, sync::Arc};

use super::operation::Operation;
use crate::{
    format::NamedFormat,
    net::{Cidr, parse_ip, show},
    quantity::{Amount, Quantity},
    semver::Semver,
    url::{Url, check_request},
    value::{EvalResult, Failure, List, Map, Value},
};

pub(super) fn operation(overload: &str) -> Option<Operation> {
    of_quantity(overload)
        .or_else(|| of_semver(overload))
        .or_else(|| of_url(overload))
        .or_else(|| of_ip(overload))
        .or_else(|| of_cidr(overload))
        .or_else(|| of_format(overload))
}

fn undefined() -> Failure {
    Failure::no_such_overload()
}

fn text(arguments: &[Value], at: usize) -> Result<&str, Failure> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(undefined()),
    }
}

fn quantity(arguments: &[Value], at: usize) -> Result<&Quantity, Failure> {
    match arguments.get(at) {
        Some(Value::Quantity(quantity)) => Ok(quantity),
        _ => Err(undefined()),
    }
}

fn of_quantity(overload: &str) -> Option<Operation> {
    Some(match overload {
        "string_to_quantity" => |arguments| {
            let amount = Amount::parse(text(arguments, 0)?).map_err(Failure::new)?;
            Ok(Value::Quantity(Quantity::new(amount)))
        },
        "is_quantity_string" => |arguments| Ok(Value::Bool(Amount::parse(text(arguments, 0)?).is_ok())),
        "quantity_sign" => |arguments| Ok(Value::Int(quantity(arguments, 0)?.sign())),
        "quantity_is_greater_than" => {
            |arguments| Ok(Value::Bool(quantity(arguments, 0)?.compare(quantity(arguments, 1)?).is_gt()))
        }
        "quantity_is_less_than" => {
            |arguments| Ok(Value::Bool(quantity(arguments, 0)?.compare(quantity(arguments, 1)?).is_lt()))
        }
        "quantity_compare_to" => {
            |arguments| Ok(Value::Int(quantity(arguments, 0)?.compare(quantity(arguments, 1)?) as i64))
        }
        "quantity_get_float" => |arguments| Ok(Value::Double(quantity(arguments, 0)?.as_float())),
        "quantity_get_int" => |arguments| {
            let integer = quantity(arguments, 0)?.as_integer();
            integer.map(Value::Int).ok_or_else(|| Failure::new("cannot convert value to integer"))
        },
        "quantity_is_integer" => |arguments| Ok(Value::Bool(quantity(arguments, 0)?.as_integer().is_some())),
        "quantity_add" => |arguments| sum(quantity(arguments, 0)?.add_quantity(quantity(arguments, 1)?)),
        "quantity_sub" => |arguments| sum(quantity(arguments, 0)?.sub_quantity(quantity(arguments, 1)?)),
        "quantity_add_int" => |arguments| match arguments {
            [Value::Quantity(quantity), Value::Int(by)] => sum(quantity.add(&Amount::integer(*by))),
            _ => Err(undefined()),
        },
        "quantity_sub_int" => |arguments| match arguments {
            [Value::Quantity(quantity), Value::Int(by)] => sum(quantity.add(&Amount::integer(by.wrapping_neg()))),
            _ => Err(undefined()),
        },
        _ => return None,
    })
}

fn sum(made: Result<Quantity, &'static str>) -> EvalResult {
    made.map(Value::Quantity).map_err(Failure::new)
}

fn semver(arguments: &[Value], at: usize) -> Result<&Semver, Failure> {
    match arguments.get(at) {
        Some(Value::Semver(version)) => Ok(version),
        _ => Err(undefined()),
    }
}

fn parse_semver(arguments: &[Value]) -> Result<Result<Semver, String>, Failure> {
    let text = text(arguments, 0)?;
    Ok(match arguments.get(1) {
        None | Some(Value::Bool(false)) => Semver::parse(text),
        Some(Value::Bool(true)) => Semver::parse_tolerant(text),
        Some(_) => return Err(undefined()),
    })
}

fn of_semver(overload: &str) -> Option<Operation> {
    // Upstream's numbers are unsigned, its integers are signed.
    fn number(value: u64) -> EvalResult {
        Ok(Value::Int(value.cast_signed()))
    }
    Some(match overload {
        "string_to_semver" | "string_bool_to_semver" => |arguments| {
            let version = parse_semver(arguments)?.map_err(Failure::new)?;
            Ok(Value::Semver(Arc::new(version)))
        },
        "is_semver_string" | "is_semver_string_bool" => |arguments| Ok(Value::Bool(parse_semver(arguments)?.is_ok())),
        "semver_is_greater_than" => {
            |arguments| Ok(Value::Bool(semver(arguments, 0)?.cmp_precedence(semver(arguments, 1)?).is_gt()))
        }
        "semver_is_less_than" => {
            |arguments| Ok(Value::Bool(semver(arguments, 0)?.cmp_precedence(semver(arguments, 1)?).is_lt()))
        }
        "semver_compare_to" => {
            |arguments| Ok(Value::Int(semver(arguments, 0)?.cmp_precedence(semver(arguments, 1)?) as i64))
        }
        "semver_major" => |arguments| number(semver(arguments, 0)?.major),
        "semver_minor" => |arguments| number(semver(arguments, 0)?.minor),
        "semver_patch" => |arguments| number(semver(arguments, 0)?.patch),
        _ => return None,
    })
}

fn url(arguments: &[Value]) -> Result<&Url, Failure> {
    match arguments.first() {
        Some(Value::Url(url)) => Ok(url),
        _ => Err(undefined()),
    }
}

fn of_url(overload: &str) -> Option<Operation> {
    Some(match overload {
        "string_to_url" => |arguments| {
            let parsed = Url::parse(text(arguments, 0)?);
            let told = "URL parse error during conversion from string";
            parsed.map(|url| Value::Url(Arc::new(url))).map_err(|why| Failure::new(format!("{told}: {why}")))
        },
        "is_url_string" => |arguments| Ok(Value::Bool(check_request(text(arguments, 0)?).is_ok())),
        "url_get_scheme" => |arguments| Ok(Value::string(&url(arguments)?.scheme)),
        "url_get_host" => |arguments| Ok(Value::string(&url(arguments)?.host)),
        "url_get_hostname" => |arguments| Ok(Value::string(url(arguments)?.hostname())),
        "url_get_port" => |arguments| Ok(Value::string(url(arguments)?.port())),
        "url_get_escaped_path" => |arguments| Ok(Value::string(&url(arguments)?.escaped_path())),
        "url_get_query" => |arguments| {
            let strings = |values: Vec<String>| values.iter().map(|value| Value::string(value)).collect();
            let query = url(arguments)?.query().into_iter();
            let entries = query.map(|(name, values)| (Value::string(&name), Value::List(List::new(strings(values)))));
            Map::new(entries.collect()).map(Value::Map)
        },
        _ => return None,
    })
}

fn ip(arguments: &[Value], at: usize) -> Result<IpAddr, Failure> {
    match arguments.get(at) {
        Some(Value::Ip(address)) => Ok(*address),
        _ => Err(undefined()),
    }
}

fn of_ip(overload: &str) -> Option<Operation> {
    fn test(
        arguments: &[Value],
        v4: fn(&std::net::Ipv4Addr) -> bool,
        v6: fn(&std::net::Ipv6Addr) -> bool,
    ) -> EvalResult {
        Ok(Value::Bool(match ip(arguments, 0)? {
            IpAddr::V4(address) => v4(&address),
            IpAddr::V6(address) => v6(&address),
        }))
    }
    Some(match overload {
        "string_to_ip" => |arguments| parse_ip(text(arguments, 0)?).map(Value::Ip).map_err(Failure::new),
        "is_ip" => |arguments| Ok(Value::Bool(parse_ip(text(arguments, 0)?).is_ok())),
        "ip_is_canonical" => |arguments| {
            let text = text(arguments, 0)?;
            parse_ip(text).map(|address| Value::Bool(show(address) == text)).map_err(Failure::new)
        },
        "ip_family" => |arguments| Ok(Value::Int(if ip(arguments, 0)?.is_ipv4() { 4 } else { 6 })),
        "ip_is_unspecified" => |arguments| Ok(Value::Bool(ip(arguments, 0)?.is_unspecified())),
        "ip_is_loopback" => |arguments| Ok(Value::Bool(ip(arguments, 0)?.is_loopback())),
        "ip_is_link_local_multicast" => {
            |arguments| test(arguments, |v4| v4.octets()[..3] == [224, 0, 0], |v6| v6.segments()[0] & 0xff0f == 0xff02)
        }
        "ip_is_link_local_unicast" => {
            |arguments| test(arguments, std::net::Ipv4Addr::is_link_local, |v6| v6.segments()[0] & 0xffc0 == 0xfe80)
        }
        "ip_is_global_unicast" => |arguments| {
            test(
                arguments,
                |v4| {
                    let has_no_scope = v4.is_unspecified() || v4.is_broadcast() || v4.is_link_local();
                    !(has_no_scope || v4.is_loopback() || v4.is_multicast())
                },
                |v6| {
                    !(v6.is_unspecified() || v6.is_loopback() || v6.is_multicast())
                        && v6.segments()[0] & 0xffc0 != 0xfe80
                },
            )
        },
        _ => return None,
    })
}

fn cidr(arguments: &[Value], at: usize) -> Result<Cidr, Failure> {
    match arguments.get(at) {
        Some(Value::Cidr(prefix)) => Ok(*prefix),
        _ => Err(undefined()),
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, Failure> {
    let told = "network address parse error during conversion from string";
    Cidr::parse(text).map_err(|why| Failure::new(format!("{told}: {why}")))
}

fn of_cidr(overload: &str) -> Option<Operation> {
    Some(match overload {
        "string_to_cidr" => |arguments| parse_cidr(text(arguments, 0)?).map(Value::Cidr),
        "is_cidr" => |arguments| Ok(Value::Bool(Cidr::parse(text(arguments, 0)?).is_ok())),
        "cidr_contains_ip_ip" => |arguments| Ok(Value::Bool(cidr(arguments, 0)?.contains(ip(arguments, 1)?))),
        "cidr_contains_ip_string" => |arguments| {
            // Upstream drops the error of an invalid address.
            let address = parse_ip(text(arguments, 1)?).map_err(|_| undefined())?;
            Ok(Value::Bool(cidr(arguments, 0)?.contains(address)))
        },
        "cidr_contains_cidr" => |arguments| Ok(Value::Bool(cidr(arguments, 0)?.contains_cidr(cidr(arguments, 1)?))),
        "cidr_contains_cidr_string" => {
            |arguments| Ok(Value::Bool(cidr(arguments, 0)?.contains_cidr(parse_cidr(text(arguments, 1)?)?)))
        }
        "cidr_ip" => |arguments| Ok(Value::Ip(cidr(arguments, 0)?.address)),
        "cidr_prefix_length" => |arguments| Ok(Value::Int(i64::from(cidr(arguments, 0)?.bits))),
        "cidr_masked" => |arguments| Ok(Value::Cidr(cidr(arguments, 0)?.masked())),
        _ => return None,
    })
}

fn of_format(overload: &str) -> Option<Operation> {
    macro_rules! constant {
        ($format:ident) => {
            |_| Ok(Value::Format(NamedFormat::$format))
        };
    }
    Some(match overload {
        "format-named" => |arguments| {
            Ok(NamedFormat::named(text(arguments, 0)?).map_or(Value::NONE, |format| Value::some(Value::Format(format))))
        },
        "format-validate" => |arguments| {
            let Some(Value::Format(format)) = arguments.first() else { return Err(undefined()) };
            let wrong = format.validate(text(arguments, 1)?);
            if wrong.is_empty() {
                return Ok(Value::NONE);
            }
            Ok(Value::some(Value::List(List::new(wrong.iter().map(|told| Value::string(told)).collect()))))
        },
        "format.byte" => constant!(Byte),
        "format.date" => constant!(Date),
        "format.datetime" => constant!(Datetime),
        "format.dns1035Label" => constant!(Dns1035Label),
        "format.dns1035LabelPrefix" => constant!(Dns1035LabelPrefix),
        "format.dns1123Label" => constant!(Dns1123Label),
        "format.dns1123LabelPrefix" => constant!(Dns1123LabelPrefix),
        "format.dns1123Subdomain" => constant!(Dns1123Subdomain),
        "format.dns1123SubdomainPrefix" => constant!(Dns1123SubdomainPrefix),
        "format.labelValue" => constant!(LabelValue),
        "format.qualifiedName" => constant!(QualifiedName),
        "format.uri" => constant!(Uri),
        "format.uuid" => constant!(Uuid),
        _ => return None,
    })
}
