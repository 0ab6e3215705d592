//! The HTTP API: routes, who may call them, what goes in and out, and the server itself.
//!
//! Every request takes one way, in [`dispatch`]: identity, name, query, body, handler, answer.
//! What differs between routes stands in one table, [`routes`], from which the router and the
//! API document are built and which the tests walk.

mod accept;
mod account;
mod auth;
mod backup;
mod body;
mod code;
mod connection;
mod contexts;
mod dispatch;
mod documents;
mod events;
mod exec;
mod files;
mod instances;
mod json;
mod lists;
mod meta;
mod metrics;
mod openapi;
mod path;
mod peers;
mod query;
mod quotas;
mod rates;
mod refusal;
mod reply;
mod routes;
mod server;
mod tls;
mod tokens;
mod v1;
mod webhooks;

pub use self::auth::Listening;
pub use account::Account;
pub use openapi::document;
pub use peers::Peers;
pub use routes::{Access, BodyRule, ROUTES, Route, router};
pub use server::{Listener, ServeError, serve};
pub use tls::{Tls, TlsError};

use ::auth::Keyring;
use ::webhooks::Webhooks;
use sandbox::Sandboxes;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Makes a span part of the trace that the head of a request names.
pub type JoinsTrace = fn(&tracing::Span, &hyper::HeaderMap);

/// What the routes stand on. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// The sandboxes of this server.
    pub sandboxes: Sandboxes,
    /// Who may call.
    pub keyring: Keyring,
    /// Bounds of the server.
    pub limits: Limits,
    /// Directories of the host, the data directory above all, whose names no 5xx may tell.
    pub private: Arc<[PathBuf]>,
    /// What the account's list answers to.
    pub account: Arc<Account>,
    /// Where events are sent to; `None`: nowhere.
    pub webhooks: Option<Webhooks>,
    pub(crate) metrics: Arc<metrics::Metrics>,
    pub(crate) joins_trace: Option<JoinsTrace>,
    bodies: body::Budget,
    rates: rates::Rates,
}

impl App {
    /// An app with the usual bounds.
    pub fn new(sandboxes: Sandboxes, keyring: Keyring) -> Self {
        let limits = Limits::default();
        let rates = rates::Rates::new(sandboxes.quota_table());
        let bodies = body::Budget::default();
        let account = Arc::default();
        let metrics = Arc::new(metrics::Metrics::new(&sandboxes));
        let (private, webhooks) = (Arc::new([]), None);
        let joins_trace = None;
        Self {
            sandboxes,
            keyring,
            limits,
            private,
            account,
            webhooks,
            metrics,
            joins_trace,
            bodies,
            rates,
        }
    }

    /// Makes the span of a request part of the trace that its head names, where spans are told to
    /// anybody.
    #[must_use]
    pub fn joining_traces(mut self, join: Option<JoinsTrace>) -> Self {
        self.joins_trace = join;
        self
    }

    /// Where events are sent to.
    #[must_use]
    pub fn with_webhooks(mut self, webhooks: Webhooks) -> Self {
        self.webhooks = Some(webhooks);
        self
    }

    /// The account and the application that alone are known below `/client/v4`.
    #[must_use]
    pub fn of_account(mut self, account: Account) -> Self {
        self.account = Arc::new(account);
        self
    }

    /// Directories of the host whose names no 5xx may tell.
    #[must_use]
    pub fn keeping_private(mut self, directories: impl IntoIterator<Item = PathBuf>) -> Self {
        self.private = directories.into_iter().collect();
        self
    }
}

/// Bounds of the server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once, of each listener; more wait to be accepted.
    pub connections: usize,
    /// A request's head must arrive within this; also how long an unused connection is kept.
    pub head_timeout: Duration,
    /// A request's body must not pause longer than this.
    pub body_timeout: Duration,
    /// How long requests may go on once the server shuts down.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            shutdown_grace: Duration::from_secs(10),
        }
    }
}
