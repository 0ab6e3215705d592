//! Debian's cloud kernel and its modules, unpacked beside the build and never installed.

use crate::{setup, sh};
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An unpacked kernel.
pub struct Kernel {
    /// What boots.
    pub image: PathBuf,
    modules: PathBuf,
}

/// A module, ready to be loaded.
pub struct Module {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The kernel of the machine's Debian release, fetched once.
pub fn get(dir: &Path) -> anyhow::Result<Kernel> {
    let unpacked = dir.join("kernel");
    if !unpacked.join("done").exists() {
        fetch(dir, &unpacked)?;
    }
    let boot = unpacked.join("boot");
    let image = std::fs::read_dir(&boot)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"vmlinuz")))
        .with_context(|| format!("there is no kernel in {}", boot.display()))?;
    let modules = ["usr/lib/modules", "lib/modules"].map(|sub| unpacked.join(sub));
    let modules = modules.into_iter().find(|path| path.is_dir()).context("it has no modules")?;
    Ok(Kernel { image, modules })
}

/// Fetches the kernel; where the package lists are missing or old, once more with new ones.
fn fetch(dir: &Path, unpacked: &Path) -> anyhow::Result<()> {
    let Err(first) = fetch_listed(dir, unpacked) else { return Ok(()) };
    sh::say(&format!("{first:#}; updating the package lists"));
    setup::update()?;
    fetch_listed(dir, unpacked)
}

fn fetch_listed(dir: &Path, unpacked: &Path) -> anyhow::Result<()> {
    let architecture = sh::output(Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = String::from_utf8(architecture.stdout)?;
    ensure!(architecture.trim() == "amd64", "the guest is for amd64 alone so far");
    let depends =
        sh::output(Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]))?;
    let depends = String::from_utf8(depends.stdout)?;
    let package = depends
        .split_whitespace()
        .find(|word| word.starts_with("linux-image-") && word.ends_with("-cloud-amd64"))
        .filter(|word| *word != "linux-image-cloud-amd64")
        .or_else(|| depends.split_whitespace().filter(|w| w.ends_with("-cloud-amd64")).nth(1))
        .context("apt-cache knows no cloud kernel")?
        .to_owned();
    sh::say(&format!("fetching {package}"));
    let fresh = dir.join(format!("kernel-{}", std::process::id()));
    std::fs::create_dir_all(&fresh)?;
    let download = Command::new("apt-get")
        .args(["-qq", "download", &package])
        .current_dir(&fresh)
        .stdout(std::io::stderr())
        .status()?;
    ensure!(download.success(), "apt-get cannot download {package}");
    let deb = std::fs::read_dir(&fresh)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|e| e == "deb"))
        .context("apt-get downloaded nothing")?;
    sh::run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(&fresh))?;
    std::fs::remove_file(deb)?;
    std::fs::write(fresh.join("done"), package)?;
    // Another run may have been quicker; its kernel is as good.
    if std::fs::rename(&fresh, unpacked).is_err() {
        std::fs::remove_dir_all(&fresh)?;
    }
    Ok(())
}

impl Kernel {
    /// Modules and what they stand on, in the order in which they are to be loaded. One that
    /// is not there is taken to be built in.
    pub fn modules(&self, names: &[&str]) -> anyhow::Result<Vec<Module>> {
        let mut files = Vec::new();
        walk(&self.modules, &mut files)?;
        let mut loaded = Vec::new();
        for name in names {
            load(name, &files, &mut loaded)?;
        }
        Ok(loaded)
    }
}

fn load(name: &str, files: &[PathBuf], loaded: &mut Vec<Module>) -> anyhow::Result<()> {
    if loaded.iter().any(|module| module.name == name) {
        return Ok(());
    }
    let stem = |path: &Path| {
        let file = path.file_name().map(|n| n.to_string_lossy().replace('-', "_"));
        file.and_then(|f| f.split_once(".ko").map(|(stem, _)| stem.to_owned()))
    };
    let Some(file) = files.iter().find(|path| stem(path).as_deref() == Some(name)) else {
        return Ok(());
    };
    let bytes = if file.extension().is_some_and(|e| e == "xz") {
        sh::output(Command::new("xz").arg("-dc").arg(file))?.stdout
    } else {
        std::fs::read(file)?
    };
    for needed in information(&bytes, "depends").iter().flat_map(|d| d.split(',')) {
        load(&needed.replace('-', "_"), files, loaded)?;
    }
    // What a module asks for softly, it asks for at the first use: checksums of file systems.
    for wish in information(&bytes, "softdep").iter().flat_map(|d| d.split_whitespace()) {
        if !wish.ends_with(':') {
            load(&wish.replace('-', "_"), files, loaded)?;
        }
    }
    loaded.push(Module { name: name.to_owned(), bytes });
    Ok(())
}

/// What a module says of itself under a key.
fn information(module: &[u8], key: &str) -> Vec<String> {
    let key = format!("\0{key}=");
    let mut found = Vec::new();
    for start in 0..module.len().saturating_sub(key.len()) {
        if module[start..].starts_with(key.as_bytes()) {
            let text = &module[start + key.len()..];
            let text = text.split(|b| *b == 0).next().unwrap_or_default();
            if !text.is_empty() {
                found.push(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    found
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}
