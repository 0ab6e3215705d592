//! A listening server, and clients that speak to it byte by byte.

use super::Bench;
use api::Listener;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Longest wait for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    pub bench: Bench,
    pub address: SocketAddr,
    pub shutdown: Option<oneshot::Sender<()>>,
    pub task: JoinHandle<Result<(), api::ServeError>>,
}

impl Server {
    pub async fn new(limits: impl FnOnce(&mut api::Limits)) -> Self {
        let bench = Bench::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut app = bench.app.clone();
        limits(&mut app.limits);
        let (shutdown, asked) = oneshot::channel::<()>();
        let task = tokio::spawn(api::serve(Listener::Tcp(listener), app, async move {
            let _ = asked.await;
        }));
        Self { bench, address, shutdown: Some(shutdown), task }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and returns all that comes back until the server closes.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        all(&mut stream).await
    }
}

/// All until the peer closes.
pub async fn all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the server neither answers nor closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Reads until `text` was seen, and returns all that was read.
pub async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        while !String::from_utf8_lossy(&bytes).contains(text) {
            match stream.read(&mut buffer).await {
                Ok(n @ 1..) => bytes.extend_from_slice(&buffer[..n]),
                other => panic!("{other:?} after {:?}", String::from_utf8_lossy(&bytes)),
            }
        }
    };
    let ended = tokio::time::timeout(PATIENCE, reading).await;
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    assert!(ended.is_ok(), "no {text:?} in {bytes:?}");
    bytes
}

/// A POST in JSON.
pub fn post(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         {headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Waits until `done`.
pub async fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "never: {what}");
}
