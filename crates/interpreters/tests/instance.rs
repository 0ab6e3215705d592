//! Instances over a small module: snapshots, limits, what ends them.

#[path = "instance/many.rs"]
mod many;
#[path = "instance/small.rs"]
mod small;
#[path = "instance/snapshots.rs"]
mod snapshots;
#[path = "instance/stops.rs"]
mod stops;
