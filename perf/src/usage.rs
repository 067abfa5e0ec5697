//! CPU seconds and memory of processes.

use std::collections::BTreeMap;

use anyhow::Context as _;
use procfs::{CurrentSI as _, KernelStats, process::Process};
use serde::Serialize;

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// User and system CPU seconds of all threads.
    pub(crate) cpu_s: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) peak_bytes: u64,
}

pub(crate) type Usages = BTreeMap<String, Usage>;

pub(crate) fn usages(processes: &BTreeMap<String, u32>) -> anyhow::Result<Usages> {
    let usage = |(name, id): (&String, &u32)| {
        let usage = of(*id).with_context(|| format!("cannot read the usage of {name} from /proc; has it exited?"))?;
        Ok((name.clone(), usage))
    };
    processes.iter().map(usage).collect()
}

/// CPU seconds of all processes of the machine, plus steal time.
pub(crate) fn machine_cpu_s() -> anyhow::Result<f64> {
    let total = KernelStats::current().context("cannot read /proc/stat")?.total;
    let busy_ms = total.user_ms() + total.nice_ms() + total.system_ms();
    let more_ms = [total.irq_ms(), total.softirq_ms(), total.steal_ms()].into_iter().flatten().sum::<u64>();
    Ok((busy_ms + more_ms) as f64 / 1000.0)
}

fn of(id: u32) -> anyhow::Result<Usage> {
    let process = Process::new(i32::try_from(id)?)?;
    let (stat, status) = (process.stat()?, process.status()?);
    let ticks = stat.utime + stat.stime;
    Ok(Usage {
        cpu_s: ticks as f64 / procfs::ticks_per_second() as f64,
        // The kernel's kB are KiB. A zombie has neither value.
        resident_bytes: status.vmrss.unwrap_or(0) * 1024,
        peak_bytes: status.vmhwm.unwrap_or(0) * 1024,
    })
}

pub(crate) fn between(before: &Usages, after: &Usages) -> Usages {
    let difference = |(name, usage): (&String, &Usage)| {
        let earlier = before.get(name).map_or(0.0, |earlier| earlier.cpu_s);
        (name.clone(), Usage { cpu_s: usage.cpu_s - earlier, ..*usage })
    };
    after.iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn a_process_that_works_has_taken_cpu_and_memory() {
        let me = BTreeMap::from([("me".to_owned(), process::id())]);
        let before = usages(&me).expect("it runs");
        let mut sum = 0_u64;
        while usages(&me).expect("it runs")["me"].cpu_s <= before["me"].cpu_s {
            sum = (0..100_000).fold(sum, |sum, number| sum.wrapping_add(number));
        }
        let taken = between(&before, &usages(&me).expect("it runs"));
        assert!(taken["me"].cpu_s > 0.0, "{sum}");
        assert!(taken["me"].resident_bytes > 100_000 && taken["me"].peak_bytes >= taken["me"].resident_bytes / 2);
    }

    #[test]
    fn a_machine_takes_more_than_one_of_its_processes() {
        let me = usages(&BTreeMap::from([("me".to_owned(), process::id())])).expect("it runs");
        assert!(machine_cpu_s().expect("it is there") > me["me"].cpu_s);
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let nobody = BTreeMap::from([("nobody".to_owned(), u32::try_from(i32::MAX).expect("it fits"))]);
        let error = usages(&nobody).expect_err("there is none").to_string();
        assert!(error.contains("nobody"), "{error}");
    }
}
