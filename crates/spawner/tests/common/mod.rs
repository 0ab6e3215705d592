//! A root file system, cgroups and a connection: what a daemon would bring.
#![allow(dead_code, reason = "each test file uses its part")]

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;
use spawner::protocol::{
    CgroupFile, Cgroups, CommandExit, CommandState, CreateRequest, ExecFailure, ExecRequest,
    ExitFile, FromSupervisor, InstanceFile, StopWhy, ToSupervisor, VERSION,
};
use spawner::{CreateFds, Helper, channel};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Far more than anything takes; reached only where something hangs.
pub const LONG: Duration = Duration::from_secs(60);
pub const BASE: u32 = 1_879_048_192;
pub const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub fn is_root() -> bool {
    geteuid().is_root()
}

pub fn helper() -> Helper {
    let built = option_env!("CARGO_BIN_EXE_spawner-helper").unwrap_or("/proc/self/exe");
    let exe = std::env::var_os("HELPER").unwrap_or_else(|| built.into());
    Helper::spawn_with(Path::new(&exe)).expect("start a helper")
}

pub fn dir_fd(path: &Path) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).expect("open a directory")
}

/// A directory tree on a file system that can be idmapped and overlaid.
pub fn scratch() -> TempDir {
    let base = option_env!("CARGO_TARGET_TMPDIR").filter(|_| is_root());
    match base {
        Some(base) => tempfile::tempdir_in(base),
        None => tempfile::tempdir(),
    }
    .expect("make a directory")
}

/// A root file system of busybox alone.
pub fn busybox(root: &Path) {
    for dir in ["bin", "etc", "tmp", "home/ada"] {
        fs::create_dir_all(root.join(dir)).expect("make a directory");
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|p| Path::new(p).exists());
    let busybox = busybox.expect("busybox-static is installed");
    fs::copy(busybox, root.join("bin/busybox")).expect("copy busybox");
    let list = std::process::Command::new(busybox).arg("--list").output().expect("run busybox");
    for name in String::from_utf8(list.stdout).expect("names").lines().filter(|n| *n != "busybox") {
        symlink("busybox", root.join("bin").join(name)).expect("make a link");
    }
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nada:x:1000:100::/:/bin/sh\n")
        .expect("write passwd");
    fs::write(root.join("etc/group"), "root:x:0:\nusers:x:100:\nwheel:x:10:ada\n")
        .expect("write group");
}

/// The machine's `/usr` with the links that lead into it.
pub fn host_skeleton(root: &Path) {
    for dir in ["etc", "usr", "tmp"] {
        fs::create_dir_all(root.join(dir)).expect("make a directory");
    }
    for dir in ["bin", "sbin", "lib", "lib64"] {
        if Path::new("/").join(dir).is_symlink() {
            symlink(format!("usr/{dir}"), root.join(dir)).expect("make a link");
        }
    }
    fs::copy("/etc/ld.so.cache", root.join("etc/ld.so.cache")).expect("copy the linker's cache");
    fs::write(root.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\n").expect("write passwd");
}

fn mounted(kind: &str, option: &str) -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").expect("read mounts");
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let has = option.is_empty() || fields[3].split(',').any(|o| o == option);
        (fields[2] == kind && has).then(|| PathBuf::from(fields[1]))
    })
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

