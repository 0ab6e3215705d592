//! How the server is reached.

use crate::cli::Global;
use crate::fail::Failure;
use crate::rest;
use client::Client;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use store::Store;

/// Where a server listens that was told nothing.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7700";

/// The administrator's socket in a data directory.
pub const ADMIN: &str = "admin.sock";

/// How often it is looked for a server that is just starting or ending.
const TRIES: usize = 3;

/// The data directory that was named, or the default: `/var/lib/sandkeep` for root, else below
/// the user's own data directory.
pub fn data_dir(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match named.filter(|p| !p.as_os_str().is_empty()) {
        Some(dir) => dir.to_owned(),
        None if rustix::process::geteuid().is_root() => PathBuf::from("/var/lib/sandkeep"),
        None => home_dir()?,
    };
    Ok(std::path::absolute(dir)?)
}

fn home_dir() -> anyhow::Result<PathBuf> {
    let var = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(data) = var("XDG_DATA_HOME") {
        return Ok(data.join("sandkeep"));
    }
    match var("HOME") {
        Some(home) => Ok(home.join(".local/share/sandkeep")),
        None => Err(Failure::new("there is no default data directory: HOME is not set")
            .hint("name one with --data DIR")
            .into()),
    }
}

/// The socket of a server on this data directory.
pub fn admin_socket(data: &Path) -> PathBuf {
    data.join(ADMIN)
}

/// Whether a file of a data directory is there. Not to be allowed to know is an error where the
/// directory was named: what is there may be in use. One that nobody named is not meant then.
fn is_there(path: &Path, named: bool) -> anyhow::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if named && error.kind() == ErrorKind::PermissionDenied => {
            let dir = path.parent().unwrap_or(path).display();
            let text = format!("this user may not look into the data directory {dir}");
            Err(Failure::new(text).hint("be the user whose it is, or use --url and a token").into())
        }
        Err(_) => Ok(false),
    }
}

/// The server that is meant: by `--url`, else by the data directory's socket, else the default
/// address. A data directory that was named and has no socket is not passed over: the server at
/// the default address may be another one.
pub fn client(global: &Global) -> anyhow::Result<Client> {
    let owner = global.owner.clone();
    let token = std::env::var("SANDKEEP_TOKEN").ok().filter(|t| !t.is_empty());
    if let Some(url) = global.url.as_deref().filter(|u| !u.is_empty()) {
        return match url.strip_prefix("unix:") {
            Some(path) => Ok(Client::unix(Path::new(path), token.as_deref(), owner)?),
            None => Ok(Client::new(url, token.as_deref(), owner)?),
        };
    }
    let data = data_dir(global.data.as_deref());
    if let Ok(data) = &data {
        let socket = admin_socket(data);
        let named = global.data.is_some();
        if is_there(&socket, named)? {
            return Ok(Client::unix(&socket, None, owner)?);
        }
        if named {
            let message = format!("no server uses the data directory {}", data.display());
            let start = format!("start it with `sandkeep serve --data {}`", data.display());
            return Err(Failure::new(message).hint(start).into());
        }
    }
    Ok(Client::new(&format!("http://{DEFAULT_LISTEN}"), token.as_deref(), owner)?)
}

/// Asks the server that is meant, as [`client`] has it; where no server uses the data directory,
/// what is kept there. For verbs that read. Nothing is held any more when this is done: what is
/// made of the answer may take as long as a reader likes.
pub async fn read<T>(
    global: &Global,
    ask: impl AsyncFnOnce(&Client) -> client::Result<T>,
) -> anyhow::Result<T> {
    let Ok(data) = data_dir(global.data.as_deref()) else {
        return Ok(ask(&client(global)?).await?);
    };
    match find(global, &data, false).await? {
        Found::Here(store) => rest::read(store, &data, global.owner.clone(), ask).await,
        Found::Server(_) | Found::Elsewhere => Ok(ask(&client(global)?).await?),
    }
}

/// Who has a data directory.
pub enum Held {
    /// A server, or the one that was named.
    Server(Client),
    /// No server uses it: we do, and the lock keeps one from starting meanwhile.
    Here(Store, PathBuf),
}

/// The server of `--url` or of the data directory; where no server uses the directory, its store.
/// `make`: one that is empty gets a store; else only a server can help there. Where nobody said
/// which directory, a server that all other verbs would ask is not passed over for the default one.
pub async fn held(global: &Global, make: bool) -> anyhow::Result<Held> {
    let data = data_dir(global.data.as_deref())?;
    match find(global, &data, make).await? {
        Found::Server(client) => Ok(Held::Server(client)),
        Found::Here(store) => Ok(Held::Here(store, data)),
        Found::Elsewhere => Err(elsewhere(&data).into()),
    }
}

fn elsewhere(data: &Path) -> Failure {
    let url = format!("http://{DEFAULT_LISTEN}");
    let message =
        format!("a server answers at {url}, and it does not use the directory {}", data.display());
    Failure::new(message)
        .hint("say which is meant: --data DIR for a directory, as the user whose it is")
        .hint(format!("or --url {url}, with a token of the scope admin in SANDKEEP_TOKEN"))
}

enum Found {
    Server(Client),
    Here(Store),
    /// Nobody uses the default directory, and a server answers at the default address.
    Elsewhere,
}

async fn find(global: &Global, data: &Path, make: bool) -> anyhow::Result<Found> {
    if global.url.as_deref().is_some_and(|url| !url.is_empty()) {
        return Ok(Found::Server(client(global)?));
    }
    let (socket, named) = (admin_socket(data), global.data.is_some());
    let mut tries = 0;
    loop {
        if is_there(&socket, named)? {
            let client = Client::unix(&socket, None, None)?;
            match client.healthz().await {
                // One that was killed leaves its socket behind.
                Err(client::Error::Connect { .. }) => {}
                _ => return Ok(Found::Server(client)),
            }
        }
        // Of a restore that was not finished the store tells.
        let bare = !is_there(&data.join("store.db"), named)?
            && !is_there(&data.join(store::UNFINISHED), named)?;
        if bare && !make {
            return Ok(Found::Server(client(global)?));
        }
        if global.data.is_none() {
            let other = Client::new(&format!("http://{DEFAULT_LISTEN}"), None, None)?;
            if !matches!(other.healthz().await, Err(client::Error::Connect { .. })) {
                return Ok(Found::Elsewhere);
            }
        }
        tries += 1;
        match Store::open(store::Options { dir: data.to_owned() }) {
            Ok(store) => return Ok(Found::Here(store)),
            // A server that is starting has the lock before it has the socket.
            Err(store::Error::Locked { .. }) if tries < TRIES => {}
            Err(error) => return Err(error.into()),
        }
    }
}
