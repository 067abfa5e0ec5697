//! Accounts of many pods, for a page.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::Arc,
};

use flotilla_account::{
    account::Account,
    explainer::{Explainer, explain_account},
    question::is_like_others,
    words,
    world::World,
};
use flotilla_cluster::Cluster;
use flotilla_framework::class::{Class, PodInfo};

use crate::page::{
    self, Report,
    report::{Accounts, Stand},
};

/// The accounts of pods that stay pending. Pods with equal requests share one.
///
/// # Errors
/// As for [`Explainer::explain`].
pub(crate) fn explain_all<'a>(
    teller: &mut Explainer,
    pods: impl Iterator<Item = &'a Arc<PodInfo>>,
) -> anyhow::Result<Accounts> {
    let mut accounts = Accounts::default();
    let mut known: HashMap<(Arc<Class>, Arc<str>, i32, bool), usize> = HashMap::new();
    for pod in pods {
        let key = (Arc::clone(&pod.class), Arc::clone(&pod.scheduler_name), pod.priority, pod.never_preempts);
        match known.get(&key).filter(|_| is_like_others(pod)) {
            Some(&other) => accounts.share(pod.key(), other),
            None => {
                known.insert(key, accounts.len());
                accounts.add(pod.key(), &teller.explain(pod)?)?;
            }
        }
    }
    Ok(accounts)
}

/// Collects accounts of pods for a page.
#[derive(Debug, Default)]
pub(super) struct Pages {
    accounts: Accounts,
    /// The short message of each pod.
    messages: HashMap<String, String>,
}

impl Pages {
    pub(super) fn add(&mut self, account: &Account, world: &World) -> io::Result<()> {
        let explained = explain_account(account, world);
        let reason = explained.gate.as_ref().map(|(_, reason)| reason.as_str()).or(Some(explained.error.as_str()));
        let message = match reason.filter(|reason| !reason.is_empty()).unwrap_or(&explained.message) {
            "" => format!("would fit {}", words::nodes(explained.feasible.len())),
            message => message.to_owned(),
        };
        self.messages.insert(account.pod.key(), message);
        Ok(self.accounts.add(account.pod.key(), &explained)?)
    }

    pub(super) fn print(
        self,
        cluster: &Cluster,
        subject: String,
        kept: Option<Vec<u8>>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let pods = cluster.bound.iter().chain(&cluster.pending);
        let message = |pod: &PodInfo| self.messages.get(&pod.key()).map_or("", String::as_str);
        let stands = pods.map(|pod| Stand::new(pod, [pod.node_name.clone()], message(pod)));
        let stands: Vec<Stand<'_>> = stands.collect();
        let mut report = Report::new(&[&cluster.nodes], &stands);
        report.command = "explain";
        report.subject = subject;
        report.kept = kept;
        self.accounts.put_into(&mut report)?;
        page::write(&report, out)
    }
}
