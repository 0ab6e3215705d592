//! The steps from a name to an engine that can be mapped.
//!
//! Each step leaves a file whose name says what it holds, written as a whole; a later run finds
//! it and goes on behind it. One run at a time changes the cache.

use super::cache::{self, EngineBuild, EngineDir, Lock};
use super::catalogue::{EngineSpec, Files, Source, Take};
use super::error::at;
use super::strip::Stripped;
use super::{
    Cache, Error, base, catalogue, compile, fetch, intl, module_key, quickjs, seal, strip, tree,
};
use crate::drivers;
use std::fs;
use std::path::{Path, PathBuf};

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another run changes the cache; this one waits for it.
    Waiting,
    /// A package is fetched.
    Fetching,
    /// It is unpacked.
    Unpacking,
    /// The module is built from C.
    Building,
    /// The module is compiled to machine code; it may take a minute.
    Compiling,
    /// The interpreter is started, and its memory kept.
    Starting,
    /// It is installed.
    Done,
    /// It was installed before.
    Current,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The engine.
    pub engine: &'static str,
    /// What is being done for it.
    pub step: Step,
    /// Bytes of the package that is fetched, about.
    pub bytes: Option<u64>,
}

/// Installs engines. Those that are installed as they would be now are left as they are.
///
/// It blocks, for minutes where a large module is compiled.
///
/// # Errors
/// The first failure; what was done before it stays, and a later run goes on from there.
pub fn install(
    cache: &Cache,
    names: &[&str],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<EngineBuild>, Error> {
    let specs: Vec<_> = names.iter().map(|name| catalogue::find(name)).collect::<Result<_, _>>()?;
    let mut builds = Vec::new();
    for spec in specs {
        let mut say = |step, bytes| progress(Progress { engine: spec.name, step, bytes });
        if let Some(build) = current(cache, spec)? {
            say(Step::Current, None);
            builds.push(build);
            continue;
        }
        let lock = cache.lock_or(|| say(Step::Waiting, None))?;
        // Who held the lock may have done it.
        let build = match current(cache, spec)? {
            Some(build) => build,
            None => {
                let build = Run { cache, spec, lock: &lock, say: &mut say }.all()?;
                // One whose base is damaged is of no use to the contexts that need it.
                let lost = |b: &EngineBuild| b.name == spec.name && check(cache, b).is_err();
                cache.forget(&lock, lost)?;
                seal::check_and_seal(cache, &build)?;
                cache.clear(&lock)?;
                build
            }
        };
        say(Step::Done, None);
        builds.push(build);
    }
    let work = cache.dir().join("work");
    if work.exists() {
        let _lock = cache.lock()?;
        match fs::remove_dir_all(&work) {
            // Another run has ended meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.map_err(at(&work))?,
        }
    }
    Ok(builds)
}

/// The engine as it is installed, where a run would make it the same again.
fn current(cache: &Cache, spec: &EngineSpec) -> Result<Option<EngineBuild>, Error> {
    let build = cache.current()?.into_iter().find(|build| build.name == spec.name);
    let Some(build) = build.filter(|build| build.recipe == recipe(spec)) else { return Ok(None) };
    Ok((cache.usable(&build)? && seal::check_and_seal(cache, &build).is_ok()).then_some(build))
}

/// Hash over all that an engine is made from, hex, but for the compiler and the processor.
fn recipe(spec: &EngineSpec) -> String {
    let mut hash = blake3::Hasher::new();
    let mut text = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    text(spec.name);
    match spec.source {
        Source::Package { .. } => text(spec.wasm.unwrap_or_default()),
        Source::QuickJs => text(&quickjs::recipe()),
    }
    spec.exports.iter().for_each(|name| text(name));
    for files in spec.files {
        text(files.sha256);
        text(files.guest);
    }
    if let Some(driver) = drivers::find(spec.name) {
        driver.sources().iter().for_each(|source| text(source));
    }
    text(&base::VERSION.to_string());
    hash.finalize().to_hex().to_string()
}

struct Run<'a> {
    cache: &'a Cache,
    spec: &'static EngineSpec,
    lock: &'a Lock,
    say: &'a mut dyn FnMut(Step, Option<u64>),
}

