//! Values of `--feature-gates`, with kube-scheduler's recorded results.

use super::*;

#[test]
fn gates_are_sorted_and_need_gates_that_exist() {
    assert!(gates().windows(2).all(|pair| pair[0].name < pair[1].name));
    assert!(gates().iter().flat_map(|gate| gate.needs).all(|name| find(name).is_some()));
    assert!(FeatureGates::default().without_needs().next().is_none());
    assert_eq!(gates().len(), 248);
}

#[test]
fn without_the_flag_gates_are_as_kube_scheduler_has_them() {
    let gates = FeatureGates::default();
    assert_eq!(FeatureGates::parse(""), Ok(gates.clone()));
    for (name, expected) in [
        ("DynamicResourceAllocation", true),
        ("StorageCapacityScoring", true),
        ("GenericWorkload", false),
        ("SchedulerAsyncAPICalls", false),
        ("DRAFractionalCapacityRange", false),
        ("NoSuchGate", false),
    ] {
        assert_eq!(gates.enabled(name), expected, "{name}");
    }
}

#[test]
fn gates_that_do_not_decide_about_scheduling_are_set_as_the_flag_says() {
    let text = " HPAScaleToZero = F ,, OpportunisticBatching=0,ContainerStopSignals=false,ContainerStopSignals=T,";
    let gates = FeatureGates::parse(text).expect("accepted");
    assert!(gates.enabled("ContainerStopSignals") && !gates.enabled("OpportunisticBatching"));
    assert_eq!(gates.to_string(), "ContainerStopSignals=true,HPAScaleToZero=false,OpportunisticBatching=false");
    assert_eq!(
        FeatureGates::parse("kube:HPAScaleToZero=true, kube : QOSReserved=true").map(|gates| gates.to_string()),
        { Ok("HPAScaleToZero=true,QOSReserved=true".to_owned()) }
    );
    assert!(
        FeatureGates::parse("StorageCapacityScoring=true,DynamicResourceAllocation=1,GenericWorkload=false").is_ok()
    );
}

#[test]
fn what_kube_scheduler_accepts_and_refuses() {
    for (text, accepted) in [
        ("SchedulerAsyncAPICalls=true", true),
        ("kube:SchedulerAsyncAPICalls=true", true),
        (":SchedulerAsyncAPICalls=true", true),
        ("foo:SchedulerAsyncAPICalls=true", false),
        ("Nope=true", false),
        ("schedulerasyncapicalls=true", false),
        ("DynamicResourceAllocation=false", false),
        ("AllAlpha=true", false),
        ("AllBeta=false", true),
        ("AllBeta=false,GenericWorkload=true", true),
        ("AllAlpha=true,AllBeta=true", true),
        ("A", false),
        ("=true", false),
        ("SchedulerAsyncAPICalls=yes", false),
        ("TopologyAwareWorkloadScheduling=true", false),
        ("TopologyAwareWorkloadScheduling=true,GenericWorkload=true", true),
        ("DRADeviceTaints=false", false),
        ("DRADeviceTaints=false,DRADeviceTaintRules=false", true),
        ("HPAScaleToZero=true,kube:QOSReserved=true", false),
    ] {
        let invalid = FeatureGates::parse(text).is_err();
        assert_eq!(invalid, !accepted, "{text}");
    }
}

#[test]
fn what_is_built_may_be_moved_off_its_default_and_what_builds_on_it_may_not() {
    assert!(FeatureGates::parse("GenericWorkload=true").is_ok_and(|gates| gates.enabled("GenericWorkload")));
    let topology = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    assert!(FeatureGates::parse(topology).is_ok_and(|gates| gates.features().topology_aware));
    let composite = FeatureGates::parse(&format!("{topology},CompositePodGroup=true"));
    assert!(composite.is_ok_and(|gates| gates.features().composite_groups));
    let claims = FeatureGates::parse("GenericWorkload=true,DRAWorkloadResourceClaims=true");
    assert!(claims.is_ok_and(|gates| gates.features().workload_claims));
    let amounts = FeatureGates::parse("DRANodeAllocatableResources=true");
    assert!(amounts.is_ok_and(|gates| gates.features().devices.node_allocatable));
}

#[test]
fn all_alpha_and_all_beta_leave_alone_what_is_named() {
    let gates = FeatureGates::examine("AllAlpha=true,QOSReserved=false,AllBeta=true").0;
    assert!(gates.enabled("CompositePodGroup") && gates.enabled("GenericWorkload") && !gates.enabled("QOSReserved"));
}

