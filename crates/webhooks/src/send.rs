//! One try: resolve, look at the address, connect to that very one, send, read the status.

use crate::address::is_public;
use crate::endpoint::{Endpoint, Scheme};
use crate::tls;
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use sha2::Sha256;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use types::Event;

/// Longest try, from the name's look-up to the head of the answer.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// Why a try failed. It is told to operators, and holds no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("it took longer than {} s", LIMIT.as_secs())]
    Slow,
    #[error("the name could not be resolved: {0}")]
    Name(std::io::Error),
    #[error("it is at no public address, and allow-private is not set")]
    Private,
    #[error("no connection: {0}")]
    Connect(std::io::Error),
    #[error("no TLS: {0}")]
    Tls(String),
    #[error("the exchange broke off: {0}")]
    Http(#[from] hyper::Error),
    #[error("it cannot be asked: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("an event has no JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it answered {0}")]
    Status(StatusCode),
}

/// `sha256=` and the hex digits of HMAC-SHA256 with `secret` over `timestamp.body`.
pub fn signature(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return String::new() };
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    let digest = mac.finalize().into_bytes();
    let hex: String = digest.iter().map(|b| format!("{b:02x}")).collect();
    format!("sha256={hex}")
}

/// Sends an event. Anything but a 2xx is a failure; redirects are not followed, as they could lead
/// to where nobody allowed it.
pub(crate) async fn send(endpoint: &Endpoint, event: &Event) -> Result<(), Failure> {
    tokio::time::timeout(LIMIT, attempt(endpoint, event)).await.unwrap_or(Err(Failure::Slow))
}

async fn attempt(endpoint: &Endpoint, event: &Event) -> Result<(), Failure> {
    let request = request(endpoint, event)?;
    let tcp = connect(endpoint).await?;
    let status = match endpoint.scheme {
        Scheme::Http => exchange(tcp, request).await?,
        Scheme::Https => {
            let name = ServerName::try_from(endpoint.host.clone())
                .map_err(|e| Failure::Tls(e.to_string()))?;
            let connector = tls::connector().map_err(Failure::Tls)?;
            let tls =
                connector.connect(name, tcp).await.map_err(|e| Failure::Tls(e.to_string()))?;
            exchange(tls, request).await?
        }
    };
    if status.is_success() { Ok(()) } else { Err(Failure::Status(status)) }
}

fn request(endpoint: &Endpoint, event: &Event) -> Result<Request<Full<Bytes>>, Failure> {
    let body = serde_json::to_vec(event)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let timestamp = now.as_secs().to_string();
    let signature = signature(endpoint.secret.bytes(), &timestamp, &body);
    let host = if endpoint.host.contains(':') {
        format!("[{}]:{}", endpoint.host, endpoint.port)
    } else {
        format!("{}:{}", endpoint.host, endpoint.port)
    };
    Ok(Request::builder()
        .method(Method::POST)
        .uri(endpoint.target.as_str())
        .header(HOST, host)
        .header(CONNECTION, "close")
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("sandkeep/", env!("CARGO_PKG_VERSION")))
        .header("sandkeep-event", event.id.to_string())
        .header("sandkeep-event-type", event.kind.as_str())
        .header("sandkeep-timestamp", timestamp)
        .header("sandkeep-signature", signature)
        .body(Full::new(Bytes::from(body)))?)
}

/// Connects to the address that was looked at, and to no other that the name may have by then.
async fn connect(endpoint: &Endpoint) -> Result<TcpStream, Failure> {
    let place = (endpoint.host.as_str(), endpoint.port);
    let found = tokio::net::lookup_host(place).await.map_err(Failure::Name)?;
    let allowed: Vec<SocketAddr> =
        found.filter(|address| endpoint.allow_private || is_public(address.ip())).collect();
    if allowed.is_empty() {
        return Err(Failure::Private);
    }
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in allowed {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(Failure::Connect(last))
}

/// The status of the answer; its body says nothing.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<StatusCode, Failure> {
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(64 << 10).handshake(TokioIo::new(stream)).await?;
    // Ends with this call, however that ends.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    Ok(sender.send_request(request).await?.status())
}
