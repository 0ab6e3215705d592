//! The engines on the real thing. One binary, as linking takes longer than running.

mod common;
mod faults;
mod host;
mod images;
mod limits;
mod native;
mod oracle;
mod ordinary;
