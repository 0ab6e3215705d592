//! A data directory that no server uses, read by the program itself.

use crate::output::say;
use crate::socket::Socket;
use api::{App, Listener};
use auth::Keyring;
use client::Client;
use containers::AtRest;
use objects::Clock;
use sandbox::Sandboxes;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use store::Store;
use types::Owner;

/// The socket on which the program answers itself.
const NAME: &str = "reading.sock";

/// Whom a verb asks that reads: a server, or the data directory itself.
pub struct Reading {
    client: Client,
    socket: Option<Socket>,
}

impl Reading {
    /// Reads what is kept in `data`, whose lock `store` has. The answers come from the same routes as a
    /// server's, so they are the same; nothing is started, ended or taken up.
    pub async fn at_rest(store: Store, data: &Path, owner: Option<Owner>) -> anyhow::Result<Self> {
        let clock = Clock::from_environment();
        store.restore_quotas().await?;
        let keys = auth::Options { clock: clock.clone(), ..auth::Options::default() };
        let keyring = Keyring::open(store.clone(), keys).await?;
        let sandboxes = Sandboxes::at_rest(store, Arc::new(AtRest::open(data)?), clock);
        let app = App::new(sandboxes, keyring).keeping_private([data.to_owned()]);
        let socket = Socket::bind(data, NAME)?;
        let listener = Listener::Unix(socket.listener()?);
        tokio::spawn(api::serve(listener, app, std::future::pending()));
        let client = Client::unix(&data.join(NAME), None, owner)?;
        say(format_args!("no server uses {}: this is what it keeps", data.display()));
        Ok(Self { client, socket: Some(socket) })
    }
}

impl From<Client> for Reading {
    fn from(client: Client) -> Self {
        Self { client, socket: None }
    }
}

impl Deref for Reading {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            socket.remove();
        }
    }
}
