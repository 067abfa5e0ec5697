//! Messages as tonic sends and receives them: in protobuf, with lists that are checked before they are decoded.
//!
//! Knows: the order of the checks. Must not know: the bounds ([`lists`](crate::lists)), or who is at either end.

use std::marker::PhantomData;

use prost::{Message, bytes::Buf as _};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

use crate::lists::Lists;

/// Writes `T` and reads `U`.
#[derive(Debug, Clone, Copy)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Lists + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> BoundedDecoder<U> {
        BoundedDecoder(PhantomData)
    }
}

/// Reads `U`.
#[derive(Debug, Clone, Copy)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Default + Lists> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        // As tonic's own codec has it: what is no message is the fault of this end or of the network.
        read(&bytes).map(Some).map_err(Status::internal)
    }
}

/// A message out of its bytes.
///
/// # Errors
/// The bytes are no message, or a list in it is too long.
pub fn read<U: Message + Default + Lists>(bytes: &[u8]) -> Result<U, String> {
    U::check(bytes).map_err(|error| error.to_string())?;
    U::decode(bytes).map_err(|error| error.to_string())
}
