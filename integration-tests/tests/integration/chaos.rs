//! Real processes under random faults keep the guarantees of docs/concepts/reliability.md. Run by `cargo xtask chaos`, with
//! `FLOTILLA_MINUTES` and `FLOTILLA_SEED`.

use std::{env, time::Duration};

use flotilla_integration_tests::chaos::Run;

/// Default, short enough for a run of all tests.
const MINUTES: u64 = 3;
/// Fixed default, so that a failure is reproducible.
const SEED: u64 = 1;

fn variable(name: &str, default: u64) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}; expected a whole number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_lose_no_pod_and_overfill_no_node() -> anyhow::Result<()> {
    let lasts = Duration::from_secs(60 * variable("FLOTILLA_MINUTES", MINUTES));
    let report = Run { lasts, seed: variable("FLOTILLA_SEED", SEED) }.play().await?;
    println!("{report}");
    Ok(())
}
