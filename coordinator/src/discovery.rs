//! Discovery of the workers: a static list, or EndpointSlices.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_runtime::fanout::Fanout;
use futures::TryStreamExt as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{
    Api, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use tracing::{info, warn};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// The API server ends a watch after this many seconds; a lost peer is noticed 5 s later. Streams notice lost workers long before.
const WATCH_S: u32 = 60;

/// The source of worker addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// No workers: the coordinator evaluates all nodes.
    Disabled,
    /// These addresses, `host:port` each.
    Static(BTreeSet<String>),
    /// A headless Service.
    Service {
        /// The namespace of the Service.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The name of its port.
        port: String,
    },
}

/// Keeps `fanout` connected to the current workers, forever. Failures are logged and retried; earlier addresses stay in use.
pub async fn run(discovery: Discovery, client: kube::Client, fanout: Fanout) {
    match discovery {
        Discovery::Disabled => info!("no workers are configured: evaluating all nodes in this process"),
        Discovery::Static(addresses) => {
            info!(?addresses, "workers");
            fanout.set(addresses);
        }
        Discovery::Service { namespace, name, port } => follow(client, &namespace, &name, &port, &fanout).await,
    }
}

async fn follow(client: kube::Client, namespace: &str, service: &str, port: &str, fanout: &Fanout) {
    info!(namespace, service, port, "watching EndpointSlices for workers");
    let slices: Api<EndpointSlice> = Api::namespaced(client, namespace);
    let config = watcher::Config::default().labels(&format!("{SERVICE_LABEL}={service}")).timeout(WATCH_S);
    let mut events = std::pin::pin!(watcher(slices, config).default_backoff());
    let mut found = Found::default();
    let mut connected = BTreeSet::new();
    loop {
        match events.try_next().await {
            Ok(Some(event)) => {
                if !found.take(event) {
                    continue;
                }
                let addresses = addresses(found.slices.values(), port);
                if addresses != connected {
                    info!(namespace, service, ?addresses, "workers");
                    fanout.set(addresses.clone());
                    connected = addresses;
                }
            }
            Ok(None) => return,
            Err(error) => warn!(
                namespace, service, %error,
                "cannot list or watch EndpointSlices; grant list and watch on endpointslices.discovery.k8s.io there, or pass --workers"
            ),
        }
    }
}

#[derive(Default)]
struct Found {
    slices: BTreeMap<String, EndpointSlice>,
    /// The items of an incomplete list.
    listing: BTreeMap<String, EndpointSlice>,
}

impl Found {
    /// True if `slices` is complete and may have changed.
    fn take(&mut self, event: watcher::Event<EndpointSlice>) -> bool {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(slice) => {
                self.listing.insert(slice.name_any(), slice);
            }
            watcher::Event::InitDone => {
                self.slices = std::mem::take(&mut self.listing);
                return true;
            }
            watcher::Event::Apply(slice) => {
                self.slices.insert(slice.name_any(), slice);
                return true;
            }
            watcher::Event::Delete(slice) => {
                self.slices.remove(&slice.name_any());
                return true;
            }
        }
        false
    }
}

/// The addresses of ready endpoints, with the port of that name. As the API specifies, an endpoint of unknown readiness is ready.
fn addresses<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>, port: &str) -> BTreeSet<String> {
    let mut addresses = BTreeSet::new();
    for slice in slices {
        let named =
            slice.ports.iter().flatten().find(|candidate| candidate.name.as_deref().unwrap_or_default() == port);
        let Some(number) = named.and_then(|port| port.port) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true);
            // The addresses of one endpoint are interchangeable, so that the first is used.
            if let Some(address) = endpoint.addresses.first().filter(|_| ready) {
                addresses.insert(match slice.address_type.as_str() {
                    "IPv6" => format!("[{address}]:{number}"),
                    _ => format!("{address}:{number}"),
                });
            }
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};

    use super::*;

    fn slice(
        name: &str,
        kind: &str,
        ports: &[(&str, Option<i32>)],
        endpoints: &[(&[&str], Option<bool>)],
    ) -> EndpointSlice {
        let mut slice = EndpointSlice { address_type: kind.to_owned(), ..EndpointSlice::default() };
        slice.metadata.name = Some(name.to_owned());
        let port = |(name, port): &(&str, Option<i32>)| EndpointPort {
            name: Some((*name).to_owned()),
            port: *port,
            ..EndpointPort::default()
        };
        slice.ports = Some(ports.iter().map(port).collect());
        let endpoint = |(addresses, ready): &(&[&str], Option<bool>)| Endpoint {
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
            conditions: Some(EndpointConditions { ready: *ready, ..EndpointConditions::default() }),
            ..Endpoint::default()
        };
        slice.endpoints = Some(endpoints.iter().map(endpoint).collect());
        slice
    }

    fn found(slices: &[EndpointSlice]) -> Vec<String> {
        addresses(slices, "grpc").into_iter().collect()
    }

    #[test]
    fn the_ready_endpoints_of_all_slices_are_workers_at_the_named_port() {
        let ports = [("metrics", Some(9090)), ("grpc", Some(7443))];
        let slices = [
            slice("a", "IPv4", &ports, &[(&["10.0.0.1"], Some(true)), (&["10.0.0.2"], Some(false))]),
            slice("b", "IPv4", &ports, &[(&["10.0.0.3"], None), (&["10.0.0.1"], Some(true))]),
        ];
        assert_eq!(found(&slices), ["10.0.0.1:7443", "10.0.0.3:7443"]);
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        let slices = [slice("a", "IPv6", &[("grpc", Some(7443))], &[(&["fd00::1"], Some(true))])];
        assert_eq!(found(&slices), ["[fd00::1]:7443"]);
    }

    #[test]
    fn a_slice_without_the_port_and_an_endpoint_without_address_give_nothing() {
        let slices = [
            slice("a", "IPv4", &[("http", Some(80))], &[(&["10.0.0.1"], Some(true))]),
            slice("b", "IPv4", &[("grpc", None)], &[(&["10.0.0.2"], Some(true))]),
            slice("c", "IPv4", &[("grpc", Some(7443))], &[(&[], Some(true))]),
            EndpointSlice::default(),
        ];
        assert!(found(&slices).is_empty());
    }

    #[test]
    fn a_list_counts_when_it_is_whole_and_takes_away_what_it_lacks() {
        let worker = |name: &str| slice(name, "IPv4", &[("grpc", Some(1))], &[(&["10.0.0.1"], None)]);
        let mut all = Found::default();
        assert!(!all.take(watcher::Event::Init));
        assert!(!all.take(watcher::Event::InitApply(worker("a"))));
        assert!(all.slices.is_empty());
        assert!(all.take(watcher::Event::InitDone));
        assert!(all.take(watcher::Event::Apply(worker("b"))));
        assert_eq!(all.slices.len(), 2);
        all.take(watcher::Event::Init);
        all.take(watcher::Event::InitApply(worker("b")));
        assert!(all.take(watcher::Event::InitDone));
        assert_eq!(all.slices.keys().collect::<Vec<_>>(), ["b"]);
        assert!(all.take(watcher::Event::Delete(worker("b"))));
        assert!(all.slices.is_empty());
    }
}
