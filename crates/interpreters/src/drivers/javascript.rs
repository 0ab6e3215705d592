//! JavaScript: QuickJS-NG, with a driver in C that is compiled into the module.
//!
//! All that the driver needs lies in its statics, which are in every snapshot: there are no
//! handles to keep.

use super::{Driver, typescript};
use crate::{Guest, Live, Stop};
use serde_json::Value;
use wasmtime::{Caller, Linker};

/// The driver of JavaScript.
#[derive(Debug)]
pub struct JavaScript;

/// Longest request, bytes: what is longer cannot lie in the guest's memory.
const REQUEST_MAX: usize = 32 << 20;

#[async_trait::async_trait]
impl Driver for JavaScript {
    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        linker.func_wrap("sandkeep", "emit", emit)?;
        Ok(())
    }

    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        live.call::<(), ()>("_initialize", ()).await?;
        match live.call::<(), i32>("sandkeep_boot", ()).await? {
            0 => Ok(Value::Null),
            status => Err(Stop::Driver(format!("sandkeep_boot gave {status}"))),
        }
    }

    async fn call(&self, live: &mut Live, _: &Value, request: &[u8]) -> Result<Vec<u8>, Stop> {
        let request = match typescript::prepare(request) {
            Ok(request) => request,
            Err(answer) => return Ok(answer),
        };
        let length = u32::try_from(request.len()).ok().filter(|n| *n as usize <= REQUEST_MAX);
        let length = length.ok_or_else(|| Stop::Driver("the request is too long".into()))?;
        let place = live.call::<u32, u32>("sandkeep_alloc", length).await?;
        if place == 0 {
            return Err(Stop::Driver("there is no room for the request".into()));
        }
        live.write(place, &request)?;
        let answer = live.call::<(u32, u32), u64>("sandkeep_execute", (place, length)).await?;
        // The address is in the high half.
        let bytes = live.read((answer >> 32) as u32, answer as u32)?;
        live.call::<(), ()>("sandkeep_release", ()).await?;
        Ok(bytes)
    }
}

/// A result of `display`.
fn emit(mut caller: Caller<'_, Guest>, address: u32, length: u32) -> wasmtime::Result<()> {
    let (memory, guest) = Guest::split(&mut caller)?;
    let start = address as usize;
    let bytes = start.checked_add(length as usize).and_then(|end| memory.get(start..end));
    let bytes = bytes.ok_or_else(|| Stop::Driver("a result is out of memory".into()))?;
    guest.emit(bytes);
    Ok(())
}
