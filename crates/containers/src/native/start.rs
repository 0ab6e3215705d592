//! Starting an instance.

use super::core::{Claim, Core};
use super::driver;
use super::exec::environment;
use super::instance::{NativeInstance, Parts};
use super::link::Link;
use crate::ids::{Pool, Range};
use crate::layout::{Meta, write_json};
use crate::{Error, InstanceSpec, dirs, fail};
use spawner::CreateFds;
use spawner::protocol::{CreateRequest, FromSupervisor, InstanceFile, OLDEST, VERSION};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How long a start may take in the supervisor.
const READY_MAX: Duration = Duration::from_secs(60);
/// Longest host name that the kernel takes, bytes.
const HOSTNAME_MAX: usize = 64;

/// All of a start before the supervisor answers.
struct Made {
    meta: Meta,
    run: OwnedFd,
    range: Option<Range>,
    connection: OwnedFd,
}

/// Why a try failed, and whether another helper could do better.
enum Failure {
    HelperDied,
    For(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::For(error)
    }
}

/// Starts an instance; a failure leaves nothing behind.
pub(super) async fn start(
    core: Arc<Core>,
    spec: InstanceSpec,
) -> Result<Arc<NativeInstance>, Error> {
    check(&core, &spec)?;
    let claim = core.claim(spec.object)?;
    for _ in 0..2 {
        match once(&core, &spec).await {
            Ok(instance) => {
                claim.keep(&instance);
                tokio::spawn(driver::drive(instance.clone()));
                return Ok(instance);
            }
            Err(failure) => {
                clean(&core, &spec, &claim).await;
                if let Failure::For(error) = failure {
                    return Err(error);
                }
            }
        }
    }
    Err(Error::Failed("the helper or the supervisor died during the start, twice".to_owned()))
}

/// What this mode does not offer is refused where it is asked for.
fn check(core: &Core, spec: &InstanceSpec) -> Result<(), Error> {
    let usual = types::Limits::default();
    let can = core.capabilities;
    let asked = [
        ("memoryMib", can.memory_limit, spec.limits.memory_mib != usual.memory_mib),
        ("pids", can.pids_limit, spec.limits.pids != usual.pids),
        ("vcpu", can.cpu_limit, (spec.limits.vcpu - usual.vcpu).abs() > f64::EPSILON),
    ];
    if let Some((name, ..)) = asked.iter().find(|(_, can, asked)| *asked && !can) {
        return Err(Error::Unsupported(format!(
            "{name} cannot be enforced here: the server has no cgroup for it"
        )));
    }
    if spec.enable_internet {
        let text = "this engine gives instances no network beyond loopback";
        return Err(Error::Unsupported(text.to_owned()));
    }
    Ok(())
}

async fn once(core: &Arc<Core>, spec: &InstanceSpec) -> Result<Arc<NativeInstance>, Failure> {
    let (make_core, make_spec) = (core.clone(), spec.clone());
    let made = tokio::task::spawn_blocking(move || make(&make_core, &make_spec)).await;
    let made = made.map_err(|e| Error::Failed(format!("the start broke off: {e}")))??;
    let link = Link::new(made.connection).map_err(fail::step("watch the supervisor"))?;
    let answer = tokio::time::timeout(READY_MAX, link.recv()).await;
    let answer = answer.map_err(|_| Error::Failed("the supervisor does not answer".to_owned()))?;
    match answer.map_err(fail::step("hear of the start"))? {
        None => Err(Failure::HelperDied),
        Some((FromSupervisor::Ready { instance }, fds)) => Ok(NativeInstance::new(Parts {
            core: core.clone(),
            object: spec.object,
            file: instance,
            meta: made.meta,
            run: made.run,
            init: fds.into_iter().next(),
            link: Some(Arc::new(link)),
            range: made.range,
        })),
        Some((FromSupervisor::CreateFailed { step, errno, entrypoint }, _)) => {
            Err(failed(&step, errno, entrypoint, spec).into())
        }
        Some(_) => Err(Error::Failed("the supervisor speaks out of turn".to_owned()).into()),
    }
}

fn failed(step: &str, errno: i32, entrypoint: bool, spec: &InstanceSpec) -> Error {
    let error = io::Error::from_raw_os_error(errno);
    if entrypoint {
        let program = spec.entrypoint.as_ref().and_then(|e| e.first());
        let program = program.map(String::as_str).unwrap_or_default();
        return Error::Entrypoint(format!("the entrypoint {program:?} cannot be run: {error}"));
    }
    if errno == 0 {
        return Error::Failed(step.to_owned());
    }
    fail::step(step)(error)
}