impl Run<'_> {
    fn all(mut self) -> Result<EngineBuild, Error> {
        // First, so that a program that is missing for it is named before anything is built.
        let dirs = self.files()?;
        let (sha256, wasm) = self.module()?;
        let stripped = strip(self.spec.name, &wasm, self.spec.exports)?;
        let (module, module_hash) = self.compiled(&sha256, &stripped)?;
        (self.say)(Step::Starting, None);
        let given = base::Given { spec: self.spec, wasm, sha256: sha256.clone(), stripped };
        let made = base::make(self.cache, given, &module, &dirs)?;
        let meta = self.cache.path(&made.meta);
        let meta_hash = blake3::hash(&fs::read(&meta).map_err(at(meta))?).to_hex().to_string();
        let build = EngineBuild {
            name: self.spec.name.to_owned(),
            language: self.spec.language,
            engine: self.spec.engine.to_owned(),
            wasm: sha256,
            base: made.hash,
            recipe: recipe(self.spec),
            module,
            module_hash,
            image: made.image,
            meta: made.meta,
            meta_hash: Some(meta_hash),
            dirs,
            installed_at: crate::wasi::epoch_ms(),
        };
        self.cache.add(self.lock, build.clone())?;
        Ok(build)
    }

    fn work(&self) -> Result<PathBuf, Error> {
        let work = self.cache.dir().join("work");
        fs::create_dir_all(&work).map_err(at(&work))?;
        Ok(work)
    }

    /// The module as it comes, and its SHA-256.
    fn module(&mut self) -> Result<(String, Vec<u8>), Error> {
        if let Some(sha256) = self.spec.wasm
            && let Some(wasm) = self.kept(sha256)?
        {
            return Ok((sha256.to_owned(), wasm));
        }
        let name = self.spec.name;
        let work = self.work()?;
        let wasm = match self.spec.source {
            Source::Package { package, file } => {
                let path = self.member(package, file)?;
                fs::read(&path).map_err(at(path))?
            }
            Source::QuickJs => {
                (self.say)(Step::Fetching, Some(catalogue::ZIG.bytes));
                quickjs::fetch(name, &work)?;
                (self.say)(Step::Building, None);
                quickjs::build(name, &work)?
            }
        };
        let found = fetch::sha256(&wasm);
        if let Some(wanted) = self.spec.wasm
            && found != wanted
        {
            let what = format!("the module of {name}");
            return Err(Error::Hash { what, found, wanted: wanted.to_owned() });
        }
        let path = self.cache.path(&cache::wasm_path(&found));
        self.cache.write(&path, &zstd::encode_all(&wasm[..], 3).map_err(at(&path))?)?;
        Ok((found, wasm))
    }

    /// A module of an earlier run.
    fn kept(&self, sha256: &str) -> Result<Option<Vec<u8>>, Error> {
        let relative = cache::wasm_path(sha256);
        let Ok(packed) = fs::read(self.cache.path(&relative)) else { return Ok(None) };
        let wasm = zstd::decode_all(&packed[..]).ok();
        // A damaged one is fetched again.
        Ok(wasm.filter(|wasm| fetch::sha256(wasm) == sha256))
    }

    /// The compiled module, relative to the cache, and its hash.
    fn compiled(&mut self, sha256: &str, module: &Stripped) -> Result<(PathBuf, String), Error> {
        let relative = cache::module_path(&module_key(sha256, self.spec.exports)?);
        let path = self.cache.path(&relative);
        let builds = self.cache.builds()?;
        let wanted = builds.iter().find(|b| b.module == relative).map(|b| &b.module_hash);
        let hash = |code: &[u8]| blake3::hash(code).to_hex().to_string();
        // One of a run that was broken off is whole: it was written so.
        let there = fs::read(&path).ok();
        let there = there.filter(|code| wanted.is_none_or(|wanted| *wanted == hash(code)));
        let code = match there {
            Some(code) => code,
            None => {
                (self.say)(Step::Compiling, None);
                let code = compile::compile(self.spec.name, &module.wasm)?;
                self.cache.write(&path, &code)?;
                code
            }
        };
        let hash = hash(&code);
        Ok((relative, hash))
    }

    /// The directories that contexts see beside their own.
    fn files(&mut self) -> Result<Vec<EngineDir>, Error> {
        if let Source::QuickJs = self.spec.source {
            return Ok(vec![self.intl()?]);
        }
        let mut dirs = Vec::new();
        for files in self.spec.files {
            let Source::Package { package, .. } = self.spec.source else { continue };
            let key = blake3::hash(format!("{} {:?}", files.sha256, files.take).as_bytes());
            let host = Path::new("files").join(&key.to_hex()[..32]);
            let place = self.cache.path(&host);
            let inner = match files.take {
                Take::Whole(_) => host,
                Take::Inner(_) => host.join("content"),
            };
            let hash = match self.there(&inner)? {
                Some(hash) => hash,
                None => {
                    let archive = self.member(package, files.archive)?;
                    self.take(files, &archive, &place)?;
                    let path = self.cache.path(&inner);
                    tree::hash(&path).map_err(at(&path))?
                }
            };
            let guest = files.guest.to_owned();
            dirs.push(EngineDir { guest, host: inner, hash: Some(hash) });
        }
        Ok(dirs)
    }

    /// The hash of a directory of files that an earlier run left whole.
    fn there(&self, dir: &Path) -> Result<Option<String>, Error> {
        let builds = self.cache.builds()?;
        let known = builds.iter().flat_map(|build| &build.dirs).find(|known| known.host == dir);
        let wanted = known.and_then(|dir| dir.hash.clone());
        // One of a run that was broken off is whole: it was put there so.
        let there = tree::hash(&self.cache.path(dir)).ok();
        Ok(there.filter(|hash| wanted.as_ref().is_none_or(|wanted| wanted == hash)))
    }

    /// The library behind `Intl`.
    fn intl(&mut self) -> Result<EngineDir, Error> {
        let host = Path::new("files").join(&intl::recipe()[..32]);
        let place = self.cache.path(&host);
        let hash = match self.there(&host)? {
            Some(hash) => hash,
            None => {
                (self.say)(Step::Fetching, Some(intl::bytes()));
                let work = self.work()?;
                let fresh = self.fresh(&place)?;
                intl::take(self.spec.name, &work, fresh.path())?;
                put(fresh, &place)?;
                tree::hash(&place).map_err(at(&place))?
            }
        };
        Ok(EngineDir { guest: intl::GUEST.to_owned(), host, hash: Some(hash) })
    }

    /// An empty directory beside `place`.
    fn fresh(&self, place: &Path) -> Result<tempfile::TempDir, Error> {
        let parent = place.parent().unwrap_or(place);
        fs::create_dir_all(parent).map_err(at(parent))?;
        let fresh = tempfile::Builder::new().prefix(".new-").tempdir_in(parent);
        let fresh = fresh.map_err(at(parent))?;
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(fresh.path(), mode).map_err(at(fresh.path()))?;
        Ok(fresh)
    }

    /// Puts what is wanted of an archive into a directory of the cache, all or nothing.
    fn take(&mut self, files: &Files, archive: &Path, place: &Path) -> Result<(), Error> {
        let found = fetch::sha256_file(archive)?;
        if found != files.sha256 {
            let what = files.archive.to_owned();
            return Err(Error::Hash { what, found, wanted: files.sha256.to_owned() });
        }
        let fresh = self.fresh(place)?;
        match files.take {
            Take::Whole(name) => {
                let to = fresh.path().join(name);
                fs::copy(archive, &to).map_err(at(to))?;
            }
            Take::Inner(member) => {
                (self.say)(Step::Unpacking, None);
                let work = self.work()?;
                let middle = tempfile::tempdir_in(&work).map_err(at(&work))?;
                let name = self.spec.name;
                fetch::unpack(name, archive, &[member], middle.path())?;
                let content = fresh.path().join("content");
                fetch::unpack(name, &middle.path().join(member), &[], &content)?;
            }
        }
        put(fresh, place)
    }

    /// A file of a package, unpacked.
    fn member(&mut self, package: &catalogue::Package, file: &str) -> Result<PathBuf, Error> {
        let work = self.work()?;
        (self.say)(Step::Fetching, Some(package.bytes));
        let archive = fetch::package(self.spec.name, package, &work)?;
        let home = work.join("unpacked").join(package.version);
        let path = home.join(file);
        if !path.is_file() {
            (self.say)(Step::Unpacking, None);
            let fresh = tempfile::tempdir_in(&work).map_err(at(&work))?;
            fetch::unpack(self.spec.name, &archive, &[file], fresh.path())?;
            let parent = path.parent().unwrap_or(&home);
            fs::create_dir_all(parent).map_err(at(parent))?;
            fs::rename(fresh.path().join(file), &path).map_err(at(&path))?;
        }
        Ok(path)
    }
}

