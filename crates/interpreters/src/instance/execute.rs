//! Running code.

use super::Instance;
use super::answer::Answer;
use crate::build::Build;
use crate::stop::Stop;
use crate::wasi::{CpuMeter, Room, Sink, epoch_ms};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;
use types::{CodeError, RichResult, Usage};

/// How often output that waits is handed on.
const FLUSH: Duration = Duration::from_millis(20);

/// Code to run, and what it may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// The code.
    pub code: String,
    /// What the code is called in tracebacks.
    pub name: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The working directory, in the guest.
    pub cwd: String,
    /// Standard input.
    pub stdin: Vec<u8>,
    /// It is stopped after this long.
    pub timeout: Duration,
    /// Largest linear memory, bytes.
    pub memory_bytes: u64,
    /// Output that is kept, bytes.
    pub output_max: usize,
    /// What the workspace may grow by.
    pub room: Room,
    /// More is to run in the same interpreter: where it could not, this counts as not run.
    pub kept: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Value of the last expression.
    pub result: Option<RichResult>,
    /// The guest's error, or the limit that it met.
    pub error: Option<CodeError>,
    /// The working directory afterwards.
    pub cwd: String,
    /// What it took.
    pub usage: Usage,
    /// Not all output or results were kept.
    pub truncated: bool,
    /// What stopped it; the instance is dead then.
    pub stopped: Option<Stop>,
    /// What is left of the room in the workspace.
    pub room: Room,
}

#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub code: &'a str,
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a str,
    pub seed: Option<u64>,
    pub line: &'a str,
    /// It is ours, to see whether code can run: it leaves nothing behind that code could see.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
}

/// Lets go of the sink when the execution ends, also by being dropped.
struct Ending<'a>(&'a crate::wasi::Output);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Instance {
    /// Runs code. Output and displayed results go to `sink` meanwhile. Dropping the future stops
    /// the guest within two ticks (10 ms); the instance is dead then.
    pub async fn execute(&mut self, job: &Execution, sink: Box<dyn Sink>) -> Outcome {
        let seed = self.fresh.then(random_seed).flatten();
        let request = Request {
            code: &job.code,
            env: &job.env,
            cwd: &job.cwd,
            seed,
            line: &job.name,
            check: false,
        };
        // Serialising strings and numbers cannot fail.
        let request = serde_json::to_vec(&request).unwrap_or_default();
        let guest = self.live.store.data_mut();
        guest.wasi.set_stdin(job.stdin.clone());
        guest.wasi.begin_room(job.room);
        let output = guest.wasi.output.clone();
        output.begin(sink, job.output_max);
        let ending = Ending(&output);
        let meter = guest.wasi.clocks.cpu.clone();
        let before = meter.nanos();

        let was_dead = std::mem::replace(&mut self.dead, true);
        self.fresh = false;
        self.moved = true;
        let answer = match was_dead {
            true => Err(Stop::Driver("it was stopped before".into())),
            false => self.run_in_room(job, &request, &meter, &output).await,
        };
        let answer = answer.and_then(|bytes| Answer::read(&bytes));
        let answer = match answer {
            Ok(answer) if job.kept && (answer.broken || !self.is_whole()) => Err(Stop::Broken),
            Ok(answer) if self.may_be_full(job.kept) => {
                self.goes_on(&job.env, answer, &meter, &output).await
            }
            answer => answer,
        };

        let totals = output.end();
        drop(ending);
        let usage = Usage {
            cpu_ms: (meter.nanos() - before + 500_000) / 1_000_000,
            memory_bytes: self.memory_bytes(),
            output_bytes: totals.bytes,
        };
        let outcome = Outcome {
            result: None,
            error: None,
            cwd: job.cwd.clone(),
            usage,
            truncated: totals.truncated,
            stopped: None,
            room: self.live.store.data_mut().wasi.end_room(),
        };
        match answer {
            Ok(Answer { cwd, result, error, cut, .. }) => {
                self.dead = false;
                let truncated = outcome.truncated || cut;
                Outcome { result, error, cwd, truncated, ..outcome }
            }
            Err(stop) => {
                let stop = self.blame_memory(stop);
                Outcome { error: Some(as_error(&stop)), stopped: Some(stop), ..outcome }
            }
        }
    }

    pub(super) async fn run(
        &mut self,
        request: &[u8],
        timeout: Duration,
        meter: &CpuMeter,
        output: &crate::wasi::Output,
    ) -> Result<Vec<u8>, Stop> {
        let _ticking = self.runtime.ticking();
        self.live.store.set_epoch_deadline(1);
        let driver = &self.build.linked.driver;
        let mut call = pin!(driver.call(&mut self.live, &self.build.meta.handles, request));
        let mut metered = pin!(poll_fn(|cx| {
            meter.enter();
            let polled = call.as_mut().poll(cx);
            meter.leave();
            polled
        }));
        let mut deadline = pin!(tokio::time::sleep(timeout));
        loop {
            tokio::select! {
                biased;
                // First, as most code has ended before there is a timer to be set.
                answer = &mut metered => return answer,
                () = &mut deadline => return Err(Stop::Timeout(timeout.as_millis() as u64)),
                () = tokio::time::sleep(FLUSH) => output.flush_due(epoch_ms()),
            }
        }
    }

    /// Whether what its driver stands on is as it was.
    fn is_whole(&mut self) -> bool {
        let Build { linked, meta, image, .. } = &*self.build;
        linked.driver.is_whole(&mut self.live, &meta.handles, image.bytes())
    }

    /// A guest that ends after it was refused memory ends because of that.
    fn blame_memory(&self, stop: Stop) -> Stop {
        let limits = self.live.store.data().limits;
        match stop {
            Stop::Exit(_) | Stop::Trap(_) | Stop::Driver(_) if limits.refused => {
                Stop::Memory(limits.memory_bytes)
            }
            other => other,
        }
    }
}

/// A number for the guest to seed its random numbers with; every reader of JSON has it exactly.
fn random_seed() -> Option<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    Some(u64::from_le_bytes(bytes) >> 12)
}

/// What the caller is told of it.
fn as_error(stop: &Stop) -> CodeError {
    let name = match stop {
        Stop::Exit(_) => "SystemExit",
        Stop::Timeout(_) | Stop::Memory(_) | Stop::Stack => "ExecutionLimitError",
        Stop::Trap(_) | Stop::Broken | Stop::Driver(_) => "EngineError",
    };
    CodeError {
        name: name.to_owned(),
        message: stop.to_string(),
        traceback: Vec::new(),
        line_number: None,
    }
}
