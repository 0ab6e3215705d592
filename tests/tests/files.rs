//! Files below `/workspace`, over HTTP and from within an instance (section 9 of the contract).

#[path = "files/archives.rs"]
mod archives;
#[path = "files/life.rs"]
mod life;
#[path = "files/paths.rs"]
mod paths;
#[path = "files/rig.rs"]
mod rig;
#[path = "files/routes.rs"]
mod routes;
#[path = "files/shared.rs"]
mod shared;
#[path = "files/transfers.rs"]
mod transfers;
#[path = "files/watches.rs"]
mod watches;
