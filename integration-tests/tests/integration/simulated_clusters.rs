//! Compares `flotilla simulate` and `flotilla whatif` with a real cluster: API server, controllers, kwok, coordinator and two workers.
//! `FLOTILLA_SEED` is the seed of the first input (default 1), `FLOTILLA_CASES` the number of inputs (default [`CASES`]).

mod generate;
mod model;
mod outcome;
mod real;

use std::{env, fmt::Write as _, fs, path::Path, time::Instant};

use anyhow::Context as _;
use flotilla_control_plane::{ControlPlane, Options};
use serde_json::{Value, json};

use generate::{Change, Input};
use outcome::{Ends, differing_ends};
use real::Real;

/// Fixed defaults, so that a failure is reproducible.
const SEED: u64 = 1;
const CASES: u64 = 60;
const WORKERS: usize = 2;
/// Times that an input is applied again, in other orders, before an answer counts as wrong.
const ORDERS: u64 = 3;

struct Report {
    input: Input,
    differences: Vec<String>,
    /// Whether the cluster reaches the model's answer if the pods are created in another order.
    is_order: bool,
}

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; expected a whole number"))
}

fn write(path: &Path, objects: &[Value]) -> anyhow::Result<()> {
    let mut text = String::new();
    for object in objects {
        _ = write!(text, "---\n{}", serde_yaml::to_string(object)?);
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn namespaces() -> impl Iterator<Item = Value> {
    let object = |name| json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    real::NAMESPACES.into_iter().map(object)
}

fn with_namespaces(objects: &[Value]) -> Vec<Value> {
    namespaces().chain(objects.iter().cloned()).collect()
}

/// Compares after the first file.
async fn compare_file(real: &mut Real<'_>, input: &Input, folder: &Path) -> anyhow::Result<Option<Report>> {
    let file = folder.join("input.yaml");
    write(&file, &with_namespaces(&input.objects))?;
    let model = model::simulate(&file)?;
    let mut outcomes = vec![real.outcome().await?];
    if model.differences(&outcomes).is_empty() {
        return Ok(None);
    }
    real.try_again(WORKERS).await?;
    outcomes.push(real.outcome().await?);
    let differences = model.differences(&outcomes);
    if differences.is_empty() {
        return Ok(None);
    }
    let mut report = Report { input: Input { change: None, ..input.clone() }, differences, is_order: false };
    for order in 0..ORDERS {
        real.clear().await?;
        real.apply_all(&input.shuffled(order), order % 2 == 0).await?;
        real.quiescence().await?;
        report.is_order |= model.differences(&[real.outcome().await?]).is_empty();
    }
    Ok(Some(report))
}

/// Compares after the change.
async fn compare_change(real: &mut Real<'_>, input: &Input, folder: &Path) -> anyhow::Result<Option<Report>> {
    let Some(change) = &input.change else { return Ok(None) };
    let file = folder.join("cluster.json");
    let dump = real.dump(&file).await?;
    let mut models = Vec::new();
    let (model_ends, mut differences, ends) = match change {
        Change::Apply(objects) => {
            let path = folder.join("change.yaml");
            write(&path, objects)?;
            let answer = model::whatif(&file, &dump, &["--apply", &path.display().to_string()])?;
            models.push(answer.outcome);
            if input.only_adds() {
                models.push(model::simulate_more(&file, &dump, &path)?);
            }
            real.apply_all(objects, input.settles_between).await?;
            real.quiescence().await?;
            let ends = if input.only_adds() { Ends::new() } else { real.rollouts(objects).await? };
            (answer.ends, answer.problems, ends)
        }
        Change::Drain(node) => {
            let answer = model::whatif(&file, &dump, &["--drain", node])?;
            models.push(answer.outcome);
            (answer.ends, answer.problems, real.drain(node).await?)
        }
    };
    let mut outcomes = vec![real.outcome().await?];
    if models.iter().any(|model| !model.differences(&outcomes).is_empty()) {
        real.try_again(WORKERS).await?;
        outcomes.push(real.outcome().await?);
    }
    differences.extend(models.iter().flat_map(|model| model.differences(&outcomes)));
    differences.extend(differing_ends(&model_ends, &ends));
    Ok((!differences.is_empty()).then(|| Report { input: input.clone(), differences, is_order: false }))
}

async fn compare(real: &mut Real<'_>, input: &Input) -> anyhow::Result<Vec<Report>> {
    let folder = tempfile::tempdir()?;
    let mut watch = Watch::new();
    real.apply_all(&input.objects, input.settles_between).await?;
    watch.lap("applied");
    real.quiescence().await?;
    watch.lap("quiescent");
    let mut reports = Vec::new();
    reports.extend(compare_file(real, input, folder.path()).await?);
    watch.lap("compared");
    reports.extend(compare_change(real, input, folder.path()).await?);
    watch.lap("changed");
    real.clear().await?;
    watch.lap("cleared");
    println!("seed {} ({}): {}", input.seed, input.kind, watch.laps.join(", "));
    Ok(reports)
}

/// The durations of the steps of an input.
struct Watch {
    begun: Instant,
    laps: Vec<String>,
}

impl Watch {
    fn new() -> Self {
        Self { begun: Instant::now(), laps: Vec::new() }
    }

    fn lap(&mut self, name: &str) {
        self.laps.push(format!("{name} {:.1} s", self.begun.elapsed().as_secs_f64()));
        self.begun = Instant::now();
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    let Report { input, differences, is_order } = report;
    let order = if *is_order { ", explained by the order" } else { "" };
    println!("=== seed {} ({}{order})", input.seed, input.kind);
    differences.iter().for_each(|difference| println!("{difference}"));
    println!("--- input");
    for object in &input.objects {
        println!("{object}");
    }
    match &input.change {
        Some(Change::Apply(objects)) => objects.iter().for_each(|object| println!("--- applied\n{object}")),
        Some(Change::Drain(node)) => println!("--- drained\n{node}"),
        None => {}
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_in_files_end_as_real_clusters() -> anyhow::Result<()> {
    let (seed, count) = (variable("FLOTILLA_SEED", SEED), variable("FLOTILLA_CASES", CASES));
    let cluster = ControlPlane::start(Options { completes_jobs: false, ..Options::default() }).await?;
    let mut real = Real::start(&cluster, WORKERS).await?;
    let (mut wrong, mut order) = (Vec::new(), 0);
    for seed in seed..seed + count {
        let input = generate::input(seed);
        let reports = compare(&mut real, &input)
            .await
            .with_context(|| format!("seed {seed} ({}): {}", input.kind, json!(input.objects)));
        for report in reports? {
            print(&report)?;
            if report.is_order {
                order += 1;
            } else {
                wrong.push(seed);
            }
        }
    }
    println!("{count} inputs from seed {seed}: {} differ, {order} only by the order of pods", wrong.len());
    assert!(wrong.is_empty(), "seeds {wrong:?} differ from a real cluster, see above");
    Ok(())
}
