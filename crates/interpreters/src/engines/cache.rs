//! The engine cache: where installed engines lie.
//!
//! ```text
//! index.json      what is installed, newest last; replaced as a whole
//! lock            held by whoever changes the cache
//! seals.json      how the files of each build stood when they were last checked
//! modules/        KEY.cwasm: machine code
//! bases/          base-HASH.img (sparse) and base-HASH.json
//! files/          HASH/…: what contexts see read-only
//! wasm/           SHA256.wasm.zst: the modules, to compile again after an upgrade
//! work/           downloads and what is being built; may be removed at any time
//! ```

use super::error::at;
use super::{ENGINES, Error, catalogue, module_key};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use types::Language;

/// An installed engine. Paths are relative to the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineBuild {
    /// Its name.
    pub name: String,
    /// The language that it speaks.
    pub language: Language,
    /// The interpreter and its version.
    pub engine: String,
    /// SHA-256 of the original module, hex.
    pub wasm: String,
    /// BLAKE3 of the base image, hex.
    pub base: String,
    /// What it was made from, hex: where this is another one today, it is made anew.
    pub recipe: String,
    /// The compiled module.
    pub module: PathBuf,
    /// BLAKE3 of the compiled module, hex.
    pub module_hash: String,
    /// The base image.
    pub image: PathBuf,
    /// What is known of the base image: a [`super::BaseMeta`].
    pub meta: PathBuf,
    /// BLAKE3 of that file, hex; `None`: it was installed before there were such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_hash: Option<String>,
    /// Directories that its contexts see read-only.
    pub dirs: Vec<EngineDir>,
    /// When it was installed, ms since the epoch.
    pub installed_at: i64,
}

/// A directory that contexts see read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineDir {
    /// Where they see it.
    pub guest: String,
    /// Where it is, relative to the cache.
    pub host: PathBuf,
    /// Hash over names and contents, hex; `None`: it was installed before there were such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl EngineBuild {
    /// What a snapshot names: the first 16 hex digits of the module's hash and of the base's.
    pub fn build(&self) -> String {
        let head = |hash: &str| hash.get(..16).unwrap_or(hash).to_owned();
        head(&self.wasm) + &head(&self.base)
    }
}

/// The cache.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Index {
    version: u32,
    builds: Vec<EngineBuild>,
}

/// Held by whoever changes the cache.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is the lock while it is open")] File);

const VERSION: u32 = 1;

impl Cache {
    /// The cache in this directory, which need not be there.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path of an [`EngineBuild`] in full.
    pub fn path(&self, relative: &Path) -> PathBuf {
        self.dir.join(relative)
    }

    /// A directory of it that only its owner, or their group, may enter: code that runs with ids of its
    /// own cannot use what lies there.
    pub fn closed(&self) -> Option<PathBuf> {
        let all = [self.dir.clone(), self.dir.join("bases"), self.dir.join("files")];
        let closed = |dir: &PathBuf| dir.metadata().is_ok_and(|found| found.mode() & 0o001 == 0);
        all.into_iter().find(closed)
    }

