//! A server over a real store. Its engine runs real processes of this machine, in no container:
//! what the API does with commands and their ends is the same.

#![allow(dead_code)] // Each test binary uses its own part.

mod engine;
pub mod wire;

use api::App;
use auth::Keyring;
use axum::body::Body;
use http_body_util::BodyExt;
use hyper::{Method, Request, StatusCode, header};
use sandbox::{CodeOptions, Options, Sandboxes};
use serde_json::Value;
use std::sync::Arc;
use tower::ServiceExt;

/// An app and the directory that it lives in.
pub struct Bench {
    pub app: App,
    pub router: axum::Router,
    dir: tempfile::TempDir,
}

/// An answer, whole.
pub struct Answer {
    pub status: StatusCode,
    pub headers: hyper::HeaderMap,
    pub body: Vec<u8>,
    /// Whether it comes in the envelope of `/client/v4`.
    pub account: bool,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Checks that it is an error in the one shape, and returns its body.
    #[track_caller]
    pub fn error(&self, status: u16, code: &str) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status.as_u16(), status, "{text}");
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/json");
        assert_eq!(self.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(self.headers["x-request-id"].len(), 16);
        let body = self.json();
        if self.account {
            let error = serde_json::json!({
                "code": 1000 + status, "message": body["errors"][0]["message"],
            });
            let whole = serde_json::json!({
                "success": false, "errors": [error], "messages": [], "result": null,
            });
            assert_eq!(body, whole);
            assert!(error["message"].as_str().unwrap().len() > 5);
            return body;
        }
        let keys: Vec<_> = body.as_object().unwrap().keys().cloned().collect();
        let mut all = ["code", "message", "context", "httpStatus", "retryable", "timestamp"]
            .map(String::from);
        all.sort();
        let mut keys = keys;
        keys.sort();
        assert_eq!(keys, all);
        assert_eq!(body["code"], code, "{text}");
        assert_eq!(body["httpStatus"], status);
        assert!(!body["message"].as_str().unwrap().is_empty());
        body
    }

    /// The same for a bad field.
    #[track_caller]
    pub fn invalid(&self, field: &str) -> Value {
        let body = self.error(400, "VALIDATION_FAILED");
        if self.account {
            let message = body["errors"][0]["message"].as_str().unwrap();
            assert!(message.contains(field), "{message}");
            return body;
        }
        assert_eq!(body["context"]["field"], field, "{body}");
        body
    }
}

impl Bench {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = store::Store::open(store::Options { dir: dir.path().join("data") }).unwrap();
        let engine = Arc::new(engine::Processes::new(dir.path().join("work")));
        let clock = objects::Clock::default();
        let options = Options {
            time: types::TimeDefaults::default(),
            on_stop: None,
            clock,
            code: CodeOptions::default(),
            upkeep: sandbox::Upkeep::default(),
        };
        let keyring = Keyring::open(store.clone(), auth::Options::default()).await.unwrap();
        let sandboxes = Sandboxes::open(store, engine, options).await.unwrap();
        let app = App::new(sandboxes, keyring).keeping_private([dir.path().to_owned()]);
        Self { router: api::router(app.clone()), app, dir }
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let account = request.uri().path().starts_with("/client/v4");
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status, headers: parts.headers, body, account }
    }

    /// A request without a body.
    pub async fn plain(&self, method: &str, path: &str) -> Answer {
        self.send(request(method, path).body(Body::empty()).unwrap()).await
    }

    /// A request with a body in JSON.
    pub async fn json(&self, method: &str, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let request = request(method, path).header(header::CONTENT_TYPE, "application/json");
        self.send(request.body(Body::from(body.into())).unwrap()).await
    }
}

pub fn request(method: &str, path: &str) -> hyper::http::request::Builder {
    let method: Method = method.parse().unwrap();
    let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
    // Open mode does not reach these.
    match path.starts_with("/v1/admin/tokens") {
        true => request.extension(api::Listening::Admin),
        false => request,
    }
}
