//! `cargo xtask test-cgroup2`: the main job in a virtual machine whose cgroups are v2 alone.
//!
//! Many machines, build machines above all, still have version 1; a guest of QEMU without
//! hardware help boots Debian's cloud kernel in a few seconds and has version 2 with every
//! controller.

mod archive;
mod kernel;

use crate::{setup, sh};
use anyhow::{Context as _, bail, ensure};
use archive::Archive;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longest life of the guest; it needs a fraction of it.
const PATIENCE: Duration = Duration::from_secs(240);
/// What the guest runs.
const SCRIPT: &[u8] = include_bytes!("init.sh");

/// Makes the guest, runs it, and fails unless it says that all was well.
pub fn run(binary: Option<PathBuf>) -> anyhow::Result<()> {
    setup::run(setup::Wanted { cgroup2: true, ..Default::default() })?;
    let binary = match binary {
        Some(binary) => std::path::absolute(binary)?,
        None => sh::sandkeep(false)?,
    };
    let dir = sh::target_dir()?.join("guest");
    std::fs::create_dir_all(&dir)?;
    let kernel = kernel::get(&dir)?;
    let initramfs = dir.join(format!("initramfs-{}", std::process::id()));
    let result = pack(&binary, &kernel, &dir)
        .and_then(|bytes| Ok(std::fs::write(&initramfs, bytes)?))
        .and_then(|()| boot(&kernel.image, &initramfs));
    let _ = std::fs::remove_file(&initramfs);
    result
}

/// The guest's whole world: our binary, busybox, mke2fs, their libraries and some modules.
fn pack(binary: &Path, kernel: &kernel::Kernel, dir: &Path) -> anyhow::Result<Vec<u8>> {
    let mut archive = Archive::default();
    for name in ["bin", "own", "proc", "sys", "dev", "tmp", "data", "modules", "image", "image/bin"]
    {
        archive.directory(name);
    }
    // Debug information is most of it, and the guest has little memory.
    let stripped = dir.join(format!("sandkeep-{}", std::process::id()));
    sh::run(Command::new("strip").arg("-o").arg(&stripped).arg(binary))?;
    archive.file("bin/sandkeep", &std::fs::read(&stripped)?);
    std::fs::remove_file(&stripped)?;
    let busybox = std::fs::read(find("busybox")?)?;
    archive.file("bin/busybox", &busybox);
    archive.file("image/bin/busybox", &busybox);
    for applet in ["sh", "sleep", "uname", "cat", "tail", "seq", "setsid", "id", "touch", "grep"] {
        archive.symlink(&format!("image/bin/{applet}"), "busybox");
    }
    let mke2fs = find("mke2fs")?;
    archive.file("own/mke2fs", &std::fs::read(&mke2fs)?);
    for library in libraries(&[binary, &mke2fs])? {
        let name = library.strip_prefix("/").unwrap_or(&library).to_string_lossy().into_owned();
        archive.parents(&name);
        archive.file(&name, &std::fs::read(&library)?);
    }
    let mut order = String::new();
    for module in kernel.modules(&["overlay", "loop", "ext4"])? {
        archive.file(&format!("modules/{}.ko", module.name), &module.bytes);
        order += &module.name;
        order.push('\n');
    }
    archive.file("modules/order", order.as_bytes());
    archive.file("init", SCRIPT);
    Ok(archive.finish())
}

fn find(program: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let mut files = dirs.map(|dir| dir.join(program));
    files.find(|file| file.is_file()).with_context(|| format!("there is no {program}"))
}

/// The loader and every library that the programs are linked to, where they are.
fn libraries(programs: &[&Path]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for program in programs {
        let output = sh::output(Command::new("ldd").arg(program))?;
        let text = String::from_utf8(output.stdout)?;
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        all.extend(paths.map(PathBuf::from));
    }
    all.sort();
    all.dedup();
    Ok(all)
}

fn boot(kernel: &Path, initramfs: &Path) -> anyhow::Result<()> {
    sh::say("starting the guest");
    let mut guest = Command::new("qemu-system-x86_64")
        .args(["-M", "microvm,x-option-roms=off,rtc=off,acpi=off", "-accel", "tcg"])
        .args(["-cpu", "max", "-m", "768", "-nodefaults", "-nographic", "-serial", "stdio"])
        .args(["-no-reboot", "-append"])
        .arg("console=ttyS0 panic=-1 reboot=t quiet random.trust_cpu=on")
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run qemu-system-x86_64")?;
    let serial = guest.stdout.take().context("the guest has no serial line")?;
    let (lines, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(serial).split(b'\n').map_while(Result::ok) {
            let _ = lines.send(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
    });
    let start = std::time::Instant::now();
    let mut said = Vec::new();
    let in_time = loop {
        match told.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
            Ok(line) => {
                println!("guest: {line}");
                said.push(line);
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break true,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => break false,
        }
    };
    if !in_time {
        guest.kill()?;
    }
    guest.wait()?;
    let _ = reader.join();
    ensure!(in_time, "the guest did not come to its end within {PATIENCE:?}");
    match said.iter().rev().find_map(|line| line.strip_prefix("verdict: ")) {
        Some("ok") => Ok(()),
        Some(verdict) => bail!("the guest's verdict: {verdict}"),
        None => bail!("the guest ended without a verdict"),
    }
}