    /// All that is installed, old builds among it, newest last. Nothing where there is no cache.
    ///
    /// # Errors
    /// Where the index cannot be read.
    pub fn builds(&self) -> Result<Vec<EngineBuild>, Error> {
        let path = self.dir.join("index.json");
        let text = match fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(at(&path))?,
        };
        let damaged = |what: String| Error::Damaged { file: "index.json".into(), what };
        let index: Index =
            serde_json::from_slice(&text).map_err(|e| damaged(format!("it is no index: {e}")))?;
        if index.version != VERSION {
            let what = format!("it has version {}, this program reads {VERSION}", index.version);
            return Err(damaged(what));
        }
        Ok(index.builds)
    }

    /// Notes that contexts of this data directory need engines of the cache. Where the cache is not
    /// the caller's to write to, nothing is noted.
    pub fn note_user(&self, data: &Path) {
        let name = blake3::hash(data.as_os_str().as_bytes()).to_hex();
        let file = self.dir.join("users").join(&name.as_str()[..16]);
        if !self.dir.is_dir() {
            return;
        }
        for (file, user) in self.noted() {
            if fs::symlink_metadata(user).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
                let _ = fs::remove_file(file);
            }
        }
        let noted = fs::create_dir_all(self.dir.join("users"))
            .and_then(|()| fs::write(&file, data.as_os_str().as_bytes()));
        if let Err(error) = noted {
            tracing::debug!(file = %file.display(), %error, "the cache does not know us");
        }
    }

    fn noted(&self) -> impl Iterator<Item = (PathBuf, PathBuf)> {
        let entries = fs::read_dir(self.dir.join("users")).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter_map(|file| {
            let user = OsString::from_vec(fs::read(&file).ok()?);
            Some((file, PathBuf::from(user)))
        })
    }

    /// The data directories that were noted.
    pub fn users(&self) -> Vec<PathBuf> {
        self.noted().map(|(_, user)| user).collect()
    }

    /// The newest build of each engine, in the catalogue's order.
    ///
    /// # Errors
    /// As [`Cache::builds`].
    pub fn current(&self) -> Result<Vec<EngineBuild>, Error> {
        let builds = self.builds()?;
        let newest = |name: &str| builds.iter().rev().find(|build| build.name == name).cloned();
        Ok(ENGINES.iter().filter_map(|spec| newest(spec.name)).collect())
    }

    /// The build that new contexts of this engine start from.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::NotInstalled`], and [`Error::OtherBuild`] where it must be
    /// compiled again.
    pub fn find(&self, name: &str) -> Result<EngineBuild, Error> {
        catalogue::find(name)?;
        let missing = || Error::NotInstalled { name: name.to_owned() };
        let build = self.current()?.into_iter().find(|build| build.name == name);
        let build = build.ok_or_else(missing)?;
        if self.usable(&build)? {
            return Ok(build);
        }
        Err(Error::OtherBuild { name: name.to_owned() })
    }

    /// Whether the compiled module of a build runs with this program on this processor.
    ///
    /// # Errors
    /// Where this processor is not supported.
    pub fn usable(&self, build: &EngineBuild) -> Result<bool, Error> {
        let spec = catalogue::find(&build.name)?;
        Ok(build.module == module_path(&module_key(&build.wasm, spec.exports)?))
    }

    /// Removes an engine with all of its builds, and the files that no other one needs.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], or where a file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        catalogue::find(name)?;
        let lock = self.lock()?;
        if !self.builds()?.iter().any(|build| build.name == name) {
            return Err(Error::NotInstalled { name: name.to_owned() });
        }
        self.forget(&lock, |build| build.name == name)
    }

    /// Removes the builds in whose place there is a newer one and that nobody needs, and the files that
    /// no other one needs; tells of them.
    ///
    /// # Errors
    /// Where a file cannot be removed.
    pub fn remove_old(
        &self,
        needed: impl Fn(&EngineBuild) -> bool,
    ) -> Result<Vec<EngineBuild>, Error> {
        let lock = self.lock()?;
        let current = self.current()?;
        let old = |build: &EngineBuild| !current.contains(build) && !needed(build);
        let gone = self.builds()?.into_iter().filter(&old).collect();
        self.forget(&lock, old)?;
        Ok(gone)
    }

    /// Adds a build, in the place of those of the same module and base.
    pub(crate) fn add(&self, lock: &Lock, build: EngineBuild) -> Result<(), Error> {
        let mut builds = self.builds()?;
        let same = |b: &EngineBuild| {
            (&b.name, &b.wasm, &b.base) == (&build.name, &build.wasm, &build.base)
        };
        builds.retain(|b| !same(b));
        builds.push(build);
        self.write_index(lock, builds)
    }

    /// Takes builds off the list, and removes what no other one needs.
    pub(crate) fn forget(
        &self,
        lock: &Lock,
        lost: impl Fn(&EngineBuild) -> bool,
    ) -> Result<(), Error> {
        let mut builds = self.builds()?;
        let before = builds.len();
        builds.retain(|build| !lost(build));
        if builds.len() == before {
            return Ok(());
        }
        self.write_index(lock, builds)?;
        self.sweep(lock)
    }

    fn write_index(&self, _lock: &Lock, builds: Vec<EngineBuild>) -> Result<(), Error> {
        let index = Index { version: VERSION, builds };
        let text = serde_json::to_vec_pretty(&index).map_err(std::io::Error::from);
        let path = self.dir.join("index.json");
        self.write(&path, &text.map_err(at(&path))?)
    }

    /// Writes a file as a whole: it is there with all of its bytes, or as it was before.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let parent = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent).map_err(at(parent))?;
        let mut file =
            tempfile::Builder::new().prefix(".new-").tempfile_in(parent).map_err(at(parent))?;
        // Whatever the mask of whoever writes: servers of other users read it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let written = file.write_all(bytes).and_then(|()| {
            file.as_file().set_permissions(mode)?;
            file.as_file().sync_all()
        });
        written.map_err(at(path))?;
        file.persist(path).map_err(|e| at(path)(e.error))?;
        File::open(parent).and_then(|dir| dir.sync_all()).map_err(at(parent))
    }

    /// Waits until nobody else changes the cache; makes it where there is none.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        self.lock_or(|| ())
    }

    /// The same; `waiting` is called where somebody does.
    pub(crate) fn lock_or(&self, waiting: impl FnOnce()) -> Result<Lock, Error> {
        fs::create_dir_all(&self.dir).map_err(at(&self.dir))?;
        let path = self.dir.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Lock(file)),
            Err(_) => waiting(),
        }
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Lock(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(at(path)(e.into())),
            }
        }
    }

    /// Removes what runs that were killed had begun to write.
    pub(crate) fn clear(&self, _lock: &Lock) -> Result<(), Error> {
        for kind in [".", "modules", "bases", "files", "wasm"] {
            let Ok(entries) = fs::read_dir(self.dir.join(kind)) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name();
                if [".new-", ".old-"]
                    .iter()
                    .any(|begun| name.as_bytes().starts_with(begun.as_bytes()))
                {
                    remove(&entry.path())?;
                }
            }
        }
        Ok(())
    }

    /// Removes what no build names.
    fn sweep(&self, _lock: &Lock) -> Result<(), Error> {
        let builds = self.builds()?;
        let mut used: Vec<PathBuf> = Vec::new();
        for build in &builds {
            used.extend([build.module.clone(), build.image.clone(), build.meta.clone()]);
            used.push(wasm_path(&build.wasm));
            // `files/HASH/…`: the first two parts.
            used.extend(build.dirs.iter().map(|dir| dir.host.iter().take(2).collect()));
        }
        for kind in ["modules", "bases", "files", "wasm"] {
            let Ok(entries) = fs::read_dir(self.dir.join(kind)) else { continue };
            for entry in entries.flatten() {
                let relative = Path::new(kind).join(entry.file_name());
                if used.contains(&relative) {
                    continue;
                }
                remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes a file, or a directory with all that is in it.
fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(at(path))
}

/// Where a compiled module lies.
pub(crate) fn module_path(key: &str) -> PathBuf {
    PathBuf::from("modules").join(format!("{key}.cwasm"))
}

/// Where a module as it came lies.
pub(crate) fn wasm_path(sha256: &str) -> PathBuf {
    PathBuf::from("wasm").join(format!("{sha256}.wasm.zst"))
}

/// Where a base image lies, and what is known of it.
pub(crate) fn base_paths(hash: &str) -> (PathBuf, PathBuf) {
    let name = format!("base-{}", hash.get(..32).unwrap_or(hash));
    let dir = Path::new("bases");
    (dir.join(format!("{name}.img")), dir.join(format!("{name}.json")))
}

/// The cache's place where nobody names one: `/var/cache/sandkeep` for root, else
/// `sandkeep` in the user's cache directory.
pub fn default_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        return "/var/cache/sandkeep".into();
    }
    let absolute = |name: &str| {
        let dir = PathBuf::from(std::env::var_os(name)?);
        dir.is_absolute().then_some(dir)
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("sandkeep")
}
