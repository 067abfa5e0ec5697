//! The HTTPS endpoints of the process, and access to them.

use std::sync::{Arc, atomic::Ordering};

use flotilla_configuration::features::FeatureGates;
use tokio::sync::watch;
use tracing::warn;

use super::{Coordinator, MACHINE_PATIENCE, Parts, WATCHDOG_TOLERANCE};
use crate::{
    access::{Access, Authority, Lifetimes},
    args::AccessFlags,
    client::{self, Connection},
    lease, metrics,
    serve::{
        self, Check, Endpoints, Guard, ServeConfig, Server,
        explain::Explain,
        health::{HealthChecks, HealthServer},
        places::Places,
        status::StatusSource,
    },
};

pub(super) struct Shown {
    pub(super) identity: Arc<str>,
    pub(super) lease: Option<Arc<str>>,
    pub(super) gates: FeatureGates,
    pub(super) expects_workers: bool,
}

pub(super) struct Review<'a> {
    pub(super) flags: &'a AccessFlags,
    pub(super) connection: &'a Connection,
}

impl Review<'_> {
    /// A separate client, so that no burst of other requests delays an answer.
    async fn client(&self, kubeconfig: Option<&std::path::Path>) -> anyhow::Result<kube::Client> {
        let own = Connection { purpose: Some("access"), qps: None, burst: None, ..self.connection.clone() };
        let connection = match kubeconfig {
            Some(path) => Connection { kubeconfig: Some(path.to_owned()), master: None, ..own },
            None => own,
        };
        client::connect(&connection).await
    }

    async fn guard(&self) -> anyhow::Result<(Guard, Option<Authority>)> {
        let flags = self.flags;
        if flags.insecure_open_endpoints {
            warn!("--insecure-open-endpoints: any client that reaches --secure-port may read everything there");
            return Ok((Guard::Open, None));
        }
        let authentication = self.client(flags.authentication_kubeconfig.as_deref()).await?;
        let authorization = self.client(flags.authorization_kubeconfig.as_deref()).await?;
        let authority = match &flags.client_ca_file {
            Some(file) => Some(Authority::File(file.clone())),
            None => (!flags.authentication_skip_lookup).then(|| Authority::Cluster(authentication.clone())),
        };
        let lifetimes = Lifetimes {
            token: flags.authentication_token_webhook_cache_ttl,
            authorized: flags.authorization_webhook_cache_authorized_ttl,
            unauthorized: flags.authorization_webhook_cache_unauthorized_ttl,
        };
        let access = Arc::new(Access::new(authentication, authorization, lifetimes));
        Ok((
            Guard::Delegated { access, always_allowed: flags.authorization_always_allow_paths.clone().into() },
            authority,
        ))
    }
}

impl Coordinator {
    fn checks(&self) -> HealthChecks {
        let Parts { handle, leading, .. } = &self.parts;
        let watchdog = lease::watchdog(leading.clone(), WATCHDOG_TOLERANCE);
        let election = Check { name: "leaderElection", probe: watchdog };
        let thread = handle.clone();
        let machine = Check::new("scheduling-thread", move || thread.progress(MACHINE_PATIENCE + WATCHDOG_TOLERANCE));
        let watches = self.watches.clone();
        let synced = Check::new("sched-handler-sync", move || {
            let missing = || format!("the initial lists are not complete: {}", watches.unlisted().join(", "));
            watches.synced().then_some(()).ok_or_else(missing)
        });
        let shutdown = self.shutdown.clone();
        let shutdown = Check::new("shutdown", move || {
            (!shutdown.is_cancelled()).then_some(()).ok_or_else(|| "the process is ending".to_owned())
        });
        let takeover = Check { name: "takeover", probe: self.course.health() };
        let is_candidate = Arc::clone(&self.is_candidate);
        let candidate = Check::new("informer-sync", move || {
            let missing = || "the API server does not have the LeaseCandidate of this process".to_owned();
            is_candidate.load(Ordering::Relaxed).then_some(()).ok_or_else(missing)
        });
        HealthChecks {
            healthz: vec![election.clone(), machine.clone(), takeover.clone()],
            livez: vec![machine],
            readyz: vec![election, candidate, synced, takeover, shutdown],
        }
    }

    async fn serve_health(&self, config: &ServeConfig) -> anyhow::Result<Option<Places>> {
        let Some(listen) = &config.health_listen else { return Ok(None) };
        let server = HealthServer::bind(listen, self.checks()).await?;
        let places = server.places();
        tokio::spawn(server.run(self.stop.clone()));
        Ok(Some(places))
    }

    pub(super) async fn serve(&self, config: &ServeConfig, shown: Shown, review: Review<'_>) -> anyhow::Result<()> {
        let health = self.serve_health(config).await?;
        let Some(address) = config.address() else { return Ok(()) };
        let (guard, authority) = review.guard().await?;
        let Parts { handle, leading, .. } = &self.parts;
        let https = serve::places();
        let HealthChecks { healthz, livez, readyz } = self.checks();
        let sources = metrics::Sources {
            places: std::iter::once(("https", https.clone())).chain(health.map(|places| ("health", places))).collect(),
            parts: self.parts.clone(),
            watches: self.watches.clone(),
            lease: shown.lease,
            gates: shown.gates,
            expects_workers: shown.expects_workers,
        };
        let status = StatusSource {
            handle: handle.clone(),
            fanout: self.parts.fanout.clone(),
            watches: Some(self.watches.clone()),
            leading: leading.clone(),
            identity: Arc::clone(&shown.identity),
            scheduled: self.parts.scheduled.clone(),
            expects_workers: shown.expects_workers,
        };
        let explain = Explain { handle: handle.clone(), leading: leading.clone(), identity: shown.identity };
        let endpoints = Endpoints {
            healthz,
            livez,
            readyz,
            metrics: sources.metrics(),
            resources: sources.resources(),
            configz: self.parts.configz.subscribe(),
            explain,
            status,
            guard,
        };
        let (told, known) = watch::channel(None);
        let server = Server::bind(address, config, known, endpoints).await?.within(https);
        tokio::spawn(server.run(self.stop.clone()));
        if let Some(authority) = authority {
            tokio::spawn(self.stop.clone().run_until_cancelled_owned(authority.follow(told)));
        }
        Ok(())
    }
}
