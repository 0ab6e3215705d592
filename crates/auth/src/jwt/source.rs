//! Where an issuer's keys are: a file, or a URL.

use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Largest set of keys, bytes.
const LARGEST: usize = 1 << 20;
/// A set must be here within this.
const IN_TIME: Duration = Duration::from_secs(5);

/// Where an issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file with the set.
    File(PathBuf),
    /// `http://…` or `https://…`.
    Url(String),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url = text.starts_with("http://") || text.starts_with("https://");
        Ok(if url { Self::Url(text.to_owned()) } else { Self::File(text.into()) })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Url(url) => f.write_str(url),
        }
    }
}

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("cannot read the keys of the issuer in {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// They did not come over the network.
    #[error("the keys of the issuer did not come: {0}")]
    Fetch(String),
    /// There are too many bytes.
    #[error("the keys of the issuer are more than {LARGEST} bytes")]
    TooLarge,
    /// It is not a set of keys.
    #[error("the keys of the issuer are not a JSON web key set")]
    NoKeys,
}

impl Source {
    /// The text of the set.
    pub(super) async fn read(&self) -> Result<String, SourceError> {
        let bytes = match self {
            Self::File(path) => file(path).await?,
            Self::Url(url) => tokio::time::timeout(IN_TIME, fetch(url))
                .await
                .unwrap_or_else(|_| Err(SourceError::Fetch("it took too long".to_owned())))?,
        };
        String::from_utf8(bytes).map_err(|_| SourceError::NoKeys)
    }
}

async fn file(path: &PathBuf) -> Result<Vec<u8>, SourceError> {
    use tokio::io::AsyncReadExt as _;
    let failed = |source| SourceError::File { path: path.clone(), source };
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST as u64 + 1).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() > LARGEST { Err(SourceError::TooLarge) } else { Ok(bytes) }
}

async fn fetch(url: &str) -> Result<Vec<u8>, SourceError> {
    let failed = |error: reqwest::Error| SourceError::Fetch(innermost(&error));
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(url.starts_with("https:"))?)
        // Who may answer is the operator's to say, not the answer's.
        .redirect(reqwest::redirect::Policy::none())
        .timeout(IN_TIME)
        .build()
        .map_err(failed)?;
    let mut answer = client.get(url).send().await.map_err(failed)?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(SourceError::Fetch(format!("the answer is {}", answer.status())));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > LARGEST {
            return Err(SourceError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// How to speak TLS, with the certificates that the machine trusts where it is to be spoken.
fn tls(spoken: bool) -> Result<ClientConfig, SourceError> {
    let mut roots = RootCertStore::empty();
    if spoken {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SourceError::Fetch(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The innermost source says what the system said; the outer ones repeat the URL.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