fn unique() -> String {
    format!("{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::SeqCst))
}

/// Groups with limits, as far as this machine and user have any.
pub fn cgroups(memory: u64, pids: u32) -> Cgroups {
    let mut wanted = Cgroups::default();
    if !is_root() {
        return wanted;
    }
    let name = format!("spawner-test-{}", unique());
    let path = |root: PathBuf| root.join(&name).to_str().expect("a text").to_owned();
    let v2 = mounted("cgroup2", "").map(path);
    let limit = |dir: &str, file: &str, text: String| CgroupFile {
        path: format!("{dir}/{file}"),
        text,
        optional: false,
    };
    let path = |root: PathBuf| root.join(&name).to_str().expect("a text").to_owned();
    for controller in ["memory", "pids", "cpu", "freezer"] {
        let Some(dir) = mounted("cgroup", controller).map(path) else { continue };
        match controller {
            "memory" => {
                wanted.limits.push(limit(&dir, "memory.limit_in_bytes", memory.to_string()));
            }
            "pids" => wanted.limits.push(limit(&dir, "pids.max", pids.to_string())),
            _ => {}
        }
        wanted.v1.push(dir);
    }
    if wanted.v1.is_empty()
        && let Some(v2) = &v2
    {
        wanted.limits.push(limit(v2, "memory.max", memory.to_string()));
        wanted.limits.push(limit(v2, "pids.max", pids.to_string()));
    }
    wanted.v2 = v2;
    wanted
}

pub fn request() -> CreateRequest {
    CreateRequest {
        version: VERSION,
        object: "0123456789abcdef".repeat(4),
        generation: 3,
        hostname: "nest".to_owned(),
        entrypoint: None,
        env: vec![PATH.to_owned(), "A=b".to_owned()],
        cwd: "/workspace".to_owned(),
        host_image: false,
        id_base: is_root().then_some(BASE),
        idmap: true,
        cgroups: cgroups(256 << 20, 512),
        tmpfs_bytes: 16 << 20,
        inactivity_ms: 3_600_000,
    }
}

/// Directories of one instance.
pub struct Dirs {
    pub root: TempDir,
    image: PathBuf,
}

impl Dirs {
    pub fn new(fill: impl Fn(&Path)) -> Self {
        let root = scratch();
        for dir in ["run", "log", "workspace", "image"] {
            fs::create_dir(root.path().join(dir)).expect("make a directory");
        }
        let image = root.path().join("image");
        fill(&image);
        Self { root, image }
    }

    /// With an image that others use as well.
    pub fn of(image: &Path) -> Self {
        let mut made = Self::new(|_| ());
        image.clone_into(&mut made.image);
        made
    }

    pub fn path(&self, name: &str) -> PathBuf {
        if name == "image" { self.image.clone() } else { self.root.path().join(name) }
    }
}

/// How a command ended, with what it wrote.
#[derive(Debug)]
pub struct Ran {
    pub end: CommandExit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Ran {
    pub fn code(&self) -> i32 {
        let status = self.end.wait_status;
        if status & 0x7f == 0 { status >> 8 } else { 128 + (status & 0x7f) }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Pipes of a command.
pub struct Pipes {
    pub stdout: File,
    pub stderr: File,
}

/// An instance with the daemon's connection to it.
pub struct Instance {
    pub dirs: Dirs,
    pub connection: OwnedFd,
    pub file: InstanceFile,
    pub init: OwnedFd,
    pub backlog: VecDeque<FromSupervisor>,
}

pub fn set_patience(connection: &OwnedFd) {
    let timeout = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(connection, timeout, Some(LONG)).expect("set");
}

pub fn receive(connection: &OwnedFd) -> (FromSupervisor, Vec<OwnedFd>) {
    channel::recv(connection.as_fd()).expect("receive").expect("the supervisor lives")
}

/// Creates an instance or tells why not.
pub fn try_create(
    helper: &Helper,
    dirs: Dirs,
    request: &CreateRequest,
) -> Result<Instance, (Box<FromSupervisor>, Dirs)> {
    let [run, log, workspace, image] =
        ["run", "log", "workspace", "image"].map(|name| dir_fd(&dirs.path(name)));
    // One of the test's own stands for the machine's.
    let usr = Some(dirs.path("usr")).filter(|usr| usr.exists());
    let usr = usr.unwrap_or_else(|| PathBuf::from("/usr"));
    let usr = request.host_image.then(|| dir_fd(&usr));
    let fds = CreateFds {
        run: run.as_fd(),
        log: log.as_fd(),
        workspace: workspace.as_fd(),
        image: image.as_fd(),
        usr: usr.as_ref().map(AsFd::as_fd),
    };
    let connection = helper.create(request, fds).expect("ask the helper");
    set_patience(&connection);
    match receive(&connection) {
        (FromSupervisor::Ready { instance }, mut fds) => Ok(Instance {
            dirs,
            connection,
            file: instance,
            init: fds.remove(0),
            backlog: VecDeque::new(),
        }),
        (other, _) => Err((Box::new(other), dirs)),
    }
}

pub fn create(helper: &Helper, dirs: Dirs, request: &CreateRequest) -> Instance {
    match try_create(helper, dirs, request) {
        Ok(instance) => instance,
        Err((why, _)) => panic!("no instance: {why:?}"),
    }
}

pub fn command(id: &str, argv: &[&str]) -> ExecRequest {
    ExecRequest {
        id: id.to_owned(),
        argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
        env: vec![PATH.to_owned(), "HOME=/root".to_owned()],
        cwd: "/workspace".to_owned(),
        user: None,
        timeout_ms: None,
    }
}

impl Instance {
    pub fn new(helper: &Helper) -> Self {
        create(helper, Dirs::new(busybox), &request())
    }

    pub fn send(&self, message: &ToSupervisor) {
        channel::send(self.connection.as_fd(), message, &[]).expect("send");
    }

    /// The next message that `take` wants; others wait.
    pub fn wait<T>(&mut self, mut take: impl FnMut(&FromSupervisor) -> Option<T>) -> T {
        for at in 0..self.backlog.len() {
            if let Some(found) = take(&self.backlog[at]) {
                self.backlog.remove(at);
                return found;
            }
        }
        loop {
            let (message, _) = receive(&self.connection);
            if let Some(found) = take(&message) {
                return found;
            }
            self.backlog.push_back(message);
        }
    }

    pub fn start(&self, request: &ExecRequest) -> Pipes {
        self.start_with(request, &[])
    }

    pub fn start_with(&self, request: &ExecRequest, stdin: &[u8]) -> Pipes {
        let flags = rustix::pipe::PipeFlags::CLOEXEC;
        let (out_read, out_write) = rustix::pipe::pipe_with(flags).expect("pipe");
        let (err_read, err_write) = rustix::pipe::pipe_with(flags).expect("pipe");
        let stdin = spawner::sealed_memfd(stdin).expect("memfd");
        let fds = [&stdin, &out_write, &err_write, &out_read, &err_read].map(AsFd::as_fd);
        let message = ToSupervisor::Exec(request.clone());
        channel::send(self.connection.as_fd(), &message, &fds).expect("send");
        Pipes { stdout: out_read.into(), stderr: err_read.into() }
    }

    pub fn started(&mut self, id: &str) -> Result<(), (ExecFailure, String, i32)> {
        self.wait(|message| match message {
            FromSupervisor::Started { id: found, .. } if found == id => Some(Ok(())),
            FromSupervisor::ExecFailed { id: found, kind, step, errno } if found == id => {
                Some(Err((*kind, step.clone(), *errno)))
            }
            _ => None,
        })
    }

    pub fn exited(&mut self, id: &str) -> CommandExit {
        self.wait(|message| match message {
            FromSupervisor::Exited { id: found, end } if found == id => Some(end.clone()),
            FromSupervisor::ExecFailed { id: found, kind, step, errno } if found == id => {
                panic!("not started: {kind:?} {step} {errno}")
            }
            _ => None,
        })
    }

    /// Runs a command to its end, and forgets it.
    pub fn run(&mut self, request: &ExecRequest) -> Ran {
        let pipes = self.start(request);
        self.finish(request, pipes)
    }

    pub fn finish(&mut self, request: &ExecRequest, pipes: Pipes) -> Ran {
        let Pipes { mut stdout, mut stderr } = pipes;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| stderr.read_to_end(&mut err).expect("read"));
            stdout.read_to_end(&mut out).expect("read");
        });
        let end = self.exited(&request.id);
        self.send(&ToSupervisor::Forget { id: request.id.clone() });
        Ran { end, stdout: out, stderr: err }
    }

    /// The same without a thread, for what writes next to nothing.
    pub fn finish_alone(&mut self, request: &ExecRequest, mut pipes: Pipes) -> Ran {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        pipes.stdout.read_to_end(&mut stdout).expect("read");
        pipes.stderr.read_to_end(&mut stderr).expect("read");
        let end = self.exited(&request.id);
        self.send(&ToSupervisor::Forget { id: request.id.clone() });
        Ran { end, stdout, stderr }
    }

    pub fn sh(&mut self, id: &str, script: &str) -> Ran {
        self.run(&command(id, &["/bin/sh", "-c", script]))
    }

    pub fn stop(&mut self) -> ExitFile {
        self.send(&ToSupervisor::Stop { grace_ms: 0, why: StopWhy::Stopped, note: None });
        self.ended()
    }

    pub fn ended(&mut self) -> ExitFile {
        self.wait(|message| match message {
            FromSupervisor::Ended { exit } => Some(exit.clone()),
            _ => None,
        })
    }

    pub fn exit_file(&self) -> ExitFile {
        let text = fs::read(self.dirs.path("run/exit")).expect("the exit file");
        serde_json::from_slice(&text).expect("its text")
    }

    /// Connects as another daemon would.
    pub fn reconnect(&mut self) -> (u32, Vec<CommandState>) {
        let run = dir_fd(&self.dirs.path("run"));
        self.connection = spawner::connect(run.as_fd()).expect("connect");
        set_patience(&self.connection);
        self.backlog.clear();
        self.send(&ToSupervisor::Hello { version: VERSION });
        self.wait(|message| match message {
            FromSupervisor::Welcome { version, commands, .. } => Some((*version, commands.clone())),
            _ => None,
        })
    }

    /// Whether every process is gone and every group removed.
    pub fn leaves_nothing(&self) {
        assert!(!spawner::alive(self.init.as_fd()), "init lives");
        let groups = &self.file.cgroups;
        for dir in groups.v1.iter().chain(&groups.v2) {
            assert!(!Path::new(dir).exists(), "{dir} is left");
        }
        assert!(!self.dirs.path("run/sock").exists());
        let supervisor = format!("/proc/{}", self.file.supervisor_pid);
        wait_until("the supervisor ends", || !Path::new(&supervisor).exists());
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A test that failed must leave nothing either.
        if let Ok(supervisor) = spawner::pidfd_open(self.file.supervisor_pid)
            && spawner::alive(self.init.as_fd())
        {
            let _ = spawner::signal(supervisor.as_fd(), 9);
        }
        let _ = spawner::kill_remains(&self.file);
    }
}

pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn write_script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let mut file = File::create(path).expect("make a file");
    file.write_all(text.as_bytes()).expect("write");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
}
