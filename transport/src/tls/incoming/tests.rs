//! Connections on loopback.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_stream::StreamExt as _;

use super::*;
use crate::tls::{Authority, DialError, Dialled, Identity, Role, dial, now_s};

fn end(role: Role, authority: &Authority, trusted: &Authority) -> Mutual {
    let mut pem = authority.issue(role, now_s()).expect("issued");
    pem.authorities = trusted.certificate().as_bytes().to_owned();
    let mutual = Mutual::new(role);
    mutual.credentials.set(Identity::from_pem(role, &pem).expect("sound"));
    mutual
}

fn authority() -> Authority {
    Authority::make(now_s()).expect("an authority")
}

async fn listen(mutual: &Mutual) -> (String, Incoming) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (address, Incoming::new(listener, mutual.clone()))
}

/// Sends one byte to the worker and waits for the answer.
async fn speak(dialled: &mut Dialled) -> io::Result<u8> {
    dialled.write_all(b"?").await?;
    dialled.flush().await?;
    dialled.read_u8().await
}

/// Answers the first byte of each connection and keeps it open.
async fn answer(mut incoming: Incoming) {
    while let Some(Ok(mut accepted)) = incoming.next().await {
        tokio::spawn(async move {
            while let Ok(byte) = accepted.read_u8().await {
                accepted.write_u8(byte + 1).await?;
                accepted.flush().await?;
            }
            Ok::<_, io::Error>(())
        });
    }
}

async fn failed(mutual: &Mutual, label: &str) {
    let count =
        || mutual.failures.counts().into_iter().find(|(known, _)| *known == label).map_or(0, |(_, count)| count);
    while count() == 0 {
        tokio::task::yield_now().await;
    }
}

