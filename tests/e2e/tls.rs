//! TLS, and certificates that change while the service runs.

use std::{fs, path::Path, sync::Arc};

use rcgen::{CertificateParams, KeyPair, generate_simple_self_signed};
use rustix::process::Signal;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};

use crate::rig::{Rig, receipt};

/// A certificate for 127.0.0.1 that signs itself, as PEM and DER, with its key.
fn certificate() -> (String, String, CertificateDer<'static>) {
    let made = generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    (
        made.cert.pem(),
        made.signing_key.serialize_pem(),
        made.cert.der().clone(),
    )
}

fn trusting(roots: &[&CertificateDer<'static>]) -> Arc<ClientConfig> {
    let mut store = RootCertStore::empty();
    for root in roots {
        store.add((*root).clone()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Arc::new(
        config
            .unwrap()
            .with_root_certificates(store)
            .with_no_client_auth(),
    )
}

/// The certificate that a new connection is shown.
fn shown(rig: &Rig) -> CertificateDer<'static> {
    let mut tcp = std::net::TcpStream::connect(rig.service.address).unwrap();
    let name = ServerName::from(rig.service.address.ip());
    let mut tls = ClientConnection::new(rig.start.trust.clone().unwrap(), name).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp).unwrap();
    }
    tls.peer_certificates().unwrap()[0].clone().into_owned()
}

fn install(folder: &Path, cert: &str, key: &str) {
    fs::write(folder.join("cert.pem"), cert).unwrap();
    fs::write(folder.join("key.pem"), key).unwrap();
}

#[test]
fn certificates_are_read_again_on_sighup() {
    let mut rig = Rig::up();
    let folder = rig.scratch();
    let (first, second) = (certificate(), certificate());
    install(&folder, &first.0, &first.1);
    rig.service.stop();
    let config = format!(
        "[tls]\ncert = {:?}\nkey = {:?}\n",
        folder.join("cert.pem"),
        folder.join("key.pem")
    );
    fs::write(rig.dir().join("config.toml"), config).unwrap();
    rig.start.trust = Some(trusting(&[&first.2, &second.2]));
    rig.begin_again();
    assert!(
        rig.service.url.starts_with("https://127.0.0.1:"),
        "{}",
        rig.service.url
    );
    rig.submit(&receipt("over TLS", &rig.owner())).index();
    assert_eq!(shown(&rig), first.2);

    // An open connection goes on; new ones see the new certificate.
    let mut open = rig.http();
    assert_eq!(open.get("/health").status, 200);
    install(&folder, &second.0, &second.1);
    rig.service.signal(Signal::HUP);
    while shown(&rig) != second.2 {}
    assert_eq!(open.get("/health").status, 200);
    rig.submit(&receipt("under the second", &rig.owner()))
        .index();

    // What cannot be read, or does not fit together, leaves the one in force.
    for (cert, key) in [
        ("nonsense", first.1.as_str()),
        (first.0.as_str(), second.1.as_str()),
        ("", ""),
    ] {
        install(&folder, cert, key);
        rig.service.signal(Signal::HUP);
        // A signal is handled before the operator's next answer or soon after; either way this one holds.
        for _ in 0..20 {
            assert_eq!(shown(&rig), second.2);
        }
    }
    install(&folder, &first.0, &first.1);
    rig.service.signal(Signal::HUP);
    while shown(&rig) != first.2 {}
    rig.restart();
}

#[test]
fn plain_text_on_a_tls_address_gets_nothing() {
    let mut rig = Rig::up();
    let folder = rig.scratch();
    let own = certificate();
    install(&folder, &own.0, &own.1);
    rig.service.stop();
    let config = format!(
        "[tls]\ncert = {:?}\nkey = {:?}\n",
        folder.join("cert.pem"),
        folder.join("key.pem")
    );
    fs::write(rig.dir().join("config.toml"), config).unwrap();
    rig.start.trust = Some(trusting(&[&own.2]));
    rig.begin_again();
    let mut plain = crate::rig::Http::new(rig.service.address, None);
    assert!(plain.try_send("GET", "/health", &[], b"").is_err());
    // A client that trusts somebody else does not get that far.
    let stranger = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let stranger = stranger.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let trust = trusting(&[stranger.der()]);
    let mut wary = crate::rig::Http::new(rig.service.address, Some(trust));
    assert!(wary.try_send("GET", "/health", &[], b"").is_err());
    // Clients that never finish a handshake do not keep others out.
    let open: Vec<_> = (0..20)
        .map(|_| std::net::TcpStream::connect(rig.service.address).unwrap())
        .collect();
    assert_eq!(rig.get("/health").status, 200);
    drop(open);
}
