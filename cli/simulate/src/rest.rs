//! Why a pod stays pending at the end of a simulation.

use std::{fmt::Write as _, sync::Arc};

use flotilla_framework::class::PodInfo;
use flotilla_machine::outlook::{PodName, PodState};
use flotilla_runtime::driver::Handle;

use crate::model::Model;

/// The message about the pod.
///
/// # Errors
/// The machine has stopped.
pub(super) async fn words(handle: &Handle, pod: &PodInfo, model: &Model) -> anyhow::Result<String> {
    let name = PodName { namespace: Arc::clone(&pod.class.namespace), name: Arc::clone(&pod.name) };
    let standing = handle.ask(move |machine, now_ms| machine.outlook(now_ms, &name)).await?;
    let unbound = model.unbound(pod);
    Ok(match standing.map(|outlook| outlook.standing) {
        Some(PodState::Preparing { node, .. }) => {
            let mut words = format!("{node} is chosen, and the pod waits for its volumes: nothing binds");
            for (at, claim) in unbound.iter().enumerate() {
                let separator = if at == 0 { " " } else { ", " };
                let _ = write!(words, "{separator}{}/{claim}", pod.class.namespace);
            }
            words
                + "; check spec.volumeName of the claim, spec.claimRef of its volume, and the provisioner of its StorageClass"
        }
        Some(PodState::Gated { message, .. }) => message,
        Some(PodState::BackingOff { .. }) => "the last attempt failed, and the next is due after a backoff".to_owned(),
        Some(PodState::Unschedulable { rejected_by, .. }) => {
            let plugins: Vec<&str> = rejected_by.iter().map(|rejection| rejection.plugin).collect();
            format!("refused by {}, and nothing happens that may change this", plugins.join(", "))
        }
        Some(PodState::NotOurs(_)) | None => "no profile is responsible for the pod".to_owned(),
        Some(PodState::Active { .. } | PodState::Binding { .. } | PodState::Bound { .. }) => {
            "not decided on; run with -v to see why".to_owned()
        }
    })
}