fn reason(dialled: Result<Dialled, DialError>) -> Reason {
    match dialled.expect_err("no connection") {
        DialError::Handshake(error) => error.reason,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_coordinator_and_a_worker_of_one_authority_speak() {
    let authority = authority();
    let (coordinator, worker) =
        (end(Role::Coordinator, &authority, &authority), end(Role::Worker, &authority, &authority));
    let (address, incoming) = listen(&worker).await;
    tokio::spawn(answer(incoming));
    let mut dialled = dial(&address, &coordinator).await.expect("a connection");
    assert_eq!(dialled.peer().role(), Role::Worker);
    assert_eq!(speak(&mut dialled).await.expect("an answer"), b'?' + 1);
    assert_eq!((coordinator.failures.total(), worker.failures.total()), (0, 0));
}

#[tokio::test]
async fn a_worker_of_another_authority_is_not_believed() {
    let (ours, theirs) = (authority(), authority());
    let (coordinator, worker) = (end(Role::Coordinator, &ours, &ours), end(Role::Worker, &theirs, &ours));
    let (address, _incoming) = listen(&worker).await;
    assert_eq!(reason(dial(&address, &coordinator).await), Reason::Untrusted);
    failed(&worker, "refused").await;
}

#[tokio::test]
async fn a_coordinator_of_another_authority_is_refused_and_told_so() {
    let (ours, theirs) = (authority(), authority());
    let (coordinator, worker) = (end(Role::Coordinator, &theirs, &ours), end(Role::Worker, &ours, &ours));
    let (address, incoming) = listen(&worker).await;
    tokio::spawn(answer(incoming));
    let mut dialled = dial(&address, &coordinator).await.expect("done before the other end has looked");
    speak(&mut dialled).await.expect_err("refused");
    let refusal = dialled.refusal().get().cloned().expect("a reason");
    assert_eq!(refusal.reason, Reason::Refused);
    assert!(refusal.to_string().contains("does not trust the authority of our certificate"), "{refusal}");
    failed(&worker, "untrusted").await;
}

#[tokio::test]
async fn a_worker_cannot_act_as_a_coordinator_nor_a_coordinator_as_a_worker() {
    let authority = authority();
    for role in [Role::Coordinator, Role::Worker] {
        let (first, second) = (end(role, &authority, &authority), end(role, &authority, &authority));
        let (address, incoming) = listen(&second).await;
        tokio::spawn(answer(incoming));
        let spoken = async {
            let mut dialled = dial(&address, &first).await.map_err(io::Error::other)?;
            speak(&mut dialled).await
        };
        spoken.await.expect_err("two of a kind");
        let counts = [first.failures.counts(), second.failures.counts()].concat();
        assert!(counts.iter().any(|(label, count)| *label == "role" && *count > 0), "{role}: {counts:?}");
    }
}

#[tokio::test]
async fn a_client_without_a_certificate_and_one_without_tls_are_told_apart() {
    let authority = authority();
    let worker = end(Role::Worker, &authority, &authority);
    let (address, _incoming) = listen(&worker).await;
    let mut plain = TcpStream::connect(&address).await.expect("a connection");
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    failed(&worker, "plaintext").await;

    let identity = worker.credentials.ready().await;
    let mut roots = rustls::RootCertStore::empty();
    roots.clone_from(identity.roots());
    let config = rustls::ClientConfig::builder_with_provider(crate::tls::credentials::provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(crate::tls::verify::servers(&Arc::new(roots), Role::Worker))
        .with_no_client_auth();
    let stream = TcpStream::connect(&address).await.expect("a connection");
    let name = rustls::pki_types::ServerName::try_from("worker").expect("a name");
    let mut anonymous = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .expect("done before it is refused");
    anonymous.read_u8().await.expect_err("refused");
    failed(&worker, "no_certificate").await;
}

#[tokio::test]
async fn a_worker_without_tls_is_said_to_be_one() {
    let authority = authority();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        // The initial SETTINGS frame of an HTTP/2 server.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        stream.read_to_end(&mut Vec::new()).await
    });
    let coordinator = end(Role::Coordinator, &authority, &authority);
    assert_eq!(reason(dial(&address, &coordinator).await), Reason::Plaintext);
}

#[tokio::test]
async fn a_probe_that_says_nothing_is_no_failure() {
    let authority = authority();
    let worker = end(Role::Worker, &authority, &authority);
    let (address, incoming) = listen(&worker).await;
    tokio::spawn(answer(incoming));
    drop(TcpStream::connect(&address).await.expect("a connection"));
    let coordinator = end(Role::Coordinator, &authority, &authority);
    let mut dialled = dial(&address, &coordinator).await.expect("a connection");
    speak(&mut dialled).await.expect("an answer");
    assert_eq!(worker.failures.total(), 0);
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_a_dropped_authority_ends_the_old_ones() {
    let (old, new) = (authority(), authority());
    let (coordinator, worker) = (end(Role::Coordinator, &old, &old), end(Role::Worker, &old, &old));
    let (address, incoming) = listen(&worker).await;
    tokio::spawn(answer(incoming));
    let mut first = dial(&address, &coordinator).await.expect("a connection");
    speak(&mut first).await.expect("an answer");

    let renewed = old.issue(Role::Worker, now_s()).expect("issued");
    let both = format!("{}{}", new.certificate(), old.certificate());
    let renewed = crate::tls::Pem { authorities: both.into_bytes(), ..renewed };
    worker.credentials.set(Identity::from_pem(Role::Worker, &renewed).expect("sound"));
    speak(&mut first).await.expect("nothing has changed for it");
    let mut second = dial(&address, &coordinator).await.expect("a connection");
    speak(&mut second).await.expect("an answer");

    worker
        .credentials
        .set(Identity::from_pem(Role::Worker, &new.issue(Role::Worker, now_s()).expect("issued")).expect("sound"));
    for mut dropped in [first, second] {
        speak(&mut dropped).await.expect_err("its authority is not trusted any more");
    }
    let watched = dial(&address, &coordinator).await;
    assert_eq!(reason(watched), Reason::Untrusted);
}

#[tokio::test]
async fn the_end_of_trust_is_told_to_who_has_connected() {
    let (old, new) = (authority(), authority());
    let (coordinator, worker) = (end(Role::Coordinator, &old, &old), end(Role::Worker, &old, &old));
    let (address, _incoming) = listen(&worker).await;
    let dialled = dial(&address, &coordinator).await.expect("a connection");
    let ended = tokio::spawn(dialled.peer().clone().ended(coordinator.credentials.clone(), true));
    let pem = new.issue(Role::Coordinator, now_s()).expect("issued");
    coordinator.credentials.set(Identity::from_pem(Role::Coordinator, &pem).expect("sound"));
    assert_eq!(ended.await.expect("it ends"), Ended::Untrusted);
}

#[tokio::test]
async fn a_connection_ends_with_its_certificates_on_both_sides() {
    let authority = authority();
    let (coordinator, worker) = (Mutual::new(Role::Coordinator), end(Role::Worker, &authority, &authority));
    let (address, incoming) = listen(&worker).await;
    tokio::spawn(answer(incoming));
    let short = authority.issue_for(Role::Coordinator, now_s(), 3).expect("issued");
    coordinator.credentials.set(Identity::from_pem(Role::Coordinator, &short).expect("sound"));
    let mut dialled = dial(&address, &coordinator).await.expect("a connection");
    speak(&mut dialled).await.expect("an answer");
    let ended = dialled.peer().clone().ended(coordinator.credentials.clone(), true);
    assert_eq!(ended.await, Ended::Expiring);
    dialled.read_u8().await.expect_err("the worker has ended it too");
    let late = async {
        let mut late = dial(&address, &coordinator).await.map_err(io::Error::other)?;
        speak(&mut late).await
    };
    // Rejected, or ended at once within the certificate's last second.
    late.await.expect_err("it has ended");
}
