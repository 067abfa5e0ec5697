//! Record of each spec: its verdicts, duration, and the reason of a failure.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::{Scheduler, SpecResult, SpecVerdict};

/// Maximum duration of specs in the quick check.
const QUICK_SECONDS: u64 = 20;

/// The same for specs of devices: each starts driver pods first, and many are similar.
const QUICK_SECONDS_OF_DEVICES: u64 = 9;

/// Maximum duration of specs that are repeated with each supported API server.
const VERSIONS_SECONDS: u64 = 9;

/// Parts of names of specs, with the first minor version that these specs are about: `resource.k8s.io/v1` is served since 1.34, and since
/// 1.36 the API server needs an additional permission for the status of a claim's devices (DRAResourceClaimGranularStatusAuthorization).
const SINCE: [(&str, u32); 2] = [("[DRA]", 34), ("[FeatureGate:DRAResourceClaimDeviceStatus]", 36)];

/// Record of one spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Full name.
    pub spec: String,
    /// Verdict with kube-scheduler.
    pub kube_scheduler: SpecVerdict,
    /// Verdict with Flotilla.
    pub flotilla: SpecVerdict,
    /// Duration with the slower scheduler, if both passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Reason why it does not pass with both, written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Entry {
    /// Whether it passes with both without gates in a few seconds.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        let most = if self.spec.contains("[DRA]") { QUICK_SECONDS_OF_DEVICES } else { QUICK_SECONDS };
        self.seconds.is_some_and(|seconds| seconds <= most) && !self.spec.contains("[Feature:OffByDefault]")
    }

    /// Whether it is repeated with the API server `1.<minor>`: a quick spec of features that this version has.
    #[must_use]
    pub fn is_repeated_with(&self, minor: u32) -> bool {
        let is_served = SINCE.iter().all(|(part, since)| minor >= *since || !self.spec.contains(part));
        is_served && self.is_quick() && self.seconds.is_some_and(|seconds| seconds <= VERSIONS_SECONDS)
    }
}

/// All entries by spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record(BTreeMap<String, Entry>);

impl Record {
    /// Reads the record.
    ///
    /// # Errors
    /// The file is not readable, or a line is invalid.
    pub fn read() -> Result<Self> {
        let path = path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let entries = text.lines().enumerate().map(|(index, line)| {
            let entry: Entry = serde_json::from_str(line).with_context(|| format!("line {}", index + 1))?;
            Ok((entry.spec.clone(), entry))
        });
        entries.collect::<Result<_>>().map(Self)
    }

    /// Writes the record, sorted by spec.
    ///
    /// # Errors
    /// The file is not writable.
    pub fn write(&self) -> Result<()> {
        let path = path();
        let lines = self.0.values().map(|entry| Ok(serde_json::to_string(entry)? + "\n"));
        let text = lines.collect::<Result<String>>()?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// All entries, sorted by spec.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.values()
    }

    /// Updates the record with runs of both schedulers. A spec without a Flotilla run counts as failed. The reason is kept unless both
    /// pass.
    pub fn take(&mut self, runs: &BTreeMap<Scheduler, Vec<SpecResult>>) {
        let outcomes = |scheduler| runs.get(&scheduler).into_iter().flatten();
        for theirs in outcomes(Scheduler::KubeScheduler) {
            let ours = outcomes(Scheduler::Flotilla).find(|ours| ours.spec == theirs.spec);
            let flotilla = ours.map_or(SpecVerdict::Failed, |ours| ours.verdict);
            let both = theirs.verdict == SpecVerdict::Passed && flotilla == SpecVerdict::Passed;
            let why = self.0.remove(&theirs.spec).and_then(|entry| entry.why);
            let entry = Entry {
                spec: theirs.spec.clone(),
                kube_scheduler: theirs.verdict,
                flotilla,
                seconds: ours.filter(|_| both).map(|ours| theirs.seconds.max(ours.seconds)),
                why: why.filter(|_| !both),
            };
            self.0.insert(entry.spec.clone(), entry);
        }
    }

