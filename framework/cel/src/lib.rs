//! CEL selectors of devices (Dynamic Resource Allocation). They compile and evaluate exactly as in Kubernetes 1.37.2: cel-go 0.29.2 in the
//! environment for stored expressions of k8s.io/dynamic-resource-allocation.
//!
//! [`Expression::compile`] parses, checks and plans a selector; [`Expression::matches`] evaluates it on a [`Device`]. A verdict can be
//! reused for all devices with the same [`Reach::key`]. `docs/reference/compatibility.md` lists the differences to upstream.

mod check;
mod cost;
mod declarations;
mod derived;
mod device;
mod effort;
mod evaluate;
mod expression;
mod format;
mod functions;
mod go;
mod net;
mod plan;
mod quantity;
mod reach;
mod regex;
mod semver;
mod source;
mod syntax;
mod time;
mod types;
mod url;
mod value;

pub use self::{
    device::{Attribute, CapacityError, Device},
    expression::{CompileError, Evaluation, Expression, MAX_COST, RuntimeError},
    reach::{DeviceValues, Reach},
    regex::Patterns,
};
