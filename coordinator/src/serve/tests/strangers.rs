//! Clients that occupy connections without requests.

use std::time::Duration;

use tokio::net::TcpSocket;

use super::*;

/// Limit for clients that must not wait: far less than any of the server's limits.
const SOON: Duration = Duration::from_secs(5);

async fn from_address(last: u8, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, last], 0))).expect("every address of that network is this host's");
    socket.connect(server).await.expect("listening")
}

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
        // The server ends without a TLS close_notify.
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
    // An evicted client's address may connect again.
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

#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Sends nothing.
    Silent,
    /// Sends an incomplete head.
    Unfinished,
    /// Sends one request: the connection may then stay as long as any.
    AskedOnce,
}

async fn stranger(last: u8, server: SocketAddr, manner: Manner) -> TcpStream {
    let mut stream = from_address(last, server).await;
    let said = match manner {
        Manner::Silent => "",
        Manner::Unfinished => "GET /livez HTTP/1.1\r\nhost: ",
        Manner::AskedOnce => "GET /livez HTTP/1.1\r\nhost: coordinator\r\n\r\n",
    };
    let _ = stream.write_all(said.as_bytes()).await;
    stream
}

/// The liveness probe of the manifests, shortened: six probes in a row without an answer within 5 s would kill the container.
#[tokio::test]
async fn strangers_that_take_all_places_of_the_kubelets_port_again_and_again_fail_none_of_its_probes() {
    for manner in [Manner::Silent, Manner::Unfinished, Manner::AskedOnce] {
        let server = health::HealthServer::bind("127.0.0.1:0", checks()).await.expect("a free port");
        let (address, places) = (server.address(), server.places());
        tokio::spawn(server.run(CancellationToken::new()));
        let mut held = Vec::new();
        for probe in 0..12_u8 {
            // Sixteen addresses with four connections each: twice the number of slots, each address within its share.
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
    // The neighbour came first and is idle, so that it would be evicted first.
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
        // The server has accepted it once it answers a later connection.
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
