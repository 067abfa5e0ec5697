//! Compares Flotilla with a built oracle manually: `compare ORACLE SEED COUNT`, or `compare ORACLE DEVICES CASES` with recorded cases.
//! Prints differences as JSON.

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail};
use flotilla_selectors::{Answer, Case, DeviceObject, Generator, answer, difference, lines};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [oracle, second, third] = &arguments[..] else {
        bail!("compare ORACLE SEED COUNT | compare ORACLE DEVICES CASES")
    };
    let cases = match second.parse() {
        Ok(seed) => {
            let mut generator = Generator::new(seed);
            (0..third.parse::<usize>()?).map(|_| generator.case()).collect()
        }
        Err(_) => recorded(second, third)?,
    };
    let upstream = ask(oracle, &cases)?;
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut different = 0;
    for (case, upstream) in cases.iter().zip(&upstream) {
        *verdicts.entry(&upstream.verdict).or_default() += 1;
        let ours = answer(case)?;
        if let Some(told) = difference(upstream, &ours) {
            different += 1;
            println!(
                "{told}\n  {}\n  upstream {}\n  ours     {}",
                serde_json::to_string(case)?,
                show(upstream)?,
                show(&ours)?
            );
        }
    }
    println!("{} cases, {different} differences, verdicts {verdicts:?}", cases.len());
    Ok(())
}

fn show(answer: &Answer) -> Result<String> {
    Ok(serde_json::to_string(answer)?)
}

fn recorded(devices: &str, cases: &str) -> Result<Vec<Case<DeviceObject>>> {
    let devices: BTreeMap<String, DeviceObject> = serde_json::from_str(&std::fs::read_to_string(devices)?)?;
    let cases: Vec<Case<String>> = lines(&std::fs::read_to_string(cases)?)?;
    let named = |case: Case<String>| {
        let device = devices.get(&case.device).with_context(|| format!("no device is called {}", case.device))?.clone();
        Ok(Case { expression: case.expression, device })
    };
    cases.into_iter().map(named).collect()
}

fn ask(oracle: &str, cases: &[Case<DeviceObject>]) -> Result<Vec<Answer>> {
    let mut child = Command::new(oracle).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().context("no input")?;
    let text = cases.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?.join("\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    if !output.status.success() {
        bail!("the oracle failed");
    }
    lines(&String::from_utf8(output.stdout)?)
}
