//! Code contexts: one method for each route.

use crate::http::{body, parse, path_segment, sandbox_path};
use crate::stream::CodeStream;
use crate::{Client, Error, Result};
use reqwest::header::ACCEPT;
use reqwest::{Method, RequestBuilder};
use types::{
    BindingInfo, BindingList, CheckpointInfo, CheckpointList, CheckpointRequest, CodeRequest,
    CodeResult, ContextInfo, ContextList, ContextRequest, EngineInfo, EngineList, EnvRequest,
};

/// Where code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// In an interpreter that is thrown away, of no sandbox: no files, nothing kept.
    Nowhere,
    /// In a sandbox: in the context that the request names, else in the default context of its
    /// binding or language.
    Sandbox(&'a str),
    /// In this context of this sandbox.
    Context(&'a str, &'a str),
}

impl Place<'_> {
    fn path(self) -> Result<String> {
        match self {
            Place::Nowhere => Ok("/v1/execute".to_owned()),
            Place::Sandbox(id) => sandbox_path(id, "/execute"),
            Place::Context(id, context) => context_path(id, context, "/execute"),
        }
    }
}

impl Client {
    /// `POST …/contexts`: makes a context; the sandbox comes into being where it is not there.
    pub async fn create_context(&self, id: &str, context: &ContextRequest) -> Result<ContextInfo> {
        let request = self.request(Method::POST, &sandbox_path(id, "/contexts")?);
        self.json(body(request, context)).await
    }

    /// `GET …/contexts`: its contexts, oldest first.
    pub async fn contexts(&self, id: &str) -> Result<Vec<ContextInfo>> {
        let request = self.request(Method::GET, &sandbox_path(id, "/contexts")?);
        Ok(self.json::<ContextList>(request).await?.contexts)
    }

    /// `GET …/contexts/{ctx}`.
    pub async fn context(&self, id: &str, context: &str) -> Result<ContextInfo> {
        self.json(self.request(Method::GET, &context_path(id, context, "")?)).await
    }

    /// `DELETE …/contexts/{ctx}`: deletes it with its memory and its checkpoints.
    pub async fn delete_context(&self, id: &str, context: &str) -> Result<()> {
        self.done(self.request(Method::DELETE, &context_path(id, context, "")?)).await
    }

    /// `POST …/contexts/{ctx}/fork`: a second context with the same memory.
    pub async fn fork_context(&self, id: &str, context: &str) -> Result<ContextInfo> {
        self.json(self.request(Method::POST, &context_path(id, context, "/fork")?)).await
    }

    /// Runs code to its end; no limit in time but the request's own. Dropping the future stops
    /// the code. Errors of the code are results. [`Error::UnknownCode`] where the connection
    /// broke: it may have run and be saved.
    pub async fn execute(&self, place: Place<'_>, code: &CodeRequest) -> Result<CodeResult> {
        let request = self.code(place, code)?.header(ACCEPT, "application/json");
        let answer = self.send_code(request).await?.bytes().await;
        parse(&answer.map_err(|e| self.unknown_code(&e))?)
    }

    /// The same, event by event. Dropping the stream before its end stops the code. An error
    /// here other than [`Error::UnknownCode`] means that nothing ran.
    pub async fn execute_stream(&self, place: Place<'_>, code: &CodeRequest) -> Result<CodeStream> {
        let request = self.code(place, code)?.header(ACCEPT, "application/x-ndjson");
        Ok(CodeStream::new(self.send_code(request).await?))
    }

    /// `GET …/checkpoints`: the checkpoints of a context, oldest first.
    pub async fn checkpoints(&self, id: &str, context: &str) -> Result<Vec<CheckpointInfo>> {
        let request = self.request(Method::GET, &context_path(id, context, "/checkpoints")?);
        Ok(self.json::<CheckpointList>(request).await?.checkpoints)
    }

    /// `POST …/checkpoints`: keeps the context's state under a name.
    pub async fn create_checkpoint(
        &self,
        id: &str,
        context: &str,
        name: &str,
    ) -> Result<CheckpointInfo> {
        let request = self.request(Method::POST, &context_path(id, context, "/checkpoints")?);
        self.json(body(request, &CheckpointRequest { name: name.to_owned() })).await
    }

    /// `POST …/checkpoints/{name}/rollback`: the context is again what it was then.
    pub async fn rollback(&self, id: &str, context: &str, name: &str) -> Result<ContextInfo> {
        let path = checkpoint_path(id, context, name, "/rollback")?;
        self.json(self.request(Method::POST, &path)).await
    }

    /// `DELETE …/checkpoints/{name}`.
    pub async fn delete_checkpoint(&self, id: &str, context: &str, name: &str) -> Result<()> {
        let path = checkpoint_path(id, context, name, "")?;
        self.done(self.request(Method::DELETE, &path)).await
    }

    /// `GET /v1/bindings`: the engines that code can ask for, those that are not installed too.
    pub async fn bindings(&self) -> Result<Vec<BindingInfo>> {
        let request = self.request(Method::GET, "/v1/bindings");
        Ok(self.json::<BindingList>(request).await?.bindings)
    }

    /// `GET /v1/admin/engines`: the builds of engines that are installed, or that contexts need.
    pub async fn engines(&self) -> Result<Vec<EngineInfo>> {
        let request = self.request(Method::GET, "/v1/admin/engines");
        Ok(self.json::<EngineList>(request).await?.engines)
    }

    /// `POST …/env`: sets variables of the sandbox, or with `None` removes them.
    pub async fn set_env(&self, id: &str, env: &EnvRequest) -> Result<()> {
        let request = self.request(Method::POST, &sandbox_path(id, "/env")?);
        self.done(body(request, env)).await
    }

    fn code(&self, place: Place<'_>, code: &CodeRequest) -> Result<RequestBuilder> {
        Ok(body(self.request(Method::POST, &place.path()?), code))
    }

    async fn send_code(&self, request: RequestBuilder) -> Result<reqwest::Response> {
        self.send_command(request).await.map_err(of_code)
    }

    fn unknown_code(&self, error: &reqwest::Error) -> Error {
        of_code(self.unknown(error))
    }
}

fn of_code(error: Error) -> Error {
    match error {
        Error::Unknown(why) => Error::UnknownCode(why),
        other => other,
    }
}

/// The path of a context. What names nothing that could be one is refused before it is sent:
/// `.` and `..` would lead to another route.
fn context_path(id: &str, context: &str, rest: &str) -> Result<String> {
    let context = segment(context, || {
        types::Error::new(
            types::ErrorCode::ContextNotFound,
            format!("no context of this sandbox has the id {context:?}"),
        )
        .with("contextId", context)
    })?;
    sandbox_path(id, &format!("/contexts/{context}{rest}"))
}

fn checkpoint_path(id: &str, context: &str, name: &str, rest: &str) -> Result<String> {
    let name = segment(name, || {
        types::Error::new(
            types::ErrorCode::CheckpointNotFound,
            format!("no checkpoint of this context has the name {name:?}"),
        )
        .with("name", name)
    })?;
    context_path(id, context, &format!("/checkpoints/{name}{rest}"))
}

fn segment(text: &str, refusal: impl FnOnce() -> types::Error) -> Result<String> {
    if matches!(text, "" | "." | "..") {
        return Err(Error::Api(refusal()));
    }
    Ok(path_segment(text.as_bytes()))
}
