//! Ruby: CRuby as a reactor, with a driver in Ruby that the base image holds.
//!
//! The module speaks an early form of the canonical ABI: values of Ruby are handles, which a host
//! is free to number. Here a handle is the address that the guest gave, so that nothing of the
//! host's has to be kept with a snapshot. The imports through which it would reach a JavaScript
//! engine end the guest, but for two: the driver hands results that are displayed to `eval-js`,
//! and reads requests from `js-value-to-string`; no constant of the guest leads there.

use super::Driver;
use crate::{Guest, Live, Stop};
use serde::Deserialize;
use serde_json::{Value, json};
use std::any::Any;
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
const TEXT_OF_JS: &str = "js-value-to-string: func(value: handle<js-abi-value>) -> string";
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

/// What a base keeps.
#[derive(Deserialize)]
struct Handles {
    driver: u32,
    run: u32,
    /// Arguments of a call that has none.
    none: u32,
}

/// The request that the driver is to read: its address and length in the guest.
#[derive(Default)]
struct Inbox(Option<(u32, u32)>);

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

    fn state(&self) -> Box<dyn Any + Send> {
        Box::new(Inbox::default())
    }

    fn link(&self, linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
        linker.func_wrap(ABI, "resource_new_rb-abi-value", |address: u32| address)?;
        linker.func_wrap(ABI, "resource_get_rb-abi-value", |handle: u32| handle)?;
        linker.func_wrap(ABI, "resource_drop_js-abi-value", |_: u32| ())?;
        linker.func_wrap(HOST, EVAL_JS, emit)?;
        linker.func_wrap(HOST, TEXT_OF_JS, read)?;
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
        let code = format!("eval({}, nil, '<driver>', 1)", literal(DRIVER));
        let (place, length) = string(live, &code).await?;
        let pair = live.call(EVAL, (place, length)).await?;
        let driver = value(live, pair)?;
        let (place, length) = string(live, "run").await?;
        let run = live.call::<_, u32>(INTERN, (place, length)).await?;
        let none = allocate(live, 4, 4).await?;
        Ok(json!({ "driver": driver, "run": run, "none": none }))
    }

    async fn call(
        &self,
        live: &mut Live,
        handles: &Value,
        request: &[u8],
    ) -> Result<Vec<u8>, Stop> {
        let broken = |e: serde_json::Error| Stop::Driver(e.to_string());
        let Handles { driver, run, none } = Handles::deserialize(handles).map_err(broken)?;
        let request: Request = serde_json::from_slice(request).map_err(broken)?;
        let request = request.framed();
        // Who reads it lets it go.
        let place = allocate(live, 1, request.len()).await?;
        live.write(place, &request)?;
        if let Some(inbox) = live.store.data_mut().ext::<Inbox>() {
            inbox.0 = Some((place, request.len() as u32));
        }
        let pair = live.call(CALL, (driver, run, none, 0u32)).await?;
        let answer = value(live, pair)?;
        let pair = live.call::<_, u32>(TEXT, answer).await?;
        let (place, length) = words(live, pair)?;
        let bytes = live.read(place, length)?;
        live.call::<_, ()>(TEXT_DONE, pair).await?;
        live.call::<_, ()>(DROP, answer).await?;
        Ok(bytes)
    }
}

impl Request {
    /// Its texts: the code, the directory, the code's name, the seed, and the environment, which
    /// is its names and values in the same form, or nothing.
    fn framed(&self) -> Vec<u8> {
        let seed = self.seed.map_or_else(String::new, |seed| seed.to_string());
        let pairs: Vec<_> = self.env.iter().flat_map(|(name, value)| [&**name, &**value]).collect();
        let environment = if pairs.is_empty() { String::new() } else { frame(&pairs) };
        frame(&[&self.code, &self.cwd, &self.line, &seed, &environment]).into_bytes()
    }
}

/// Texts, with a line before them that has the length of each.
fn frame(texts: &[&str]) -> String {
    let sizes: Vec<_> = texts.iter().map(|text| text.len().to_string()).collect();
    format!("{}\n{}", sizes.join(" "), texts.concat())
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

/// The value of a protected call. What it raised ends the instance: code of ours raises nothing
/// unless the guest has broken what it stands on.
fn value(live: &Live, pair: u32) -> Result<u32, Stop> {
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

/// The request, once.
fn read(mut caller: Caller<'_, Guest>, _value: u32, answer: u32) -> wasmtime::Result<()> {
    let (memory, guest) = Guest::split(&mut caller)?;
    let (place, length) = guest.ext::<Inbox>().and_then(|inbox| inbox.0.take()).unwrap_or_default();
    let start = answer as usize;
    let to = memory.get_mut(start..start + 8);
    let to = to.ok_or_else(|| Stop::Driver("a request is out of memory".into()))?;
    to.copy_from_slice(&[place.to_le_bytes(), length.to_le_bytes()].concat());
    Ok(())
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
