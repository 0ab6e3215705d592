//! Events on their way to others: signed, in order, at least once.
//!
//! Each endpoint has a task of its own, which reads the table of events from the endpoint's cursor
//! on and sends one event at a time; the cursor is stored once the endpoint has answered 2xx. So
//! nothing is queued here, a slow endpoint holds up nobody, and a server that is killed sends at
//! most the last event again. `address.rs` says where may be sent to, `send.rs` sends, `deliver.rs`
//! is the loop.

mod address;
mod deliver;
mod endpoint;
mod send;
mod tls;

pub use endpoint::{Endpoint, EndpointError, Secret};
pub use send::signature;

use deliver::Shared;
use std::sync::Arc;
use store::Store;
use types::{Error, ErrorCode, RedeliverRequest, RedeliverResult, Result, WebhookInfo};

/// The endpoints of a server. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks {
    store: Store,
    endpoints: Arc<[Arc<Shared>]>,
}

impl Webhooks {
    /// Begins to send to each endpoint, from where it was left; to a new one what comes from now
    /// on. Each ends with the store.
    pub async fn start(store: &Store, endpoints: Vec<Endpoint>) -> store::Result<Self> {
        let mut all = Vec::new();
        for endpoint in endpoints {
            let cursor = store.webhook(&endpoint.name).await?;
            let shared = Arc::new(Shared::new(endpoint, cursor));
            tokio::spawn(deliver::run(store.clone(), shared.clone()));
            all.push(shared);
        }
        Ok(Self { store: store.clone(), endpoints: all.into() })
    }

    /// Each endpoint and how it does.
    pub fn list(&self) -> Vec<WebhookInfo> {
        let newest = *self.store.newest_event().borrow();
        self.endpoints.iter().map(|shared| shared.info(newest)).collect()
    }

    /// Sends one event again, now; or goes back, so that all behind `after` are sent again in
    /// their order. Errors: `VALIDATION_FAILED`, `NOT_FOUND`.
    pub async fn redeliver(&self, request: &RedeliverRequest) -> Result<RedeliverResult> {
        let found = self.endpoints.iter().find(|shared| shared.endpoint.name == request.name);
        let shared = found.ok_or_else(|| {
            let all: Vec<_> = self.endpoints.iter().map(|s| s.endpoint.name.as_str()).collect();
            let message = format!("no webhook has this name; there are: {}", all.join(", "));
            Error::invalid("name", message)
        })?;
        match (request.event, request.after) {
            (Some(id), None) => self.send_again(shared, id).await,
            (None, Some(after)) => {
                let newest = *self.store.newest_event().borrow();
                if !(0..=newest).contains(&after) {
                    let message = format!("after must be between 0 and {newest}");
                    return Err(Error::invalid("after", message));
                }
                shared.rewind(after);
                Ok(RedeliverResult { delivered: None, error: None })
            }
            _ => Err(Error::invalid("event", "either event or after must be named")),
        }
    }

    async fn send_again(&self, shared: &Shared, id: i64) -> Result<RedeliverResult> {
        let filter = store::EventFilter::default();
        let page = self.store.events(&filter, Some(id.saturating_sub(1)), 1).await;
        let page = page.map_err(|error| {
            tracing::error!(%error, "the events could not be read");
            Error::new(ErrorCode::Unavailable, "the events cannot be read just now")
        })?;
        let event = page.events.into_iter().find(|event| event.id == id);
        let event = event.filter(|event| shared.endpoint.wants(event)).ok_or_else(|| {
            Error::invalid("event", "no such event is kept, or the webhook does not take it")
        })?;
        let error = send::send(&shared.endpoint, &event).await.err().map(|e| e.to_string());
        Ok(RedeliverResult { delivered: Some(error.is_none()), error })
    }
}

#[cfg(test)]
mod tests;
