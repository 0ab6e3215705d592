//! Python: CPython, with a driver in Python that the host calls by its address.
//!
//! All objects of CPython can be found by code that looks for them, the driver's too. What the
//! driver stands on is compared with the base after each execution ([`watch`]), by the host, so
//! that no code is there to be deceived.

mod watch;

use super::Driver;
use crate::{Guest, Live, Stop};
use serde_json::{Value, json};
use std::any::Any;
use std::ops::Range;
use wasmtime::{Caller, Linker};

/// The driver of Python.
#[derive(Debug)]
pub struct Python {
    /// What is imported before a context begins.
    imports: &'static [&'static str],
}

const DRIVER: &str = include_str!("python/driver.py");

/// What most code imports.
const USUAL: &str = "abc array ast asyncio base64 bisect calendar collections collections.abc \
    contextlib copy csv dataclasses datetime decimal enum fractions functools glob gzip hashlib \
    heapq html inspect io itertools json linecache math operator os os.path pathlib pickle pprint \
    random re secrets shutil statistics string struct tempfile textwrap time timeit traceback \
    types typing unicodedata urllib.parse uuid warnings zipfile zlib zoneinfo";
/// What most code that handles data imports besides.
const DATA: &str = "numpy numpy.linalg numpy.random pandas matplotlib matplotlib.pyplot \
    matplotlib.backends.backend_agg matplotlib.figure matplotlib.dates matplotlib.ticker";

impl Python {
    /// With the usual modules imported.
    pub const PLAIN: Python = Python { imports: &[USUAL] };
    /// With numpy, pandas and matplotlib imported too.
    pub const DATA: Python = Python { imports: &[USUAL, DATA] };

    /// Runs the driver in globals of its own and installs it.
    fn script(&self) -> String {
        // A JSON string is a Python string where it is ASCII without surrogates.
        let source = json!(DRIVER);
        let names: Vec<&str> = self.imports.iter().flat_map(|list| list.split(' ')).collect();
        let names = json!(names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>());
        format!(
            "(lambda own: (exec(compile({source}, '<sandkeep>', 'exec'), own), \
             own['install']({names}))[1])({{'__name__': 'sandkeep'}})\n"
        )
    }
}

/// What the door of one instance has brought.
#[derive(Debug, Default)]
struct Door {
    /// Where the driver's function lies; told once, while it is installed.
    execute: Option<u32>,
    /// What is to stay as it is; told before that.
    watched: Option<Vec<u8>>,
    /// The same as the handles have it, read once.
    ranges: Option<Vec<Range<u32>>>,
}

