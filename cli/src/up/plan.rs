//! The validated input of `flotilla up`.

use std::{fs, path, path::PathBuf};

use flotilla_configuration::{features::FeatureGates, named_modules};
use flotilla_framework::registry::Registry;
use flotilla_runtime::modules;
use serde_json::json;

use super::{args::UpArgs, folders};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: u32,
    pub(super) workers: u16,
    /// The scheduler names, in the order of the profiles.
    pub(super) scheduler_names: Vec<String>,
    pub(super) config: Config,
    /// The feature gates, separated by commas.
    pub(super) feature_gates: String,
    /// Publish simulated devices.
    pub(super) devices: bool,
    /// Start Jaeger.
    pub(super) tracing: bool,
    /// The directory of built programs.
    pub(super) cache_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Config {
    File(PathBuf),
    /// A generated configuration.
    Text(String),
}

impl Plan {
    /// Reads and validates the flags. Also returns warnings.
    ///
    /// # Errors
    /// All errors, as text.
    pub(super) fn new(args: &UpArgs, registry: Registry) -> Result<(Self, Vec<String>), String> {
        let cache_dir = folders::cache(args.cache_dir.clone()).map_err(|error| format!("flotilla: {error:#}"))?;
        let (config, text, name) = match &args.config {
            Some(file) => {
                let name = file.display().to_string();
                let text = fs::read_to_string(file).map_err(|error| {
                    format!("flotilla: cannot read --config {name}: {error}; check the path and its mode")
                })?;
                let file = path::absolute(file).map_err(|error| format!("flotilla: --config {name}: {error}"))?;
                (Config::File(file), text, name)
            }
            None => {
                let text = configuration_for(&args.scheduler_name);
                (Config::Text(text.clone()), text, "--scheduler-name".to_owned())
            }
        };
        let feature_gates = args.feature_gates.join(",");
        let gates = FeatureGates::parse(&feature_gates).map_err(|errors| format!("--feature-gates: {errors}"))?;
        modules::find(registry, &named_modules(&text));
        let found =
            flotilla_configuration::load(&text, &name, &gates, registry).map_err(|errors| errors.to_string())?;
        let scheduler_names = found.profiles.iter().map(|profile| profile.scheduler_name.to_string()).collect();
        let UpArgs { nodes, workers, devices, tracing, .. } = *args;
        let plan = Self { nodes, workers, scheduler_names, config, feature_gates, devices, tracing, cache_dir };
        Ok((plan, found.warnings))
    }
}

fn configuration_for(scheduler_name: &str) -> String {
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "schedulerName": scheduler_name }],
    });
    format!("{configuration:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> UpArgs {
        UpArgs {
            nodes: 1,
            workers: 1,
            scheduler_name: "flotilla".into(),
            config: None,
            feature_gates: Vec::new(),
            cache_dir: Some("cache".into()),
            devices: false,
            tracing: false,
            detach: false,
            supervisor: false,
        }
    }

    #[test]
    fn without_a_file_there_is_one_profile_of_the_name_that_was_given() {
        for name in ["flotilla", "default-scheduler", "odd: \"name\""] {
            let (plan, warnings) =
                Plan::new(&UpArgs { scheduler_name: name.into(), ..args() }, Registry::built_in()).expect("sound");
            assert_eq!(plan.scheduler_names, [name]);
            assert_eq!(warnings, Vec::<String>::new());
            assert!(plan.cache_dir.is_absolute());
        }
    }

    #[test]
    fn a_file_says_whose_pods_are_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.yaml");
        let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
        fs::write(&file, format!("{head}profiles:\n- schedulerName: a\n- schedulerName: b\n")).expect("writable");
        let (plan, _) =
            Plan::new(&UpArgs { config: Some(file.clone()), ..args() }, Registry::built_in()).expect("sound");
        assert_eq!(plan.scheduler_names, ["a", "b"]);
        assert_eq!(plan.config, Config::File(file));
    }

    #[test]
    fn an_unknown_feature_gate_is_refused() {
        let feature_gates = vec!["GenericWorkload=true".to_owned(), "GenericWorklaod=true".to_owned()];
        let error = Plan::new(&UpArgs { feature_gates, ..args() }, Registry::built_in()).expect_err("unknown");
        assert!(error.starts_with("--feature-gates: ") && error.contains("GenericWorklaod"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_or_not_right_is_refused_with_its_place() {
        let absent = Plan::new(&UpArgs { config: Some("/nowhere.yaml".into()), ..args() }, Registry::built_in())
            .expect_err("not there");
        assert!(absent.starts_with("flotilla: cannot read --config /nowhere.yaml: "), "{absent}");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.yaml");
        fs::write(&file, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nx: 1\n")
            .expect("writable");
        let wrong =
            Plan::new(&UpArgs { config: Some(file.clone()), ..args() }, Registry::built_in()).expect_err("not right");
        assert!(wrong.starts_with(&format!("{}:3:1: ", file.display())), "{wrong}");
    }
}