/// Gives a directory its place. One that is damaged goes; who has it open keeps what is in it until
/// then.
fn put(fresh: tempfile::TempDir, place: &Path) -> Result<(), Error> {
    let parent = place.parent().unwrap_or(place);
    let damaged = tempfile::Builder::new().prefix(".old-").tempdir_in(parent);
    let damaged = damaged.map_err(at(parent))?;
    match fs::rename(place, damaged.path()) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(at(place)(e)),
        _ => {}
    }
    fs::rename(fresh.keep(), place).map_err(at(place))
}

/// Checks every file of the cache against its hash.
///
/// # Errors
/// [`Error::Damaged`] for the first that is not as it was written.
pub fn verify(cache: &Cache, progress: &mut dyn FnMut(&EngineBuild)) -> Result<(), Error> {
    for build in cache.builds()? {
        progress(&build);
        seal::check_and_seal(cache, &build)?;
        let file = cache::wasm_path(&build.wasm);
        let damaged = |what: String| Error::Damaged { file: file.clone(), what };
        let packed = fs::read(cache.path(&file)).map_err(|e| damaged(e.to_string()))?;
        let wasm = zstd::decode_all(&packed[..]).map_err(|e| damaged(e.to_string()))?;
        if fetch::sha256(&wasm) != build.wasm {
            return Err(damaged("its contents changed".into()));
        }
    }
    Ok(())
}

