//! The least that a container can cost here: six namespaces, an overlay, a version 2 control
//! group, and no user namespace, no limits, no capabilities dropped, no seccomp.
//!
//! `floor ROOTFS SCRATCH ROUNDS GAP_MS` prints for each round one line with three numbers, µs:
//! create until the main process was executed, a command `true`, stop. It is what `cargo xtask
//! bench engine` holds the engine against; nothing else uses it.
#![allow(unsafe_code, reason = "it calls the kernel as directly as can be")]

use std::ffi::{CString, c_long};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NAMESPACES: usize = (libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS) as usize
    | libc::CLONE_NEWCGROUP as usize;
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Any system call; arguments are numbers, descriptors, or pointers to what outlives the call.
fn call(number: c_long, a: [usize; 5]) -> io::Result<usize> {
    // JUSTIFICATION: the point of this program is to measure the bare calls.
    // SAFETY: every pointer below comes from a value that the caller still holds, laid out as
    // the kernel documents; no call here writes elsewhere.
    let r = unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4]) };
    if r < 0 { Err(io::Error::last_os_error()) } else { Ok(r as usize) }
}

fn own(fd: RawFd) -> OwnedFd {
    // JUSTIFICATION: raw calls answer plain numbers.
    // SAFETY: the kernel has just made this descriptor for us alone.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn text(s: impl AsRef<Path>) -> CString {
    CString::new(s.as_ref().as_os_str().as_encoded_bytes()).expect("paths have no NUL")
}

fn mount(what: &str, to: &str, kind: &str, flags: u64, data: &str) -> io::Result<()> {
    let [what, to, kind, data] = [what, to, kind, data].map(text);
    let pointers = [&what, &to, &kind].map(|t| t.as_ptr() as usize);
    let [what, to, kind] = pointers;
    call(libc::SYS_mount, [what, to, kind, flags as usize, data.as_ptr() as usize]).map(drop)
}

/// clone3 as fork; `None` in the child.
fn fork(new: usize, group: &fs::File) -> io::Result<Option<(usize, OwnedFd)>> {
    let mut pidfd: RawFd = -1;
    let mut args = [0u64; 11];
    args[0] = new as u64 | libc::CLONE_PIDFD as u64 | INTO_CGROUP;
    args[1] = &raw mut pidfd as u64;
    args[4] = libc::SIGCHLD as u64;
    args[10] = group.as_raw_fd() as u64;
    let pid = call(libc::SYS_clone3, [args.as_ptr() as usize, size_of_val(&args), 0, 0, 0])?;
    Ok((pid != 0).then(|| (pid, own(pidfd))))
}

fn wait(pid: usize) -> io::Result<()> {
    call(libc::SYS_wait4, [pid, 0, 0, 0, 0]).map(drop)
}

fn pipe() -> io::Result<(fs::File, fs::File)> {
    let mut ends = [0 as RawFd; 2];
    call(libc::SYS_pipe2, [ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0])?;
    Ok((own(ends[0]).into(), own(ends[1]).into()))
}

/// Executes busybox as `argv`; comes back only where that failed.
fn execute(argv: &[&str]) -> io::Result<()> {
    let program = text("/bin/busybox");
    let argv: Vec<CString> = argv.iter().map(text).collect();
    let mut pointers: Vec<*const libc::c_char> = argv.iter().map(|a| a.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let none = [0usize];
    let (argv, none) = (pointers.as_ptr() as usize, none.as_ptr() as usize);
    call(libc::SYS_execve, [program.as_ptr() as usize, argv, none, 0, 0]).map(drop)
}

fn leave(what: &str, result: io::Result<()>) -> ! {
    if let Err(error) = result {
        eprintln!("floor: {what}: {error}");
    }
    std::process::exit(125)
}

/// Moves this process into a file system of its own.
fn enter_root(dir: &Path, rootfs: &Path) -> io::Result<()> {
    let merged = dir.join("m").display().to_string();
    mount("none", "/", "none", libc::MS_REC | libc::MS_PRIVATE, "")?;
    let (lower, dir) = (rootfs.display(), dir.display());
    let layers = format!("lowerdir={lower},upperdir={dir}/u,workdir={dir}/w");
    mount("overlay", &merged, "overlay", 0, &layers)?;
    std::env::set_current_dir(&merged)?;
    mount("proc", "proc", "proc", libc::MS_NOSUID | libc::MS_NODEV, "")?;
    mount("sysfs", "sys", "sysfs", libc::MS_RDONLY, "")?;
    mount("tmpfs", "dev", "tmpfs", libc::MS_NOSUID, "mode=755,size=65536k")?;
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        fs::write(format!("dev/{device}"), "")?;
        mount(&format!("/dev/{device}"), &format!("dev/{device}"), "none", libc::MS_BIND, "")?;
    }
    let here = text(".");
    call(libc::SYS_pivot_root, [here.as_ptr() as usize, here.as_ptr() as usize, 0, 0, 0])?;
    call(libc::SYS_umount2, [here.as_ptr() as usize, libc::MNT_DETACH as usize, 0, 0, 0]).map(drop)
}

