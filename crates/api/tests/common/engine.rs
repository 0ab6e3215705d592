//! An engine whose instances are nothing but the processes of their commands.

use async_trait::async_trait;
use containers::{
    Adopted, Capabilities, Command, CommandEnd, CommandEvent, CommandInfo, CommandOutcome, Ending,
    Engine, Error, ExecError, IdRange, Identity, Instance, InstanceSpec, Main, RunningCommand,
    Usage,
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, watch};
use types::ObjectId;

pub struct Processes {
    dir: PathBuf,
}

impl Processes {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn directory(&self, object: &ObjectId, name: &str) -> Result<OwnedFd, Error> {
        let dir = self.dir.join(object.to_string()).join(name);
        let made = std::fs::create_dir_all(&dir).and_then(|()| std::fs::File::open(&dir));
        Ok(made.map_err(|e| Error::Failed(e.to_string()))?.into())
    }
}

struct One {
    generation: u64,
    cwd: PathBuf,
    ending: watch::Sender<Option<Ending>>,
}

fn now() -> i64 {
    objects::Clock::default().now_ms()
}

/// Ends a process group at drop.
struct Group(Pid);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

#[async_trait]
impl Engine for Processes {
    fn name(&self) -> &'static str {
        "processes"
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            memory_limit: true,
            pids_limit: true,
            cpu_limit: true,
            disk_limit: true,
            users: false,
            tree_kill: true,
            adopt: false,
        }
    }
    async fn adopt(&self) -> Result<Vec<Adopted>, Error> {
        Ok(Vec::new())
    }
    async fn start(&self, spec: InstanceSpec) -> Result<Arc<dyn Instance>, Error> {
        if spec.hostname.starts_with("broken") {
            return Err(Error::Failed(format!("mount {}/x: no", self.dir.display())));
        }
        let cwd = self.workspace(&spec.object).await?;
        Ok(Arc::new(One { generation: spec.generation, cwd, ending: watch::Sender::new(None) }))
    }
    async fn logs(&self, _: &ObjectId) -> Result<Vec<u8>, Error> {
        Ok(b"main\xff".to_vec())
    }
    async fn workspace(&self, object: &ObjectId) -> Result<PathBuf, Error> {
        self.directory(object, "workspace")?;
        Ok(self.dir.join(object.to_string()).join("workspace"))
    }
    async fn make_workspace(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.directory(object, "workspace")
    }
    async fn contexts_dir(&self, object: &ObjectId) -> Result<OwnedFd, Error> {
        self.directory(object, "contexts")
    }
    fn borrow_ids(&self) -> Result<Option<IdRange>, Error> {
        Ok(None)
    }
    async fn measure_workspace(&self, _object: &ObjectId) -> Result<(u64, u64), Error> {
        Ok((0, 0))
    }
    async fn purge(&self, object: &ObjectId) -> Result<(), Error> {
        let _ = std::fs::remove_dir_all(self.dir.join(object.to_string()));
        Ok(())
    }
    async fn image_exists(&self, name: &str) -> bool {
        name == "host"
    }
}

#[async_trait]
impl Instance for One {
    fn generation(&self) -> u64 {
        self.generation
    }
    fn identity(&self) -> Identity {
        Identity { boot_id: "here".into(), pid: 1, pidfs_inode: self.generation, start_time: 0 }
    }
    fn alive(&self) -> bool {
        self.ending.borrow().is_none()
    }
    async fn exec(&self, command: Command) -> Result<RunningCommand, ExecError> {
        let mut child = tokio::process::Command::new(&command.argv[0])
            .args(&command.argv[1..])
            .current_dir(&self.cwd)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|_| ExecError::NotFound(command.argv[0].clone()))?;
        let guard = Group(Pid::from_raw(child.id().unwrap() as i32).unwrap());
        let (tell, events) = mpsc::channel(4);
        let mut stdout = child.stdout.take().unwrap();
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut buffer).await {
                if tell.send(CommandEvent::Stdout(buffer[..n].to_vec())).await.is_err() {
                    break;
                }
            }
            let status = child.wait().await.unwrap();
            let status = match status.code() {
                Some(code) => Main::Code(code),
                None => Main::Signal(status.signal().unwrap()),
            };
            let outcome = CommandOutcome::Exited { status, timed_out: false, oom_killed: false };
            let _ = tell.send(CommandEvent::End(CommandEnd { outcome, at_ms: now() })).await;
        });
        Ok(RunningCommand { started_at_ms: now(), events, guard: Box::new(guard) })
    }
    async fn commands(&self) -> Vec<CommandInfo> {
        Vec::new()
    }
    async fn wait_command(&self, _: &str) -> CommandEnd {
        CommandEnd { outcome: CommandOutcome::Unknown, at_ms: now() }
    }
    async fn forget_command(&self, _: &str) {}
    async fn stop(&self, _: Duration, note: &str) -> Result<(), Error> {
        self.ending.send_if_modified(|ending| {
            let first = ending.is_none();
            if first {
                *ending = Some(Ending::Stopped { note: Some(note.to_owned()), at_ms: now() });
            }
            first
        });
        Ok(())
    }
    async fn ended(&self) -> Ending {
        let mut ending = self.ending.subscribe();
        let ended = ending.wait_for(Option::is_some).await;
        ended.ok().and_then(|e| e.clone()).unwrap_or(Ending::Unknown { at_ms: now() })
    }
    async fn set_inactivity_timeout(&self, _: Duration) -> Result<(), Error> {
        Ok(())
    }
    async fn usage(&self) -> Result<Usage, Error> {
        Ok(Usage::default())
    }
    async fn release(&self) {}
}
