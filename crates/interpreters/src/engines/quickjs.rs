//! QuickJS-NG with the driver, built for WebAssembly.

use super::error::at;
use super::{Error, catalogue, fetch, intl};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The driver's files, which are compiled with the sources.
pub(crate) const DRIVER: &[(&str, &str)] = &[
    ("driver.c", include_str!("../drivers/javascript/driver.c")),
    ("alloc.c", include_str!("../drivers/javascript/alloc.c")),
    ("paths.h", include_str!("../drivers/javascript/paths.h")),
    ("natives.h", include_str!("../drivers/javascript/natives.h")),
    ("loop.h", include_str!("../drivers/javascript/loop.h")),
    ("modules.h", include_str!("../drivers/javascript/modules.h")),
    ("intl.h", include_str!("../drivers/javascript/intl.h")),
    ("answers.js", include_str!("../drivers/javascript/answers.js")),
    ("prelude.js", include_str!("../drivers/javascript/prelude.js")),
    ("web.js", include_str!("../drivers/javascript/web.js")),
    ("descriptors.h", include_str!("../drivers/javascript/descriptors.h")),
    ("descriptors.js", include_str!("../drivers/javascript/descriptors.js")),
    ("files.js", include_str!("../drivers/javascript/files.js")),
    ("intl.js", include_str!("../drivers/javascript/intl.js")),
    ("library.js", include_str!("../drivers/javascript/library.js")),
];

/// What is compiled beside the driver, which includes quickjs.c.
const UNITS: &[&str] = &["driver.c", "alloc.c", "libregexp.c", "libunicode.c", "dtoa.c"];

/// What of the sources is used: their names and contents make the pinned hash.
const SOURCES: &[&str] = &[
    "builtin-array-fromasync.h",
    "builtin-iterator-zip-keyed.h",
    "builtin-iterator-zip.h",
    "cutils.h",
    "dtoa.c",
    "dtoa.h",
    "libregexp-opcode.h",
    "libregexp.c",
    "libregexp.h",
    "libunicode-table.h",
    "libunicode.c",
    "libunicode.h",
    "list.h",
    "quickjs-atom.h",
    "quickjs-c-atomics.h",
    "quickjs-opcode.h",
    "quickjs.c",
    "quickjs.h",
];

/// Where the value of a script that may await is put into an object.
macro_rules! async_value {
    (old) => {
        "        if (!s->is_module) {\n            if (fd->func_kind == JS_FUNC_ASYNC) {\n                \
         emit_op(s, OP_object);"
    };
    (new) => {
        "        if (!s->is_module) {\n            if (fd->func_kind == JS_FUNC_ASYNC) {\n                \
         emit_op(s, OP_special_object);\n                \
         emit_u8(s, OP_SPECIAL_OBJECT_NULL_PROTO);\n                \
         emit_op(s, OP_get_loc);\n                emit_u16(s, fd->eval_ret_idx);\n                \
         emit_op(s, OP_define_field);\n                emit_atom(s, JS_ATOM_value);\n            \
         } else if (0) {\n                emit_op(s, OP_object);"
    };
}

/// Changes to quickjs.c: a place that must be there once, and what stands before or in place
/// of it afterwards.
const PATCHES: &[(&str, &str)] = &[
    // It watches its stack everywhere but on WASI, where recursion would end in a trap.
    ("#if defined(__wasi__)\n    rt->stack_limit = 0;", "#if 0\n    rt->stack_limit = 0;"),
    // C that calls itself takes more of the host's stack than of the one that is watched.
    (
        "    sp = js_get_stack_pointer() - alloca_size;\n    \
         return unlikely(sp < rt->stack_limit);",
        "    sp = js_get_stack_pointer() - alloca_size;\n    \
         if (unlikely(sp < rt->stack_limit))\n        return true;\n    \
         uintptr_t call = (uintptr_t)rt->current_stack_frame, top = rt->stack_top;\n    \
         if (call > sp && call <= top)\n        return unlikely(call - sp > 49152);\n    \
         return unlikely(!alloca_size && top - sp > 49152);",
    ),
    // What was declared by an earlier execution may be declared again: see the driver.
    (
        "static int JS_CheckDefineGlobalVar(JSContext *ctx, JSAtom prop, int flags)\n{",
        "static int sandkeep_check_global(JSContext *, JSAtom, int);\n\
         static int sandkeep_redefine_global(JSContext *, JSAtom, int);\n\
         static int JS_CheckDefineGlobalVar(JSContext *ctx, JSAtom prop, int flags)\n{\n    \
         if (1)\n        return sandkeep_check_global(ctx, prop, flags);",
    ),
    (
        "static int JS_DefineGlobalVar(JSContext *ctx, JSAtom prop, int def_flags)\n{",
        "static int JS_DefineGlobalVar(JSContext *ctx, JSAtom prop, int def_flags)\n{\n    \
         int done = sandkeep_redefine_global(ctx, prop, def_flags);\n    \
         if (done)\n        return done < 0 ? -1 : 0;",
    ),
    // The value of a script that may await comes in an object: in one without a prototype, so that
    // what code defines for all objects (`then`, `value`) does not take it. Two places.
    (concat!("        }\n\n", async_value!(old)), concat!("        }\n\n", async_value!(new))),
    (concat!("    } else {\n", async_value!(old)), concat!("    } else {\n", async_value!(new))),
    // A property that is made at its first use, of ours: `Intl`.
    (
        "static JSValue js_bytecode_autoinit(JSContext *ctx, JSObject *p, JSAtom atom,\n                                    \
         void *opaque)\n{\n    switch ((uintptr_t)opaque) {\n    default:\n        abort();",
        "static JSValue sandkeep_intl(void);\n\
         static JSValue js_bytecode_autoinit(JSContext *ctx, JSObject *p, JSAtom atom,\n                                    \
         void *opaque)\n{\n    switch ((uintptr_t)opaque) {\n    default:\n        \
         return sandkeep_intl();",
    ),
    // One that could not be made, as there was no memory for it, can be made later.
    (
        "    val = func(realm, p, prop, pr->u.init.opaque);\n",
        "    val = func(realm, p, prop, pr->u.init.opaque);\n    \
         if (JS_IsException(val))\n        return -1;\n",
    ),
];

