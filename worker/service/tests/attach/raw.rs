//! A client that sends arbitrary bytes.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::{
    Code, Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    transport::Channel,
};

#[derive(Debug, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Sends one message and returns the status after the worker ends the stream.
pub(crate) async fn attach(channel: Channel, message: Vec<u8>) -> Status {
    use tokio_stream::StreamExt as _;
    let mut client = Grpc::new(channel);
    client.ready().await.expect("a connection");
    let messages = tokio_stream::once(Bytes::from(message)).chain(tokio_stream::pending());
    let path = "/flotilla.v1.Worker/Attach".parse().expect("a path");
    let mut inbound = match client.streaming(Request::new(messages), path, Plain).await {
        Ok(response) => response.into_inner(),
        Err(status) => return status,
    };
    loop {
        match inbound.message().await {
            Ok(Some(_)) => {}
            Ok(None) => return Status::new(Code::Ok, ""),
            Err(status) => return status,
        }
    }
}
