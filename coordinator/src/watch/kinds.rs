//! The watched kinds, except those that plugins store (`stored`).

use std::{marker::PhantomData, sync::Arc};

use flotilla_encoding::{self as object, LabelSelector as Selector, SelectorMap};
use flotilla_framework::{
    class::OwnerKind,
    excess::objects,
    ingest::{self, Features, IngestError, selectors},
    labels::LabelSelector,
    pod_group::{GroupApi, GroupKey},
};
use flotilla_machine::event::{Event, Selecting, SelectingKind};
use k8s_openapi::api::{
    policy::v1 as policy,
    scheduling::{v1alpha3 as composite, v1beta1 as workloads},
};
use tracing::warn;

use super::{known::Gone, source::Kind};
use crate::{
    status::Regarding,
    versions::{self, Served, Versions},
};

/// kube-scheduler's selector of pods: completed ones use no resources.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

pub(super) struct Pods;

impl Kind for Pods {
    const PATH: &'static str = "/api/v1/pods";
    const FIELDS: Option<&'static str> = Some(LIVE_PODS);
    const BOUNDS_VIEW: bool = true;
    type Object = object::Pod;

    fn applied(object: object::Pod, features: Features) -> Result<Event, IngestError> {
        let pod = ingest::pod(&object.into(), features)?;
        if let (Some(excess), Some(node)) = (&pod.excess, &pod.node_name) {
            let pod = pod.key();
            warn!(pod, %node, %excess, "the pod is too large: its affinity and spread constraints are ignored");
        }
        Ok(Event::PodApplied(Arc::new(pod)))
    }

    fn deleted(gone: Gone) -> Event {
        Event::PodDeleted { uid: gone.uid }
    }

    fn went_back() -> Option<Event> {
        Some(Event::WentBack)
    }

    fn relisted() -> Option<Event> {
        Some(Event::PodsRelisted)
    }

    fn regarding(key: &str, uid: &str) -> Option<Regarding> {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        Some(Regarding::pod(namespace, name, uid))
    }
}

pub(super) struct Nodes;

impl Kind for Nodes {
    const PATH: &'static str = "/api/v1/nodes";
    const BOUNDS_VIEW: bool = true;
    type Object = object::Node;

    fn applied(object: object::Node, _features: Features) -> Result<Event, IngestError> {
        Ok(Event::NodeApplied(Arc::new(ingest::node(&object.into())?)))
    }

    fn deleted(gone: Gone) -> Event {
        Event::NodeDeleted { name: Arc::from(gone.key) }
    }

    fn regarding(name: &str, uid: &str) -> Option<Regarding> {
        Some(Regarding::node(name, uid))
    }
}

/// All pod groups; watched with the feature gate GenericWorkload.
pub(super) struct PodGroups;

impl Kind for PodGroups {
    const PATH: &'static str = "/apis/scheduling.k8s.io/v1beta1/podgroups";
    const VERSIONS: &'static [&'static str] = versions::POD_GROUPS;
    const UNSERVED: Option<&'static str> = Some(
        "start the API server with --feature-gates=GenericWorkload=true and \
         --runtime-config=scheduling.k8s.io/v1beta1=true, or this process without GenericWorkload",
    );
    type Object = object::Specified<workloads::PodGroupSpec, workloads::PodGroupStatus>;

    fn served(versions: &Versions) -> Served {
        versions.groups.clone()
    }

    fn applied(object: Self::Object, features: Features) -> Result<Event, IngestError> {
        Ok(Event::PodGroupApplied(Arc::new(ingest::pod_group::pod_group(&object.into(), features)?)))
    }

    fn deleted(gone: Gone) -> Event {
        group_deleted(&gone, GroupApi::Kubernetes)
    }
}

/// All composite pod groups; watched with the feature gate CompositePodGroup.
pub(super) struct CompositePodGroups;

impl Kind for CompositePodGroups {
    const PATH: &'static str = "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups";
    const UNSERVED: Option<&'static str> = Some(
        "start the API server with --feature-gates=CompositePodGroup=true and --runtime-config=scheduling.k8s.io/v1alpha3=true, or this \
         process without CompositePodGroup",
    );
    type Object = object::Specified<composite::CompositePodGroupSpec>;

    fn applied(object: Self::Object, features: Features) -> Result<Event, IngestError> {
        Ok(Event::PodGroupApplied(Arc::new(ingest::pod_group::composite(&object.into(), features)?)))
    }

    fn deleted(gone: Gone) -> Event {
        group_deleted(&gone, GroupApi::Composite)
    }
}

/// All pod groups of scheduler-plugins; watched if a profile has the plugin Coscheduling.
pub(super) struct CoschedulingGroups;

/// Their plural, which differs from that of [`PodGroups`].
pub(super) const COSCHEDULING: &str = "podgroups.scheduling.x-k8s.io";

impl Kind for CoschedulingGroups {
    const PATH: &'static str = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups";
    const WHAT: &'static str = COSCHEDULING;
    const UNSERVED: Option<&'static str> = Some(
        "install the CustomResourceDefinition podgroups.scheduling.x-k8s.io of scheduler-plugins, or remove Coscheduling from the profiles",
    );
    type Object = object::Custom<ingest::pod_group::CoschedulingSpec>;

    fn applied(object: Self::Object, _features: Features) -> Result<Event, IngestError> {
        let (metadata, spec) = (object.metadata.into(), object.spec.unwrap_or_default());
        Ok(Event::PodGroupApplied(Arc::new(ingest::pod_group::coscheduling(&metadata, &spec)?)))
    }

    fn deleted(gone: Gone) -> Event {
        group_deleted(&gone, GroupApi::Coscheduling)
    }
}

