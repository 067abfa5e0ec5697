//! Pods of custom resources.

use serde_json::{Value, json};

use super::*;
use crate::{objects::Gatherer, source::Sources, test_support::load};

/// The pods of the objects, as `namespace/name owner`, and all messages.
fn pods(objects: &[Value], rules: &[&str]) -> (Vec<String>, Vec<String>) {
    let rules: Vec<PodTemplate> = rules.iter().map(|rule| rule.parse().expect("a rule")).collect();
    let (cluster, lines) = load(objects, Gatherer::default(), &rules);
    let pods = cluster.bound.iter().chain(&cluster.pending);
    (pods.map(|pod| pod.key()).collect(), lines)
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}})
}

fn object(api_version: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "n"}, "spec": spec})
}

#[test]
fn known_controllers_make_pods() {
    let job = json!({"parallelism": 2, "template": template()});
    let per_type = json!({"Master": {"template": template()}, "Worker": {"replicas": 2, "template": template()}});
    let ray = json!({
        "headGroupSpec": {"template": template()},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "numOfHosts": 2, "template": template()}],
    });
    let knative = json!({"template": {
        "metadata": {"annotations": {"autoscaling.knative.dev/min-scale": "2"}},
        "spec": {"containerConcurrency": 1, "containers": [{"image": "i"}]},
    }});
    let lws = json!({"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}});
    let cases = [
        ("argoproj.io/v1alpha1", "Rollout", json!({"replicas": 2, "template": template()}), "n/x-*-*", 2),
        ("argoproj.io/v1alpha1", "Rollout", json!({"workloadRef": {"kind": "Deployment", "name": "x"}}), "", 0),
        ("apps.openshift.io/v1", "DeploymentConfig", json!({"replicas": 2, "template": template()}), "n/x-1-*", 2),
        ("v1", "DeploymentConfig", json!({"template": template()}), "n/x-1-*", 1),
        ("serving.knative.dev/v1", "Service", knative, "n/x-00001-deployment-*-*", 2),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            json!({"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": job}}]}),
            "n/x-w-*-*",
            4,
        ),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", json!({"suspend": true, "replicatedJobs": []}), "", 0),
        ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", lws, "n/x-*", 6),
        ("apps.kruise.io/v1alpha1", "CloneSet", json!({"replicas": 3, "template": template()}), "n/x-*", 3),
        ("apps.kruise.io/v1beta1", "StatefulSet", json!({"replicas": 2, "template": template()}), "n/x-*", 2),
        ("apps.kruise.io/v1alpha1", "DaemonSet", json!({"template": template()}), "n/x-*", 1),
        (
            "batch.volcano.sh/v1alpha1",
            "Job",
            json!({"schedulerName": "default-scheduler", "tasks": [{"name": "w", "replicas": 2, "template": template()}]}),
            "n/x-w-*",
            2,
        ),
        ("kubeflow.org/v1", "PyTorchJob", json!({"pytorchReplicaSpecs": per_type}), "n/x-*-*", 3),
        ("kubeflow.org/v2beta1", "MPIJob", json!({"mpiReplicaSpecs": per_type}), "n/x-*-*", 3),
        ("ray.io/v1", "RayCluster", ray.clone(), "n/x-*", 3),
        ("ray.io/v1", "RayJob", json!({"rayClusterSpec": ray}), "n/x-*", 3),
        (
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            json!({"driver": {"template": template()}, "executor": {"instances": 2, "template": template()}}),
            "n/x-*",
            3,
        ),
    ];
    for (api_version, kind, spec, pattern, count) in cases {
        let (found, lines) = pods(&[object(api_version, kind, &spec)], &[]);
        assert_eq!((found.len(), lines), (count, Vec::new()), "{kind} {found:?}");
        let fits = |name: &String| pattern.split('*').all(|part| name.contains(part));
        assert!(found.iter().all(fits), "{kind} {found:?}");
    }
}

#[test]
fn a_rule_of_a_flag_finds_templates_and_counts() {
    let nested = json!({"replicas": 2, "parts": [
        {"name": "a", "replicas": 3, "template": template()},
        {"name": "b", "parallelism": 1, "template": {"spec": {"template": template()}}},
    ]});
    let cases = [
        ("Foo=spec.template", json!({"replicas": 3, "template": template()}), 3),
        ("Foo={.spec.template}", json!({"template": template()}), 1),
        ("Foo.example.com=spec.template", json!({"minAvailable": 4, "template": template()}), 4),
        ("Foo=spec.template", json!({"replicas": -1, "template": template()}), 0),
        ("Foo=spec.parts[*].template", nested.clone(), 12),
        ("Foo=spec.parts[0].template", nested, 6),
        ("Foo=spec.pod", json!({"replicas": 2, "pod": {"containers": [{"name": "c"}]}}), 2),
        ("Foo=spec.byRole.*.template", json!({"byRole": {"Front": {"replicas": 2, "template": template()}}}), 2),
    ];
    for (rule, spec, count) in cases {
        let spec = if rule.ends_with("parts[*].template") {
            let mut spec = spec;
            spec["parts"][1]["template"] = template();
            spec["parts"][1]["parallelism"] = json!(3);
            spec
        } else {
            spec
        };
        let (found, lines) = pods(&[object("example.com/v1", "Foo", &spec)], &[rule]);
        assert_eq!((found.len(), lines), (count, Vec::new()), "{rule} {found:?}");
    }
}

