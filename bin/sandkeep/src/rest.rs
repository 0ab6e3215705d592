//! A data directory that no server uses, read by the program itself.

use crate::output::say;
use crate::socket::Socket;
use api::{App, Listener};
use auth::Keyring;
use client::Client;
use containers::AtRest;
use objects::Clock;
use sandbox::Sandboxes;
use std::path::Path;
use std::sync::Arc;
use store::Store;
use types::Owner;

/// The socket on which the program answers itself.
const NAME: &str = "reading.sock";

/// Asks what is kept in `data`, whose lock `store` has, and gives the lock up. The answers come from
/// the same routes as a server's, so they are the same; nothing is started, ended or taken up.
pub async fn read<T>(
    store: Store,
    data: &Path,
    owner: Option<Owner>,
    ask: impl AsyncFnOnce(&Client) -> client::Result<T>,
) -> anyhow::Result<T> {
    let clock = Clock::from_environment();
    store.restore_quotas().await?;
    let keys = auth::Options { clock: clock.clone(), ..auth::Options::default() };
    let keyring = Keyring::open(store.clone(), keys).await?;
    let sandboxes = Sandboxes::at_rest(store.clone(), Arc::new(AtRest::open(data)?), clock);
    let app = App::new(sandboxes, keyring).keeping_private([data.to_owned()]);
    let socket = Socket::bind(data, NAME)?;
    let listener = Listener::Unix(socket.listener()?);
    let serving = tokio::spawn(api::serve(listener, app, std::future::pending()));
    say(format_args!("no server uses {}: this is what it keeps", data.display()));
    let answer = ask(&Client::unix(&data.join(NAME), None, owner)?).await;
    serving.abort();
    socket.remove();
    store.close().await;
    Ok(answer?)
}
