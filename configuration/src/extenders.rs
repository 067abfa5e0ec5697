//! Extenders: fields, defaults and rules. Certificate files are not checked here.
//!
//! Source: `Extender` in `k8s.io/kube-scheduler/config/v1`, `validateExtenders` in `pkg/scheduler/apis/config/validation`,
//! `NewHTTPExtender` and `buildExtenders` in `pkg/scheduler`.

use std::collections::BTreeSet;

use flotilla_framework::extender::{Extender, ExtenderManagedResource, ExtenderTlsConfig};
use flotilla_framework::profile::duration::GoDuration;
use k8s_openapi::ByteString;

use super::labels;
use super::path::Path;
use super::report::{Problem, Report, quoted};
use super::wire::{self, Block};

const DEFAULT_TIMEOUT: GoDuration = GoDuration { nanoseconds: 5_000_000_000 };

pub(super) fn read(report: &mut Report<'_>, written: Vec<Block<wire::Extender>>) -> Vec<Extender> {
    let path = Path::default().key("extenders");
    let extenders: Vec<Extender> = written.into_iter().map(|Block(written)| convert(written)).collect();
    let mut managed = BTreeSet::new();
    for (number, extender) in extenders.iter().enumerate() {
        let path = path.index(number);
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let problem = Problem::value(path.key("weight"), extender.weight, "a weight of 1 or more");
            report.error(problem.hint("an extender with a prioritizeVerb scores nodes".to_owned()));
        }
        for (number, resource) in extender.managed_resources.iter().enumerate() {
            let at = path.key("managedResources").index(number).key("name");
            check_resource(report, &resource.name, &at);
            if !managed.insert(resource.name.clone()) {
                let found = format!("{} a second time", quoted(&resource.name));
                report.error(Problem::value(at, found, "every resource once over all extenders"));
            }
        }
        if let Some(tls) = &extender.tls_config {
            check_tls(report, extender, tls, &path.key("tlsConfig"));
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        report.error(Problem::new(
            path,
            format!("found {binders} extenders with a bindVerb"),
            "at most one that binds",
        ));
    }
    extenders
}

fn convert(written: wire::Extender) -> Extender {
    let resource = |Block(resource): Block<wire::ExtenderManagedResource>| ExtenderManagedResource {
        name: resource.name.unwrap_or_default(),
        ignored_by_scheduler: resource.ignored_by_scheduler.unwrap_or(false),
    };
    let timeout = written.http_timeout.map(|timeout| GoDuration { nanoseconds: timeout.0 });
    Extender {
        url_prefix: written.url_prefix.unwrap_or_default(),
        filter_verb: written.filter_verb.unwrap_or_default(),
        preempt_verb: written.preempt_verb.unwrap_or_default(),
        prioritize_verb: written.prioritize_verb.unwrap_or_default(),
        weight: written.weight.unwrap_or(0),
        bind_verb: written.bind_verb.unwrap_or_default(),
        enable_https: written.enable_https.unwrap_or(false),
        tls_config: written.tls_config.map(|Block(tls)| ExtenderTlsConfig {
            insecure: tls.insecure.unwrap_or(false),
            server_name: tls.server_name.unwrap_or_default(),
            cert_file: tls.cert_file.unwrap_or_default(),
            key_file: tls.key_file.unwrap_or_default(),
            ca_file: tls.ca_file.unwrap_or_default(),
            cert_data: tls.cert_data.unwrap_or_default(),
            key_data: tls.key_data.unwrap_or_default(),
            ca_data: tls.ca_data.unwrap_or_default(),
        }),
        http_timeout: timeout.filter(|timeout| timeout.nanoseconds != 0).unwrap_or(DEFAULT_TIMEOUT),
        node_cache_capable: written.node_cache_capable.unwrap_or(false),
        managed_resources: written.managed_resources.unwrap_or_default().into_iter().map(resource).collect(),
        ignorable: written.ignorable.unwrap_or(false),
    }
}

/// The name needs a domain outside kubernetes.io, and must leave room for the prefix `requests.` of a quota.
fn check_resource(report: &mut Report<'_>, name: &str, path: &Path) {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    let is_extended = !is_native && !name.starts_with("requests.") && labels::is_name(&format!("requests.{name}"));
    if !labels::is_name(name) {
        report.error(Problem::value(path.clone(), quoted(name), labels::NAME));
    } else if !is_extended {
        let expected = "an extended resource such as example.com/gpu, outside of kubernetes.io";
        report.error(Problem::value(path.clone(), quoted(name), expected));
    }
}

const fn is_empty(bytes: &ByteString) -> bool {
    bytes.0.is_empty()
}

fn check_tls(report: &mut Report<'_>, extender: &Extender, tls: &ExtenderTlsConfig, path: &Path) {
    let has_ca = !is_empty(&tls.ca_data) || !tls.ca_file.is_empty();
    if has_ca && tls.insecure {
        let found = "certificates to trust together with insecure: true";
        report.error(Problem::value(path.clone(), found, "one or the other"));
        return;
    }
    if extender.enable_https && !has_ca && !tls.insecure {
        report.warning(path, "no certificates to trust are given, so any certificate of the extender is trusted");
    }
    let has_pem = |data: &ByteString, ending: &str| {
        let text = String::from_utf8_lossy(&data.0);
        text.lines().any(|line| line.starts_with("-----BEGIN ") && line.trim_end().ends_with(ending))
    };
    const CERTIFICATE: &str = "CERTIFICATE-----";
    let certificate = (!is_empty(&tls.cert_data) || !tls.cert_file.is_empty())
        && (!is_empty(&tls.key_data) || !tls.key_file.is_empty());
    for (key, data, ending, counts) in [
        ("caData", &tls.ca_data, CERTIFICATE, true),
        ("certData", &tls.cert_data, CERTIFICATE, certificate),
        ("keyData", &tls.key_data, "PRIVATE KEY-----", certificate),
    ] {
        if counts && !is_empty(data) && !has_pem(data, ending) {
            let expected = format!("PEM with a line that ends in `{ending}`, in base64");
            report.error(Problem::new(path.key(key), "found something else than PEM", expected));
        }
    }
}

pub(super) fn ignored_resources(extenders: &[Extender]) -> Vec<String> {
    let resources = extenders.iter().flat_map(|extender| &extender.managed_resources);
    resources.filter(|resource| resource.ignored_by_scheduler).map(|resource| resource.name.clone()).collect()
}
