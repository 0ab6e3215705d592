//! TLS towards a server.

use crate::{Error, Result};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// How to speak TLS, with the certificates that the machine trusts where it is to be spoken.
/// Reading them takes milliseconds.
pub(crate) fn config(spoken: bool) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if spoken {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::Protocol(e.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
