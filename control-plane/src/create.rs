//! Concurrent creation of many objects.

use std::fmt::Debug;

use anyhow::Context;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, PostParams};
use kube::{Resource, ResourceExt};
use tokio::task::JoinSet;

use super::ControlPlane;

/// Enough to keep an API server on a few cores busy.
const IN_FLIGHT: usize = 32;

/// Creates each object through its [`Api`], and returns the stored objects in the same order.
pub(super) async fn create_all<K>(objects: Vec<(Api<K>, K)>) -> anyhow::Result<Vec<K>>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
{
    let mut waiting = objects.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut created = Vec::new();
    loop {
        while running.len() < IN_FLIGHT
            && let Some((index, (api, object))) = waiting.next()
        {
            running.spawn(async move {
                let stored = api
                    .create(&PostParams::default(), &object)
                    .await
                    .with_context(|| format!("cannot create {}", object.name_any()))?;
                anyhow::Ok((index, stored))
            });
        }
        match running.join_next().await {
            None => break,
            Some(outcome) => created.push(outcome??),
        }
    }
    created.sort_by_key(|(index, _)| *index);
    Ok(created.into_iter().map(|(_, object)| object).collect())
}

impl ControlPlane {
    /// Creates cluster-scoped objects concurrently, and returns the stored objects in the same order.
    pub async fn create_for_cluster<K>(&self, objects: impl IntoIterator<Item = K>) -> anyhow::Result<Vec<K>>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static,
    {
        let api: Api<K> = Api::all(self.client());
        create_all(objects.into_iter().map(|object| (api.clone(), object)).collect()).await
    }
}
