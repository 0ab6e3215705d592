//! Faults of the machine and of its operator: kill -9 of every part, a full disk, a reboot, an
//! upgrade, a damaged database. All real.

#[path = "faults/common.rs"]
mod common;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/kills.rs"]
mod kills;
#[path = "faults/opening.rs"]
mod opening;
#[path = "faults/parts.rs"]
mod parts;
#[path = "faults/restart.rs"]
mod restart;
