//! Webhooks over TLS: whom the endpoint has to be, by an authority that the machine knows.

use crate::rig::{SOON, events, make};
use crate::webhooks::{configured, ids, state, until_all};
use e2e::{Receiver, eventually};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

fn openssl(home: &Path, words: &[&str]) {
    let command =
        Command::new("openssl").current_dir(home).args(words).stdin(Stdio::null()).output();
    let output = command.expect("openssl");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A self-signed authority, `NAME.crt` and `NAME.key`.
fn authority(home: &Path, name: &str) -> PathBuf {
    let (cert, key) = (format!("{name}.crt"), format!("{name}.key"));
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
    let subject = format!("/CN={name}");
    let rest = ["-subj", &subject, "-out", &cert, "-keyout", &key];
    let own = ["-addext", "basicConstraints=critical,CA:TRUE"];
    openssl(home, &[&["req", "-x509"][..], &curve, &rest, &own].concat());
    home.join(cert)
}

/// What shows a certificate for `who` (`DNS:…`, `IP:…`) that `authority` signed.
fn shows(home: &Path, authority: &str, who: &str) -> TlsAcceptor {
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let request = ["-subj", "/CN=hook", "-out", "hook.csr", "-keyout", "hook.key"];
    openssl(home, &[&["req"][..], &curve, &request].concat());
    std::fs::write(home.join("hook.ext"), format!("subjectAltName={who}\n")).expect("written");
    let (cert, key) = (format!("{authority}.crt"), format!("{authority}.key"));
    let sign = ["x509", "-req", "-in", "hook.csr", "-CA", &cert, "-CAkey", &key, "-CAcreateserial"];
    openssl(
        home,
        &[&sign[..], &["-days", "2", "-extfile", "hook.ext", "-out", "hook.crt"]].concat(),
    );
    let chain = CertificateDer::from_pem_file(home.join("hook.crt")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(home.join("hook.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![chain], key));
    TlsAcceptor::from(Arc::new(config.expect("they fit together")))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_must_show_whom_it_was_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path();
    let trusted = authority(home, "trusted");
    authority(home, "strange");
    let at = "127.0.0.1:0";
    let good = Receiver::tls(at, shows(home, "trusted", "DNS:localhost")).await;
    let wrong = Receiver::tls(at, shows(home, "trusted", "DNS:localhost,IP:127.0.0.9")).await;
    let strange = Receiver::tls(at, shows(home, "strange", "DNS:localhost")).await;
    let named = |receiver: &Receiver| format!("https://localhost:{}/", receiver.address.port());
    let wrong_address = wrong.address.to_string();
    let urls = [
        ("good", named(&good)),
        ("wrong", format!("https://{wrong_address}/")),
        ("strange", named(&strange)),
    ];
    let all = urls.each_ref().map(|(name, url)| (*name, url.as_str(), "allow-private = true"));
    let trusted = trusted.display().to_string();
    let server = configured(&directory, &all).env("SSL_CERT_FILE", &trusted).start().await;
    make(&server, "a", Value::Null).await;
    let wanted = ids(&events(&server, None).await);
    let received = until_all(&good, &wanted).await;
    assert_eq!(received[0].headers["host"], format!("localhost:{}", good.address.port()));
    for (name, why) in [("wrong", "not valid for name"), ("strange", "UnknownIssuer")] {
        // Refused, and tried again: it may be put right.
        let told = eventually(&format!("{name} fails"), SOON, || async {
            let state = state(&server, name).await;
            (state["attempts"].as_u64() > Some(1)).then(|| state["lastError"].clone())
        })
        .await;
        let told = told.as_str().expect("a reason");
        assert!(told.starts_with("no TLS: ") && told.contains(why), "{name}: {told}");
    }
    let listed =
        Command::new(e2e::binary()).args(["webhooks", "ls", "--url", &server.url]).output();
    let listed = String::from_utf8(listed.expect("it starts").stdout).expect("text");
    let row = listed.lines().find(|row| row.starts_with("wrong\t")).expect("a row");
    assert!(row.contains("no TLS: invalid peer certificate"), "{row}");
    for receiver in [&wrong, &strange] {
        assert!(receiver.all().is_empty(), "nothing was sent to somebody else");
    }
    // Put right, it gets all that waited.
    drop(wrong);
    let right = Receiver::tls(&wrong_address, shows(home, "trusted", "IP:127.0.0.1")).await;
    until_all(&right, &wanted).await;
    eventually("all is well", SOON, || async {
        let state = state(&server, "wrong").await;
        (state["lastError"].is_null() && state["behind"] == 0).then_some(())
    })
    .await;
}
