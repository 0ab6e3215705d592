//! One method for each route.

use crate::http::{ANSWER, body, invalid_id, parse, sandbox_path};
use crate::stream::ExecStream;
use crate::{Client, ListQuery, Result};
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::Value;
use std::time::Duration;
use types::{
    DirectoryEntry, ExecRequest, ExecResult, Execution, Patch, QuotaReport, Record, SandboxId,
    SandboxInfo, SettingsRequest, Stop, StopRequest,
};

impl Client {
    /// `PUT /v1/sandboxes/{id}`: makes a sandbox, or finds that it is the same. `true`: new.
    pub async fn put(&self, id: &str, settings: &SettingsRequest) -> Result<(bool, SandboxInfo)> {
        let request = self.request(Method::PUT, &sandbox_path(id, "")?);
        let response = self.send(body(request, settings).timeout(ANSWER)).await?;
        let new = response.status() == reqwest::StatusCode::CREATED;
        Ok((new, self.read(response).await?))
    }

    /// `PATCH /v1/sandboxes/{id}`: changes settings.
    pub async fn patch(&self, id: &str, patch: &Patch) -> Result<SandboxInfo> {
        let request = self.request(Method::PATCH, &sandbox_path(id, "")?);
        self.json(body(request, patch)).await
    }

    /// `GET /v1/sandboxes/{id}`: all that is known of it. Wakes and prolongs nothing.
    pub async fn info(&self, id: &str) -> Result<SandboxInfo> {
        self.json(self.request(Method::GET, &sandbox_path(id, "")?)).await
    }

    /// Its record; `None`: known and never started. `GET /users/{owner}/sandboxes/{id}` where
    /// this client names an owner, else from [`Client::info`].
    pub async fn record(&self, id: &str) -> Result<Option<Record>> {
        let Some(owner) = self.owner() else {
            return Ok(self.info(id).await?.record);
        };
        let id: SandboxId = id.parse().map_err(|e| invalid_id(&e))?;
        self.json(self.request(Method::GET, &format!("/users/{owner}/sandboxes/{id}"))).await
    }

    /// `POST /v1/sandboxes/{id}/exec`: runs a command to its end; no limit in time but the
    /// request's own. Dropping the future kills the command. [`crate::Error::Unknown`] where the
    /// connection broke: it may have run.
    pub async fn exec(&self, id: &str, exec: &ExecRequest) -> Result<ExecResult> {
        let request = self.start_request(Method::POST, &sandbox_path(id, "/exec")?);
        let request = body(request, exec).header(ACCEPT, "application/json");
        let answer = self.send_command(request).await?.bytes().await;
        parse(&answer.map_err(|e| self.unknown(&e))?)
    }

    /// The same, event by event. Dropping the stream kills the command. An error here other than
    /// [`crate::Error::Unknown`] means that nothing ran.
    pub async fn exec_stream(&self, id: &str, exec: &ExecRequest) -> Result<ExecStream> {
        let request = self.start_request(Method::POST, &sandbox_path(id, "/exec")?);
        let request = body(request, exec).header(ACCEPT, "application/x-ndjson");
        Ok(ExecStream::new(self.send_command(request).await?))
    }

    /// `POST …/start`: starts an instance where none runs.
    pub async fn start(&self, id: &str) -> Result<SandboxInfo> {
        self.json(self.start_request(Method::POST, &sandbox_path(id, "/start")?)).await
    }

    /// `POST …/stop`: ends the instance; the sandbox stays. Nothing to stop is fine.
    pub async fn stop(&self, id: &str, stop: &StopRequest) -> Result<()> {
        let request = self.request(Method::POST, &sandbox_path(id, "/stop")?);
        let limit = ANSWER.saturating_add(Duration::from_millis(stop.grace_ms));
        self.send(body(request, stop).timeout(limit)).await.map(drop)
    }

    /// `POST …/touch`: counts as activity.
    pub async fn touch(&self, id: &str) -> Result<()> {
        self.done(self.request(Method::POST, &sandbox_path(id, "/touch")?)).await
    }

    /// `DELETE /v1/sandboxes/{id}`: destroys it and removes its entry. Unknown ones are fine.
    pub async fn destroy(&self, id: &str) -> Result<()> {
        self.done(self.request(Method::DELETE, &sandbox_path(id, "")?)).await
    }

    /// The owner's directory, oldest entry first: `GET /users/{owner}/sandboxes` where this
    /// client names an owner, else from [`Client::list_all`].
    pub async fn directory(&self) -> Result<Vec<DirectoryEntry>> {
        if let Some(owner) = self.owner() {
            return self
                .json(self.request(Method::GET, &format!("/users/{owner}/sandboxes")))
                .await;
        }
        let all = self.list_all(ListQuery::default()).await?;
        Ok(all.into_iter().map(|s| DirectoryEntry { session: s.id, running: s.running }).collect())
    }

    /// `GET …/stops`: its stops of the last 30 days, newest first.
    pub async fn stops(&self, id: &str) -> Result<Vec<Stop>> {
        let request = self.request(Method::GET, &sandbox_path(id, "/stops")?);
        self.list_of(request, "stops").await
    }

    /// `GET …/executions`: its latest commands, newest first.
    pub async fn executions(&self, id: &str, limit: Option<u32>) -> Result<Vec<Execution>> {
        let request = self.request(Method::GET, &sandbox_path(id, "/executions")?);
        let limit = limit.map(|n| ("limit", n));
        self.list_of(request.query(limit.as_slice()), "executions").await
    }

    /// `GET …/logs`: the last MiB that its main processes wrote.
    pub async fn logs(&self, id: &str) -> Result<Vec<u8>> {
        let request = self.request(Method::GET, &sandbox_path(id, "/logs")?).timeout(ANSWER);
        let response = self.send(request).await?;
        Ok(response.bytes().await.map_err(|e| self.failure(&e))?.to_vec())
    }

    /// `GET /v1/quotas`: what the owner may have, and has.
    pub async fn quotas(&self) -> Result<QuotaReport> {
        self.json(self.request(Method::GET, "/v1/quotas")).await
    }

    /// `GET /healthz`: what the server says of itself.
    pub async fn healthz(&self) -> Result<Value> {
        self.json(self.request(Method::GET, "/healthz").timeout(Duration::from_secs(5))).await
    }

    /// `GET /openapi.json`: the API's document.
    pub async fn openapi(&self) -> Result<Value> {
        self.json(self.request(Method::GET, "/openapi.json")).await
    }

    /// An array, bare or under a key of its own.
    async fn list_of<T: serde::de::DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
        key: &str,
    ) -> Result<Vec<T>> {
        let mut value: Value = self.json(request).await?;
        if let Some(inner) = value.get_mut(key) {
            value = inner.take();
        }
        serde_json::from_value(value).map_err(|e| {
            crate::Error::Protocol(format!("the server's answer is not understood: {e}"))
        })
    }
}
