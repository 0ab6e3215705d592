//! `/metrics`: what the server counts, in the text format of Prometheus.

use crate::dispatch::Call;
use crate::reply;
use axum::response::Response;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, TEXT_FORMAT, TextEncoder,
    exponential_buckets,
};
use sandbox::{Gauges, Sandboxes};
use std::time::Duration;
use types::{Error, ErrorCode, Result};

/// What the server counts.
pub(crate) struct Metrics {
    registry: Registry,
    gauges: Gauges,
    requests: IntCounterVec,
    seconds: HistogramVec,
}

const CONSTANT: &str = "names and buckets of metrics are constants, and right";

impl Metrics {
    pub fn new(sandboxes: &Sandboxes) -> Self {
        let opts = Opts::new(
            "sandkeep_http_requests_total",
            "Requests answered, by route (its pattern), method and status.",
        );
        let requests = IntCounterVec::new(opts, &["route", "method", "status"]).expect(CONSTANT);
        let opts = HistogramOpts::new(
            "sandkeep_http_request_seconds",
            "From a request's head to that of its answer, by route.",
        );
        let buckets = exponential_buckets(0.0005, 4.0, 9).expect(CONSTANT);
        let seconds = HistogramVec::new(opts.buckets(buckets), &["route"]).expect(CONSTANT);
        let (registry, gauges) = (Registry::new(), Gauges::new());
        let mut all = sandboxes.collectors();
        all.extend(gauges.collectors());
        all.push(Box::new(requests.clone()));
        all.push(Box::new(seconds.clone()));
        for collector in all {
            if let Err(error) = registry.register(collector) {
                tracing::error!(%error, "a metric is not told");
            }
        }
        Self { registry, gauges, requests, seconds }
    }

    /// Counts an answer. `route` and `method` are of the table of routes, so that there are never
    /// more series than it has lines.
    pub fn answered(&self, route: &str, method: &str, status: StatusCode, took: Duration) {
        self.requests.with_label_values(&[route, method, status.as_str()]).inc();
        self.seconds.with_label_values(&[route]).observe(took.as_secs_f64());
    }

    async fn text(&self, sandboxes: &Sandboxes) -> Result<Vec<u8>> {
        self.gauges.look(sandboxes).await;
        let mut text = Vec::new();
        TextEncoder::new()
            .encode(&self.registry.gather(), &mut text)
            .map_err(|e| Error::new(ErrorCode::Internal, format!("the metrics: {e}")))?;
        Ok(text)
    }
}

/// Read metrics
///
/// Counts and times of the server, in the text format of Prometheus. No series is of one sandbox
/// or owner. Wakes and prolongs nothing.
#[utoipa::path(get, path = "/metrics", tag = "server", operation_id = "getMetrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "text/plain; version=0.0.4")))]
pub(crate) async fn get(call: Call) -> Result<Response> {
    let text = call.app.metrics.text(&call.app.sandboxes).await?;
    Ok(reply::bytes(StatusCode::OK, HeaderValue::from_static(TEXT_FORMAT), text))
}
