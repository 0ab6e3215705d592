//! A workspace in a directory of its own.
#![allow(dead_code)]

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use workspace::{FilePath, Limits, Workspace, Written};

pub struct Bench {
    /// Holds `workspace` and, beside it, what nobody may reach.
    pub dir: tempfile::TempDir,
    pub ws: Workspace,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::create_dir(dir.path().join("outside")).unwrap();
        fs::write(dir.path().join("outside/file"), "outside").unwrap();
        let ws = Workspace::open(open(dir.path().join("workspace")), limits).unwrap();
        Self { dir, ws }
    }

    /// The place of a path on the disk.
    pub fn on_disk(&self, path: &str) -> PathBuf {
        self.dir.path().join("workspace").join(path)
    }

    pub fn put(&self, path: &str, bytes: impl AsRef<[u8]>) -> workspace::Result<Written> {
        put(&self.ws, &p(path), bytes.as_ref())
    }

    pub fn get(&self, path: &str) -> workspace::Result<Vec<u8>> {
        get(&self.ws, &p(path))
    }

    pub fn names(&self, path: &str) -> Vec<String> {
        let list = self.ws.list(&p(path), true, true).unwrap();
        list.files.into_iter().map(|file| file.relative_path).collect()
    }
}

pub fn open(path: PathBuf) -> OwnedFd {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY;
    rustix::fs::open(path, flags, rustix::fs::Mode::empty()).unwrap()
}

pub fn p(path: &str) -> FilePath {
    FilePath::parse(path.as_bytes()).unwrap()
}

pub fn put(ws: &Workspace, path: &FilePath, bytes: &[u8]) -> workspace::Result<Written> {
    let mut upload = ws.write(path, None)?;
    for piece in bytes.chunks(64 << 10) {
        upload.write(piece)?;
    }
    upload.finish()
}

pub fn get(ws: &Workspace, path: &FilePath) -> workspace::Result<Vec<u8>> {
    let file = ws.read(path)?;
    let mut all = Vec::new();
    loop {
        let piece = file.at(all.len() as u64, 100_000)?;
        if piece.is_empty() {
            return Ok(all);
        }
        all.extend_from_slice(&piece);
    }
}

/// The errno of a failure.
pub fn errno<T>(result: workspace::Result<T>) -> &'static str {
    match result {
        Ok(_) => "none",
        Err(error) => error.errno(),
    }
}
