//! Perl: perl 5 as a reactor, with a driver in Perl that the base image holds.
//!
//! The module calls Perl by names only; the driver puts its own back after every run. Results
//! that are displayed come as scalars to `call_host_function`, and their text is read where the
//! scalar keeps it: no call into the module is needed while it waits for the answer.

use super::Driver;
use crate::{Guest, Live, Stop};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use wasmtime::{Caller, Linker};

/// The driver of Perl.
#[derive(Debug)]
pub struct Perl;

/// What runs inside.
const DRIVER: &str = include_str!("perl/driver.pl");
/// The sub that runs a request, and the one that displays.
const RUN: &str = "Sandkeep::run";
const EMIT: &str = "Sandkeep::emit";
/// What the module calls the function of ours.
const EMIT_ID: u32 = 1;
/// What it calls scalar context.
const SCALAR: u32 = 1;
/// How many arguments `RUN` takes.
const ARGUMENTS: u32 = 5;

/// Where a scalar keeps the address of its text, and where its body has the length.
const SCALAR_TEXT: u32 = 16;
const BODY_LENGTH: u32 = 8;

/// What a base keeps.
#[derive(Deserialize)]
struct Handles {
    name: u32,
    arguments: u32,
}

#[derive(Deserialize)]
struct Request {
    code: String,
    env: BTreeMap<String, String>,
    cwd: String,
    seed: Option<u64>,
    line: String,
}

#[async_trait::async_trait]
impl Driver for Perl {
    fn sources(&self) -> &'static [&'static str] {
        &[DRIVER]
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        linker.func_wrap("env", "call_host_function", emit)?;
        Ok(())
    }

    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        live.call::<(), ()>("_initialize", ()).await?;
        match live.call::<(), i32>("zeroperl_init", ()).await? {
            0 => {}
            status => return Err(Stop::Driver(format!("zeroperl_init gave {status}"))),
        }
        let emit = text(live, EMIT).await?;
        live.call::<_, ()>("zeroperl_register_function", (EMIT_ID, emit)).await?;
        let code = text(live, &format!("#line 1 \"<driver>\"\n{DRIVER}")).await?;
        let status = live.call::<_, i32>("zeroperl_eval", (code, SCALAR, 0u32, 0u32)).await?;
        free(live, code).await?;
        if status != 0 {
            return Err(failure(live).await?);
        }
        let name = text(live, RUN).await?;
        // The length of an answer comes behind the arguments.
        let arguments = allocate(live, 4 * ARGUMENTS + 4).await?;
        Ok(json!({ "name": name, "arguments": arguments }))
    }

    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        let broken = |e: serde_json::Error| Stop::Driver(e.to_string());
        let Handles { name, arguments } = Handles::deserialize(handles).map_err(broken)?;
        let request: Request = serde_json::from_slice(request).map_err(broken)?;
        let mut scalars = Vec::new();
        for text in request.arguments() {
            scalars.push(scalar(live, &text).await?);
        }
        let words: Vec<u8> = scalars.iter().flat_map(|scalar| scalar.to_le_bytes()).collect();
        live.write(arguments, &words)?;
        let list = live.call("zeroperl_call", (name, SCALAR, ARGUMENTS, arguments)).await?;
        if list == 0 {
            return Err(failure(live).await?);
        }
        let answer = answer(live, list, arguments + 4 * ARGUMENTS).await?;
        for scalar in scalars {
            live.call::<_, ()>("zeroperl_value_free", scalar).await?;
        }
        live.write(arguments, &[0; 4 * ARGUMENTS as usize + 4])?;
        live.call::<(), i32>("zeroperl_flush", ()).await?;
        Ok(answer)
    }

    async fn hold(&self, live: &mut Live, bytes: u32) -> Result<Option<u32>, Stop> {
        let block = live.call::<_, u32>("malloc", bytes).await?;
        Ok(Some(block).filter(|block| *block != 0))
    }

    async fn let_go(&self, live: &mut Live, block: u32) -> Result<(), Stop> {
        live.call::<_, ()>("free", block).await
    }
}

