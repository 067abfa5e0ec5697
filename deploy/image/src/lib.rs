//! What images and archives of a release have in common: the programs, and their bill of materials.
//!
//! Knows: how the programs are built, and what is in them. Must not know: how either is laid out.

pub mod entry;
pub mod materials;
pub mod program;