    /// Specs recorded as passed that did not pass, one line each.
    #[must_use]
    pub fn worse(&self, runs: &BTreeMap<Scheduler, Vec<SpecResult>>) -> Vec<String> {
        let all =
            runs.iter().flat_map(|(scheduler, outcomes)| outcomes.iter().map(move |outcome| (*scheduler, outcome)));
        let worse = all.filter(|(scheduler, outcome)| {
            let recorded = self.0.get(&outcome.spec).map(|entry| match scheduler {
                Scheduler::KubeScheduler => entry.kube_scheduler,
                Scheduler::Flotilla => entry.flotilla,
            });
            // Unrecorded specs must pass.
            outcome.verdict != SpecVerdict::Passed && recorded.is_none_or(|recorded| recorded == SpecVerdict::Passed)
        });
        worse
            .map(|(scheduler, outcome)| format!("{}: {}: {}", scheduler.name(), outcome.spec, outcome.message))
            .collect()
    }

    /// Go regular expression of the specs that are selected.
    pub fn focus(&self, is_selected: impl Fn(&Entry) -> bool) -> String {
        let selected = self.entries().filter(|entry| is_selected(entry)).map(|entry| escaped(&entry.spec));
        format!("({})$", selected.collect::<Vec<_>>().join("|"))
    }
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/specs.jsonl")
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maximum total of the quick specs: they run in parallel with other tests, which take eight minutes more.
    const QUICK_TOTAL_SECONDS: u64 = 260;

    fn outcome(spec: &str, verdict: SpecVerdict, seconds: u64) -> SpecResult {
        SpecResult { spec: spec.into(), verdict, seconds, message: String::new() }
    }

    fn runs(theirs: Vec<SpecResult>, ours: Vec<SpecResult>) -> BTreeMap<Scheduler, Vec<SpecResult>> {
        BTreeMap::from([(Scheduler::KubeScheduler, theirs), (Scheduler::Flotilla, ours)])
    }

    #[test]
    fn the_record_says_why_a_spec_does_not_pass_with_both_and_the_quick_ones_are_quick() {
        let record = Record::read().expect("the record");
        for entry in record.entries() {
            let both = entry.kube_scheduler == SpecVerdict::Passed && entry.flotilla == SpecVerdict::Passed;
            assert_eq!(entry.why.is_none(), both, "{}: a reason exactly where it does not pass with both", entry.spec);
        }
        let quick: Vec<u64> =
            record.entries().filter(|entry| entry.is_quick()).filter_map(|entry| entry.seconds).collect();
        assert!(!quick.is_empty());
        assert!(quick.iter().sum::<u64>() <= QUICK_TOTAL_SECONDS, "{quick:?}");
    }

    #[test]
    fn results_are_taken_over_and_a_reason_stays_until_the_spec_passes() {
        let why = r#"{"spec":"a","kube_scheduler":"passed","flotilla":"failed","why":"because"}"#;
        let mut record = Record::parse(why).expect("a record");
        record.take(&runs(vec![outcome("a", SpecVerdict::Passed, 3)], vec![outcome("a", SpecVerdict::Failed, 60)]));
        assert_eq!(record.entries().next().and_then(|entry| entry.why.as_deref()), Some("because"));
        record.take(&runs(vec![outcome("a", SpecVerdict::Passed, 3)], vec![outcome("a", SpecVerdict::Passed, 4)]));
        let entry = record.entries().next().expect("an entry");
        assert_eq!((entry.why.as_deref(), entry.seconds, entry.is_quick()), (None, Some(4), true));
        assert_eq!(record.focus(Entry::is_quick), "(a)$");
        record.take(&runs(vec![outcome("a", SpecVerdict::Passed, 3)], vec![]));
        assert_eq!(record.entries().next().map(|entry| entry.flotilla), Some(SpecVerdict::Failed));
    }

    #[test]
    fn a_spec_that_is_recorded_as_failing_may_fail_and_all_others_may_not() {
        let failing = r#"{"spec":"a","kube_scheduler":"passed","flotilla":"failed","why":"because"}"#;
        let record = Record::parse(failing).expect("a record");
        let specs = |verdict| vec![outcome("a", verdict, 1), outcome("b", verdict, 1)];
        assert!(record.worse(&runs(specs(SpecVerdict::Passed), specs(SpecVerdict::Passed))).is_empty());
        let worse = record.worse(&runs(specs(SpecVerdict::Failed), specs(SpecVerdict::Failed)));
        assert_eq!(worse.len(), 3, "{worse:?}");
        assert!(worse.iter().all(|line| !line.starts_with("flotilla: a")), "{worse:?}");
    }

    #[test]
    fn names_are_found_as_they_are_written() {
        assert_eq!(escaped("[Serial] a 0.0.0.0 (b)"), r"\[Serial\] a 0\.0\.0\.0 \(b\)");
    }
}
