//! Shared parts of images and release archives.
//!
//! Contains: building programs and bills of materials, and the files of images. Does not depend on: the formats of images and archives.

pub mod entry;
pub mod layer;
pub mod materials;
pub mod program;
