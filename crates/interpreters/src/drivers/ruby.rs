//! Ruby: CRuby as a reactor, with a driver in Ruby that the base image holds.
//!
//! The module speaks an early form of the canonical ABI: values of Ruby are handles, which a host
//! is free to number. Here a handle is the address that the guest gave, so that nothing of the
//! host's has to be kept with a snapshot. The imports through which it would reach a JavaScript
//! engine end the guest, but for one: the driver hands results that are displayed to `eval-js`,
//! and no constant of the guest leads there.

use super::Driver;
use crate::{Guest, Live, Stop};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wasmtime::{Caller, FuncType, Linker, ValType};

/// The driver of Ruby.
#[derive(Debug)]
pub struct Ruby;

/// What runs inside.
const DRIVER: &str = include_str!("ruby/driver.rb");
/// What the guest is started with.
const ARGUMENTS: &[&str] = &["ruby", "-EUTF-8", "-e_=0"];

const ABI: &str = "canonical_abi";
const HOST: &str = "rb-js-abi-host";
const EVAL_JS: &str = "eval-js: func(code: string) -> variant { \
                       success(handle<js-abi-value>), failure(handle<js-abi-value>) }";
const INIT: &str = "ruby-init: func(args: list<string>) -> ()";
const INTERN: &str = "rb-intern: func(name: string) -> u32";
const EVAL: &str = "rb-eval-string-protect: func(str: string) -> tuple<handle<rb-abi-value>, s32>";
const CALL: &str = "rb-funcallv-protect: func(recv: handle<rb-abi-value>, mid: u32, \
                    args: list<handle<rb-abi-value>>) -> tuple<handle<rb-abi-value>, s32>";
const TEXT: &str = "rstring-ptr: func(value: handle<rb-abi-value>) -> string";
const TEXT_DONE: &str = "cabi_post_rstring-ptr";
const DROP: &str = "canonical_abi_drop_rb-abi-value";

/// The other imports through which the module would reach JavaScript: names, then parameters
/// (`i` a 32-bit integer, `f` a float) and whether there is a result.
const REFUSED: &[(&str, &str, bool)] = &[
    ("rb_wasm_throw_prohibit_rewind_exception", "ii", false),
    ("is-js: func(value: handle<js-abi-value>) -> bool", "i", true),
    (
        "instance-of: func(value: handle<js-abi-value>, klass: handle<js-abi-value>) -> bool",
        "ii",
        true,
    ),
    ("global-this: func() -> handle<js-abi-value>", "", true),
    ("int-to-js-number: func(value: s32) -> handle<js-abi-value>", "i", true),
    ("float-to-js-number: func(value: float64) -> handle<js-abi-value>", "f", true),
    ("string-to-js-string: func(value: string) -> handle<js-abi-value>", "ii", true),
    ("bool-to-js-bool: func(value: bool) -> handle<js-abi-value>", "i", true),
    ("proc-to-js-function: func(value: u32) -> handle<js-abi-value>", "i", true),
    ("rb-object-to-js-rb-value: func(raw-rb-abi-value: u32) -> handle<js-abi-value>", "i", true),
    ("js-value-to-string: func(value: handle<js-abi-value>) -> string", "ii", false),
    (
        "js-value-to-integer: func(value: handle<js-abi-value>) -> \
         variant { as-float(float64), bignum(string) }",
        "ii",
        false,
    ),
    ("export-js-value-to-host: func(value: handle<js-abi-value>) -> ()", "i", false),
    ("import-js-value-from-host: func() -> handle<js-abi-value>", "", true),
    ("js-value-typeof: func(value: handle<js-abi-value>) -> string", "ii", false),
    (
        "js-value-equal: func(lhs: handle<js-abi-value>, rhs: handle<js-abi-value>) -> bool",
        "ii",
        true,
    ),
    (
        "js-value-strictly-equal: func(lhs: handle<js-abi-value>, \
         rhs: handle<js-abi-value>) -> bool",
        "ii",
        true,
    ),
    (
        "reflect-apply: func(target: handle<js-abi-value>, this-argument: handle<js-abi-value>, \
         arguments: list<handle<js-abi-value>>) -> \
         variant { success(handle<js-abi-value>), failure(handle<js-abi-value>) }",
        "iiiii",
        false,
    ),
    (
        "reflect-get: func(target: handle<js-abi-value>, property-key: string) -> \
         variant { success(handle<js-abi-value>), failure(handle<js-abi-value>) }",
        "iiii",
        false,
    ),
    (
        "reflect-set: func(target: handle<js-abi-value>, property-key: string, \
         value: handle<js-abi-value>) -> \
         variant { success(handle<js-abi-value>), failure(handle<js-abi-value>) }",
        "iiiii",
        false,
    ),
];

