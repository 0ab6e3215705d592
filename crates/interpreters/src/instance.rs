//! One live interpreter.
//!
//! ```text
//!   from_base ──┐
//!               ├─▶ at rest ──execute──▶ at rest ──snapshot──▶ at rest
//!   restore ────┘       │
//!                       └──execute, stopped or dropped──▶ dead
//! ```
//! A dead one is dropped; its context goes on from its last snapshot.

mod answer;
mod execute;
mod room;
mod save;

pub use execute::{Execution, Outcome};

use crate::build::{Build, Linked};
use crate::memory::with_image;
use crate::pack::{self, Pack};
use crate::pages::{Content, PageIndex};
use crate::runtime::Runtime;
use crate::wasi::{Clocks, Places, Wasi};
use crate::{Guest, InstanceError, Limits, Live, Snapshot};
use std::io::{Read, Seek};
use std::pin::pin;
use std::sync::Arc;
use wasmtime::{Store, Val};

/// One live interpreter. Two of them run at the same time; one runs one execution at a time.
pub struct Instance {
    build: Arc<Build>,
    runtime: Arc<Runtime>,
    live: Live,
    rest: AtRest,
    /// What was saved or restored last.
    saved: Option<Saved>,
    /// It was made from a base and has not run yet.
    fresh: bool,
    /// It has run since what was saved.
    moved: bool,
    dead: bool,
}

/// A snapshot, and what the next one is compared with.
struct Saved {
    snapshot: Snapshot,
    /// Pages that differ from the base, in order.
    pages: Vec<(PageIndex, Content)>,
    /// Pages of each pack, in order.
    packs: Vec<Vec<PageIndex>>,
    written: Option<Written>,
}

/// Pages that were written, as long as none can have come to them.
struct Written {
    pages: Vec<PageIndex>,
    faults: u64,
}

/// What is no memory and must not change: values of globals, sizes of tables.
pub(crate) struct AtRest {
    globals: Vec<(String, u128)>,
    tables: Vec<(String, u64)>,
}

fn bits(value: &Val) -> u128 {
    match value {
        Val::I32(v) => *v as u32 as u128,
        Val::I64(v) => *v as u64 as u128,
        Val::F32(v) => u128::from(*v),
        Val::F64(v) => u128::from(*v),
        Val::V128(v) => v.as_u128(),
        // References: whether there is one is all that can be compared.
        other => u128::from(other.ref_().is_some_and(|r| !r.is_null())),
    }
}

impl AtRest {
    pub(crate) fn of(linked: &Linked, live: &mut Live) -> Self {
        let Live { store, instance, .. } = live;
        let globals = linked.globals.iter().filter_map(|name| {
            let value = instance.get_global(&mut *store, name)?.get(&mut *store);
            Some((name.clone(), bits(&value)))
        });
        let globals = globals.collect();
        let tables = linked.tables.iter().filter_map(|name| {
            Some((name.clone(), instance.get_table(&mut *store, name)?.size(&*store)))
        });
        AtRest { globals, tables: tables.collect() }
    }

    /// Whether a global has this value.
    pub(crate) fn has(&self, value: u64) -> bool {
        self.globals.iter().any(|(_, has)| *has == u128::from(value))
    }

    /// # Errors
    /// [`InstanceError::NotAtRest`] where something is not as it was.
    pub(crate) fn check(&self, linked: &Linked, live: &mut Live) -> Result<(), InstanceError> {
        let now = AtRest::of(linked, live);
        if let Some((name, _)) = self.globals.iter().find(|global| !now.globals.contains(global)) {
            return Err(InstanceError::NotAtRest(format!("the global {name} has changed")));
        }
        if now.tables != self.tables {
            return Err(InstanceError::NotAtRest("a table has grown".into()));
        }
        Ok(())
    }
}

/// Makes an instance whose memory begins with `image`.
pub(crate) async fn instantiate(
    linked: &Linked,
    image: Option<&Arc<crate::Image>>,
    wasi: Wasi,
    memory_bytes: u64,
) -> Result<Live, InstanceError> {
    let start = |error: wasmtime::Error| InstanceError::Start(format!("{error:#}"));
    let guest =
        Guest { wasi, limits: Limits::new(memory_bytes), memory: None, ext: linked.driver.state() };
    let mut store = Store::new(linked.engine(), guest);
    store.limiter(|guest| &mut guest.limits);
    store.set_epoch_deadline(1);
    store.epoch_deadline_async_yield_and_update(1);
    let instance = {
        let mut made = pin!(linked.pre.instantiate_async(&mut store));
        std::future::poll_fn(|cx| with_image(image, linked.least, || made.as_mut().poll(cx)))
            .await
            .map_err(start)?
    };
    let memory = instance
        .get_memory(&mut store, "memory")
        .ok_or_else(|| InstanceError::Start("the module exports no memory".into()))?;
    store.data_mut().memory = Some(memory);
    Ok(Live { store, instance, memory })
}

