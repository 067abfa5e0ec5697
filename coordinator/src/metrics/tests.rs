//! The pages for given values.

use std::{sync::Arc, time::Duration};

use flotilla_configuration::features::FeatureGates;
use flotilla_framework::{
    class::PodInfo, extension::objects::AwaitedDevice, ingest, prepared::parts::Point, resources::Resources,
};
use flotilla_machine::{
    action::{DeviceWaitEnd, DeviceWaitStatus, PreemptorKind},
    census::Census,
    status::Status,
    tally::{Ended, GroupAttempt, PlacementCounts, PluginPoint},
};

use super::*;
use flotilla_runtime::{driver::Lap, fanout::PluginLap};

fn lines(text: &str, name: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[test]
fn families_stand_in_order_once_and_only_with_samples() {
    let census = Census {
        unschedulable: [((Arc::from("flotilla"), "NodeResourcesFit"), 3)].into(),
        judged: [(PluginPoint { plugin: "NodePorts", point: "Filter", profile: "flotilla".into() }, 5)].into(),
        ..Census::default()
    };
    let mut families = machine::upstream(&Status { pods_active: 2, ..Status::default() }, &census);
    families.extend(Scheduled::default().registry().gather());
    let text = text(families).expect("a page");
    let types: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    assert!(types.is_sorted(), "{types:?}");
    assert!(types.contains(&"scheduler_scheduling_algorithm_duration_seconds histogram"), "{types:?}");
    assert!(!text.contains("scheduler_schedule_attempts_total"), "nothing was tried");
    assert_eq!(
        lines(&text, "scheduler_pending_pods{queue=\"active\"")[..],
        ["scheduler_pending_pods{queue=\"active\"} 2".to_owned()]
    );
    for line in [
        "scheduler_queued_entities{queue=\"active\",type=\"pod\"} 2",
        "scheduler_unschedulable_pods{plugin=\"NodeResourcesFit\",profile=\"flotilla\"} 3",
        "scheduler_plugin_evaluation_total{extension_point=\"Filter\",plugin=\"NodePorts\",profile=\"flotilla\"} 5",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn each_decision_of_an_event_is_observed_with_its_own_wait_and_its_share() {
    let scheduled = Scheduled::default();
    let lap = Lap {
        label: Some("NodeAdd"),
        taking_in: Duration::from_micros(150),
        deciding: Duration::from_millis(1),
        ended: Ended { decided: &[0, 0, 7], evaluated: &[3], groups: &[] },
    };
    let mut known = EventHistograms::default();
    scheduled.event(&lap, &mut known);
    scheduled.event(&Lap { label: None, ended: Ended::default(), ..lap }, &mut known);
    let text = text(scheduled.registry().gather()).expect("a page");
    for line in [
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.001\"} 2",
        "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.008\"} 3",
        "scheduler_scheduling_algorithm_duration_seconds_count 3",
        "scheduler_event_handling_duration_seconds_bucket{event=\"NodeAdd\",le=\"0.0001\"} 0",
        "scheduler_event_handling_duration_seconds_bucket{event=\"NodeAdd\",le=\"0.0002\"} 1",
        "scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"} 1",
        "flotilla_evaluation_duration_seconds_count 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_wait_for_devices_is_observed_for_each_device_and_counts_those_that_had_to_get_ready() {
    let scheduled = Scheduled::default();
    let device = |driver: &str, has_conditions| AwaitedDevice { driver: driver.into(), has_conditions };
    let devices =
        vec![device("gpu.example.com", true), device("gpu.example.com", true), device("nic.example.com", false)];
    let end =
        DeviceWaitEnd { scheduler_name: "flotilla".into(), status: DeviceWaitStatus::Success, took_ms: 150, devices };
    scheduled.waited_for_devices(&end);
    let text = text(scheduled.registry().gather()).expect("a page");
    for line in [
        "scheduler_dra_bindingconditions_allocations_total{driver=\"gpu.example.com\",profile=\"flotilla\",status=\"success\"} 2",
        "scheduler_dra_bindingconditions_wait_duration_seconds_count{driver=\"gpu.example.com\",profile=\"flotilla\",status=\"success\"} 2",
        "scheduler_dra_bindingconditions_wait_duration_seconds_count{driver=\"nic.example.com\",profile=\"flotilla\",status=\"success\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("allocations_total{driver=\"nic"), "{text}");
}

#[test]
fn a_plugin_that_went_through_many_nodes_is_observed_with_its_mean_and_the_point_with_its_sum() {
    let scheduled = Scheduled::default();
    let lap = |plugin, point, nodes, us| PluginLap { plugin, point, nodes, took: Duration::from_micros(us) };
    (scheduled.observer())(
        "flotilla",
        &[
            lap("NodePorts", Point::Filter, 10, 150),
            lap("NodeName", Point::Filter, 10, 30),
            lap("ImageLocality", Point::Score, 5, 500),
        ],
    );
    let text = text(scheduled.registry().gather()).expect("a page");
    for line in [
        "scheduler_plugin_execution_duration_seconds_sum{extension_point=\"Filter\",plugin=\"NodeName\",status=\"Success\"} 0.000003",
        "scheduler_plugin_execution_duration_seconds_sum{extension_point=\"Score\",plugin=\"ImageLocality\",status=\"Success\"} 0.0001",
        "scheduler_framework_extension_point_duration_seconds_sum{extension_point=\"Filter\",profile=\"flotilla\",status=\"Success\"} 0.00018",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Score\",profile=\"flotilla\",status=\"Success\"} 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn attempts_at_groups_and_what_they_took_away_are_told_apart_from_those_of_pods() {
    let scheduled = Scheduled::default();
    let attempt = |result, room| GroupAttempt {
        profile: "flotilla".into(),
        result,
        room,
        members: 4,
        waited_ms: 10,
        placements: PlacementCounts { feasible: 1, infeasible: 2 },
    };
    let groups = [attempt("scheduled", None), attempt("waiting_on_preemption", Some("Success"))];
    let lap = Lap {
        label: None,
        taking_in: Duration::ZERO,
        deciding: Duration::from_millis(1),
        ended: Ended { groups: &groups, ..Ended::default() },
    };
    let page = || text(scheduled.registry().gather()).expect("a page");
    assert!(!page().contains("podgroup") && !page().contains("workload"), "there was no group");
    scheduled.event(&lap, &mut EventHistograms::default());
    scheduled.preempted(PreemptorKind::PodGroup, 3, true, Duration::from_millis(5));
    let page = page();
    for line in [
        "scheduler_podgroup_schedule_attempts_total{profile=\"flotilla\",result=\"scheduled\"} 1",
        "scheduler_podgroup_scheduling_attempt_duration_seconds_sum{profile=\"flotilla\",result=\"waiting_on_preemption\"} 0.014",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds_count 2",
        "scheduler_workload_preemption_attempts_total{result=\"Success\"} 1",
        "scheduler_workload_preemption_victims_sum 3",
        "scheduler_generated_placements_total{profile=\"flotilla\"} 6",
        "scheduler_placement_evaluations_total{profile=\"flotilla\",result=\"infeasible\"} 4",
        "scheduler_preemption_victims_count 0",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

#[test]
fn gates_and_versions_are_told_as_component_base_tells_them() {
    let mut families = vec![process::gates(&FeatureGates::default())];
    families.extend(process::builds());
    let text = text(families).expect("a page");
    assert!(text.contains("kubernetes_feature_enabled{name=\"AllowDNSOnlyNodeCSR\",stage=\"DEPRECATED\"} 0"), "{text}");
    assert!(text.contains("git_version=\"v1.37.2+flotilla-"), "{text}");
}

fn pod(name: &str, node: Option<&str>, limits: Option<Resources>) -> Arc<PodInfo> {
    let pod = k8s_openapi::api::core::v1::Pod {
        metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some("shop".to_owned()),
            uid: Some(name.to_owned()),
            ..Default::default()
        },
        spec: Some(Default::default()),
        status: None,
    };
    let mut pod = ingest::pod(&pod, ingest::Features::default()).expect("a pod");
    let requests = Resources {
        milli_cpu: 250,
        scalars: vec![("example.com/gpu".into(), 1), ("hugepages-2Mi".into(), 4 << 20)],
        ..Resources::default()
    };
    Arc::make_mut(&mut pod.class).requests = requests;
    pod.node_name = node.map(Into::into);
    pod.limits = limits.map(Box::new);
    Arc::new(pod)
}

#[test]
fn resources_are_told_pod_by_pod_in_base_units_and_zeros_are_left_out() {
    let limited = Resources { memory: 1 << 30, ..Resources::default() };
    let mut ended = (*pod("ended", Some("n"), None)).clone();
    ended.finished = true;
    let mut pods: Vec<_> = (0..1_500).map(|number| pod(&format!("web-{number}"), Some("n"), None)).collect();
    pods.extend([pod("limited", None, Some(limited)), Arc::new(ended)]);
    let text = resources::page(&pods).expect("a page");
    assert_eq!(
        lines(&text, "# TYPE"),
        ["# TYPE kube_pod_resource_limit gauge", "# TYPE kube_pod_resource_request gauge"]
    );
    assert_eq!(lines(&text, "kube_pod_resource_request").len(), 1_501 * 3);
    assert!(!text.contains("ended"));
    for line in [
        "kube_pod_resource_limit{namespace=\"shop\",node=\"\",pod=\"limited\",priority=\"0\",resource=\"memory\",\
         scheduler=\"default-scheduler\",unit=\"bytes\"} 1073741824",
        "kube_pod_resource_request{namespace=\"shop\",node=\"n\",pod=\"web-7\",priority=\"0\",resource=\"cpu\",\
         scheduler=\"default-scheduler\",unit=\"cores\"} 0.25",
        "resource=\"example.com/gpu\",scheduler=\"default-scheduler\",unit=\"\"} 1",
        "resource=\"hugepages-2Mi\",scheduler=\"default-scheduler\",unit=\"bytes\"} 4194304",
    ] {
        assert!(text.contains(line), "{line} is not in\n{}", &text[..2_000.min(text.len())]);
    }
    assert_eq!(resources::page(&[]).expect("a page"), "");
}
