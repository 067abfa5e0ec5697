//! Compares answers about a kept cluster with the same cluster read as a whole.

use std::{fs, path::Path, sync::Arc};

use flotilla_account::{
    explainer::Explainer,
    kept::Kept,
    question::{Answer, Desk, Question},
};
use flotilla_cluster::{Cluster, Gatherer, Loader, Problems, Sources, Texts, manifest};
use flotilla_framework::{class::PodInfo, profile::Profile, registry::Registry};
use flotilla_objects::Written as _;
use serde_json::{Value, json};

const OBJECTS: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disks.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {config: [{opaque: {driver: gpu.example.com, parameters: {a: 1}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: large-a-gpus}
spec:
  driver: gpu.example.com
  nodeName: large-a
  pool: {name: large-a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu, namespace: shop}
spec: {spec: {devices: {requests: [{name: one, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: shop, uid: of-web}
spec: {replicas: 0, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c}]}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"#;

fn shop() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the shop").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| (path.display().to_string(), fs::read_to_string(path).expect("text"));
    files.iter().map(read).chain([("objects".to_owned(), OBJECTS.to_owned())]).collect()
}

fn profiles() -> Vec<Profile> {
    flotilla_configuration::Configuration::default().profiles
}

fn cluster(texts: &[(String, String)]) -> Cluster {
    let (mut sources, mut problems) = (Sources::default(), Problems::default());
    let mut gatherer = Gatherer::with_texts(Texts::new(|_| Err(String::new()), |pod| manifest::pod(pod.to_value())));
    let mut loader = Loader::new(&mut sources, &mut gatherer, &mut problems, &|| {});
    texts.iter().for_each(|(name, text)| loader.text(name.clone(), text.clone()));
    let cluster = gatherer.finish(&["default-scheduler"], &mut problems);
    assert_eq!(problems.error_count(), 0, "{:?}", problems.render(&sources));
    cluster
}

fn desk(cluster: &Cluster) -> Desk {
    let bytes = Kept::new(cluster, &profiles()).encode().expect("it can be written");
    Desk::open(&bytes, Registry::built_in()).expect("it can be read")
}

fn asked(question: &Question) -> Answer {
    desk(&cluster(&shop())).ask(question).unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

fn text(text: &str) -> Question {
    Question { text: text.to_owned(), ..Question::default() }
}

/// The account of a pod in an answer.
fn account(answer: &Answer, pod: &str) -> Value {
    let asked =
        answer.pods.iter().find(|asked| asked.name == pod).unwrap_or_else(|| panic!("{pod}: {:?}", answer.pods));
    json!(answer.accounts[asked.account])
}

/// The account of a pod in a cluster that is read as a whole.
fn told(cluster: &Cluster, pod: &str) -> Value {
    let is_it = |known: &&Arc<PodInfo>| known.key() == pod;
    let pod = cluster.pending.iter().find(is_it).expect("the pod");
    json!(Explainer::new(Registry::built_in(), cluster, &profiles()).explain(pod).expect("an account"))
}

#[test]
fn new_pods_get_the_account_that_they_get_when_all_is_read_at_once() {
    let pods = [
        "containers: [{name: c, resources: {requests: {cpu: 2, memory: 3Gi}}}]",
        "{priorityClassName: revenue, nodeSelector: {disk: ssd}, containers: [{name: c}]}",
        "{priorityClassName: whenever, containers: [{name: c, ports: [{containerPort: 80, hostPort: 80}]}]}",
        "{containers: [{name: c, volumeMounts: []}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}",
        "{resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}], containers: [{name: c}]}",
        "{topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}], containers: [{name: c}]}",
        "{schedulingGates: [{name: later}], containers: [{name: c}]}",
    ];
    let pod = |spec: &str| {
        let spec = if spec.starts_with('{') { spec.to_owned() } else { format!("{{{spec}}}") };
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: new, namespace: shop, labels: {{app: web}}}}\nspec: {spec}\n"
        )
    };
    for spec in pods {
        let pod = pod(spec);
        let whole = cluster(&[shop(), vec![("new".to_owned(), pod.clone())]].concat());
        assert_eq!(account(&asked(&text(&pod)), "shop/new"), told(&whole, "shop/new"), "{spec}");
    }
}

#[test]
fn a_manifest_leads_to_the_account_of_the_pod_that_it_is_of() {
    let cluster = cluster(&shop());
    let desk = desk(&cluster);
    assert!(cluster.pending.len() > 20);
    for pod in &cluster.pending {
        let manifest = desk.manifest(&pod.key()).expect("a manifest");
        let answer = desk.ask(&text(&manifest)).expect("it can be read again");
        assert_eq!(answer.warnings, [] as [&str; 0], "{manifest}");
        assert_eq!(account(&answer, &pod.key()), told(&cluster, &pod.key()), "{manifest}");
    }
    assert_eq!(desk.manifest("shop/none"), None);
    assert_eq!(desk.manifest("ops/logs-0"), None, "it is on a node");
}

#[test]
fn nodes_are_cordoned_removed_and_added() {
    let nodes = |answer: &Answer, pod: &str| -> Vec<String> {
        let told =
            &answer.accounts[answer.pods.iter().find(|asked| asked.name == pod).expect("it is asked about").account];
        told.feasible.iter().map(|(node, ..)| answer.nodes[*node as usize].to_string()).collect()
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {nodeSelector: {disk: ssd}, containers: [{name: c}]}\n";
    let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
    assert_eq!(nodes(&asked(&text(pod)), "default/new"), ["large-a", "large-b"]);
    let question = Question { cordon: list(&["large-b"]), uncordon: list(&["large-c"]), ..text(pod) };
    assert_eq!(nodes(&asked(&question), "default/new"), ["large-a", "large-c"]);
    let question = Question { remove: list(&["large-a"]), ..text(pod) };
    let answer = asked(&question);
    assert_eq!(nodes(&answer, "default/new"), ["large-b"]);
    assert!(!answer.nodes.iter().any(|node| &**node == "large-a"));
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: spare, labels: {disk: ssd}}\nstatus: {allocatable: {cpu: 1, memory: 1Gi}}\n";
    let answer = asked(&text(&format!("{pod}---\n{node}")));
    assert_eq!(nodes(&answer, "default/new"), ["large-a", "large-b", "spare"]);
    // A text with nodes only evaluates all pending pods. The node replaces one of its name.
    let node = node.replace("spare", "large-a").replace("cpu: 1,", "cpu: 0,");
    let answer = asked(&text(&node));
    assert_eq!((answer.pods.len(), answer.nodes.len()), (26, 8));
    assert!(!nodes(&answer, "shop/db-1").contains(&"large-a".to_owned()));
}

#[test]
fn a_question_is_about_the_pods_that_it_names() {
    let question = Question { pods: vec!["shop/db-1".to_owned()], ..Question::default() };
    let answer = asked(&question);
    assert_eq!(answer.pods.iter().map(|asked| &asked.name).collect::<Vec<_>>(), ["shop/db-1"]);
    // A pod of the text with a node name is bound and not evaluated.
    let bound = "apiVersion: v1\nkind: Pod\nmetadata: {name: db-1, namespace: shop}\nspec: {nodeName: large-a, containers: [{name: c}]}\n";
    let answer = asked(&text(bound));
    assert_eq!(answer.pods.len(), 25);
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: api, namespace: shop}\nspec: {replicas: 3, selector: {matchLabels: {app: api}}, template: {metadata: {labels: {app: api}}, spec: {containers: [{name: c}]}}}\n";
    let answer = asked(&text(deployment));
    assert_eq!((answer.pods.len(), answer.accounts.len()), (3, 1));
}

#[test]
fn what_is_wrong_with_a_question_is_told_with_its_place() {
    let desk = desk(&cluster(&shop()));
    let told = |question: &Question| desk.ask(question).expect_err("it is wrong");
    let cases = [
        ("kind: Pot", "input:1:7: kind \"Pot\" is not known"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}",
            "input:5:1: cannot be read as YAML",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: 1}]}", "input:4:"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: none, containers: [{name: c}]}",
            "input:4:27: pod \"default/a\" has priorityClassName \"none\"",
        ),
        ("# nothing", "input: holds no object"),
    ];
    for (question, expected) in cases {
        let wrong = told(&text(question));
        assert!(wrong[0].starts_with(expected), "{question}: {wrong:?}");
    }
    let nowhere = Question { remove: vec!["x".to_owned()], pods: vec!["y".to_owned()], ..Question::default() };
    let expected = ["there is no node \"x\" in this report", "no pending pod of this report is called \"y\""];
    assert_eq!(told(&nowhere), expected);
    let unread = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeSelektor: {}, containers: [{name: c}]}";
    let answer = desk.ask(&text(unread)).expect("it can be read");
    let expected = "input:4:8: warning: spec.nodeSelektor is not a field of Kubernetes; it is ignored";
    assert_eq!(answer.warnings, [expected]);
}

#[test]
fn bytes_that_are_no_cluster_are_refused() {
    let bytes = Kept::new(&cluster(&shop()), &profiles()).encode().expect("it can be written");
    let wrong = |bytes: &[u8]| Desk::open(bytes, Registry::built_in()).expect_err("it is wrong").to_string();
    assert!(wrong(b"").contains("it is empty"));
    assert!(wrong(&bytes[..bytes.len() / 2]).starts_with("the cluster of this report cannot be read: "));
    let mut other = bytes;
    other[0] = 77;
    assert_eq!(wrong(&other), "the cluster of this report is kept in format 77, and this build reads format 2");
}
