//! A connection, and whether its client is still there.

use crate::refusal;
use hyper_util::rt::TokioIo;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::future::pending;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How often a client is looked for while a command of its runs.
const LOOK: Duration = Duration::from_millis(250);

/// A stream in the clear, of either kind.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What the server speaks through.
enum Channel {
    Plain(Arc<Socket>),
    Tls(Box<TlsStream<TcpStream>>),
}

macro_rules! both {
    ($socket:expr, $s:ident => $e:expr) => {
        match $socket {
            Socket::Tcp($s) => $e,
            Socket::Unix($s) => $e,
        }
    };
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        both!(self, s => s.as_fd())
    }
}

/// The stream that the server reads and writes; [`Client`] looks at the same one.
pub(crate) struct Stream {
    channel: Channel,
    /// The last write took only a part, so that the next one begins within something.
    partial: bool,
    /// What is written in place of the bytes at hand, and how much of it is.
    instead: Option<(Vec<u8>, usize)>,
}

impl Stream {
    pub fn new(socket: Socket) -> (TokioIo<Self>, Client) {
        let socket = Arc::new(socket);
        (Self::over(Channel::Plain(socket.clone())), Client(Some(socket)))
    }

    /// Greets a client that speaks TLS. Errors: it does not, or the socket fails.
    pub async fn tls(tcp: TcpStream, tls: TlsAcceptor) -> io::Result<(TokioIo<Self>, Client)> {
        // The stream is TLS's own; its client is seen through a second descriptor.
        let seen = Arc::new(tcp.as_fd().try_clone_to_owned()?);
        let stream = tls.accept(tcp).await?;
        Ok((Self::over(Channel::Tls(Box::new(stream))), Client(Some(seen))))
    }

    fn over(channel: Channel) -> TokioIo<Self> {
        TokioIo::new(Self { channel, partial: false, instead: None })
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = match &mut self.channel {
            Channel::Tls(stream) => return Pin::new(stream).poll_read(cx, buffer),
            Channel::Plain(socket) => socket,
        };
        loop {
            ready!(both!(&**socket, s => s.poll_read_ready(cx)))?;
            match both!(&**socket, s => s.try_read(buffer.initialize_unfilled())) {
                Ok(n) => {
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl Stream {
    fn poll_write_plain(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = match &mut self.channel {
            Channel::Tls(stream) => return Pin::new(stream).poll_write_vectored(cx, slices),
            Channel::Plain(socket) => socket,
        };
        loop {
            ready!(both!(&**socket, s => s.poll_write_ready(cx)))?;
            match both!(&**socket, s => s.try_write_vectored(slices)) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Writes `slices`, or what stands in their place; then they count as written.
    fn poll_write_slices(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let size: usize = slices.iter().map(|s| s.len()).sum();
        if let [only] = slices
            && !self.partial
            && self.instead.is_none()
        {
            self.instead = refusal::in_place_of(only).map(|bytes| (bytes, 0));
        }
        if let Some((bytes, mut written)) = self.instead.take() {
            while written < bytes.len() {
                match self.poll_write_plain(cx, &[IoSlice::new(&bytes[written..])]) {
                    Poll::Ready(n) => written += n?,
                    Poll::Pending => {
                        self.instead = Some((bytes, written));
                        return Poll::Pending;
                    }
                }
            }
            return Poll::Ready(Ok(size));
        }
        let written = ready!(self.poll_write_plain(cx, slices))?;
        self.partial = written < size;
        Poll::Ready(Ok(written))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, &[IoSlice::new(bytes)])
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_slices(cx, slices)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.channel {
            Channel::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Channel::Plain(_) => Poll::Ready(Ok(())),
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        use rustix::net::{Shutdown, shutdown};
        match &mut self.channel {
            Channel::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Channel::Plain(socket) => {
                Poll::Ready(shutdown(&**socket, Shutdown::Write).map_err(Into::into))
            }
        }
    }
}

/// The client of a connection, as its requests see it. The default one never goes away.
#[derive(Clone, Default)]
pub(crate) struct Client(Option<Arc<dyn AsFd + Send + Sync>>);

impl Client {
    /// Waits until the client closed its side. The server itself notices that only while it
    /// reads, which it does not once it has received more than one request. Cancel-safe.
    pub async fn gone(&self) {
        let Some(socket) = &self.0 else { return pending().await };
        loop {
            tokio::time::sleep(LOOK).await;
            let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::RDHUP)];
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if rustix::event::poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0) {
                return;
            }
        }
    }
}
