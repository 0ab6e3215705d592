//! What a process needs once to run guests: the clock that interrupts them, and the page map.

use crate::pages::PageMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wasmtime::Engine;

/// How long a guest runs before it lets others run, and may be stopped.
const TICK: Duration = Duration::from_millis(5);

/// What a process needs once to run guests. To be made after all forks: it has a thread.
pub struct Runtime {
    engine: Engine,
    ticks: Arc<Ticks>,
    pub(crate) pages: PageMap,
}

#[derive(Default)]
struct Ticks {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    end: bool,
}

impl Ticks {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runtime {
    /// Starts the thread that interrupts guests of `engine`. `pages` must be of this process.
    ///
    /// # Errors
    /// Where no thread can be had.
    pub fn new(engine: &Engine, pages: PageMap) -> io::Result<Arc<Self>> {
        let ticks = Arc::new(Ticks::default());
        let (own, theirs) = (engine.clone(), ticks.clone());
        std::thread::Builder::new().name("ticks".into()).spawn(move || tick(&own, &theirs))?;
        Ok(Arc::new(Runtime { engine: engine.clone(), ticks, pages }))
    }

    /// Has guests let others run now, and not at the next tick: one of them may have to stop.
    pub(crate) fn interrupt(&self) {
        self.engine.increment_epoch();
    }

    /// Guests are interrupted while this is held; nothing wakes up while nobody holds one.
    pub(crate) fn ticking(&self) -> Ticking {
        self.ticks.lock().running += 1;
        self.ticks.wake.notify_one();
        Ticking(self.ticks.clone())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.ticks.lock().end = true;
        self.ticks.wake.notify_one();
    }
}

/// See [`Runtime::ticking`].
pub(crate) struct Ticking(Arc<Ticks>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

fn tick(engine: &Engine, ticks: &Ticks) {
    loop {
        let mut state = ticks.lock();
        while state.running == 0 && !state.end {
            state = ticks.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.end {
            return;
        }
        drop(state);
        std::thread::sleep(TICK);
        engine.increment_epoch();
    }
}
