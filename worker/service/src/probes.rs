//! Health and reflection services.

use flotilla_proto::{FILE_DESCRIPTOR_SET, SERVICE_NAME};
use tonic::transport::server::Router;
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::ServeError;

/// The services while they run.
pub(crate) struct Probes {
    reporter: HealthReporter,
}

impl Probes {
    /// Adds both services with health `SERVING`.
    ///
    /// # Errors
    /// The descriptions of the services cannot be read.
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

    /// Sets health to `NOT_SERVING`.
    pub(crate) async fn stop(&self) {
        self.report(ServingStatus::NotServing).await;
    }

    async fn report(&self, status: ServingStatus) {
        for service in ["", SERVICE_NAME] {
            self.reporter.set_service_status(service, status).await;
        }
    }
}
