//! The door for callers: an address, with or without TLS, or a socket in the file system.

use crate::config::{Config, Listen};
use crate::fail::Failure;
use anyhow::Context as _;
use api::{Listener, Peers, Tls};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};

/// How often the files of a certificate are looked at.
const LOOK: Duration = Duration::from_secs(10);

/// A door that is open.
pub struct Door {
    /// What the server serves.
    pub listener: Listener,
    /// Its address, as a URL or `unix:PATH`.
    pub told: String,
    /// Where tokens can be read on their way.
    pub in_the_clear: bool,
    socket: Option<PathBuf>,
}

/// The address, where it is one that others than this machine can reach.
pub fn beyond_loopback(listen: &Listen) -> Option<SocketAddr> {
    match listen {
        Listen::Tcp(address) if !address.ip().is_loopback() => Some(*address),
        _ => None,
    }
}

impl Door {
    /// Opens the one that is configured.
    pub async fn open(config: &Config) -> anyhow::Result<Self> {
        match &config.listen {
            Listen::Tcp(address) => tcp(config, *address).await,
            Listen::Unix(path) => {
                let path = std::path::absolute(path)?;
                let failed = || format!("cannot listen on {}", path.display());
                let socket = bind(&path).with_context(failed)?;
                let peers = Arc::new(Peers::new(config.auth.owners()?));
                let told = format!("unix:{}", path.display());
                let listener = Listener::Peers(socket, peers);
                Ok(Self { listener, told, in_the_clear: false, socket: Some(path) })
            }
        }
    }

    /// What has to be removed at the end.
    pub fn leftover(&self) -> Option<PathBuf> {
        self.socket.clone()
    }
}

async fn tcp(config: &Config, address: SocketAddr) -> anyhow::Result<Door> {
    let tls = match (&config.tls_cert, &config.tls_key) {
        (Some(cert), Some(key)) => Some(Arc::new(Tls::open(cert, key)?)),
        _ => None,
    };
    let tcp = TcpListener::bind(address).await.map_err(|error| {
        Failure::new(format!("cannot listen on {address}: {error}"))
            .hint("choose another address with --listen; port 0 takes any free one")
    })?;
    let address = tcp.local_addr()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let in_the_clear = tls.is_none() && !address.ip().is_loopback();
    let listener = match tls {
        None => Listener::Tcp(tcp),
        Some(tls) => {
            tokio::spawn(renew(tls.clone()));
            Listener::Tls(tcp, tls)
        }
    };
    Ok(Door { listener, told: format!("{scheme}://{address}"), in_the_clear, socket: None })
}

/// Binds a socket that every user of the machine may connect to; who they are is asked then. A
/// leftover is replaced, a socket that somebody listens on is not.
fn bind(path: &Path) -> std::io::Result<UnixListener> {
    use std::io::{Error, ErrorKind};
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(Error::new(ErrorKind::AlreadyExists, "it is there, and no socket"));
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
            }
            _ => return Err(Error::new(ErrorKind::AddrInUse, "another server listens there")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// Reads the certificate again when its files change.
async fn renew(tls: Arc<Tls>) {
    let looks = |tls: &Tls| {
        tls.files().map(|file| {
            let there = std::fs::metadata(file).ok()?;
            Some((there.ino(), there.len(), there.mtime(), there.mtime_nsec()))
        })
    };
    let mut seen = looks(&tls);
    loop {
        tokio::time::sleep(LOOK).await;
        let now = looks(&tls);
        if now == seen {
            continue;
        }
        // Half of a pair fails, and is tried again when the other half is there.
        match tls.reload() {
            Ok(()) => tracing::info!("the certificate was read again"),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "the new certificate is not used, the old one stays");
            }
        }
        seen = now;
    }
}
