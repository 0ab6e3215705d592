//! One request and its answer.

use crate::error::innermost;
use crate::{Error, Result, tls, unix};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use types::{ErrorBody, Owner, SandboxId};

/// A server that does not accept a connection within this is not there.
const CONNECT: Duration = Duration::from_secs(1);
/// Longest answer of a route that runs no command: a start may pull much into memory, a
/// destroy may have many files to delete.
pub(crate) const ANSWER: Duration = Duration::from_secs(120);

/// A server, as one caller sees it. Cheap to clone; connections are kept and shared.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<str>,
    /// For messages: the URL, or the socket's path.
    address: Arc<str>,
    owner: Option<Owner>,
    wait: Option<Duration>,
    /// What the short path of a far-away socket leads through.
    _directory: Option<Arc<std::fs::File>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of the server at `url` (`http://host:port` or `https://…`, whose certificate the
    /// machine must trust; `SSL_CERT_FILE` names others). `token` proves who calls; `owner`
    /// names for whom, where the server leaves that open. Makes no network call; proxies of
    /// the environment are not used. Errors: [`Error::Protocol`] where `url` or `token` cannot
    /// be sent.
    pub fn new(url: &str, token: Option<&str>, owner: Option<Owner>) -> Result<Self> {
        let wrong = |why: String| Error::Protocol(format!("{url:?} is not a server's URL: {why}"));
        let parsed = reqwest::Url::parse(url).map_err(|e| wrong(e.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        if parsed.host_str().is_none_or(str::is_empty) {
            return Err(wrong("it has no host".to_owned()));
        }
        let base = url.trim_end_matches('/').to_owned();
        let tls = tls::config(parsed.scheme() == "https")?;
        let builder = reqwest::Client::builder().tls_backend_preconfigured(tls);
        Self::build(builder, base.clone(), base, token, owner, None)
    }

    /// A client of the server that listens on the socket at `path`, as who this process is there:
    /// on `admin.sock` its administrator. Makes no network call. Errors: [`Error::Connect`] where the socket's directory is not there.
    pub fn unix(path: &Path, token: Option<&str>, owner: Option<Owner>) -> Result<Self> {
        let address = path.display().to_string();
        let there = unix::reachable(path)
            .map_err(|e| Error::Connect { address: address.clone(), why: e.to_string() })?;
        let builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls::config(false)?)
            .unix_socket(there.path);
        let directory = there.directory.map(Arc::new);
        Self::build(builder, "http://localhost".to_owned(), address, token, owner, directory)
    }

    fn build(
        builder: reqwest::ClientBuilder,
        base: String,
        address: String,
        token: Option<&str>,
        owner: Option<Owner>,
        directory: Option<Arc<std::fs::File>>,
    ) -> Result<Self> {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Error::Protocol("the token has forbidden characters".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        if let Some(owner) = &owner {
            let value = HeaderValue::try_from(owner.as_str())
                .map_err(|_| Error::Protocol("the owner has forbidden characters".to_owned()))?;
            headers.insert("sandkeep-owner", value);
        }
        let http = builder
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .default_headers(headers)
            .build()
            .map_err(|e| Error::Protocol(innermost(&e)))?;
        Ok(Self {
            http,
            base: base.into(),
            address: address.into(),
            owner,
            wait: None,
            _directory: directory,
        })
    }

    /// Where the server is: its URL, or its socket's path.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// For whom this client asks, where it names anybody.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// The same, whose starts and commands wait so long at most for room where a limit keeps their
    /// instance from starting, at most a minute; else the server's choice.
    #[must_use]
    pub fn waiting(mut self, most: Duration) -> Self {
        self.wait = Some(most);
        self
    }

    /// A request that may start an instance.
    pub(crate) fn start_request(&self, method: Method, path: &str) -> RequestBuilder {
        let wait = self.wait.map(|wait| ("waitMs", wait.as_millis().to_string()));
        self.request(method, path).query(wait.as_slice())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Sends it. Errors: [`Error::Connect`] before the connection stood, [`Error::Protocol`]
    /// after, [`Error::Api`] for every answer that is not 2xx.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|e| self.failure(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|e| self.failure(&e))?;
        Err(refusal(status, &body))
    }

    /// Sends what runs a command. Errors: as [`Client::send`], but [`Error::Unknown`] where the
    /// connection broke after it stood: the command may have run.
    pub(crate) async fn send_command(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|e| self.unknown(&e))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.map_err(|e| self.unknown(&e))?;
        Err(refusal(status, &body))
    }

    pub(crate) fn unknown(&self, error: &reqwest::Error) -> Error {
        match self.failure(error) {
            Error::Protocol(why) => Error::Unknown(why),
            other => other,
        }
    }

    pub(crate) async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let request = request.timeout(ANSWER).header(ACCEPT, "application/json");
        let response = self.send(request).await?;
        self.read(response).await
    }

    pub(crate) async fn done(&self, request: RequestBuilder) -> Result<()> {
        self.send(request.timeout(ANSWER)).await.map(drop)
    }

    pub(crate) async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let body = response.bytes().await.map_err(|e| self.failure(&e))?;
        parse(&body)
    }

    pub(crate) fn failure(&self, error: &reqwest::Error) -> Error {
        let why = innermost(error);
        if error.is_connect() {
            return Error::Connect { address: self.address.to_string(), why };
        }
        if error.is_timeout() {
            return Error::Protocol(format!("no answer from {} in time", self.address));
        }
        Error::Protocol(format!("the connection to {} broke: {why}", self.address))
    }
}

pub(crate) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T> {
    serde_json::from_slice(body)
        .map_err(|e| Error::Protocol(format!("the server's answer is not understood: {e}")))
}

/// An answer that is not 2xx. Codes that this release does not know stay readable.
fn refusal(status: reqwest::StatusCode, body: &[u8]) -> Error {
    if let Ok(body) = serde_json::from_slice::<ErrorBody>(body) {
        return Error::Api(body.into());
    }
    let text = serde_json::from_slice::<serde_json::Value>(body)
        .ok()
        .and_then(|v| {
            // Below `/client/v4` it is the first of some.
            let error = v.pointer("/errors/0").unwrap_or(&v);
            error.get("message")?.as_str().map(str::to_owned)
        })
        .unwrap_or_else(|| String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned());
    Error::Protocol(format!("the server answered {status}: {text}"))
}

/// The path of a sandbox; its name is checked before anything is sent.
pub(crate) fn sandbox_path(id: &str, rest: &str) -> Result<String> {
    let id: SandboxId = id.parse().map_err(|e: types::NameError| invalid_id(&e))?;
    Ok(format!("/v1/sandboxes/{id}{rest}"))
}

pub(crate) fn invalid_id(error: &types::NameError) -> Error {
    Error::Api(types::Error::invalid("id", error.to_string()))
}

/// All that a path segment need not escape.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Any bytes as one segment of a path, or as a value of a query.
pub(crate) fn path_segment(bytes: &[u8]) -> String {
    percent_encode(bytes, SEGMENT).to_string()
}

/// A body that is JSON.
pub(crate) fn body<T: Serialize>(request: RequestBuilder, body: &T) -> RequestBuilder {
    request.json(body)
}
