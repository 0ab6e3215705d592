//! Memory that is nearly full, and what is left in it.
//!
//! A memory never shrinks, and one that is full cannot even run what would empty it. So whatever is
//! kept has [`RESERVE`] bytes in one piece, in which code that is small can run:
//!
//! - Code whose memory can grow may not let it grow to its limit: [`SPARE`] bytes are left. It meets
//!   its language's own error there, and is kept.
//! - In a memory that has grown so far, the reserve is held while code runs, where there is as much
//!   beside it: code meets its error before it has the reserve.
//! - Else code runs in the reserve. Afterwards it is to be there again: what has not freed as much
//!   as it took is rolled back.
//!
//! Far from the limit none of this is done.

use super::Instance;
use super::answer::Answer;
use super::execute::{Execution, Request};
use crate::stop::Stop;
use crate::wasi::{CpuMeter, Output};
use crate::{Limits, Live};
use std::collections::BTreeMap;
use std::time::Duration;
use types::CODE_MAX;

/// How long it may take to show that it can still work.
const CHECK: Duration = Duration::from_secs(5);
/// What an interpreter must still find in one piece after an execution, bytes.
const RESERVE: u32 = 1 << 20;
/// How far below its limit a memory stops to grow first, bytes.
const SPARE: u64 = 2 << 20;
/// A memory that can grow by less than this may be nearly full, bytes.
const NEARLY: u64 = SPARE + (1 << 20);

impl Instance {
    /// Runs code, where it is to be kept with something left of its memory.
    pub(super) async fn run_in_room(
        &mut self,
        job: &Execution,
        request: &[u8],
        meter: &CpuMeter,
        output: &Output,
    ) -> Result<Vec<u8>, Stop> {
        let limit = job.memory_bytes;
        self.live.store.data_mut().limits = Limits::new(limit);
        if !job.kept {
            return self.run(request, job.timeout, meter, output).await;
        }
        let driver = self.build.linked.driver.clone();
        let held = match self.left() < NEARLY {
            true => match driver.hold(&mut self.live, RESERVE).await? {
                // Some of what code is answered with is taken while it is held.
                Some(block) => match driver.hold(&mut self.live, RESERVE).await? {
                    Some(other) => {
                        driver.let_go(&mut self.live, other).await?;
                        Some(block)
                    }
                    None => {
                        driver.let_go(&mut self.live, block).await?;
                        None
                    }
                },
                None => None,
            },
            false => None,
        };
        let most = (limit - SPARE.min(limit)).max(self.memory_bytes());
        let tight = held.is_none() && self.left() < NEARLY;
        self.live.store.data_mut().limits = Limits::new(if tight { limit } else { most });
        let answer = self.run(request, job.timeout, meter, output).await;
        self.live.store.data_mut().limits.memory_bytes = limit;
        let answer = answer?;
        if let Some(block) = held {
            driver.let_go(&mut self.live, block).await?;
        }
        Ok(answer)
    }

    /// How far its memory can grow, bytes.
    fn left(&self) -> u64 {
        let Live { store, memory, .. } = &self.live;
        let most = memory.ty(store).maximum().map_or(u64::MAX, |pages| pages << 16);
        store.data().limits.memory_bytes.min(most).saturating_sub(self.memory_bytes())
    }

    /// Whether there may be no room to run more in.
    pub(super) fn may_be_full(&self, kept: bool) -> bool {
        self.live.store.data().limits.refused || kept && self.left() < NEARLY
    }

    /// Where there may be no room: the answer, if the interpreter can still work. One that cannot
    /// is of no use to any execution after this, not even to one that frees what fills it.
    pub(super) async fn goes_on(
        &mut self,
        env: &BTreeMap<String, String>,
        answer: Answer,
        meter: &CpuMeter,
        output: &Output,
    ) -> Result<Answer, Stop> {
        let full = Stop::Memory(self.live.store.data().limits.memory_bytes);
        let driver = self.build.linked.driver.clone();
        // An expression of every language, in a text that takes as much as code may, and in a short
        // one: what is left then is what other code finds.
        for length in [CODE_MAX, 0] {
            let code = format!("1{}", " ".repeat(length));
            let cwd = &answer.cwd;
            let line = "<check>";
            let request = Request { code: &code, env, cwd, seed: None, line, check: true };
            let request = serde_json::to_vec(&request).unwrap_or_default();
            let again = self.run(&request, CHECK, meter, output).await;
            match again.and_then(|bytes| Answer::read(&bytes)) {
                Ok(Answer { result: Some(_), error: None, broken: false, .. }) => {}
                _ => return Err(full),
            }
        }
        match driver.hold(&mut self.live, RESERVE).await {
            Ok(Some(block)) => driver.let_go(&mut self.live, block).await.map(|()| answer),
            _ => Err(full),
        }
    }
}