#[test]
fn what_is_wrong_is_said_with_what_to_do() {
    for (text, expected) in [
        (
            "SchedulerAsyncPremption=true",
            "--feature-gates: SchedulerAsyncPremption: kube-scheduler 1.37 has no such feature gate; expected the name of \
             a gate, with its capitals\n    hint: did you mean \"SchedulerAsyncPreemption\"?",
        ),
        (
            "SchedulerQueueingHints=true",
            "--feature-gates: SchedulerQueueingHints: kube-scheduler 1.37 has no such feature gate; expected the name of \
             a gate, with its capitals\n    hint: kube-scheduler does this always: leave the gate out",
        ),
        (
            "NodeDeclaredFeatures=false",
            "--feature-gates: NodeDeclaredFeatures: found false, but the gate is locked to true; expected true\n    \
             hint: leave the gate out",
        ),
        (
            "PodGroupPreemptionPolicy=true",
            "--feature-gates: PodGroupPreemptionPolicy: it is on, but a gate that it requires is off; expected GenericWorkload on \
             as well\n    hint: add GenericWorkload=true, or PodGroupPreemptionPolicy=false",
        ),
        (
            "QOSReserved=on,QOSReserved",
            "--feature-gates: QOSReserved: found \"on\"; expected true or false\n    hint: write QOSReserved=true\n\
             --feature-gates: QOSReserved: found no value; expected name=true or name=false\n    hint: write \
             QOSReserved=true to turn it on",
        ),
    ] {
        assert_eq!(FeatureGates::parse(text).map_err(|errors| errors.to_string()), Err(expected.to_owned()));
    }
}

#[test]
fn every_gate_that_is_not_locked_is_accepted_at_both_values_with_what_it_needs() {
    fn needed<'a>(gate: &'a Gate, names: &mut BTreeSet<&'a str>) {
        names.insert(gate.name);
        gate.needs.iter().filter_map(|name| find(name)).for_each(|other| needed(other, names));
    }
    for gate in gates().iter().filter(|gate| !gate.locked) {
        let mut names = BTreeSet::new();
        needed(gate, &mut names);
        let on = names.iter().map(|name| format!("{name}=true")).collect::<Vec<_>>().join(",");
        assert!(FeatureGates::parse(&on).is_ok_and(|gates| gates.enabled(gate.name)), "{on}");
        let is_needing = |other: &&Gate| {
            let mut names = BTreeSet::new();
            needed(other, &mut names);
            names.contains(gate.name)
        };
        let off = gates().iter().filter(is_needing).map(|other| format!("{}=false", other.name));
        let off = off.collect::<Vec<_>>().join(",");
        assert!(FeatureGates::parse(&off).is_ok_and(|gates| !gates.enabled(gate.name)), "{off}");
    }
}

#[test]
fn gates_of_devices_are_read_at_both_values() {
    let text = "DRAConsumableCapacity=false,DRADerivedAttributes=true,DRADeviceBindingConditions=false,DRADeviceTaintRules=false,\
                DRADeviceTaints=false,DRAListTypeAttributes=true,DRANodeAllocatableResources=true,DRAOptionalNodeOperations=true,DRAPartitionableDevices=false,\
                DRASchedulerFilterTimeout=false";
    let read = FeatureGates::parse(text).expect("accepted").features().devices;
    let expected = DeviceFeatures {
        compatibility_groups: false,
        consumable_capacity: false,
        derived_attributes: true,
        binding_conditions: false,
        taints: false,
        taint_rules: false,
        fractional_ranges: false,
        list_attributes: true,
        node_allocatable: true,
        optional_node_operations: true,
        partitionable_devices: false,
    };
    assert_eq!(read, expected);
    assert_eq!(FeatureGates::default().features(), Features::default());
    let text = "DRADeviceCompatibilityGroups=true,DRAFractionalCapacityRange=true";
    let read = FeatureGates::parse(text).expect("accepted").features().devices;
    assert!(read.compatibility_groups && read.fractional_ranges);
    assert!(FeatureGates::parse("DRAWorkloadResourceClaims=true").is_err(), "it needs GenericWorkload");
}

#[test]
fn gates_of_leadership_resizes_and_nominations_are_read_at_both_values() {
    let text = "CoordinatedLeaderElection=true,InPlacePodVerticalScalingSchedulerPreemption=true,NominatedNodeNameForExpectation=false";
    let gates = FeatureGates::parse(text).expect("accepted");
    assert!(gates.enabled("CoordinatedLeaderElection") && !gates.enabled("NominatedNodeNameForExpectation"));
    assert!(gates.features().deferred_resizes && !FeatureGates::default().features().deferred_resizes);
}
