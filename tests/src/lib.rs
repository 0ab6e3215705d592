//! What the end-to-end tests stand on: a real server with its own data directory, asked over
//! real HTTP, killed and started again at will.

mod answer;
mod host;
mod receiver;
mod server;

pub use answer::Answer;
pub use host::{Found, eventually, processes, read_instance};
pub use receiver::{Received, Receiver, attribute};
pub use server::{Builder, Server, binary};

/// A client that goes straight to a server.
pub fn http() -> reqwest::Client {
    // reqwest has no cryptography of its own; there may be one by now, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}
