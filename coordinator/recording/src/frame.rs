//! File header and frames.
//!
//! ```text
//! "FLOTREC\n"  version: u32
//! length: u32  CRC-32 of the entry: u32  entry     repeated
//! ```
//!
//! Numbers are little-endian.

use std::io::{self, Read, Write};

pub(crate) const MAGIC: [u8; 8] = *b"FLOTREC\n";

/// Version of the format. Every change of the encoding increments it, including a new field of a contained type.
pub const FORMAT: u32 = 5;

/// Maximum size of an entry in bytes. The largest is a worker's answer with all offers for a class, 2 MB.
pub const MAX_FRAME: usize = 64 << 20;

pub(crate) const FRAME_HEAD: usize = 8;

/// Writes the file header.
///
/// # Errors
/// Writing fails.
pub fn begin(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())
}

/// Writes one frame.
///
/// # Errors
/// Writing fails, or the entry exceeds [`MAX_FRAME`] bytes.
pub fn write_frame(entry: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let too_large = || io::Error::new(io::ErrorKind::InvalidInput, format!("an entry of {} bytes", entry.len()));
    let length = u32::try_from(entry.len()).ok().filter(|_| entry.len() <= MAX_FRAME).ok_or_else(too_large)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(&crc32fast::hash(entry).to_le_bytes())?;
    out.write_all(entry)
}

pub(crate) enum Frame {
    Entry(Vec<u8>),
    End,
    /// The file ends within the frame.
    Cut,
    /// Wrong checksum or invalid length.
    Wrong,
}

pub(crate) fn read_frame(from: &mut dyn Read) -> io::Result<Frame> {
    let mut head = [0; FRAME_HEAD];
    match fill(from, &mut head)? {
        0 => return Ok(Frame::End),
        FRAME_HEAD => {}
        _ => return Ok(Frame::Cut),
    }
    let [length, checksum] = [[head[0], head[1], head[2], head[3]], [head[4], head[5], head[6], head[7]]];
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_FRAME {
        return Ok(Frame::Wrong);
    }
    let mut entry = Vec::new();
    // Read incrementally: the length may be corrupt.
    from.take(length as u64).read_to_end(&mut entry)?;
    if entry.len() < length {
        return Ok(Frame::Cut);
    }
    let agrees = crc32fast::hash(&entry) == u32::from_le_bytes(checksum);
    Ok(if agrees { Frame::Entry(entry) } else { Frame::Wrong })
}

/// Fills as much of the buffer as the reader has, and returns the count.
pub(crate) fn fill(from: &mut dyn Read, into: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < into.len() {
        match from.read(&mut into[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(entries: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| write_frame(entry, &mut bytes).expect("memory can be written to"));
        bytes
    }

    fn first(mut bytes: &[u8]) -> Frame {
        read_frame(&mut bytes).expect("memory can be read")
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let bytes = written(&[b"one", b"", b"three"]);
        let mut rest = &bytes[..];
        let mut read = Vec::new();
        while let Frame::Entry(entry) = read_frame(&mut rest).expect("memory can be read") {
            read.push(entry);
        }
        assert_eq!(read, [&b"one"[..], b"", b"three"]);
        assert!(rest.is_empty());
    }

    #[test]
    fn a_frame_that_is_cut_anywhere_is_told_from_the_end() {
        let bytes = written(&[b"entry"]);
        for cut in 1..bytes.len() {
            assert!(matches!(first(&bytes[..cut]), Frame::Cut), "{cut}");
        }
        assert!(matches!(first(&[]), Frame::End));
    }

    #[test]
    fn a_byte_that_changed_is_noticed() {
        let bytes = written(&[b"entry"]);
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(!matches!(first(&changed), Frame::Entry(_) | Frame::End), "{place}");
        }
        assert!(matches!(first(&[0xff; 8]), Frame::Wrong), "a length that cannot be");
    }
}
