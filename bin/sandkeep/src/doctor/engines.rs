//! The interpreters of code contexts.

use super::Check;
use interpreters::engines::Cache;

/// Which are installed, and whether code can use them.
pub fn check(cache: &Cache) -> Check {
    let name = "engines";
    let dir = cache.dir().display();
    let install = format!("`sandkeep engines install --all --engine-cache {dir}` brings them");
    let current = match cache.current() {
        Ok(current) => current,
        Err(error) => return Check::note(name, error.to_string(), install),
    };
    if current.is_empty() {
        return Check::note(name, format!("none in {dir}; code cannot run"), install);
    }
    if rustix::process::geteuid().is_root()
        && let Some(closed) = cache.closed()
    {
        let closed = closed.display();
        let found = format!("{closed} is its owner's alone; code runs with ids of its own");
        return Check::note(name, found, format!("chmod 755 {closed}"));
    }
    let runs = |build: &_| cache.usable(build).unwrap_or_default();
    if let Some(build) = current.iter().find(|build| !runs(build)) {
        let found = format!("{} is compiled for another version or processor", build.name);
        return Check::note(name, found, install);
    }
    let all: Vec<&str> = current.iter().map(|build| &*build.name).collect();
    Check::ok(name, format!("{} in {dir}", all.join(", ")))
}
