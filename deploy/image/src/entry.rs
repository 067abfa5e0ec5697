//! Reproducible tar entries.

use std::io::{Result, Write};

use tar::{Builder, Header};

/// Adds a file. `path` may exceed the length limit of a header.
///
/// # Errors
/// Writing fails.
pub fn file<W: Write>(builder: &mut Builder<W>, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    builder.append_data(&mut header(bytes.len() as u64, mode), path, bytes)
}

/// The header of an entry of root with time 0. The caller sets the type if it is not a file.
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
