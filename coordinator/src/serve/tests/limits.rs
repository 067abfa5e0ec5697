//! The flags of kube-scheduler for TLS and sockets.

use super::*;

fn with(tls: TlsFlags) -> ServeConfig {
    ServeConfig { tls, ..config() }
}

#[tokio::test]
async fn only_the_versions_suites_and_groups_that_flags_leave_are_negotiated() {
    let negotiated = async |tls: TlsFlags| {
        let server = start(&with(tls)).await;
        let stream = server.connect(b"http/1.1").await;
        let connection = stream.get_ref().1;
        let suite = connection.negotiated_cipher_suite().expect("after the handshake").suite();
        let group = connection.negotiated_key_exchange_group().expect("after the handshake").name();
        (connection.protocol_version().expect("after the handshake"), suite, u16::from(group))
    };
    let suites = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let (version, _, group) = negotiated(TlsFlags { tls_curve_preferences: vec![24], ..TlsFlags::default() }).await;
    assert_eq!((version, group), (rustls::ProtocolVersion::TLSv1_3, 24));
    let legacy = ["TLS_RSA_WITH_AES_128_CBC_SHA"];
    let (version, ..) = negotiated(TlsFlags { tls_cipher_suites: suites(&legacy), ..TlsFlags::default() }).await;
    assert_eq!(version, rustls::ProtocolVersion::TLSv1_3, "its suites are not limited");
    let none = TlsFlags { tls_curve_preferences: vec![25], ..TlsFlags::default() };
    let identity = Arc::new(tls::Identity::load(&config()).await.expect("self-signed"));
    let error = tls::acceptor(&identity, &none, None).err().expect("no group is left").to_string();
    assert!(error.starts_with("--tls-curve-preferences has none of 23"), "{error}");
}

/// Whether a client that offers only TLS 1.2 with all suites completes a handshake.
async fn takes_1_2(tls: TlsFlags) -> bool {
    let server = start(&with(tls)).await;
    let mut roots = RootCertStore::empty();
    roots.add(server.leaf.clone()).expect("a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12])
        .expect("a known version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await.expect("listening");
    let name = ServerName::try_from("localhost").expect("a name");
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
}

#[tokio::test]
async fn a_minimum_version_and_suites_without_any_of_tls_1_2_turn_it_off() {
    assert!(takes_1_2(TlsFlags::default()).await);
    let suites = |name: &str| TlsFlags { tls_cipher_suites: vec![name.to_owned()], ..TlsFlags::default() };
    assert!(takes_1_2(suites("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")).await);
    assert!(!takes_1_2(suites("TLS_AES_128_GCM_SHA256")).await);
    assert!(!takes_1_2(TlsFlags { tls_min_version: "VersionTLS13".to_owned(), ..TlsFlags::default() }).await);
}

#[test]
fn values_that_are_accepted_and_never_offered_are_warned_about() {
    let suites = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"];
    let tls_cipher_suites = suites.map(str::to_owned).to_vec();
    let config =
        with(TlsFlags { tls_cipher_suites, tls_min_version: "VersionTLS10".to_owned(), ..TlsFlags::default() });
    assert_eq!(
        config.warnings(),
        [
            "--tls-cipher-suites: not offering TLS_RSA_WITH_AES_128_CBC_SHA, which are not implemented; remove them",
            "--tls-min-version=VersionTLS10: TLS 1.2 is the oldest offered version"
        ]
    );
    assert!(with(TlsFlags::default()).warnings().is_empty());
}

#[tokio::test]
async fn without_http2_a_client_that_prefers_it_gets_http_1_1() {
    let server = start(&with(TlsFlags { disable_http2_serving: true, ..TlsFlags::default() })).await;
    server.connect_as(b"h2", None).await.expect_err("nothing else is offered");
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn a_shared_port_is_taken_by_two_servers_that_both_share_it() {
    let shared = with(TlsFlags { permit_port_sharing: true, ..TlsFlags::default() });
    let server = start(&shared).await;
    listener(server.address, true).expect("shared");
    listener(server.address, false).expect_err("not shared");
}

#[tokio::test]
async fn a_certificate_folder_gets_a_certificate_once_and_serves_it_from_then_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let within = folder.path().join("certificates");
    let config = with(TlsFlags { cert_dir: Some(within.clone()), ..TlsFlags::default() });
    let first = start(&config).await.leaf;
    let key = within.join("kube-scheduler.key");
    let mode = std::os::unix::fs::PermissionsExt::mode(&key.metadata().expect("written").permissions());
    assert_eq!(mode & 0o777, 0o600);
    let server = start(&config).await;
    assert_eq!(server.leaf, first);
    assert_eq!(server.get("/healthz").await.0, 200);
    std::fs::remove_file(&key).expect("there");
    assert!(complaint(config).await.contains("kube-scheduler.key"), "half a pair is not replaced");
    let nowhere = with(TlsFlags { cert_dir: Some("/proc/none".into()), ..TlsFlags::default() });
    assert!(complaint(nowhere).await.starts_with("cannot write /proc/none for --cert-dir: "));
}

#[tokio::test]
async fn an_unspecified_address_means_all_of_ipv4_and_ipv6() {
    let has_v6 = TcpListener::bind("[::1]:0").await.is_ok();
    for unspecified in ["0.0.0.0:0", "[::]:0"] {
        let all = listener(unspecified.parse().expect("an address"), false).expect("any port");
        let port = all.local_addr().expect("bound").port();
        TcpStream::connect(("127.0.0.1", port)).await.expect("IPv4");
        if has_v6 {
            TcpStream::connect(("::1", port)).await.expect("IPv6");
        }
        let taken = listener(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), false).expect_err("taken");
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
    let loopback = listener(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false).expect("any port");
    assert!(loopback.local_addr().expect("bound").is_ipv4());
}
