//! Programs of other tests start. Missing ones are built here first, so that no other test runs in parallel with a compiler.

use flotilla_control_plane::{ControlPlane, Jaeger, Lines, Options};
use flotilla_integration_tests::{fleet, helm};

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_with_its_scheduler_and_jaeger_starts() -> anyhow::Result<()> {
    let options = Options::default();
    let cache_dir = options.cache_dir.clone();
    let cluster = ControlPlane::start(options.with_kube_scheduler()).await?;
    Jaeger::reserve()?.start(cluster.processes(), &cache_dir, &Lines).await
}

#[test]
fn flotilla_and_helm_answer() -> anyhow::Result<()> {
    for program in ["flotilla", "flotilla-coordinator", "flotilla-worker"] {
        let answer = std::process::Command::new(fleet::binary(program)?).arg("--version").output()?;
        assert!(String::from_utf8_lossy(&answer.stdout).starts_with(program), "{program}: {answer:?}");
    }
    let answer = helm::helm(&["version", "--short"])?;
    assert!(String::from_utf8_lossy(&answer.stdout).starts_with("v4."), "helm: {answer:?}");
    Ok(())
}
