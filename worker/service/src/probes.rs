//! Health and reflection, beside the worker's own service.
//!
//! Knows: the services of gRPC for probes and clients. Must not know: what a worker does.

use flotilla_proto::{FILE_DESCRIPTOR_SET, SERVICE_NAME};
use tonic::transport::server::Router;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::ServeError;

/// The services, as long as they run.
pub(crate) struct Probes {
    reporter: HealthReporter,
}

impl Probes {
    /// Adds both services. Health is `SERVING` from now on.
    ///
    /// # Errors
    /// Where the descriptions of the services cannot be read.
    pub(crate) async fn add_to(services: Router) -> Result<(Self, Router), ServeError> {
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()?;
        let (reporter, health) = tonic_health::server::health_reporter();
        let probes = Self { reporter };
        probes.report(ServingStatus::Serving).await;
        Ok((probes, services.add_service(health).add_service(reflection)))
    }

    /// Health is `NOT_SERVING` from now on.
    pub(crate) async fn stop(&self) {
        self.report(ServingStatus::NotServing).await;
    }

    async fn report(&self, status: ServingStatus) {
        for service in ["", SERVICE_NAME] {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