const FLAGS: &[&str] = &[
    "-target",
    "wasm32-wasi",
    "-mexec-model=reactor",
    "-O2",
    "-std=gnu23",
    "-w",
    "-D_GNU_SOURCE",
    "-DNDEBUG",
    "-Wl,--strip-debug",
    "-Wl,-z,stack-size=1048576",
];

/// What of the compiler's package is needed: all but other systems' libraries.
const ZIG: &[&str] = &[
    "ziglang/zig",
    "ziglang/lib/c",
    "ziglang/lib/compiler",
    "ziglang/lib/include/",
    "ziglang/lib/libc/include/",
    "ziglang/lib/libc/musl/",
    "ziglang/lib/libc/wasi/",
    "ziglang/lib/std/",
    "ziglang/lib/ubsan_rt.zig",
    "ziglang/lib/zig.h",
];

/// What a build is made from: changes with whatever changes the module.
pub(crate) fn recipe() -> String {
    let mut hash = blake3::Hasher::new();
    let mut text = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    };
    text(catalogue::QUICKJS_CRATE.1);
    text(catalogue::QUICKJS_CRATE.2);
    text(catalogue::ZIG.version);
    text(&intl::recipe());
    DRIVER.iter().chain(PATCHES).for_each(|(a, b)| [a, b].map(|t| text(t)).into_iter().collect());
    UNITS.iter().chain(FLAGS).for_each(|t| text(t));
    hash.finalize().to_hex().to_string()
}

/// Fetches sources and compiler into `work`.
pub(crate) fn fetch(engine: &str, work: &Path) -> Result<(), Error> {
    fetch::package(engine, &catalogue::ZIG, work)?;
    let sources = fetch::quickjs_sources(engine, work)?;
    let found = digest(&sources)?;
    let (name, version, wanted) = catalogue::QUICKJS_CRATE;
    if found != wanted {
        let what = format!("{name} {version}");
        return Err(Error::Hash { what, found, wanted: wanted.to_owned() });
    }
    Ok(())
}

/// Builds the module.
pub(crate) fn build(engine: &str, work: &Path) -> Result<Vec<u8>, Error> {
    let sources = fetch::quickjs_sources(engine, work)?;
    let archive = fetch::package(engine, &catalogue::ZIG, work)?;
    let dir = tempfile::Builder::new().prefix("build-").tempdir_in(work).map_err(at(work))?;
    let zig = dir.path().join("zig");
    fetch::unpack(engine, &archive, ZIG, &zig)?;
    let program = zig.join("ziglang/zig");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode).map_err(at(&program))?;

    let place = dir.path().join("c");
    fs::create_dir(&place).map_err(at(&place))?;
    for name in SOURCES {
        let from = sources.join(name);
        let text = fs::read(&from).map_err(at(&from))?;
        let to = place.join(name);
        fs::write(&to, text).map_err(at(to))?;
    }
    for (name, text) in DRIVER {
        let to = place.join(name);
        fs::write(&to, text).map_err(at(to))?;
    }
    patch(engine, &place.join("quickjs.c"))?;
    let cache = dir.path().join("cache");
    let mut command = Command::new(program);
    // The base image names the library that its contexts load, so that no other is put below them.
    let library = format!("-DINTL_LIBRARY=\"{}\"", intl::recipe());
    command
        .arg("cc")
        .args(FLAGS)
        .arg(library)
        .args(UNITS)
        .args(["-o", "quickjs.wasm"])
        .current_dir(&place);
    command.env("ZIG_GLOBAL_CACHE_DIR", &cache).env("ZIG_LOCAL_CACHE_DIR", &cache);
    fetch::run(&mut command)?;
    let module = place.join("quickjs.wasm");
    fs::read(&module).map_err(at(module))
}

fn patch(engine: &str, path: &Path) -> Result<(), Error> {
    let mut text = fs::read_to_string(path).map_err(at(path))?;
    for (place, new) in PATCHES {
        if text.matches(place).count() != 1 {
            let first = place.lines().next().unwrap_or_default();
            let what = format!("quickjs.c has not one place {first:?}");
            return Err(Error::Module { engine: engine.to_owned(), what });
        }
        text = text.replace(place, new);
    }
    fs::write(path, text).map_err(at(path))
}

/// SHA-256 over the names, lengths and contents of the sources, hex.
fn digest(dir: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for name in SOURCES {
        let path = dir.join(name);
        let bytes = fs::read(&path).map_err(at(path))?;
        hash.update(format!("{name} {}\n", bytes.len()));
        hash.update(&bytes);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}