#[test]
fn a_rule_without_a_match_and_a_template_without_a_rule_are_reported() {
    let foo = object("example.com/v1", "Foo", &json!({"parts": [{"template": template()}]}));
    let (found, lines) = pods(&[foo.clone(), foo.clone()], &[]);
    assert!(found.is_empty());
    assert_eq!(
        lines,
        [
            "warning: Foo.example.com \"n/x\" has a pod template in spec.parts[*].template, and it is not known how many pods \
             its controller makes; none are made, for all objects of this kind; to make them, use --pod-template \
             Foo.example.com=spec.parts[*].template",
            "ignored 2 objects: 2 Foo (example.com)",
        ]
    );
    let (_, lines) = pods(&[foo], &["Foo=spec.template", "Bar=spec.template"]);
    assert_eq!(
        lines,
        [
            "warning: Foo.example.com \"n/x\" has no field of --pod-template Foo=spec.template; no pods are made for it, so \
             check the path",
            "--pod-template Bar=spec.template: the input has no custom resource of kind Bar",
        ]
    );
}

#[test]
fn objects_that_a_controller_has_created_replace_the_ones_that_it_would_create() {
    let rollout = object("argoproj.io/v1alpha1", "Rollout", &json!({"replicas": 2, "template": template()}));
    let owner = |api_version: &str, kind: &str, name: &str| json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "", "controller": true}]);
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "x-5d9f", "namespace": "n", "ownerReferences": owner("argoproj.io/v1alpha1", "Rollout", "x")},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template()},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "x-5d9f-abcde", "namespace": "n", "ownerReferences": owner("apps/v1", "ReplicaSet", "x-5d9f")},
        "spec": {"containers": [{"name": "c"}]},
    });
    let cases = [
        (vec![rollout.clone()], 2),
        (vec![rollout.clone(), set.clone()], 1),
        (vec![rollout.clone(), set, pod.clone()], 1),
        (vec![rollout, pod], 1),
    ];
    for (number, (objects, count)) in cases.into_iter().enumerate() {
        assert_eq!(pods(&objects, &[]).0.len(), count, "case {number}");
    }
    let clones = object("apps.kruise.io/v1alpha1", "CloneSet", &json!({"replicas": 2, "template": template()}));
    let mut one = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "x-abcde", "namespace": "n", "ownerReferences": owner("apps.kruise.io/v1alpha1", "CloneSet", "x")},
        "spec": {"containers": [{"name": "c"}]},
    });
    assert_eq!(pods(&[clones.clone(), one.clone()], &[]).0.len(), 2);
    one["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(pods(&[clones, one], &[]).0.len(), 3);
}

#[test]
fn errors_in_a_template_have_their_place() {
    let spec = json!({"tasks": [{"name": "w", "template": {"spec": {"containers": {}}}}]});
    let (_, lines) = pods(&[object("batch.volcano.sh/v1alpha1", "Job", &spec)], &[]);
    assert_eq!(lines, ["spec.containers: found a mapping, expected a list"]);
    let many = json!({"replicatedJobs": [{"name": "w", "replicas": 200_000, "template": {}}]});
    let (_, lines) = pods(&[object("jobset.x-k8s.io/v1alpha2", "JobSet", &many)], &[]);
    assert_eq!(lines, ["JobSet.jobset.x-k8s.io \"n/x\" asks for 200000 Jobs; expected 100000 at most"]);
}

#[test]
fn pods_have_the_labels_and_the_owner_that_a_controller_sets() {
    let spec = json!({"pytorchReplicaSpecs": {"Worker": {"template": template()}}});
    let mut problems = Problems::default();
    let value = object("kubeflow.org/v1", "PyTorchJob", &json!({}));
    let metadata = ObjectMeta { name: Some("x".to_owned()), namespace: Some("n".to_owned()), ..ObjectMeta::default() };
    let fields = Map::from_iter([("spec".to_owned(), spec)]);
    let place = InputPosition::nowhere();
    let (kind, api_version) = ("PyTorchJob".to_owned(), value["apiVersion"].as_str().expect("text").to_owned());
    let custom = Custom { api_version, kind, metadata, fields, place };
    let rule = rule(None, "kubeflow.org", "PyTorchJob", &custom.fields).expect("a known kind");
    let planned = custom.workloads(&rule, &mut problems);
    let Some(Workload::Custom(made)) = planned.first().map(|planned| &planned.workload) else { panic!("no pods") };
    let labels = made.template.metadata.as_ref().and_then(|metadata| metadata.labels.clone()).expect("labels");
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(labels, ["app=a", "training.kubeflow.org/job-name=x", "training.kubeflow.org/replica-type=worker"]);
    let owner = made.reference();
    assert_eq!((&*owner.api_version, &*owner.kind, &*owner.name), ("kubeflow.org/v1", "PyTorchJob", "x"));
    assert_eq!(problems.render(&Sources::default()), Vec::<String>::new());
}

#[test]
fn a_rule_is_a_kind_and_a_path() {
    for text in ["Foo", "=spec.template", "Foo=", "Foo=spec..template", "Foo=spec[x]", "Foo=spec[0"] {
        assert!(text.parse::<PodTemplate>().is_err(), "{text}");
    }
    let rule: PodTemplate = "Foo.example.com=.spec.parts[*].template".parse().expect("a rule");
    assert!(
        rule.is_for("Foo", "example.com") && !rule.is_for("Foo", "example.org") && !rule.is_for("Bar", "example.com")
    );
}
