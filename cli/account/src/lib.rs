//! What there is to say of a pod: what each node of a cluster makes of it, what is missing, and what would help.
//!
//! Knows: how a class is judged on nodes that one process knows, and the words for it. Must not know: files, tables, pages, or who
//! asks. It does no I/O, so that it builds for wasm32.

pub mod account;
pub mod amount;
pub mod answer;
pub mod devices;
pub mod kept;
pub mod missing;
pub mod preemption;
pub mod question;
pub mod telling;
pub mod told;
pub mod why;
pub mod words;
pub mod world;
