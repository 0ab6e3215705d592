//! The server: accepts connections, within bounds, and lets them end when it shuts down.

use crate::connection::{Client, Socket, Stream};
use crate::peers::Peers;
use crate::tls::Tls;
use crate::{App, Limits, Listening, router};
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::Service as _;

/// A head of a request that is larger, bytes, is not read on; one that came at once may be up to
/// twice as large.
const HEAD: usize = 64 << 10;
/// Waits after an accept that failed for want of something; doubled up to the second.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Where the server listens.
#[derive(Debug)]
pub enum Listener {
    /// Callers prove who they are; in open mode it must be on loopback.
    Tcp(TcpListener),
    /// The same over TLS.
    Tls(TcpListener, Arc<Tls>),
    /// Callers are who the kernel says they are.
    Peers(UnixListener, Arc<Peers>),
    /// The administrator's socket: takes peers of this process's own uid, and root.
    Unix(UnixListener),
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Open mode, and not on loopback.
    #[error("without tokens the server listens on loopback only, not on {0}")]
    NotLoopback(SocketAddr),
    /// The listener has no address.
    #[error("the listener is of no use")]
    Listener(#[source] io::Error),
}

/// Serves until `shutdown` is ready, then takes no more connections and gives requests under
/// way [`Limits::shutdown_grace`]. Dropping the future drops all connections at once.
pub async fn serve(
    listener: Listener,
    app: App,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    if let Listener::Tcp(tcp) | Listener::Tls(tcp, _) = &listener {
        let address = tcp.local_addr().map_err(ServeError::Listener)?;
        if !app.keyring.asks() && !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
    }
    let limits = app.limits;
    let router = router(app);
    let (stop, stopping) = watch::channel(false);
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            // So that the set does not grow with connections that ended.
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((arrived, door, place)) = accepted else { continue };
        let router = router.clone();
        let stopping = stopping.clone();
        connections.spawn(async move {
            if let Some((io, client)) = arrived.greeted(limits, stopping.clone()).await {
                converse(io, client, door, router, limits, stopping).await;
            }
            drop(place);
        });
    }
    drop(listener);
    // Nobody listens where there is no connection.
    let _ = stop.send(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits.shutdown_grace, ended).await.is_err() {
        tracing::warn!(connections = connections.len(), "connections cut at shutdown");
    }
    connections.shutdown().await;
    Ok(())
}

/// A connection that was accepted.
enum Arrived {
    Plain(Socket),
    Tls(TcpStream, TlsAcceptor),
}

impl Arrived {
    /// The stream, once it speaks. A client has as long to greet as it has for a request's head.
    async fn greeted(
        self,
        limits: Limits,
        mut stopping: watch::Receiver<bool>,
    ) -> Option<(TokioIo<Stream>, Client)> {
        let (tcp, tls) = match self {
            Self::Plain(socket) => return Some(Stream::new(socket)),
            Self::Tls(tcp, tls) => (tcp, tls),
        };
        let greeting = tokio::time::timeout(limits.head_timeout, Stream::tls(tcp, tls));
        let greeted = tokio::select! {
            greeted = greeting => greeted,
            // A server that is gone has stopped as well.
            _ = stopping.wait_for(|stop| *stop) => return None,
        };
        match greeted {
            Ok(Ok(both)) => return Some(both),
            Ok(Err(error)) => tracing::debug!(%error, "a client does not speak TLS with us"),
            Err(_) => tracing::debug!("a client did not greet in time"),
        }
        None
    }
}

/// The next connection; `None` where it is refused. Cancel-safe.
async fn accept(
    listener: &Listener,
    places: &Arc<Semaphore>,
) -> Option<(Arrived, Listening, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    let mut wait = BACK_OFF.0;
    loop {
        let accepted = match listener {
            Listener::Tcp(l) | Listener::Tls(l, _) => l.accept().await.map(|(s, _)| Socket::Tcp(s)),
            Listener::Unix(l) | Listener::Peers(l, _) => {
                l.accept().await.map(|(s, _)| Socket::Unix(s))
            }
        };
        match accepted {
            Ok(Socket::Tcp(stream)) => {
                prepare(&stream);
                let arrived = match listener {
                    Listener::Tls(_, tls) => Arrived::Tls(stream, tls.acceptor()),
                    _ => Arrived::Plain(Socket::Tcp(stream)),
                };
                return Some((arrived, Listening::Tcp, place));
            }
            Ok(Socket::Unix(stream)) => {
                let door = match listener {
                    Listener::Peers(_, peers) => Listening::Peer(peers.grant(&stream)),
                    _ => is_admin(&stream).then_some(Listening::Admin)?,
                };
                return Some((Arrived::Plain(Socket::Unix(stream)), door, place));
            }
            Err(e) if is_of_one_connection(&e) => {}
            Err(e) => {
                tracing::warn!(error = %e, "cannot accept connections");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(BACK_OFF.1);
            }
        }
    }
}

fn is_of_one_connection(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(e.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Answers go out at once, and a client whose machine vanished is noticed. Neither is vital.
fn prepare(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(30));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10));
    let _ = sockopt::set_tcp_keepcnt(stream, 3);
}

fn is_admin(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == 0 || peer.uid() == own => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "refused on the administrator's socket");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "the peer on the administrator's socket is not known");
            false
        }
    }
}

/// Serves one connection to its end.
async fn converse(
    io: TokioIo<Stream>,
    client: Client,
    door: Listening,
    router: axum::Router,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let used = Arc::new(AtomicBool::new(false));
    let using = used.clone();
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        using.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(door.clone());
        request.extensions_mut().insert::<Client>(client.clone());
        let mut router = router.clone();
        async move { router.call(request.map(Body::new)).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD)
        .serve_connection(io, service);
    let stop = async move {
        // A server that is gone has stopped as well.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        // One that never got a request would be waited for: there is nothing to end.
        () = stop => if !used.load(Ordering::Relaxed) { Ok(()) } else {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