/// Checks what contexts of one build run with.
///
/// # Errors
/// [`Error::Damaged`].
pub fn check(cache: &Cache, build: &EngineBuild) -> Result<(), Error> {
    let files = [(&build.module, &build.module_hash), (&build.image, &build.base)];
    let meta = build.meta_hash.iter().map(|hash| (&build.meta, hash));
    for (file, wanted) in files.into_iter().chain(meta) {
        let mut hash = blake3::Hasher::new();
        let damaged = |what: String| Error::Damaged { file: file.clone(), what };
        let read = fs::File::open(cache.path(file)).and_then(|open| {
            hash.update_reader(open)?;
            Ok(())
        });
        read.map_err(|e| damaged(e.to_string()))?;
        if hash.finalize().to_hex().as_str() != wanted {
            return Err(damaged("its contents changed".into()));
        }
    }
    let meta = base::read_meta(cache, build)?;
    if (&meta.wasm, &meta.base) != (&build.wasm, &build.base) {
        let what = "it is of another base image".to_owned();
        return Err(Error::Damaged { file: build.meta.clone(), what });
    }
    for dir in &build.dirs {
        let damaged = |what: String| Error::Damaged { file: dir.host.clone(), what };
        let found = tree::hash(&cache.path(&dir.host)).map_err(|e| damaged(e.to_string()))?;
        if dir.hash.as_ref().is_some_and(|wanted| *wanted != found) {
            return Err(damaged("its contents changed".into()));
        }
    }
    Ok(())
}
