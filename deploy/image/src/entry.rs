//! Entries of a tar that do not depend on when or by whom it is made.
//!
//! Knows: whose an entry is, and of what time. Must not know: which entries there are.

use std::io::{Result, Write};

use tar::{Builder, Header};

/// Adds a file. `path` may be longer than a header holds.
///
/// # Errors
/// What the writer says.
pub fn file<W: Write>(builder: &mut Builder<W>, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    builder.append_data(&mut header(bytes.len() as u64, mode), path, bytes)
}

/// The header of an entry that belongs to root and was changed at the beginning of time; the caller gives its kind where it is no
/// file.
#[must_use]
pub fn header(size_bytes: u64, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_size(size_bytes);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}
