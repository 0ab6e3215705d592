//! Trees as tar archives.

mod pack;
mod pax;
mod unpack;

pub use pack::Archive;
pub use unpack::Unpacked;
