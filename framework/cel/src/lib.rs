//! CEL selectors of devices (Dynamic Resource Allocation), exact as Kubernetes 1.37.1 compiles and evaluates them: cel-go
//! 0.29.2 in the environment for stored expressions of k8s.io/dynamic-resource-allocation.
//!
//! [`Expression::compile`] reads, checks and plans a selector, [`Expression::matches`] judges a [`Device`] by it. Verdicts may
//! be kept for all devices with the same [`Reach::key`]. What differs from upstream is listed in `docs/compatibility.md`.

mod check;
mod cost;
mod declarations;
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
    reach::{Key, Reach},
    regex::Patterns,
};
