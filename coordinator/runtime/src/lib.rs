//! Runs the machine: its thread ([`driver`]), the streams to workers ([`fanout`], and [`conversation`] without a machine), the calls to
//! HTTP extenders ([`extender`]).
//!
//! Users: the coordinator adds the API server; `flotilla simulate` and `flotilla explain` add files.
//!
//! Contains: threads, clocks, sockets. Does not depend on: the API server, flags, metrics, or the machine's decisions.

mod chain;
pub mod conversation;
pub mod count;
pub mod driver;
pub mod extender;
pub mod fanout;
pub mod modules;
pub mod surroundings;

pub use chain::chain;
