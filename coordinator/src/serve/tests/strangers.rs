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
