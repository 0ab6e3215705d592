//! Who is at the other end of a socket of this machine: the kernel says so.

use std::collections::HashMap;
use tokio::net::UnixStream;
use types::{Grant, Owner, Scope};

/// Users of this machine, and who they are here.
#[derive(Debug)]
pub struct Peers(HashMap<u32, Grant>);

impl Peers {
    /// These user ids are these owners. The server's own user and root are administrators, unless
    /// they are among them.
    pub fn new(owners: impl IntoIterator<Item = (u32, Owner)>) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let admins = [0, own].map(|uid| (uid, Grant::Scope(Scope::Admin)));
        let owners = owners.into_iter().map(|(uid, owner)| (uid, Grant::Owner(owner)));
        Self(admins.into_iter().chain(owners).collect())
    }

    /// Who is at the other end; `None`: nobody that is known.
    pub(crate) fn grant(&self, stream: &UnixStream) -> Option<Grant> {
        match stream.peer_cred() {
            Ok(peer) => self.0.get(&peer.uid()).cloned(),
            Err(error) => {
                tracing::warn!(%error, "the peer on a socket is not known");
                None
            }
        }
    }
}
