//! TLS towards endpoints: rustls, and the machine's own list of authorities.

use rustls::{ClientConfig, RootCertStore};
use std::sync::{Arc, OnceLock};
use tokio_rustls::TlsConnector;

/// A connector, made once: reading the authorities takes a while.
pub(crate) fn connector() -> Result<TlsConnector, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    CONFIG.get_or_init(|| config().map(Arc::new)).clone().map(TlsConnector::from)
}

fn config() -> Result<ClientConfig, String> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "an authority of this machine could not be read");
    }
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err("this machine has no list of certificate authorities".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
