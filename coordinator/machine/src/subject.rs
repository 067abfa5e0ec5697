//! What a decision is about.
//!
//! Must not know: who waits for it, or how it is made.

use std::sync::Arc;

use flotilla_framework::class::ClassId;

/// A pod's UID.
pub(crate) type Uid = Arc<str>;

/// The place of a profile in the configuration.
pub(crate) type ProfileIndex = usize;

/// What a decision is made for: all pods of a class under a profile get the same one.
pub(crate) type Subject = (ProfileIndex, ClassId);
