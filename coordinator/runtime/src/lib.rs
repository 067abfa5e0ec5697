//! What runs the machine: its thread ([`driver`]), the streams to workers ([`fanout`], and [`conversation`] where no machine
//! takes part), the calls to HTTP extenders ([`extender`]).
//!
//! A coordinator has this and the API server; `flotilla simulate` and `flotilla explain` have this and files.
//!
//! Knows: threads, clocks, sockets. Must not know: the API server, flags, metrics, or what the machine decides.

mod chain;
pub mod conversation;
pub mod count;
pub mod driver;
pub mod extender;
pub mod fanout;
pub mod modules;
pub mod surroundings;

pub use chain::chain;
