//! Shared parts of images and release archives.
//!
//! Contains: building programs and bills of materials. Does not depend on: the layout of images and archives.

pub mod entry;
pub mod materials;
pub mod program;
