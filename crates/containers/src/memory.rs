//! How much memory the machine has left: what the kernel says, and what the control groups allow
//! in which this process lives, of either version.

use crate::cgroup::Mounts;
use std::io;
use std::path::Path;

/// Memory, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// In all.
    pub total: u64,
    /// That programs can have without anything being swapped out.
    pub available: u64,
}

/// The memory of this machine now: the smallest of what `/proc/meminfo` has and what each group
/// from our own up to the root leaves. A few small files are read.
pub fn memory() -> io::Result<Memory> {
    let text = std::fs::read_to_string("/proc/meminfo")?;
    let machine = parse(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "/proc/meminfo does not say what is available")
    })?;
    let mounts = Mounts::detect();
    let v2 = mounts.v2.iter().map(|place| (place, &V2));
    let of_memory = mounts.v1.iter().filter(|h| h.controllers.iter().any(|c| c == "memory"));
    let v1 = of_memory.map(|h| (&h.place, &V1));
    Ok(v2.chain(v1).fold(machine, |least, (place, files)| {
        let groups = place.own.ancestors().take_while(|dir| dir.starts_with(&place.root));
        groups.filter_map(|dir| group(dir, files)).fold(least, Memory::or_less)
    }))
}

/// How much of the last 10 s, in percent, nothing at all could run for want of memory. `None`:
/// this kernel does not say.
pub fn memory_pressure() -> Option<f64> {
    pressure(&std::fs::read_to_string("/proc/pressure/memory").ok()?)
}

/// The names of a group's files.
struct Files {
    limit: &'static str,
    used: &'static str,
    /// What of it goes as soon as it is wanted: a line of `memory.stat`.
    cache: &'static str,
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_inactive_file ",
};
const V2: Files = Files { limit: "memory.max", used: "memory.current", cache: "inactive_file " };

impl Memory {
    fn or_less(self, other: Self) -> Self {
        Self { total: self.total.min(other.total), available: self.available.min(other.available) }
    }
}

fn group(dir: &Path, files: &Files) -> Option<Memory> {
    let read = |name| std::fs::read_to_string(dir.join(name)).ok();
    // "max" is no number: there is no limit.
    let total = read(files.limit)?.trim().parse().ok()?;
    let used = read(files.used)?.trim().parse::<u64>().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache = stat.lines().find_map(|line| line.strip_prefix(files.cache)?.parse().ok());
    let held = used.saturating_sub(cache.unwrap_or(0));
    Some(Memory { total, available: total.saturating_sub(held) })
}

fn parse(meminfo: &str) -> Option<Memory> {
    let kib = |name: &str| -> Option<u64> {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Memory { total: kib("MemTotal:")?, available: kib("MemAvailable:")? })
}

fn pressure(text: &str) -> Option<f64> {
    let full = text.lines().find_map(|line| line.strip_prefix("full "))?;
    full.split(' ').find_map(|field| field.strip_prefix("avg10=")?.parse().ok())
}

#[cfg(test)]
mod tests;