/// What the guest's start finds in its environment: its memory is small, so that what it has
/// thrown away is collected sooner than by default (16 to 128 MB).
const ENVIRONMENT: &[&str] = &[
    "RUBY_GC_MALLOC_LIMIT=4000000",
    "RUBY_GC_MALLOC_LIMIT_MAX=8000000",
    "RUBY_GC_OLDMALLOC_LIMIT=8000000",
    "RUBY_GC_OLDMALLOC_LIMIT_MAX=12000000",
];

/// Room in the guest for a request, bytes: the module never frees a string that it was given. It
/// is clean between requests, so that it is in no snapshot.
const ROOM: u32 = 512 << 10;
/// Room for the arguments of a call, behind it, bytes.
const ARGUMENT: u32 = 4;

/// What a base keeps.
#[derive(Deserialize)]
struct Handles {
    driver: u32,
    run: u32,
    room: u32,
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
impl Driver for Ruby {
    fn sources(&self) -> &'static [&'static str] {
        &[DRIVER]
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        linker.func_wrap(ABI, "resource_new_rb-abi-value", |address: u32| address)?;
        linker.func_wrap(ABI, "resource_get_rb-abi-value", |handle: u32| handle)?;
        linker.func_wrap(ABI, "resource_drop_js-abi-value", |_: u32| ())?;
        linker.func_wrap(HOST, EVAL_JS, emit)?;
        for (name, parameters, result) in REFUSED {
            let parameters = parameters.chars().map(|c| match c {
                'f' => ValType::F64,
                _ => ValType::I32,
            });
            let ty = FuncType::new(linker.engine(), parameters, result.then_some(ValType::I32));
            linker.func_new(HOST, name, ty, |_, _, _| {
                Err(Stop::Driver("there is no JavaScript here".into()).into())
            })?;
        }
        Ok(())
    }

    async fn boot(&self, live: &mut Live) -> Result<Value, Stop> {
        live.store.data_mut().wasi.env =
            ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect();
        live.call::<(), ()>("_initialize", ()).await?;
        let list = allocate(live, 4, ARGUMENTS.len() * 8).await?;
        for (at, argument) in ARGUMENTS.iter().enumerate() {
            let (place, length) = string(live, argument).await?;
            let pair = [place.to_le_bytes(), length.to_le_bytes()].concat();
            live.write(list + at as u32 * 8, &pair)?;
        }
        live.call::<_, ()>(INIT, (list, ARGUMENTS.len() as u32)).await?;
        let room = allocate(live, 16, (ROOM + ARGUMENT) as usize).await?;
        live.write(room, &vec![0; (ROOM + ARGUMENT) as usize])?;
        let code = format!("eval({}, nil, '<driver>', 1)", literal(DRIVER));
        let driver = evaluate(live, room, &code).await?;
        let (place, length) = string(live, "run").await?;
        let run = live.call::<_, u32>(INTERN, (place, length)).await?;
        Ok(json!({ "driver": driver, "run": run, "room": room }))
    }

    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        let broken = |e: serde_json::Error| Stop::Driver(e.to_string());
        let Handles { driver, run, room } = Handles::deserialize(handles).map_err(broken)?;
        let request: Request = serde_json::from_slice(request).map_err(broken)?;
        let request = evaluate(live, room, &request.literal()).await?;
        let argument = room + ROOM;
        live.write(argument, &request.to_le_bytes())?;
        let pair = live.call(CALL, (driver, run, argument, 1u32)).await?;
        live.write(argument, &[0; 4])?;
        let answer = value(live, pair).await?;
        let pair = live.call::<_, u32>(TEXT, answer).await?;
        let (place, length) = words(live, pair)?;
        let bytes = live.read(place, length)?;
        live.call::<_, ()>(TEXT_DONE, pair).await?;
        live.call::<_, ()>(DROP, answer).await?;
        live.call::<_, ()>(DROP, request).await?;
        Ok(bytes)
    }
}

