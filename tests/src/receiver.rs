//! An endpoint of webhooks, and a collector of traces, byte by byte.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What came.
#[derive(Debug, Clone)]
pub struct Received {
    /// The path, with its query.
    pub target: String,
    /// Names in small letters.
    pub headers: BTreeMap<String, String>,
    /// All of it.
    pub body: Vec<u8>,
}

impl Received {
    /// An event of a webhook.
    pub fn event(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The event's id.
    pub fn id(&self) -> i64 {
        self.headers["sandkeep-event"].parse().expect("an id")
    }
}

/// A receiver that answers each delivery with `answer`, after `wait`.
pub struct Receiver {
    /// Where it listens.
    pub address: SocketAddr,
    all: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Receiver {
    /// One at an address of its own.
    pub async fn new(answer: &str, wait: Duration) -> Self {
        Self::at("127.0.0.1:0", answer, wait).await
    }

    /// The same at an address that was its predecessor's.
    pub async fn at(address: &str, answer: &str, wait: Duration) -> Self {
        Self::open(address, answer, wait, None).await
    }

    /// One that speaks TLS.
    pub async fn tls(address: &str, tls: TlsAcceptor) -> Self {
        Self::open(address, "200 OK", Duration::ZERO, Some(tls)).await
    }

    async fn open(address: &str, answer: &str, wait: Duration, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.expect("an address");
        let address = listener.local_addr().expect("it has one");
        let all: Arc<Mutex<Vec<Received>>> = Arc::default();
        let (seen, answer) = (all.clone(), answer.to_owned());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer, tls) = (seen.clone(), answer.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &seen, &answer, wait).await,
                        Some(tls) => {
                            serve(tls.accept(stream).await.ok()?, &seen, &answer, wait).await
                        }
                    }
                });
            }
        });
        Self { address, all, task }
    }

    /// All that came so far.
    pub fn all(&self) -> Vec<Received> {
        self.all.lock().expect("no panic").clone()
    }

    /// Everything about the spans that came so far, by OTLP; the resource's attributes first.
    pub fn spans(&self) -> (Vec<KeyValue>, Vec<Span>) {
        let (mut resource, mut spans) = (Vec::new(), Vec::new());
        for received in self.all() {
            assert_eq!(received.target, "/v1/traces");
            assert_eq!(received.headers["content-type"], "application/x-protobuf");
            let request = ExportTraceServiceRequest::decode(&*received.body).expect("OTLP");
            for part in request.resource_spans {
                resource = part.resource.expect("a resource").attributes;
                spans.extend(part.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        (resource, spans)
    }

    /// A URL of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<Received>>,
    answer: &str,
    wait: Duration,
) -> Option<()> {
    let mut bytes = Vec::new();
    let received = loop {
        let mut piece = [0; 4096];
        let n = stream.read(&mut piece).await.ok().filter(|n| *n > 0)?;
        bytes.extend_from_slice(&piece[..n]);
        if let Some(received) = parse(&bytes) {
            break received;
        }
    };
    tokio::time::sleep(wait).await;
    seen.lock().expect("no panic").push(received);
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.ok()?;
    stream.flush().await.ok()
}

fn parse(bytes: &[u8]) -> Option<Received> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("ASCII");
    let mut lines = head.split("\r\n");
    let target = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |n| n.parse().expect("a number"));
    let body = bytes.get(end + 4..end + 4 + length)?.to_vec();
    Some(Received { target, headers, body })
}

/// An attribute as text; empty: there is none.
pub fn attribute(all: &[KeyValue], key: &str) -> String {
    let found = all.iter().find(|pair| pair.key == key);
    match found.and_then(|pair| pair.value.as_ref()?.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(n)) => n.to_string(),
        Some(any_value::Value::BoolValue(yes)) => yes.to_string(),
        Some(other) => panic!("{key}: {other:?}"),
        None => String::new(),
    }
}
