//! The engines on the real thing. One binary, as linking takes longer than running.

mod common;
mod contexts;
mod faults;
mod host;
mod images;
mod inodes;
mod leaks;
mod limits;
mod links;
mod native;
mod oracle;
mod ordinary;
