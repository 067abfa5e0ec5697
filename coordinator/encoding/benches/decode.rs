//! Benchmark of decoding one watch frame into the fields that scheduling reads, in both encodings.
//!
//! The pod and the node are an API server's, recorded by `integration-tests/tests/integration/encodings.rs`.
//!
//! `cargo bench -p flotilla-encoding`

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flotilla_encoding::{Change, Encoding, Node, Object, Pod, Read};
use flotilla_framework::ingest;
use prost::Message;

#[derive(Message)]
struct Event {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<Raw>,
}

#[derive(Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

fn frame(encoding: Encoding, object: &[u8]) -> Bytes {
    match encoding {
        Encoding::Json => [&b"{\"type\":\"MODIFIED\",\"object\":"[..], object, b"}\n"].concat().into(),
        Encoding::Protobuf => {
            let object = Some(Raw { raw: object.to_vec() });
            Event { kind: "MODIFIED".to_owned(), object }.encode_to_vec().into()
        }
    }
}

fn decoded<T: Object>(encoding: Encoding, frame: &Bytes) -> T {
    match Change::decode(encoding, frame.clone()) {
        Ok(Change::Applied(Read::Whole(object))) => object,
        other => panic!("an object, not {:?}", other.map(|_| ())),
    }
}

fn measure<T: Object, F>(criterion: &mut Criterion, kind: &str, objects: [(Encoding, &[u8]); 2], facts: fn(T) -> F) {
    let mut group = criterion.benchmark_group(kind);
    for (encoding, object) in objects {
        let frame = frame(encoding, object);
        group.throughput(Throughput::Bytes(frame.len() as u64));
        group.bench_function(format!("{encoding:?} decoded"), |bencher| {
            bencher.iter(|| black_box(decoded::<T>(encoding, black_box(&frame))));
        });
        group.bench_function(format!("{encoding:?} decoded and read"), |bencher| {
            bencher.iter(|| black_box(facts(decoded::<T>(encoding, black_box(&frame)))));
        });
    }
    group.finish();
}

fn decode(criterion: &mut Criterion) {
    let pods = [
        (Encoding::Json, &include_bytes!("recorded/pod.json")[..]),
        (Encoding::Protobuf, &include_bytes!("recorded/pod.pb")[..]),
    ];
    measure(criterion, "pod", pods, |pod: Pod| {
        ingest::pod(&pod.into(), ingest::Features::default()).expect("a pod that makes sense")
    });
    let nodes = [
        (Encoding::Json, &include_bytes!("recorded/node.json")[..]),
        (Encoding::Protobuf, &include_bytes!("recorded/node.pb")[..]),
    ];
    measure(criterion, "node", nodes, |node: Node| ingest::node(&node.into()).expect("a node that makes sense"));
}

criterion_group!(benches, decode);
criterion_main!(benches);
