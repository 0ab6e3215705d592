//! TLS for a listener, by rustls: one certificate, read again when its files change.

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds something else.
    #[error("cannot use {what} in {}: {why}", path.display())]
    File {
        /// `the certificate` or `its key`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// They do not fit together, or are of a kind that is not known.
    #[error("the certificate in {} and the key in {} are of no use: {why}", cert.display(), key.display())]
    Pair {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        why: String,
    },
}

/// A certificate and its key, in PEM.
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("cert", &self.cert).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a chain of certificates, the server's own first, and the key of that one.
    pub fn open(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        let config = RwLock::new(read(cert, key)?);
        Ok(Self { cert: cert.into(), key: key.into(), config })
    }

    /// Reads them again; connections that stand go on. Where that fails the old ones stay.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = read(&self.cert, &self.key)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// The files: certificate, key.
    pub fn files(&self) -> [&Path; 2] {
        [&self.cert, &self.key]
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }
}

fn read(cert: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let bad = |what, path: &Path, why: String| TlsError::File { what, path: path.into(), why };
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(cert).and_then(|certificates| certificates.collect());
    let chain = chain.map_err(|e| bad("the certificate", cert, e.to_string()))?;
    if chain.is_empty() {
        return Err(bad("the certificate", cert, "there is none".to_owned()));
    }
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|e| bad("its key", key, e.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
    let mut config = config.map_err(|e| TlsError::Pair {
        cert: cert.into(),
        key: key.into(),
        why: e.to_string(),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