impl Request {
    /// What `RUN` takes: the environment as `NAME=value` with NUL between them, the seed as text.
    fn arguments(self) -> [String; ARGUMENTS as usize] {
        let pairs: Vec<_> =
            self.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let seed = self.seed.map_or_else(String::new, |seed| seed.to_string());
        [self.code, pairs.join("\0"), self.cwd, seed, self.line]
    }
}

/// The text of the first result of a call, whose list is let go.
async fn answer(live: &mut Live, list: u32, length: u32) -> Result<Vec<u8>, Stop> {
    let value = live.call::<_, u32>("zeroperl_result_get", (list, 0u32)).await?;
    if value == 0 {
        return Err(Stop::Driver("it gave no answer".into()));
    }
    let place = live.call::<_, u32>("zeroperl_to_string", (value, length)).await?;
    let length = word(&live.read(length, 4)?);
    let bytes = live.read(place, length)?;
    live.call::<_, ()>("zeroperl_value_free", value).await?;
    let values = word(&live.read(list + 4, 4)?);
    if values != 0 {
        free(live, values).await?;
    }
    free(live, list).await?;
    Ok(bytes)
}

/// A string of Perl's.
async fn scalar(live: &mut Live, bytes: &str) -> Result<u32, Stop> {
    let place = text(live, bytes).await?;
    let length = bytes.len() as u32;
    let scalar = live.call::<_, u32>("zeroperl_new_string", (place, length)).await?;
    free(live, place).await?;
    if scalar == 0 {
        return Err(Stop::Driver("there is no room for the request".into()));
    }
    Ok(scalar)
}

/// A copy of a text in the guest, with a NUL behind it.
async fn text(live: &mut Live, text: &str) -> Result<u32, Stop> {
    let length = u32::try_from(text.len() + 1).map_err(|_| Stop::Driver("a long text".into()))?;
    let place = allocate(live, length).await?;
    live.write(place, &[text.as_bytes(), b"\0"].concat())?;
    Ok(place)
}

async fn allocate(live: &mut Live, bytes: u32) -> Result<u32, Stop> {
    match live.call::<_, u32>("malloc", bytes).await? {
        0 => Err(Stop::Driver("there is no room for the request".into())),
        place => Ok(place),
    }
}

async fn free(live: &mut Live, place: u32) -> Result<(), Stop> {
    live.call::<_, ()>("free", place).await
}

/// What Perl says of its last error.
async fn failure(live: &mut Live) -> Result<Stop, Stop> {
    const MOST: u32 = 400;
    let place = live.call::<(), u32>("zeroperl_last_error", ()).await?;
    let text = live.read(place, MOST).unwrap_or_default();
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Ok(Stop::Driver(String::from_utf8_lossy(&text[..end]).trim_end().to_owned()))
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// A result of `display`: the only function of the host's, with a string as its only argument.
fn emit(
    mut caller: Caller<'_, Guest>,
    function: u32,
    count: u32,
    arguments: u32,
) -> wasmtime::Result<u32> {
    let (memory, guest) = Guest::split(&mut caller)?;
    let bytes = (function == EMIT_ID && count > 0).then(|| string(memory, arguments)).flatten();
    let bytes = bytes.ok_or_else(|| Stop::Driver("a result that cannot be read".into()))?;
    guest.emit(bytes);
    // No value.
    Ok(0)
}

/// The text of the scalar that the first argument holds.
fn string(memory: &[u8], arguments: u32) -> Option<&[u8]> {
    let slice =
        |at: u32, length: u32| memory.get(at as usize..(at as usize).checked_add(length as usize)?);
    let at = |place: u32| slice(place, 4).map(word);
    let scalar = at(at(arguments)?)?;
    let length = at(at(scalar)?.checked_add(BODY_LENGTH)?)?;
    slice(at(scalar.checked_add(SCALAR_TEXT)?)?, length)
}