struct Floor {
    rootfs: PathBuf,
    scratch: PathBuf,
    groups: PathBuf,
    own_pids: fs::File,
}

impl Floor {
    fn round(&self, n: usize, gap: Duration) -> io::Result<[Duration; 3]> {
        let name = format!("floor-{}-{n}", std::process::id());
        let (dir, group) = (self.scratch.join(&name), self.groups.join(&name));

        std::thread::sleep(gap);
        let start = Instant::now();
        for sub in ["", "u", "w", "m"] {
            fs::create_dir(dir.join(sub))?;
        }
        fs::create_dir(&group)?;
        let group_fd = fs::File::open(&group)?;
        let (mut executed, hold) = pipe()?;
        let Some((init, pidfd)) = fork(NAMESPACES, &group_fd)? else {
            leave("root", enter_root(&dir, &self.rootfs).and_then(|()| execute(&["sleep", "600"])))
        };
        drop(hold);
        // The write end closes when the main process is executed.
        executed.read_to_end(&mut Vec::new())?;
        let created = start.elapsed();
        let setns = |fd: RawFd, which: usize| call(libc::SYS_setns, [fd as usize, which, 0, 0, 0]);
        setns(pidfd.as_raw_fd(), libc::CLONE_NEWPID as usize)?;

        std::thread::sleep(gap);
        let start = Instant::now();
        let (mut output, stdout) = pipe()?;
        let Some((command, _)) = fork(0, &group_fd)? else {
            let rest = NAMESPACES & !(libc::CLONE_NEWPID as usize);
            let entered = setns(pidfd.as_raw_fd(), rest).and_then(|_| {
                call(libc::SYS_dup2, [stdout.as_raw_fd() as usize, 1, 0, 0, 0])?;
                execute(&["true"])
            });
            leave("command", entered)
        };
        drop(stdout);
        output.read_to_end(&mut Vec::new())?;
        wait(command)?;
        let ran = start.elapsed();

        std::thread::sleep(gap);
        let start = Instant::now();
        fs::write(group.join("cgroup.kill"), "1")?;
        wait(init)?;
        drop(group_fd);
        fs::remove_dir(&group)?;
        let stopped = start.elapsed();

        setns(self.own_pids.as_raw_fd(), libc::CLONE_NEWPID as usize)?;
        fs::remove_dir_all(&dir)?;
        Ok([created, ran, stopped])
    }
}

/// Where version 2 is mounted.
fn cgroup2() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "));
    let path = line.and_then(|line| line.split(' ').nth(4));
    path.map(PathBuf::from).ok_or_else(|| io::Error::other("no cgroup v2 is mounted"))
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rootfs, scratch, rounds, gap] = &arguments[..] else {
        return Err(io::Error::other("floor ROOTFS SCRATCH ROUNDS GAP_MS"));
    };
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let gap = Duration::from_millis(number(gap)?);
    let floor = Floor {
        rootfs: rootfs.into(),
        scratch: scratch.into(),
        groups: cgroup2()?,
        own_pids: fs::File::open("/proc/self/ns/pid")?,
    };
    for n in 0..number(rounds)? as usize {
        let [create, run, stop] = floor.round(n, gap)?.map(|time| time.as_micros());
        println!("{create} {run} {stop}");
    }
    Ok(())
}