impl Request {
    /// An array that needs no method of the guest's to be made, so that none can be in the way.
    fn literal(&self) -> String {
        let mut out = format!("[{},[", literal(&self.code));
        for (name, value) in &self.env {
            let _ = write!(out, "[{},{}],", literal(name), literal(value));
        }
        let seed = self.seed.map_or_else(|| "nil".to_owned(), |seed| seed.to_string());
        let _ = write!(out, "],{},{seed},{}]", literal(&self.cwd), literal(&self.line));
        out
    }
}

/// A text as Ruby's notation has it, on one line and without NUL.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '#' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\0'..='\x1f' | '\x7f' => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Evaluates code of ours.
async fn evaluate(live: &mut Live, room: u32, code: &str) -> Result<u32, Stop> {
    let bytes = [code.as_bytes(), b"\0"].concat();
    let length = u32::try_from(bytes.len()).map_err(|_| Stop::Driver("a long request".into()))?;
    let place = if length <= ROOM { room } else { allocate(live, 1, bytes.len()).await? };
    live.write(place, &bytes)?;
    let pair = live.call(EVAL, (place, length)).await?;
    if place == room {
        live.write(place, &vec![0; bytes.len()])?;
    } else {
        // All that can be given back of what the module keeps.
        live.call::<_, u32>("cabi_realloc", (place, length, 1u32, 1u32)).await?;
    }
    value(live, pair).await
}

/// The value of a protected call. What it raised ends the instance: code of ours raises nothing
/// unless the guest has broken what it stands on.
async fn value(live: &mut Live, pair: u32) -> Result<u32, Stop> {
    match words(live, pair)? {
        (value, 0) => Ok(value),
        (_, status) => Err(Stop::Driver(format!("its code was left with status {status}"))),
    }
}

async fn string(live: &mut Live, text: &str) -> Result<(u32, u32), Stop> {
    let bytes = [text.as_bytes(), b"\0"].concat();
    let place = allocate(live, 1, bytes.len()).await?;
    live.write(place, &bytes)?;
    Ok((place, bytes.len() as u32))
}

async fn allocate(live: &mut Live, align: u32, bytes: usize) -> Result<u32, Stop> {
    let bytes = u32::try_from(bytes).map_err(|_| Stop::Driver("a long request".into()))?;
    match live.call::<_, u32>("cabi_realloc", (0u32, 0u32, align, bytes)).await? {
        0 => Err(Stop::Driver("there is no room for the request".into())),
        place => Ok(place),
    }
}

fn words(live: &Live, place: u32) -> Result<(u32, u32), Stop> {
    let bytes = live.read(place, 8)?;
    let word = |at: usize| {
        bytes.iter().skip(at).take(4).rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte))
    };
    Ok((word(0), word(4)))
}

/// A result of `display`. What is given back, a success of nothing, the driver does not look at.
fn emit(
    mut caller: Caller<'_, Guest>,
    address: u32,
    length: u32,
    answer: u32,
) -> wasmtime::Result<()> {
    let (memory, guest) = Guest::split(&mut caller)?;
    let outside = || Stop::Driver("a result is out of memory".into());
    let place = |start: u32, length: u32| start as usize..(start as usize + length as usize);
    let bytes = memory.get(place(address, length)).ok_or_else(outside)?;
    guest.emit(bytes);
    memory.get_mut(place(answer, 8)).ok_or_else(outside)?.fill(0);
    Ok(())
}