fn group_deleted(gone: &Gone, api: GroupApi) -> Event {
    let (namespace, name) = gone.key.split_once('/').unwrap_or_default();
    Event::PodGroupDeleted(GroupKey { namespace: Arc::from(namespace), name: Arc::from(name), api })
}

pub(super) struct Namespaces;

impl Kind for Namespaces {
    const PATH: &'static str = "/api/v1/namespaces";
    type Object = object::Namespace;

    fn applied(object: object::Namespace, _features: Features) -> Result<Event, IngestError> {
        let name = Arc::from(present(object.metadata.name(), "metadata.name")?);
        Ok(Event::NamespaceApplied { name, labels: selectors::namespace_labels(object.metadata.labels()) })
    }

    fn deleted(gone: Gone) -> Event {
        Event::NamespaceDeleted { name: Arc::from(gone.key) }
    }
}

/// All PodDisruptionBudgets: preemption respects them if possible.
pub(super) struct Budgets;

impl Kind for Budgets {
    const PATH: &'static str = "/apis/policy/v1/poddisruptionbudgets";
    type Object = object::Specified<policy::PodDisruptionBudgetSpec, object::BudgetStatus>;

    fn applied(object: Self::Object, _features: Features) -> Result<Event, IngestError> {
        Ok(Event::BudgetApplied(Arc::new(ingest::budgets::budget(&object.into())?)))
    }

    fn deleted(gone: Gone) -> Event {
        let (namespace, name) = gone.key.split_once('/').unwrap_or_default();
        Event::BudgetDeleted { namespace: Arc::from(namespace), name: Arc::from(name) }
    }

    fn excess(object: &Self::Object) -> Option<String> {
        let excess = objects::of_selector(object.spec.as_ref()?.selector.as_ref())?;
        Some(format!(
            "{excess}; all pods of the namespace that have labels are protected, and no disruption is allowed"
        ))
    }

    fn regarding(key: &str, uid: &str) -> Option<Regarding> {
        Some(Regarding::namespaced("PodDisruptionBudget", key, uid))
    }
}

/// A kind with a pod selector.
pub(super) trait Selects: Send + Sync + 'static {
    const PATH: &'static str;
    const NAME: &'static str;
    const KIND: SelectingKind;
    type Selector: Send;

    fn selector(selector: Option<&Self::Selector>) -> LabelSelector;

    /// The part that is too large.
    fn excess(selector: Option<&Self::Selector>) -> Option<String>;
}

/// All objects of such a kind.
pub(super) struct AllThat<S>(PhantomData<S>);

impl<S: Selects> Kind for AllThat<S>
where
    object::Selecting<S::Selector>: object::Object,
{
    const PATH: &'static str = S::PATH;
    type Object = object::Selecting<S::Selector>;

    fn applied(object: Self::Object, _features: Features) -> Result<Event, IngestError> {
        let namespace = present(object.metadata.namespace(), "metadata.namespace")?;
        let name = present(object.metadata.name(), "metadata.name")?;
        let selecting = Selecting { kind: S::KIND, namespace: Arc::from(namespace), name: Arc::from(name) };
        Ok(Event::SelectorApplied { object: selecting, selector: S::selector(object.selector()) })
    }

    fn deleted(gone: Gone) -> Event {
        let (namespace, name) = gone.key.split_once('/').unwrap_or_default();
        Event::SelectorDeleted {
            object: Selecting { kind: S::KIND, namespace: Arc::from(namespace), name: Arc::from(name) },
        }
    }

    fn excess(object: &Self::Object) -> Option<String> {
        let excess = S::excess(object.selector())?;
        Some(format!("{excess}; the selector is not used to spread pods by default"))
    }

    fn regarding(key: &str, uid: &str) -> Option<Regarding> {
        Some(Regarding::namespaced(S::NAME, key, uid))
    }
}

fn present<'a>(text: &'a str, field: &'static str) -> Result<&'a str, IngestError> {
    if text.is_empty() { Err(IngestError::Missing(field)) } else { Ok(text) }
}

/// The name for events, the path, the machine's name, the API's selector, and its reader.
macro_rules! selecting {
    ($($name:ident $path:literal, $kind:expr, $selector:ty, $read:path, $excess:path;)*) => {$(
        pub(super) struct $name;

        impl Selects for $name {
            const PATH: &'static str = $path;
            const NAME: &'static str = stringify!($name);
            const KIND: SelectingKind = $kind;
            type Selector = $selector;

            fn selector(selector: Option<&$selector>) -> LabelSelector {
                $read(selector)
            }

            fn excess(selector: Option<&$selector>) -> Option<String> {
                $excess(selector)
            }
        }
    )*};
}

selecting! {
    Service "/api/v1/services", SelectingKind::Service, SelectorMap, selectors::map_selector, objects::of_map;
    ReplicationController "/api/v1/replicationcontrollers", SelectingKind::Controller(OwnerKind::ReplicationController),
        SelectorMap, selectors::map_selector, objects::of_map;
    ReplicaSet "/apis/apps/v1/replicasets", SelectingKind::Controller(OwnerKind::ReplicaSet),
        Selector, selectors::controller_selector, objects::of_selector;
    StatefulSet "/apis/apps/v1/statefulsets", SelectingKind::Controller(OwnerKind::StatefulSet),
        Selector, selectors::controller_selector, objects::of_selector;
}
