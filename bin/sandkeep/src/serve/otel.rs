//! Traces to a collector, by OTLP over HTTP, where the operator names one.
//!
//! The spans are those of one target: requests, starts, commands, executions. The log has none of
//! them, and the collector nothing of the log. They wait in a bounded queue; a collector that is
//! away costs the spans that find no place in it, and delays nobody.

use crate::fail::Failure;
use anyhow::Context as _;
use bytes::Bytes;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The target of spans that a collector sees.
pub const TARGET: &str = "trace";
/// How exporters are told by the environment.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// A collector that takes longer gets nothing of a batch.
const IN_TIME: Duration = Duration::from_secs(5);
/// At the end the last spans get this long.
const LAST: Duration = Duration::from_millis(900);

/// Traces that are told.
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// Begins to tell the collector that is named here, or in the environment; `None`: nobody
    /// names one.
    pub fn begin(endpoint: Option<&str>, runtime: &Handle) -> anyhow::Result<Option<Self>> {
        let variable = std::env::var(VARIABLE).ok().filter(|e| !e.is_empty());
        let Some(endpoint) = endpoint.map(str::to_owned).or(variable) else {
            return Ok(None);
        };
        let spoken = reqwest::Url::parse(&endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = spoken else {
            let text = format!("the collector of traces has no URL: {endpoint:?}");
            let hint = format!("[otel] endpoint, or {VARIABLE}, is as http://127.0.0.1:4318");
            return Err(Failure::new(text).hint(hint).into());
        };
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(url.scheme() == "https")?)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(IN_TIME)
            .build()
            .context("traces cannot be sent")?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Post { client, runtime: runtime.clone() })
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .with_timeout(IN_TIME)
            .build()
            .context("traces cannot be sent")?;
        let name = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
        let resource = Resource::builder_empty()
            .with_service_name(name.unwrap_or_else(|| "sandkeep".to_owned()))
            .with_attribute(opentelemetry::KeyValue::new(
                "service.version",
                env!("CARGO_PKG_VERSION"),
            ))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// What hands spans over.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        Targets: Filter<S>,
    {
        let tracer = self.provider.tracer("sandkeep");
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_level(false)
            .with_filter(Targets::new().with_target(TARGET, tracing::Level::INFO))
    }

    /// Sends what waits, if that can be done at once.
    pub fn end(self) {
        // It may wait longer than it was told for a batch that is under way.
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _ = self.provider.shutdown_with_timeout(LAST);
            let _ = done.send(());
        });
        let _ = ended.recv_timeout(LAST);
    }
}

/// Makes a span part of the trace that a `traceparent` names.
pub fn join(span: &tracing::Span, headers: &hyper::HeaderMap) {
    let context = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
    // An error means that nobody is told of the span.
    let _ = span.set_parent(context);
}

/// How to speak TLS, with the certificates that the machine trusts where it is to be spoken.
fn tls(spoken: bool) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if spoken {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Sends from the server's runtime: the exporter's own thread has none.
#[derive(Debug)]
struct Post {
    client: reqwest::Client,
    runtime: Handle,
}

#[async_trait::async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let answer = client.execute(request).await?;
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            // What it says beside its status is of no use here.
            Ok::<_, reqwest::Error>(response)
        });
        Ok(sent.await??)
    }
}
