//! `/status`, `flotilla status` and `flotilla top` against a real control plane.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, ensure};
use flotilla_control_plane::{ControlPlane, NodeBuilder, Options, pod, wait_until};
use flotilla_integration_tests::fleet::{Fleet, PATIENCE, binary, profile, wait_until_refused, wait_until_running};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::Value;

/// A subcommand of `flotilla` as an administrator, directly against coordinators.
fn command(cluster: &ControlPlane, word: &str, urls: &[String]) -> anyhow::Result<Command> {
    let mut command = Command::new(binary("flotilla")?);
    command.arg(word).arg("--kubeconfig").arg(cluster.kubeconfig()).env_remove("HTTPS_PROXY");
    if !urls.is_empty() {
        command.arg("--coordinator-insecure-skip-tls-verify");
    }
    for url in urls {
        command.args(["--coordinator", url]);
    }
    Ok(command)
}

fn status(cluster: &ControlPlane, urls: &[String], arguments: &[&str]) -> anyhow::Result<Output> {
    Ok(command(cluster, "status", urls)?.args(arguments).output()?)
}

fn json(cluster: &ControlPlane, urls: &[String]) -> anyhow::Result<Value> {
    let output = status(cluster, urls, &["-o", "json"])?;
    serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_tells_of_its_workers_its_queues_and_what_is_wrong_and_a_follower_of_the_leader()
-> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options::default()).await?;
    cluster.add_nodes((0..6).map(|index| NodeBuilder::new(format!("node-{index}")))).await?;
    let alone = status(&cluster, &[], &[])?;
    assert_eq!(alone.status.code(), Some(1));
    assert!(text(&alone).contains("no leader is known: there is no Lease flotilla/flotilla, "), "{}", text(&alone));

    let mut fleet = Fleet::start(&cluster, "flotilla", 2).await?;
    let config = fleet.config(&profile("flotilla"))?;
    fleet.start_coordinator("standby", Some(&config))?;
    cluster.create_pods([pod("runs", "flotilla", &[]), pod("huge", "flotilla", &[("cpu", "100")])]).await?;
    wait_until_running(&cluster, "runs", 1).await?;
    wait_until_refused(&cluster, "huge").await?;

    let (leader, standby) = (vec![fleet.url("coordinator")?], vec![fleet.url("standby")?]);
    let told = json(&cluster, &leader)?;
    let answer = &told["coordinators"][0]["status"];
    assert_eq!((&told["healthy"], &told["lease"]["identity"]), (&true.into(), &answer["identity"]), "{told:#}");
    assert_eq!((&answer["leading"], &answer["nodes"]), (&true.into(), &6.into()), "{answer:#}");
    let workers = answer["workers"].as_array().context("workers")?;
    assert!(workers.iter().all(|worker| worker["ready"] == true && worker["generation"] == 1), "{answer:#}");
    assert!(workers.iter().all(|worker| worker["certificateNotAfter"].is_string()), "{answer:#}");
    assert_eq!(workers.iter().filter_map(|worker| worker["nodes"].as_u64()).sum::<u64>(), 6, "{answer:#}");
    assert!(workers.iter().any(|worker| worker["roundTripP99Us"].as_u64() > Some(0)), "{answer:#}");
    assert_eq!((&answer["queue"]["unschedulable"], &answer["classes"][0]["pod"]), (&1.into(), &"huge".into()));
    assert!(answer["decisions"]["total"].as_u64() >= Some(2), "{answer:#}");

    let screen = status(&cluster, &leader, &[])?;
    assert_eq!(screen.status.code(), Some(0), "{}", text(&screen));
    assert!(text(&screen).contains("leads, with 2 of 2 workers ready\n"), "{}", text(&screen));
    assert!(text(&screen).lines().count() <= 24, "{}", text(&screen));

    wait_until("the standby to know who leads", PATIENCE, async || {
        let told = json(&cluster, &standby).map_err(|error| format!("{error:#}"))?;
        let seen = &told["coordinators"][0]["status"];
        let knows = seen["leading"] == false && seen["leader"] == answer["identity"] && seen["nodes"] == 6;
        if knows { Ok(()) } else { Err(told.to_string()) }
    })
    .await?;
    let both = [leader.clone(), standby.clone()].concat();
    assert_eq!(json(&cluster, &both)?["healthy"], true);

    // Requires permission.
    let (code, _) = fleet.get_with("coordinator", "/status", &[]).await?;
    assert_eq!(code, 401);

    cluster.processes().kill("worker-0")?;
    fleet.wait_for_workers("coordinator", 1).await?;
    let one_left = status(&cluster, &leader, &[])?;
    assert_eq!(one_left.status.code(), Some(0), "{}", text(&one_left));
    assert!(text(&one_left).contains("is not ready: "), "{}", text(&one_left));
    cluster.processes().kill("worker-1")?;
    fleet.wait_for_workers("coordinator", 0).await?;
    let none_left = status(&cluster, &leader, &[])?;
    assert_eq!(none_left.status.code(), Some(1), "{}", text(&none_left));
    assert!(text(&none_left).contains("✗ none of 2 workers is ready"), "{}", text(&none_left));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_view_draws_on_a_terminal_ends_with_q_and_says_where_there_is_none() -> anyhow::Result<()> {
    let cluster = ControlPlane::start(Options { kwok: false, ..Options::default() }).await?;
    let fleet = Fleet::start(&cluster, "flotilla", 1).await?;
    let urls = [fleet.url("coordinator")?];

    let piped = command(&cluster, "top", &urls)?.stdin(Stdio::null()).output()?;
    assert_eq!(piped.status.code(), Some(2));
    assert!(text(&piped).contains("use flotilla status"), "{}", text(&piped));

    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })?;
    let slave = || -> anyhow::Result<File> {
        let name = ptsname(&master, Vec::new())?;
        Ok(File::options().read(true).write(true).open(name.to_str()?)?)
    };
    let (stdin, stdout, stderr) = (slave()?, slave()?, slave()?);
    let mut top = command(&cluster, "top", &urls)?.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
    let mut master = File::from(master);
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&seen).contains("WORKER") {
        let count = master.read(&mut buffer)?;
        ensure!(count > 0 && seen.len() < 1 << 20, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    assert!(String::from_utf8_lossy(&seen).contains("healthy"), "{}", String::from_utf8_lossy(&seen));
    master.write_all(b"q")?;
    let ended = wait_until("flotilla top to end", PATIENCE, async || {
        top.try_wait().map_err(|error| error.to_string())?.ok_or_else(|| "it goes on".to_owned())
    })
    .await?;
    assert!(ended.success());
    Ok(())
}
