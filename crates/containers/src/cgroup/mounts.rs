//! What `/proc/self/mountinfo` and `/proc/self/cgroup` say.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mounted hierarchy: its root as mounted, and our own group in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub root: PathBuf,
    pub own: PathBuf,
}

/// One v1 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub controllers: Vec<String>,
    pub place: Place,
}

/// All cgroup mounts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mounts {
    pub v2: Option<Place>,
    pub v1: Vec<Hierarchy>,
}

impl Mounts {
    /// Those of this process.
    pub fn detect() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// From the two files' text.
    pub fn parse(mountinfo: &str, cgroup: &str) -> Self {
        let mut mounts = Self::default();
        for line in mountinfo.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let mut right = right.split(' ');
            let kind = right.next().unwrap_or_default();
            let options = right.nth(1).unwrap_or_default();
            let mut left = left.split(' ').skip(3);
            let (Some(mounted), Some(point)) = (left.next(), left.next()) else { continue };
            let (mounted, point) = (unescape(mounted), unescape(point));
            let place = |own: Option<&str>| {
                // The mount may show a part of the hierarchy only.
                let own = own.map(PathBuf::from).unwrap_or_default();
                let below = own.strip_prefix(&mounted).unwrap_or(std::path::Path::new(""));
                let below = below.strip_prefix("/").unwrap_or(below);
                Place { root: point.clone(), own: point.join(below) }
            };
            match kind {
                "cgroup2" if mounts.v2.is_none() => {
                    mounts.v2 = Some(place(own_group(cgroup, &[])));
                }
                "cgroup" => {
                    let controllers: Vec<String> = options
                        .split(',')
                        .filter(|o| is_controller(o))
                        .map(str::to_owned)
                        .collect();
                    let known = mounts.v1.iter().any(|h| h.controllers == controllers);
                    if !controllers.is_empty() && !known {
                        let place = place(own_group(cgroup, &controllers));
                        mounts.v1.push(Hierarchy { controllers, place });
                    }
                }
                _ => {}
            }
        }
        mounts
    }
}

/// Super block options of a v1 mount that are controllers.
fn is_controller(option: &str) -> bool {
    matches!(option, "memory" | "pids" | "cpu" | "cpuacct" | "freezer")
}

fn own_group<'a>(cgroup: &'a str, controllers: &[String]) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        let fits = match controllers.first() {
            None => names.is_empty(),
            Some(first) => names.split(',').any(|name| name == first),
        };
        fits.then_some(path)
    })
}

/// mountinfo writes blank, tab, newline and backslash as `\ooo`.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let code = (bytes[i] == b'\\')
            .then(|| text.get(i + 1..i + 4))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.unwrap_or(bytes[i]));
        i += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(out))
}
