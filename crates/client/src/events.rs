//! What happened, as pages and as it comes.

use crate::http::{Client, body};
use crate::lines::{Broken, Lines, event};
use crate::{Error, Result};
use futures::Stream;
use reqwest::Method;
use reqwest::header::ACCEPT;
use types::{
    Event, EventPage, EventType, Owner, RedeliverRequest, RedeliverResult, RunningList, SandboxId,
    WebhookInfo, WebhookList,
};

/// Which events.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    /// Only with greater ids.
    pub after: Option<i64>,
    /// Only of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only of these types; none: of all.
    pub types: Vec<EventType>,
    /// How many at most, 1–1000; absent: the server's choice. Not of streams.
    pub limit: Option<u32>,
    /// Of all owners, which administrators may ask; where the client names an owner, of that one.
    pub all_owners: bool,
    /// With `all_owners`: only of this one.
    pub owner: Option<Owner>,
}

impl EventQuery {
    fn path(&self) -> &'static str {
        if self.all_owners { "/v1/admin/events" } else { "/v1/events" }
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let types: Vec<&str> = self.types.iter().map(|kind| kind.as_str()).collect();
        let all = [
            ("after", self.after.map(|n| n.to_string())),
            ("sandbox", self.sandbox.as_ref().map(SandboxId::to_string)),
            ("type", (!types.is_empty()).then(|| types.join(","))),
            ("limit", self.limit.map(|n| n.to_string())),
            ("owner", self.owner.as_ref().filter(|_| self.all_owners).map(Owner::to_string)),
        ];
        all.into_iter().filter_map(|(k, v)| Some((k, v?))).collect()
    }
}

impl Client {
    /// `GET /v1/events`: a page, oldest first.
    pub async fn events(&self, query: &EventQuery) -> Result<EventPage> {
        self.json(self.request(Method::GET, query.path()).query(&query.pairs())).await
    }

    /// `GET /v1/admin/instances`: the running instances of all owners, or of one.
    pub async fn running_instances(&self, owner: Option<&Owner>) -> Result<RunningList> {
        let request = self.request(Method::GET, "/v1/admin/instances");
        let owner = owner.map(|owner| ("owner", owner.as_str()));
        self.json(request.query(owner.as_slice())).await
    }

    /// `GET /v1/admin/webhooks`: how the server's webhooks do.
    pub async fn webhooks(&self) -> Result<Vec<WebhookInfo>> {
        let list: WebhookList = self.json(self.request(Method::GET, "/v1/admin/webhooks")).await?;
        Ok(list.webhooks)
    }

    /// `POST /v1/admin/webhooks/redeliver`: sends one event again, or all behind one.
    pub async fn redeliver(&self, what: &RedeliverRequest) -> Result<RedeliverResult> {
        let request = self.request(Method::POST, "/v1/admin/webhooks/redeliver");
        self.json(body(request, what)).await
    }

    /// The same as they come: from behind `after`, else from now on.
    pub async fn follow_events(&self, query: &EventQuery) -> Result<EventStream> {
        let request = self.request(Method::GET, query.path()).query(&query.pairs());
        Ok(EventStream::new(self.send(request.header(ACCEPT, "text/event-stream")).await?))
    }
}

/// What a stream of events tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Followed {
    /// It stands; events with greater ids than this follow.
    Ready(i64),
    /// An event.
    Event(Box<Event>),
    /// Some are not kept any more: look anew at what there is.
    Missed,
}

/// Events as they come. Dropping it ends the stream.
#[derive(Debug)]
pub struct EventStream {
    lines: Lines,
    name: String,
    data: Vec<u8>,
}

impl EventStream {
    fn new(response: reqwest::Response) -> Self {
        Self { lines: Lines::new(response), name: String::new(), data: Vec::new() }
    }

    /// What comes next. Cancel-safe. It has no end of its own: [`Error::Protocol`] where it breaks
    /// off, [`Error::Api`] where the server says why; go on after the last event.
    pub async fn next(&mut self) -> Result<Followed> {
        self.read().await.map_err(|failure| match failure {
            Failure::Broken(broken) => {
                broken.into_error(|why| Error::Protocol(format!("the events broke off: {why}")))
            }
            Failure::Told(error) => Error::Api(error),
        })
    }

    /// The same as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Followed>> + Send {
        futures::stream::unfold(Some(self), |stream| async move {
            let mut stream = stream?;
            let next = stream.next().await;
            let stream = next.is_ok().then_some(stream);
            Some((next, stream))
        })
    }

    async fn read(&mut self) -> std::result::Result<Followed, Failure> {
        loop {
            let line = self.lines.next().await?;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
                if !data.is_empty() {
                    return told(&name, &data);
                }
            } else if let Some(data) = line.strip_prefix(b"data:") {
                self.data.extend_from_slice(data.strip_prefix(b" ").unwrap_or(data));
                self.data.push(b'\n');
            } else if let Some(name) = line.strip_prefix(b"event:") {
                self.name = String::from_utf8_lossy(name).trim().to_owned();
            }
        }
    }
}

enum Failure {
    Broken(Broken),
    Told(types::Error),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

fn told(name: &str, data: &[u8]) -> std::result::Result<Followed, Failure> {
    #[derive(serde::Deserialize)]
    struct Ready {
        after: i64,
    }
    Ok(match name {
        "ready" => Followed::Ready(event::<Ready>(data)?.after),
        "missed" => Followed::Missed,
        "error" => return Err(Failure::Told(event::<types::ErrorBody>(data)?.into())),
        _ => Followed::Event(Box::new(event(data)?)),
    })
}
