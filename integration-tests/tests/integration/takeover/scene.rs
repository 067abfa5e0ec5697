//! The cluster, and checks that hold at all times.

use std::{collections::BTreeMap, fmt::Debug, process::Command};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, wait_until};
use flotilla_integration_tests::{
    census::{Census, misreported, refusals},
    fleet::{Fleet, PATIENCE, node_of, phase},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        apps::v1::{Deployment, ReplicaSet},
        core::v1::{Node, Pod},
    },
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, from_value};

pub(crate) struct Scene<'a> {
    pub(crate) cluster: &'a ControlPlane,
    pub(crate) fleet: Fleet<'a>,
    pub(crate) leader: &'static str,
}

impl Scene<'_> {
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), "default")
    }

    pub(crate) async fn create<K>(&self, object: Value) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        create(&self.api::<K>(), object).await
    }

    pub(crate) async fn change<K>(&self, name: &str, patch: Value) -> anyhow::Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Strategic(patch);
        self.api::<K>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("cannot change {name}"))
    }

    /// Pods of an application that are not terminating, sorted by name.
    pub(crate) async fn pods_of(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let about = ListParams::default().labels(&format!("app={app}"));
        let mut pods = self.api::<Pod>().list(&about).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(Pod::name_any);
        Ok(pods)
    }

    pub(crate) async fn rolled_out(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        wait_until(&format!("the Deployment {app} to be rolled out"), PATIENCE, async || self.is_rolled_out(app).await)
            .await
            .with_context(|| self.last_words())
    }

    pub(crate) async fn is_rolled_out(&self, app: &str) -> Result<Vec<Pod>, String> {
        let deployment = self.api::<Deployment>().get(app).await.map_err(|error| error.to_string())?;
        let wanted = deployment.spec.replicas;
        let status = deployment.status.unwrap_or_default();
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        let pods = self.pods_of(app).await.map_err(|error| format!("{error:#}"))?;
        let current = status.observed_generation >= deployment.metadata.generation;
        if current && counts == [wanted; 3] && pods.len() == usize::try_from(wanted.unwrap_or(0)).unwrap_or(0) {
            return Ok(pods);
        }
        Err(format!("of {wanted:?} pods there are, are new, and are available {counts:?}"))
    }

    /// Violation of a Deployment's rollout limits: too few running pods, or too many requested ones.
    pub(crate) async fn torn(&self, app: &str, fewest: usize, most: i32) -> anyhow::Result<Option<String>> {
        let pods = self.pods_of(app).await?;
        let serving = pods.iter().filter(|pod| phase(pod) == "Running").count();
        let about = ListParams::default().labels(&format!("app={app}"));
        let sets = self.api::<ReplicaSet>().list(&about).await?;
        let asked: i32 = sets.iter().filter_map(|set| set.spec.replicas).sum();
        let fine = serving >= fewest && asked <= most;
        Ok((!fine).then(|| format!("{serving} pods of {app} serve, {asked} are asked for")))
    }

    /// Number of these pods by a node label's values.
    pub(crate) async fn spread(&self, pods: &[Pod], label: &str) -> anyhow::Result<BTreeMap<String, usize>> {
        let nodes = Api::<Node>::all(self.cluster.client()).list(&ListParams::default()).await?.items;
        let values: BTreeMap<String, String> =
            nodes.iter().filter_map(|node| Some((node.name_any(), node.labels().get(label)?.clone()))).collect();
        let mut counts: BTreeMap<String, usize> = values.values().map(|value| (value.clone(), 0)).collect();
        for value in pods.iter().filter_map(|pod| values.get(node_of(pod)?)) {
            *counts.entry(value.clone()).or_default() += 1;
        }
        Ok(counts)
    }

    /// Runs `kubectl` as an administrator on a separate thread.
    pub(crate) fn kubectl(&self, words: &[&str]) -> tokio::task::JoinHandle<anyhow::Result<()>> {
        let mut command = Command::new(self.cluster.kubectl());
        command.args(words).arg("--kubeconfig").arg(self.cluster.kubeconfig());
        tokio::task::spawn_blocking(move || {
            let output = command.output()?;
            ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
            Ok(())
        })
    }

    /// Checks that only infeasible pods are pending, no node is overcommitted, and every pod has one `Scheduled` event for its node. No pod
    /// was flushed, and the coordinator's audit finds no violation.
    ///
    /// All timeouts are far below the five minutes after which pending pods are flushed, so a bound pod was woken by an event.
    pub(crate) async fn all_is_well(&self, must_wait: &[String]) -> anyhow::Result<()> {
        wait_until("no pod to wait that need not", PATIENCE, async || {
            let waiting = Census::take(self.cluster).await.map_err(|error| format!("{error:#}"))?.waiting();
            if waiting == must_wait { Ok(()) } else { Err(format!("{waiting:?} wait")) }
        })
        .await
        .with_context(|| self.last_words())?;
        assert_eq!(Census::take(self.cluster).await?.overfull(), Vec::<String>::new());
        self.all_are_told().await?;
        for metric in ["flotilla_flushed_total", "flotilla_invariant_violations_total"] {
            assert_eq!(self.fleet.metric(self.leader, metric).await?, Some(0.0), "{metric} of {}", self.leader);
        }
        Ok(())
    }

    pub(crate) async fn all_are_told(&self) -> anyhow::Result<()> {
        wait_until("every pod to be told once where it is", PATIENCE, async || {
            let wrong = misreported(self.cluster, false).await.map_err(|error| format!("{error:#}"))?;
            if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}")) }
        })
        .await
    }

    /// Checks that only pods with these prefixes were rejected, and none repeatedly.
    pub(crate) async fn refused_are_only(&self, prefixes: &[&str]) -> anyhow::Result<()> {
        let times = refusals(self.cluster).await?;
        let strange = |name: &str| !prefixes.iter().any(|prefix| name.starts_with(prefix));
        let wrong: BTreeMap<_, _> = times.iter().filter(|(name, times)| strange(name) || **times > 6).collect();
        assert!(wrong.is_empty(), "refused: {wrong:?}");
        Ok(())
    }

    fn last_words(&self) -> String {
        self.cluster.processes().log_tail(self.leader, 20)
    }
}

pub(crate) async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    api.create(&PostParams::default(), &from_value(object)?).await.with_context(|| format!("cannot create {name}"))
}