/// The part before the supervisor's answer. Blocks.
fn make(core: &Core, spec: &InstanceSpec) -> Result<Made, Failure> {
    let layout = &core.layout;
    let name = spec.object.to_string();
    // Of an earlier instance that ended and was not released.
    layout.trash.throw(&layout.run, &name).map_err(fail::step("clear the run directory"))?;
    let run =
        dirs::ensure(&layout.run, &name, 0o700).map_err(fail::step("make the run directory"))?;
    let range = match core.ranges {
        true => Some(take(&core.pool)?),
        false => None,
    };
    let mut meta = Meta {
        generation: spec.generation,
        image_dir: String::new(),
        env: Default::default(),
        disk_mb: spec.limits.disk_mb,
        inactivity_ms: millis(spec.inactivity_timeout),
        id_base: range.as_ref().map(Range::base),
    };
    let image = core.images.open_for(&spec.image, |dir_name| {
        meta.image_dir = dir_name.to_owned();
        write_json(&run, "meta", &meta).map_err(fail::step("note the instance"))
    })?;
    meta.image_dir = image.dir_name.clone();
    if !image.env.is_empty() {
        meta.env = image.env.clone();
        write_json(&run, "meta", &meta).map_err(fail::step("note the instance"))?;
    }
    let logs = layout.logs(&spec.object).map_err(fail::step("make the log directory"))?;
    let workspace =
        layout.make_workspace(&spec.object).map_err(fail::step("make the workspace"))?;
    let mut hostname = spec.hostname.clone();
    hostname.truncate(HOSTNAME_MAX);
    let over = spec.env.iter().map(|(k, v)| (k, Some(v)));
    let request = CreateRequest {
        version: version(),
        object: name.clone(),
        generation: spec.generation,
        hostname,
        entrypoint: spec.entrypoint.clone(),
        env: environment(&meta.env, over),
        cwd: "/workspace".to_owned(),
        host_image: image.host,
        id_base: meta.id_base,
        idmap: core.ranges,
        cgroups: core.tree.plan(&name, &spec.limits),
        tmpfs_bytes: spec.limits.memory_mib.saturating_mul(1 << 20) / 2,
        inactivity_ms: meta.inactivity_ms,
    };
    let usr = match (image.host, &core.usr) {
        (false, _) => None,
        (true, Some(usr)) => Some(usr.as_fd()),
        (true, None) => return Err(Error::Failed("/usr cannot be opened".to_owned()).into()),
    };
    let helper = core.helper.get().map_err(fail::step("start the helper"))?;
    let fds = CreateFds {
        run: run.as_fd(),
        log: logs.as_fd(),
        workspace: workspace.as_fd(),
        image: image.rootfs.as_fd(),
        usr,
    };
    let connection = helper.create(&request, fds).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Failure::HelperDied,
        _ => Failure::For(fail::step("ask the helper")(e)),
    })?;
    Ok(Made { meta, run, range, connection })
}

/// What new supervisors speak. Tests of upgrades ask for the previous release's, so that there
/// is an instance of it to adopt.
fn version() -> u32 {
    let asked = std::env::var("SANDKEEP_TEST_PROTOCOL").ok().and_then(|v| v.parse().ok());
    asked.filter(|version| (OLDEST..=VERSION).contains(version)).unwrap_or(VERSION)
}

fn take(pool: &Pool) -> Result<Range, Error> {
    pool.take().ok_or_else(|| Error::Failed("no range of ids is free".to_owned()))
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Removes all that a failed start left, also where its supervisor was killed half-way.
async fn clean(core: &Arc<Core>, spec: &InstanceSpec, _claim: &Claim) {
    let core = core.clone();
    let name = spec.object.to_string();
    let cleaned = tokio::task::spawn_blocking(move || remove(&core, &name)).await;
    if let Err(error) = cleaned {
        tracing::warn!(%error, "remains of a failed start");
    }
}

/// Kills what runs under an object's name without anybody, and removes its traces. Blocks.
pub(super) fn remove(core: &Core, name: &str) {
    let run = dirs::open_at(&core.layout.run, name);
    let file =
        run.as_ref().ok().and_then(|run| crate::layout::read_json::<InstanceFile>(run, "instance"));
    let ended = match &file {
        Some(file) if file.boot_id == core.boot_id => spawner::kill_remains(file),
        _ => Ok(()),
    };
    let ended = ended.and_then(|()| super::remains::end_groups(&core.tree.paths(name)));
    if let Err(error) = ended {
        tracing::warn!(object = name, %error, "remains of an instance");
    }
    if run.is_ok()
        && let Err(error) = core.layout.trash.throw(&core.layout.run, name)
    {
        tracing::warn!(object = name, %error, "the run directory stays");
    }
}
