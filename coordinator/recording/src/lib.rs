//! Records the inputs of a machine in files and replays them.
//!
//! A recording consists of files, its *parts*. Each begins with a magic number and the version of the format, followed by frames of length,
//! checksum and entry. Part 0 begins with an empty machine, so a replay repeats all decisions exactly. A later part begins with the state
//! of the cluster. With all earlier parts it continues one recording; without them each decision is compared separately.
//!
//! Contains: the format of recordings, and replay. Does not depend on: paths and limits of files, or printing.

mod anonymise;
mod decision;
mod entry;
mod follower;
mod frame;
mod needs;
mod opaque;
mod read;
mod replayer;
mod rerun;
mod tape;
mod world;

pub use anonymise::{Anonymiser, Unkept};
pub use decision::{Decision, PodId, TurnOutcome};
pub use entry::{Entry, Header, Input};
pub use follower::{EntryComparison, Follower};
pub use frame::{FORMAT, MAX_FRAME, begin, write_frame};
pub use needs::Needs;
pub use read::{BadEntry, BadRecording, End, Part, RecordedItem};
pub use replayer::{Difference, Replayer};
pub use rerun::{Placed, Rerun};
pub use tape::{Sent, Tape};
pub use world::World;
