//! Arguments of GangScheduling. kube-scheduler's plugin has none, and ignores them.

use flotilla_framework::{
    pod_group::{COSCHEDULING, PLUGIN},
    profile::{GangSchedulingArgs, PodGroupSearch},
};
use serde_json::Value;

use super::{
    super::{
        decode::decode,
        path::Path,
        report::{Problem, Report},
        wire::{self, Block},
    },
    Context, check_kind,
};

/// At some 20 us a step, the search ends after 20 seconds at most; the limit of work in an event ends it earlier.
const MAX_STEPS: i32 = 1_000_000;

pub(super) fn read(report: &mut Report<'_>, value: Value, context: &Context<'_>, path: &Path) -> GangSchedulingArgs {
    let Some(Block(read)) = decode::<Block<wire::GangSchedulingArgs>>(report, value, path) else {
        return GangSchedulingArgs::default();
    };
    check_kind(report, PLUGIN, read.api_version.as_deref(), read.kind.as_deref(), path);
    let Some(Block(search)) = read.pod_group_search else { return GangSchedulingArgs::default() };
    let path = path.key("podGroupSearch");
    let expected = format!("a number from 1 to {MAX_STEPS}");
    let Some(max_steps) = search.max_steps else {
        report.error(Problem::new(path.key("maxSteps"), "found nothing", expected));
        return GangSchedulingArgs::default();
    };
    if !(1..=MAX_STEPS).contains(&max_steps) {
        report.error(Problem::value(path.key("maxSteps"), max_steps, expected));
    }
    if ![PLUGIN, COSCHEDULING].iter().any(|name| context.sets.builds(name)) {
        let text = "no plugin of this profile reads pod groups, so no group is searched; enable the feature gate GenericWorkload";
        report.warning(&path, text);
    }
    GangSchedulingArgs { pod_group_search: Some(PodGroupSearch { max_steps: max_steps.unsigned_abs() }) }
}
