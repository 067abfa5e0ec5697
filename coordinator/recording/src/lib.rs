//! What happened to a machine, in files, and the same machine run on it again.
//!
//! A recording is one or more files, its *parts*. Each begins with a magic number and the version of the format, and goes on with
//! frames: a length, a checksum, and an entry. Part 0 begins with a machine that knows nothing, so that all that follows is decided
//! again exactly as it was. A later part begins with what the cluster was at that moment: where the parts before it are there, they
//! are one recording, and where they are not, each decision is judged by itself.
//!
//! Knows: what of a machine's inputs has to be kept, how it is written, and how it is told to a machine again. Must not know: where
//! files are kept, how many there may be, or what is printed.

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
pub use decision::{Decision, Outcome, PodId};
pub use entry::{Entry, Header, Input};
pub use follower::{Follower, Judged};
pub use frame::{FORMAT, MAX_FRAME, begin, write_frame};
pub use needs::Needs;
pub use read::{BadEntry, BadRecording, End, Part, Told};
pub use replayer::{Difference, Replayer};
pub use rerun::{Placed, Rerun};
pub use tape::{Sent, Tape};
pub use world::World;
