//! Clients that take connections and ask for nothing.

use std::time::Duration;

use tokio::net::TcpSocket;

use super::*;

/// How long a client waits that is not to wait: far less than any of the server's own limits.
const SOON: Duration = Duration::from_secs(5);

/// A connection of a client at `127.0.0.last`.
async fn from_address(last: u8, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).expect("every address of that network is this host's");
    socket.connect(server).await.expect("listening")
}

/// Four clients that hold ten connections each, and say nothing.
async fn silent(server: SocketAddr) -> Vec<TcpStream> {
    let mut held = Vec::new();
    for number in 0..40 {
        held.push(from_address(10 + number % 4, server).await);
    }
    held
}

#[tokio::test]
async fn silent_connections_keep_no_other_client_out() {
    let server = start(&config()).await;
    let held = silent(server.address).await;
    let answer = tokio::time::timeout(SOON, server.get("/livez")).await.expect("a place");
    assert_eq!((answer.0, answer.2.as_str()), (200, "ok"));
    drop(held);
}

#[tokio::test]
async fn a_client_that_shakes_hands_and_asks_for_nothing_is_closed() {
    for protocol in [&b"http/1.1"[..], b"h2"] {
        let server = start(&config()).await;
        let mut stream = server.connect(protocol).await;
        let mut byte = [0; 1];
        let early = tokio::time::timeout(Duration::from_millis(50), stream.read(&mut byte)).await;
        assert!(early.is_err() || protocol == b"h2", "nothing is wrong with it yet");
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        let mut rest = Vec::new();
        // The end comes without TLS's own farewell.
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "still open: {}", String::from_utf8_lossy(protocol));
    }
}

fn checks() -> health::HealthChecks {
    let failing = Check::new("sched-handler-sync", || Err("a secret".to_owned()));
    health::HealthChecks { healthz: vec![], livez: vec![], readyz: vec![failing] }
}

async fn plain(server: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(server).await.expect("listening");
    let request = format!("GET {path} HTTP/1.1\r\nhost: coordinator\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code"), body.to_owned())
}

#[tokio::test]
async fn the_kubelet_has_a_port_of_its_own_that_tells_health_and_nothing_else() {
    let server = health::HealthServer::bind("127.0.0.1:0", checks()).await.expect("a free port");
    let (address, places) = (server.address(), server.places());
    tokio::spawn(server.run(CancellationToken::new()));
    let held = silent(address).await;
    let probe = tokio::time::timeout(SOON, plain(address, "/livez")).await.expect("a place");
    assert_eq!(probe, (200, "ok".to_owned()));
    let tally = places.tally();
    // The address of a place that was taken away may take another.
    assert!(tally.open <= 32 && tally.refused + tally.evicted >= 8, "{tally:?}");
    drop(held);
    let (code, body) = plain(address, "/readyz").await;
    assert_eq!((code, body.contains("secret")), (500, false), "{body}");
    for path in ["/metrics", "/configz", "/status", "/readyz/sched-handler-sync"] {
        assert_eq!(plain(address, path).await.0, 404, "{path}");
    }
    let taken = health::HealthServer::bind(&address.to_string(), checks()).await.err().expect("taken").to_string();
    assert!(taken.contains("--health-listen"), "{taken}");
}

/// What strangers do with the connections that they hold.
#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Nothing is sent.
    Silent,
    /// A head is begun and never ended.
    Unfinished,
    /// One request, and then nothing: such a connection may stay for as long as any.
    AskedOnce,
}

/// A connection of a stranger.
async fn stranger(last: u8, server: SocketAddr, manner: Manner) -> TcpStream {
    let mut stream = from_address(last, server).await;
    let said = match manner {
        Manner::Silent => "",
        Manner::Unfinished => "GET /livez HTTP/1.1\r\nhost: ",
        Manner::AskedOnce => "GET /livez HTTP/1.1\r\nhost: coordinator\r\n\r\n",
    };
    // A connection that was refused cannot be written to.
    let _ = stream.write_all(said.as_bytes()).await;
    stream
}

/// The liveness probe of the manifests, in short: the kubelet kills the container after six failures in a row, of which each is
/// an answer that does not come within 5 s. Here none may fail.
#[tokio::test]
async fn strangers_that_take_all_places_of_the_kubelets_port_again_and_again_fail_none_of_its_probes() {
    for manner in [Manner::Silent, Manner::Unfinished, Manner::AskedOnce] {
        let server = health::HealthServer::bind("127.0.0.1:0", checks()).await.expect("a free port");
        let (address, places) = (server.address(), server.places());
        tokio::spawn(server.run(CancellationToken::new()));
        let mut held = Vec::new();
        for probe in 0..12_u8 {
            // Sixteen addresses with four connections each: twice as many as there are places, none above its share.
            for number in 0..64 {
                held.push(stranger(10 + probe * 16 + number % 16, address, manner).await);
            }
            let answer = tokio::time::timeout(SOON, plain(address, "/livez")).await;
            assert_eq!(answer.ok(), Some((200, "ok".to_owned())), "probe {probe} beside strangers: {manner:?}");
        }
        let tally = places.tally();
        assert!(tally.open <= 32 && tally.evicted > 300, "{manner:?}: {tally:?}");
        drop(held);
    }
}

#[tokio::test]
async fn one_stranger_with_more_connections_than_its_share_fails_no_probe_and_evicts_nobody() {
    let server = health::HealthServer::bind("127.0.0.1:0", checks()).await.expect("a free port");
    let (address, places) = (server.address(), server.places());
    tokio::spawn(server.run(CancellationToken::new()));
    let mut neighbour = from_address(9, address).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(from_address(10, address).await);
    }
    assert_eq!(tokio::time::timeout(SOON, plain(address, "/livez")).await.ok(), Some((200, "ok".to_owned())));
    // The neighbour came first and is silent, so that it would be the first to go.
    let request = "GET /livez HTTP/1.1\r\nhost: coordinator\r\nconnection: close\r\n\r\n";
    neighbour.write_all(request.as_bytes()).await.expect("it is still open");
    let mut answer = String::new();
    neighbour.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let tally = places.tally();
    assert_eq!((tally.refused, tally.evicted), (32, 0), "{tally:?}");
    drop(held);
}

#[tokio::test]
async fn a_connection_to_the_kubelets_port_that_asks_for_nothing_in_time_is_closed() {
    for manner in [Manner::Silent, Manner::Unfinished] {
        let server = health::HealthServer::bind("127.0.0.1:0", checks()).await.expect("a free port");
        let (address, places) = (server.address(), server.places());
        tokio::spawn(server.run(CancellationToken::new()));
        let mut stream = stranger(10, address, manner).await;
        // The server has taken it on once it answers one that came later.
        assert_eq!(plain(address, "/livez").await.0, 200);
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(SOON, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "still open: {manner:?}");
        assert_eq!(places.tally().open, 0, "{manner:?}");
    }
}
