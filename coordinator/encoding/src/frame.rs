//! The frames of a watch: lines in JSON, and in protobuf a length of four bytes before each.
//!
//! Knows: where a frame ends, and how long one may be. Must not know: what is in it.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::DecodeError;

/// A frame of a watch, or one object. etcd takes objects up to 1.5 MiB, which JSON may double; more is no object.
pub const FRAME_BYTES: usize = 8 << 20;
/// The length before a frame in protobuf, big-endian.
const LENGTH_BYTES: usize = 4;

/// How an answer is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Encoding {
    /// What is asked for: protobuf, or JSON of a server that has no protobuf of a kind.
    pub const ACCEPT: &'static str = "application/vnd.kubernetes.protobuf, application/json";
    /// The media type of protobuf.
    pub const PROTOBUF: &'static str = "application/vnd.kubernetes.protobuf";
    /// The media type of JSON.
    pub const JSON: &'static str = "application/json";

    /// The encoding that the header `Content-Type` of an answer names; JSON for every other one, and for none.
    #[must_use]
    pub fn of(content_type: Option<&str>) -> Self {
        let media_type = content_type.and_then(|text| text.split(';').next()).unwrap_or_default();
        if media_type.trim().eq_ignore_ascii_case(Self::PROTOBUF) { Self::Protobuf } else { Self::Json }
    }
}

/// Cuts what is received into frames. It holds at most one frame and what was received with its end.
#[derive(Debug)]
pub struct Frames {
    encoding: Encoding,
    received: BytesMut,
    /// How much of `received` has no end of a line.
    searched: usize,
}

impl Frames {
    /// Frames of an answer in this encoding.
    #[must_use]
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, received: BytesMut::new(), searched: 0 }
    }

    /// The encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// More of the answer.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
    }

    /// The next frame; `None`: more has to be received before. Empty lines are no frames.
    ///
    /// # Errors
    /// A frame of more than [`FRAME_BYTES`], after which there are no others.
    pub fn cut(&mut self) -> Result<Option<Bytes>, DecodeError> {
        match self.encoding {
            Encoding::Json => self.next_line(),
            Encoding::Protobuf => self.next_message(),
        }
    }

    /// The answer has come to its end.
    ///
    /// # Errors
    /// It ended within a frame.
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
            // Nothing is reserved for a frame that a header only promises.
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

    /// What comes of bytes that are received in pieces of this length.
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
