//! A tonic codec that checks the lists of a protobuf message before decoding it.

use std::marker::PhantomData;

use prost::{Message, bytes::Buf as _};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

use crate::lists::Lists;

/// Encodes `T` and decodes `U`.
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

/// Decodes `U`.
#[derive(Debug, Clone, Copy)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Default + Lists> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        // As in tonic's codec: invalid bytes are an error of this end or of the network.
        read(&bytes).map(Some).map_err(Status::internal)
    }
}

/// Decodes a message.
///
/// # Errors
/// The bytes are not a message, or a list in it is too long.
pub fn read<U: Message + Default + Lists>(bytes: &[u8]) -> Result<U, String> {
    U::check(bytes).map_err(|error| error.to_string())?;
    U::decode(bytes).map_err(|error| error.to_string())
}
