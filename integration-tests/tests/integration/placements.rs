//! Placements equal kube-scheduler's on random clusters, and its recorded results are current. `FLOTILLA_SEED`, `FLOTILLA_CASES` and
//! `FLOTILLA_FEATURES` select random clusters, as in `cargo xtask differential`. `FLOTILLA_RECORD=1` writes the records instead of checking
//! them.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Instant,
};

use flotilla_integration_tests::{
    oracle,
    placements::{self, Run, groups::Comparing},
};
use flotilla_placements::{FEATURES, differences, of_groups, outcomes};

/// Fixed default, so that a failure is reproducible.
const SEED: i64 = 1_000_000;
const CASES: u32 = 1_500;
/// For each value of feature gates.
const CASES_WITH_GATES: u32 = 100;
/// Number of mismatches that are minimised; the others are only named.
const MOST_SHRUNK: usize = 3;

fn variable<T: std::str::FromStr>(name: &str, default: T) -> T {
    let Ok(text) = env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; expected a whole number"))
}

/// Fails for clusters with different placements.
fn compare(run: &Run, gates: &str) {
    let Run { seed, count, features } = run;
    println!("{count} clusters from seed {seed} with {features} {gates}");
    let began = Instant::now();
    let folder = tempfile::tempdir().expect("a temporary folder");
    placements::make(run, folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    let mismatches = placements::mismatches(folder.path(), gates).unwrap_or_else(|error| panic!("{error:#}"));
    println!("{} of them differ; {} s", mismatches.len(), began.elapsed().as_secs());
    let report =
        |mismatch| placements::report(mismatch, folder.path(), gates).unwrap_or_else(|error| panic!("{error:#}"));
    let reports: Vec<String> = mismatches.iter().take(MOST_SHRUNK).map(report).collect();
    let others: Vec<&str> = mismatches.iter().skip(MOST_SHRUNK).map(|mismatch| &*mismatch.name).collect();
    let again = match gates {
        "" => format!("cargo xtask differential --of clusters --seed {seed} --count {count}"),
        _ => format!("both programs need --feature-gates={gates}"),
    };
    assert!(
        mismatches.is_empty(),
        "{} of {count} clusters differ; again: {again}\n\n{}\n\nothers: {}",
        mismatches.len(),
        reports.join("\n\n"),
        others.join(", ")
    );
}

#[test]
fn fresh_clusters_get_the_same_placements() {
    let features = env::var("FLOTILLA_FEATURES").unwrap_or_else(|_| FEATURES.join(","));
    compare(&Run { seed: variable("FLOTILLA_SEED", SEED), count: variable("FLOTILLA_CASES", CASES), features }, "");
}

/// Feature gates, with the generator's features for which they matter.
const GATES: [(&str, &str); 5] = [
    ("", "resources,taints,spread,operators"),
    ("DRANodeAllocatableResources=true", "resources,taints,priorities,preemption,claims,extended,amounts"),
    ("TaintTolerationComparisonOperators=true", "resources,taints,spread,operators"),
    (
        "InPlacePodVerticalScalingSchedulerPreemption=true",
        "resources,taints,nodeaffinity,ports,spread,interpod,volumes,priorities,claims,declared,odd,preemption,resizes",
    ),
    (
        "InPlacePodLevelResourcesVerticalScaling=false,MatchLabelKeysInPodTopologySpread=false,\
         MatchLabelKeysInPodTopologySpreadSelectorMerge=false,PodLevelResources=false,\
         PodLevelResourcesFixDefaulting=false,PodLevelResourcesFixKubeletQOSClass=false,StorageCapacityScoring=false,\
         TaintTolerationComparisonOperators=true,VolumeLimitScaling=false",
        "resources,taints,volumes,spread,priorities,odd,preemption,operators",
    ),
];

#[test]
fn fresh_clusters_get_the_same_placements_with_other_feature_gates() {
    for (gates, features) in GATES {
        let (seed, features) = (variable("FLOTILLA_SEED", SEED), features.to_owned());
        compare(&Run { seed, count: CASES_WITH_GATES, features }, gates);
    }
}

/// Feature gates of devices. The stable allocator, which kube-scheduler uses without DRAConsumableCapacity and DRADeviceBindingConditions,
/// tries pools in random order, so `allocations.rs` compares it with one pool.
const DEVICE_GATES: [&str; 7] = [
    "DRAFractionalCapacityRange=true",
    "DRAConsumableCapacity=false",
    "DRADeviceBindingConditions=false",
    "DRAPartitionableDevices=false",
    "DRADeviceTaintRules=false,DRADeviceTaints=false",
    "DRADerivedAttributes=true,DRADeviceCompatibilityGroups=true,DRAListTypeAttributes=true,DRAOptionalNodeOperations=true",
    "DRASchedulerFilterTimeout=false",
];
/// For each of them.
const CASES_WITH_DEVICE_GATES: u32 = 40;

#[test]
fn fresh_clusters_get_the_same_placements_with_other_feature_gates_of_devices() {
    let features = "resources,claims,extended,gated".to_owned();
    let run = Run { seed: variable("FLOTILLA_SEED", SEED), count: CASES_WITH_DEVICE_GATES, features };
    compare(&run, "");
    let folder = tempfile::tempdir().expect("a temporary folder");
    placements::make(&run, folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    let answers =
        |gates| placements::asked_of_flotilla(folder.path(), 1, gates).unwrap_or_else(|error| panic!("{error:#}"));
    let usual = answers("");
    for gates in DEVICE_GATES {
        compare(&run, gates);
        let has_effect = answers(gates) != usual;
        assert_eq!(has_effect, !gates.contains("Timeout"), "whether {gates} changes a placement");
    }
}

/// Number of clusters with a pod group. Each takes Flotilla's process and the oracle some 120 ms on two cores.
const GROUPS: u32 = 1_000;
/// The same with topology constraints, each of which is tried in some three placements.
const GROUPS_IN_DOMAINS: u32 = 250;
/// The same below composite groups.
const COMPOSITE_GROUPS: u32 = 300;
/// The same with claims that the pods share with the group.
const GROUPS_WITH_CLAIMS: u32 = 250;
const WORKERS: u16 = 2;

#[test]
fn fresh_groups_are_placed_as_kube_schedulers_own_cycle_may_place_them() {
    compare_groups(variable("FLOTILLA_GROUPS", GROUPS), "groups", "GenericWorkload=true");
}

#[test]
fn fresh_groups_are_placed_in_the_topology_domains_that_kube_schedulers_own_cycle_may_choose() {
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    compare_groups(variable("FLOTILLA_GROUPS", GROUPS_IN_DOMAINS), "groups,topology", gates);
}

#[test]
fn fresh_composite_groups_are_placed_as_kube_schedulers_own_cycle_may_place_them() {
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true";
    compare_groups(variable("FLOTILLA_GROUPS", COMPOSITE_GROUPS), "groups,topology,composite", gates);
}

#[test]
fn fresh_groups_share_claims_as_in_kube_schedulers_own_cycle() {
    let gates = "GenericWorkload=true,DRAWorkloadResourceClaims=true";
    compare_groups(variable("FLOTILLA_GROUPS", GROUPS_WITH_CLAIMS), "groups,shared", gates);
}

/// For each set of gates.
const GROUPS_THAT_EVICT: u32 = 120;

#[test]
fn fresh_groups_evict_the_pods_that_kube_schedulers_own_cycle_evicts() {
    // docs/reference/compatibility.md lists why groups with spread constraints or affinities may have other victims.
    let features = "resources,taints,nodeaffinity,ports,priorities,preemption,groups,evictions";
    let evicting = |more: &str, gates: &str| {
        let run = Run {
            seed: variable("FLOTILLA_SEED", SEED),
            count: variable("FLOTILLA_GROUPS", GROUPS_THAT_EVICT),
            features: format!("{features}{more}"),
        };
        let gates = format!("GenericWorkload=true,SchedulerAsyncPreemption=false{gates}");
        compare_run(&run, Comparing { workers: WORKERS, gates: &gates, preempts: true });
    };
    evicting("", "");
    evicting(",topology", ",TopologyAwareWorkloadScheduling=true,PodGroupPreemptionPolicy=true");
    evicting(",topology,composite", ",TopologyAwareWorkloadScheduling=true,CompositePodGroup=true");
}

fn compare_groups(count: u32, apart: &str, gates: &str) {
    let run = Run {
        seed: variable("FLOTILLA_SEED", SEED),
        count,
        features: env::var("FLOTILLA_FEATURES")
            .map_or_else(|_| of_groups(), |some| format!("{some},groups"))
            .replace("groups", apart),
    };
    compare_run(&run, Comparing { workers: WORKERS, gates, preempts: false });
}

fn compare_run(run: &Run, how: Comparing<'_>) {
    let Run { seed, count, features } = run;
    let gates = how.gates;
    println!("{count} clusters with a group from seed {seed} with {features} and {gates}");
    let folder = tempfile::tempdir().expect("a temporary folder");
    placements::make(run, folder.path()).unwrap_or_else(|error| panic!("{error:#}"));
    let comparisons = placements::groups::compare(folder.path(), how).unwrap_or_else(|error| panic!("{error:#}"));
    let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
    for comparison in &comparisons {
        *counts.entry((comparison.outcome.clone(), comparison.result.clone())).or_default() += 1;
    }
    println!("{counts:?}");
    let wrong: Vec<_> = comparisons.iter().filter(|one| one.is_wrong()).collect();
    assert!(
        wrong.is_empty(),
        "{} of {count} groups differ: {:#?}",
        wrong.len(),
        &wrong[..wrong.len().min(MOST_SHRUNK)]
    );
}

fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/placements")
}

#[test]
fn the_recorded_placements_are_what_kube_scheduler_says() {
    let said = oracle::ask("decide", &[Path::new("--cases"), &recorded().join("cases")])
        .unwrap_or_else(|error| panic!("{error:#}"));
    let path = recorded().join("answers.jsonl");
    if env::var("FLOTILLA_RECORD").is_ok_and(|value| value == "1") {
        fs::write(&path, said).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if recorded == said {
        return;
    }
    let read = |lines: &str| outcomes(lines).unwrap_or_else(|error| panic!("{error:#}"));
    let (recorded, said) = (read(&recorded), read(&said));
    let differs = |name: &&String| match (recorded.get(*name), said.get(*name)) {
        (Some(recorded), Some(said)) => recorded != said || !differences(said, recorded).is_empty(),
        _ => true,
    };
    let names: std::collections::BTreeSet<&String> = recorded.keys().chain(said.keys()).collect();
    let differing: Vec<&String> = names.into_iter().filter(differs).collect();
    panic!(
        "{} is not what kube-scheduler says today of {differing:?}; where that is right, record it with FLOTILLA_RECORD=1",
        path.display()
    );
}
