//! Watch framing: lines in JSON, length-prefixed frames in protobuf.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::DecodeError;

/// Maximum size of a frame or object. etcd accepts 1.5 MiB, which JSON may double.
pub const FRAME_BYTES: usize = 8 << 20;
const LENGTH_BYTES: usize = 4;

/// Encoding of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Encoding {
    /// Accepted types: protobuf, or JSON for kinds that a server cannot encode in protobuf.
    pub const ACCEPT: &'static str = "application/vnd.kubernetes.protobuf, application/json";
    /// Media type of protobuf.
    pub const PROTOBUF: &'static str = "application/vnd.kubernetes.protobuf";
    /// Media type of JSON.
    pub const JSON: &'static str = "application/json";

    /// The encoding of a `Content-Type`; JSON for any other type and for none.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let media_type = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
        if media_type.trim().eq_ignore_ascii_case(Self::PROTOBUF) { Self::Protobuf } else { Self::Json }
    }
}

/// Splits received bytes into frames. Buffers at most one frame and the bytes received with its end.
#[derive(Debug)]
pub struct Frames {
    encoding: Encoding,
    received: BytesMut,
    /// Length of the prefix of `received` without a line end.
    searched: usize,
}

impl Frames {
    /// An empty splitter.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, received: BytesMut::new(), searched: 0 }
    }

    /// The encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Adds received bytes.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next frame; `None` if more bytes are needed. Skips empty lines.
    ///
    /// # Errors
    /// A frame exceeds [`FRAME_BYTES`]; no further frames follow.
    pub fn cut(&mut self) -> Result<Option<Bytes>, DecodeError> {
        match self.encoding {
            Encoding::Json => self.next_line(),
            Encoding::Protobuf => self.next_message(),
        }
    }

    /// Ends the response.
    ///
    /// # Errors
    /// The response ended within a frame.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.received.trim_ascii().len() {
            0 => Ok(()),
            rest => Err(DecodeError::Truncated(rest)),
        }
    }

    fn next_message(&mut self) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.received.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > FRAME_BYTES {
            return Err(DecodeError::Oversized(length));
        }
        if self.received.len() < LENGTH_BYTES + length {
            // The length in a header is not trusted: nothing is reserved for it.
            return Ok(None);
        }
        self.received.advance(LENGTH_BYTES);
        Ok(Some(self.received.split_to(length).freeze()))
    }

    fn next_line(&mut self) -> Result<Option<Bytes>, DecodeError> {
        loop {
            let Some(end) = self.received[self.searched..].iter().position(|byte| *byte == b'\n') else {
                self.searched = self.received.len();
                return if self.searched > FRAME_BYTES { Err(DecodeError::Oversized(self.searched)) } else { Ok(None) };
            };
            let line = self.received.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if line.len() > FRAME_BYTES {
                return Err(DecodeError::Oversized(line.len()));
            }
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frames of bytes received in pieces of this length.
    fn cut(encoding: Encoding, bytes: &[u8], piece: usize) -> (Vec<Bytes>, Result<(), String>) {
        let (mut frames, mut found) = (Frames::new(encoding), Vec::new());
        for piece in bytes.chunks(piece) {
            frames.receive(piece);
            loop {
                match frames.cut() {
                    Ok(Some(frame)) => found.push(frame),
                    Ok(None) => break,
                    Err(error) => return (found, Err(error.to_string())),
                }
            }
        }
        (found, frames.finish().map_err(|error| error.to_string()))
    }

    #[test]
    fn frames_are_found_however_they_are_received() {
        let messages = b"\0\0\0\x03one\0\0\0\0\0\0\0\x05three";
        let lines = b"one\n\n\r\nthree\n";
        for piece in 1..=lines.len() {
            let (found, end) = cut(Encoding::Protobuf, messages, piece);
            assert_eq!((found, end), (vec!["one".into(), "".into(), "three".into()], Ok(())), "{piece}");
            let (found, end) = cut(Encoding::Json, lines, piece);
            assert_eq!((found, end), (vec!["one\n".into(), "three\n".into()], Ok(())), "{piece}");
        }
    }

    #[test]
    fn an_answer_that_ends_within_a_frame_says_so() {
        for (encoding, bytes, rest) in [
            (Encoding::Protobuf, &b"\0\0\0\x03one\0\0"[..], 2),
            (Encoding::Protobuf, b"\0\0\0\x03on", 6),
            (Encoding::Json, b"{}\n{\"type\"", 7),
        ] {
            let (_, end) = cut(encoding, bytes, 1);
            assert_eq!(end, Err(format!("the answer ended within a frame, after {rest} bytes of it")));
        }
    }

    #[test]
    fn a_frame_that_is_too_long_is_refused_before_it_is_received() {
        let (found, end) = cut(Encoding::Protobuf, b"\0\0\0\x01a\xff\xff\xff\xff", 3);
        assert_eq!((found, end), (vec!["a".into()], Err(DecodeError::Oversized(u32::MAX as usize).to_string())));
        let (_, end) = cut(Encoding::Json, &vec![b' '; FRAME_BYTES + 2], 1 << 20);
        assert!(end.is_err_and(|error| error.starts_with("a frame of ")));
    }

    #[test]
    fn the_encoding_is_that_of_the_content_type() {
        for (text, encoding) in [
            (Some("application/vnd.kubernetes.protobuf"), Encoding::Protobuf),
            (Some("application/vnd.kubernetes.protobuf;stream=watch"), Encoding::Protobuf),
            (Some("application/json"), Encoding::Json),
            (Some("text/plain; charset=utf-8"), Encoding::Json),
            (None, Encoding::Json),
        ] {
            assert_eq!(Encoding::of(text), encoding, "{text:?}");
        }
    }
}