#[async_trait::async_trait]
impl Driver for Python {
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        linker.func_wrap("host", "call", door)?;
        Ok(())
    }

    fn state(&self) -> Box<dyn Any + Send> {
        Box::new(Door::default())
    }

    fn sources(&self) -> &'static [&'static str] {
        const ALL: &[&str] = &[DRIVER, USUAL, DATA];
        ALL
    }

    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        live.call::<(), ()>("_initialize", ()).await?;
        let script = self.script();
        let length = script.len() as u32;
        let place = live.call::<u32, u32>("host_alloc", length).await?;
        if place == 0 {
            return Err(Stop::Driver("there is no room for the driver".into()));
        }
        live.write(place, script.as_bytes())?;
        let status = live.call::<(u32, u32), i32>("turn", (place, length)).await?;
        let told = live.store.data_mut().ext::<Door>().and_then(|door| door.execute);
        let Some(execute) = told.filter(|_| status == 0) else {
            return Err(Stop::Driver(format!("installing it gave {status}")));
        };
        // It answers with itself: a reference that is ours for good.
        let empty = bytes(live, &[]).await?;
        let itself = live.call::<(u32, u32), u32>("PyObject_CallOneArg", (execute, empty)).await?;
        if itself != execute {
            return Err(Stop::Driver(format!("{execute:#x} answered {itself:#x}")));
        }
        live.call::<u32, ()>("_Py_DecRef", empty).await?;
        let told = live.store.data_mut().ext::<Door>().and_then(|door| door.watched.take());
        let (ranges, calls) = watch::find(live, &told.unwrap_or_default())?;
        Ok(json!({ "execute": execute, "ranges": watch::flat(&ranges), "calls": calls }))
    }

    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        let execute = handles["execute"].as_u64().and_then(|address| u32::try_from(address).ok());
        let execute = execute.ok_or_else(|| Stop::Driver("no address is known".into()))?;
        // No code sees this, and none that an earlier execution left behind sees what comes.
        let call = |at: usize| handles["calls"][at].as_u64().and_then(|at| u32::try_from(at).ok());
        if let (Some(trace), Some(profile), Some(none)) = (call(0), call(1), call(2)) {
            for clear in [trace, profile] {
                // What comes back is None, which nobody counts.
                live.call::<(u32, u32), u32>("PyObject_CallOneArg", (clear, none)).await?;
            }
        }
        let request = bytes(live, request).await?;
        let answer =
            live.call::<(u32, u32), u32>("PyObject_CallOneArg", (execute, request)).await?;
        live.call::<u32, ()>("_Py_DecRef", request).await?;
        if answer == 0 {
            live.call::<(), ()>("PyErr_Clear", ()).await?;
            return Err(Stop::Driver("it raised".into()));
        }
        let place = live.call::<u32, u32>("PyBytes_AsString", answer).await?;
        let length = live.call::<u32, u32>("PyBytes_Size", answer).await?;
        let text = live.read(place, length)?;
        live.call::<u32, ()>("_Py_DecRef", answer).await?;
        Ok(text)
    }

    fn is_whole(&self, live: &mut Live, handles: &Value, base: &[u8]) -> bool {
        let Live { store, memory, .. } = live;
        let (memory, guest) = memory.data_and_store_mut(store);
        let Some(door) = guest.ext::<Door>() else { return false };
        let ranges = door.ranges.get_or_insert_with(|| watch::unflat(&handles["ranges"]));
        watch::same(ranges, memory, base)
    }

    async fn hold(&self, live: &mut Live, length: u32) -> Result<Option<u32>, Stop> {
        // Bytes that nobody writes take no room in a snapshot.
        let object = live.call::<(u32, u32), u32>("PyBytes_FromStringAndSize", (0, length)).await?;
        if object == 0 {
            live.call::<(), ()>("PyErr_Clear", ()).await?;
        }
        Ok(Some(object).filter(|object| *object != 0))
    }

    async fn let_go(&self, live: &mut Live, object: u32) -> Result<(), Stop> {
        live.call::<u32, ()>("_Py_DecRef", object).await
    }
}

/// A bytes object.
async fn bytes(live: &mut Live, content: &[u8]) -> Result<u32, Stop> {
    let length = u32::try_from(content.len()).map_err(|_| Stop::Driver("too long".into()))?;
    let object = live.call::<(u32, u32), u32>("PyBytes_FromStringAndSize", (0, length)).await?;
    if object == 0 {
        live.call::<(), ()>("PyErr_Clear", ()).await?;
        return Err(Stop::Driver("there is no room for the request".into()));
    }
    let place = live.call::<u32, u32>("PyBytes_AsString", object).await?;
    live.write(place, content)?;
    Ok(object)
}

/// The guest's door: a frame goes out, nothing comes back.
fn door(
    mut caller: Caller<'_, Guest>,
    address: u32,
    length: u32,
    out_address: u32,
    out_length: u32,
) -> wasmtime::Result<i32> {
    const FAULT: i32 = -2;
    let (memory, guest) = Guest::split(&mut caller)?;
    for place in [out_address, out_length] {
        let start = place as usize;
        match memory.get_mut(start..).and_then(|rest| rest.get_mut(..4)) {
            Some(word) => word.fill(0),
            None => return Ok(FAULT),
        }
    }
    let start = address as usize;
    let frame = start.checked_add(length as usize).and_then(|end| memory.get(start..end));
    match frame {
        Some([b'E', json @ ..]) => {
            guest.emit(json);
            Ok(0)
        }
        Some([b'W', told @ ..]) => {
            let told = told.to_vec();
            if let Some(door) = guest.ext::<Door>()
                && door.execute.is_none()
            {
                door.watched = Some(told);
            }
            Ok(0)
        }
        // Code may say this too: after the installation nobody listens.
        Some([b'A', digits @ ..]) => {
            let address = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
            if let Some(door) = guest.ext::<Door>()
                && door.execute.is_none()
            {
                door.execute = address;
            }
            Ok(0)
        }
        _ => Ok(FAULT),
    }
}
