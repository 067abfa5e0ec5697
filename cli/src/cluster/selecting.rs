//! The kinds whose objects select pods.
//!
//! Knows: what each is called, and how it is completed and read. Must not know: what is selected, or who asks.

use flotilla_framework::ingest::{
    IngestError,
    selecting::{self, Selects},
};
use k8s_openapi::{
    api::{
        apps::v1::{ReplicaSet, StatefulSet},
        core::v1::{ReplicationController, Service},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::de::DeserializeOwned;

use super::defaults;

/// An object that selects pods.
pub(super) trait Selecting: DeserializeOwned {
    /// The name of its kind.
    const KIND: &'static str;

    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Adds what the API server would.
    fn fill_in(&mut self) {}

    /// What it selects.
    ///
    /// # Errors
    /// What is missing.
    fn selects(&self) -> Result<Selects, IngestError>;
}

impl Selecting for Service {
    const KIND: &'static str = "Service";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selects(&self) -> Result<Selects, IngestError> {
        selecting::service(self)
    }
}

impl Selecting for ReplicationController {
    const KIND: &'static str = "ReplicationController";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn fill_in(&mut self) {
        defaults::replication_controller(self);
    }

    fn selects(&self) -> Result<Selects, IngestError> {
        selecting::replication_controller(self)
    }
}

impl Selecting for ReplicaSet {
    const KIND: &'static str = "ReplicaSet";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selects(&self) -> Result<Selects, IngestError> {
        selecting::replica_set(self)
    }
}

impl Selecting for StatefulSet {
    const KIND: &'static str = "StatefulSet";

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn selects(&self) -> Result<Selects, IngestError> {
        selecting::stateful_set(self)
    }
}