impl Instance {
    /// A fresh one, whose memory is the base.
    ///
    /// # Errors
    /// [`InstanceError::Start`], [`InstanceError::TooLarge`].
    pub async fn from_base(
        build: Arc<Build>,
        runtime: Arc<Runtime>,
        places: Places,
        memory_bytes: u64,
    ) -> Result<Self, InstanceError> {
        let clocks = Clocks::resume(build.meta.clock_ns, 0);
        let wasi = Wasi::restore(places, &build.meta.fds, clocks);
        let pages = build.meta.memory_bytes >> 16;
        let (live, rest) = Self::start(&build, wasi, pages, memory_bytes).await?;
        Ok(Instance {
            build,
            runtime,
            live,
            rest,
            saved: None,
            fresh: true,
            moved: false,
            dead: false,
        })
    }

    /// One that goes on from a snapshot.
    ///
    /// # Errors
    /// [`InstanceError::Pack`], and as [`Instance::from_base`].
    pub async fn restore(
        build: Arc<Build>,
        runtime: Arc<Runtime>,
        places: Places,
        memory_bytes: u64,
        snapshot: &Snapshot,
        packs: Packs<impl Read + Seek>,
    ) -> Result<Self, InstanceError> {
        let Packs(mut packs) = packs;
        let clocks = Clocks::resume(snapshot.clock_ns, snapshot.cpu_ns);
        let wasi = Wasi::restore(places, &snapshot.fds, clocks);
        let (mut live, rest) =
            Self::start(&build, wasi, snapshot.memory_bytes >> 16, memory_bytes).await?;
        let pages = pack::apply(&mut packs, live.memory.data_mut(&mut live.store)).map_err(
            |(at, error)| {
                let file = snapshot.packs.get(at).map(|pack| pack.file.clone()).unwrap_or_default();
                InstanceError::Pack { file, error }
            },
        )?;
        let lists = packs.iter().map(|pack| pack.pages.iter().map(|(index, _)| *index).collect());
        let saved =
            Saved { snapshot: snapshot.clone(), pages, packs: lists.collect(), written: None };
        Ok(Instance {
            build,
            runtime,
            live,
            rest,
            saved: Some(saved),
            fresh: false,
            moved: false,
            dead: false,
        })
    }

    async fn start(
        build: &Build,
        wasi: Wasi,
        pages: u64,
        memory_bytes: u64,
    ) -> Result<(Live, AtRest), InstanceError> {
        let has = pages << 16;
        if has > memory_bytes {
            return Err(InstanceError::TooLarge { has, limit: memory_bytes });
        }
        let mut live = instantiate(&build.linked, Some(&build.image), wasi, memory_bytes).await?;
        let now = live.memory.size(&live.store);
        let more =
            pages.checked_sub(now).filter(|_| has >= build.meta.memory_bytes).ok_or_else(|| {
                InstanceError::Start("the module has more memory than the snapshot".into())
            })?;
        if more > 0 {
            let grown = live.memory.grow_async(&mut live.store, more).await;
            grown.map_err(|error| InstanceError::Start(format!("{error:#}")))?;
        }
        let rest = AtRest::of(&build.linked, &mut live);
        Ok((live, rest))
    }

    /// The snapshot whose state this is in, where nothing has run since.
    pub fn snapshot_taken(&self) -> Option<&Snapshot> {
        self.saved.as_ref().filter(|_| !self.dead && !self.moved).map(|saved| &saved.snapshot)
    }

    /// Whether it may not be used any more.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Its build.
    pub fn build(&self) -> &Arc<Build> {
        &self.build
    }

    /// Size of its linear memory, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.live.memory.data_size(&self.live.store) as u64
    }

    /// About how much memory it takes beyond the base, bytes: pages that differ, and what the
    /// system keeps for it.
    pub fn private_bytes(&self) -> u64 {
        const OWN: u64 = 192 << 10;
        let pages = self.saved.as_ref().map_or(0, |saved| saved.pages.len() as u64);
        OWN + pages * 2 * crate::pages::PAGE as u64
    }
}

/// The packs of a snapshot: looked at, and right.
#[derive(Debug)]
pub struct Packs<R>(Vec<Pack<R>>);

impl<R: Read + Seek> Packs<R> {
    /// Reads all of them once, in the order of the snapshot. Blocks.
    ///
    /// # Errors
    /// [`InstanceError::OtherBuild`], [`InstanceError::Load`] where some are missing,
    /// [`InstanceError::Pack`] where any byte is not what was written.
    pub fn open(build: &Build, snapshot: &Snapshot, files: Vec<R>) -> Result<Self, InstanceError> {
        if snapshot.wasm != build.meta.wasm || snapshot.base != build.meta.base {
            return Err(InstanceError::OtherBuild);
        }
        let (wanted, given) = (snapshot.packs.len(), files.len());
        if wanted != given {
            let text = format!("the snapshot has {wanted} packs; {given} were given");
            return Err(InstanceError::Load(text));
        }
        let open = |(known, file): (&crate::PackRef, R)| {
            let hash = crate::build::unhex(&known.hash)?;
            Pack::open(file, &hash, &build.id)
                .map_err(|error| InstanceError::Pack { file: known.file.clone(), error })
        };
        Ok(Packs(snapshot.packs.iter().zip(files).map(open).collect::<Result<_, _>>()?))
    }
}
