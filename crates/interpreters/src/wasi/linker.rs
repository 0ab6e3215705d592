//! The calls, by the names under which modules import them.

use super::Wasi;
use super::errno::Errno;
use super::mem::Mem;
use crate::Guest;
use crate::stop::Exit;
use wasmtime::{Caller, ExternType, Linker, Module, Val};

/// The module that the calls are imported from.
const WASI: &str = "wasi_snapshot_preview1";

/// Runs one call and gives its errno.
fn run<R>(
    caller: &mut Caller<'_, Guest>,
    call: impl FnOnce(&mut Wasi, &mut Mem<'_>) -> Result<R, Errno>,
) -> wasmtime::Result<Result<R, i32>> {
    let (memory, guest) = Guest::split(caller)?;
    Ok(call(&mut guest.wasi, &mut Mem(memory)).map_err(|Errno(errno)| i32::from(errno)))
}

/// The same for a call that may change what the workspace holds.
fn change(
    caller: &mut Caller<'_, Guest>,
    call: impl FnOnce(&mut Wasi, &mut Mem<'_>) -> Result<(), Errno>,
) -> wasmtime::Result<Result<(), i32>> {
    run(caller, |wasi, mem| wasi.in_room(|wasi| call(wasi, mem)))
}

macro_rules! calls {
    ($linker:ident, $run:ident; $($name:ident($($arg:ident: $ty:ty),*);)*) => {
        $($linker.func_wrap(
            WASI,
            stringify!($name),
            |mut caller: Caller<'_, Guest>, $($arg: $ty),*| -> wasmtime::Result<i32> {
                let done = $run(&mut caller, |wasi, mem| wasi.$name(mem, $($arg),*))?;
                Ok(done.err().unwrap_or(0))
            },
        )?;)*
    };
}

/// Adds all calls to a linker.
///
/// # Errors
/// Where the linker has one of them.
pub fn add_to_linker(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    calls! { linker, run;
        args_get(argv: u32, buf: u32);
        args_sizes_get(count: u32, size: u32);
        environ_get(environ: u32, buf: u32);
        environ_sizes_get(count: u32, size: u32);
        clock_res_get(id: u32, out: u32);
        clock_time_get(id: u32, precision: u64, out: u32);
        fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
        fd_close(fd: u32);
        fd_datasync(fd: u32);
        fd_fdstat_get(fd: u32, out: u32);
        fd_fdstat_set_flags(fd: u32, flags: u32);
        fd_fdstat_set_rights(fd: u32, rights: u64, inheriting: u64);
        fd_filestat_get(fd: u32, out: u32);
        fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
        fd_pread(fd: u32, vecs: u32, count: u32, from: u64, out: u32);
        fd_prestat_get(fd: u32, out: u32);
        fd_prestat_dir_name(fd: u32, buf: u32, len: u32);
        fd_read(fd: u32, vecs: u32, count: u32, out: u32);
        fd_readdir(fd: u32, buf: u32, len: u32, cookie: u64, used: u32);
        fd_renumber(from: u32, to: u32);
        fd_seek(fd: u32, delta: i64, whence: u32, out: u32);
        fd_sync(fd: u32);
        fd_tell(fd: u32, out: u32);
        path_filestat_get(fd: u32, lookup: u32, path: u32, len: u32, out: u32);
        path_filestat_set_times(
            fd: u32, lookup: u32, path: u32, len: u32, atim: u64, mtim: u64, flags: u32);
        path_readlink(fd: u32, path: u32, len: u32, buf: u32, buf_len: u32, used: u32);
        random_get(buf: u32, len: u32);
        sched_yield();
        sock_accept(fd: u32, flags: u32, out: u32);
        sock_recv(fd: u32, vecs: u32, count: u32, flags: u32, out: u32, out_flags: u32);
        sock_send(fd: u32, vecs: u32, count: u32, flags: u32, out: u32);
        sock_shutdown(fd: u32, how: u32);
    }
    calls! { linker, change;
        fd_allocate(fd: u32, offset: u64, len: u64);
        fd_filestat_set_size(fd: u32, size: u64);
        fd_pwrite(fd: u32, vecs: u32, count: u32, at: u64, out: u32);
        fd_write(fd: u32, vecs: u32, count: u32, out: u32);
        path_create_directory(fd: u32, path: u32, len: u32);
        path_link(
            old_fd: u32, lookup: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
        path_open(
            fd: u32, lookup: u32, path: u32, len: u32, oflags: u32, rights: u64, inheriting: u64,
            flags: u32, out: u32);
        path_remove_directory(fd: u32, path: u32, len: u32);
        path_rename(old_fd: u32, old: u32, old_len: u32, new_fd: u32, new: u32, new_len: u32);
        path_symlink(target: u32, target_len: u32, fd: u32, path: u32, len: u32);
        path_unlink_file(fd: u32, path: u32, len: u32);
    }
    linker.func_wrap(WASI, "proc_exit", |status: u32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(Exit(status)))
    })?;
    linker.func_wrap(WASI, "proc_raise", |_signal: u32| i32::from(Errno::NOSYS.0))?;
    linker.func_wrap_async(
        WASI,
        "poll_oneoff",
        |mut caller: Caller<'_, Guest>, (subs, events, count, out): (u32, u32, u32, u32)| {
            Box::new(async move {
                let plan = match run(&mut caller, |wasi, mem| wasi.poll_plan(mem, subs, count))? {
                    Ok(plan) => plan,
                    Err(errno) => return Ok(errno),
                };
                if !plan.sleep.is_zero() {
                    tokio::time::sleep(plan.sleep).await;
                }
                let done = run(&mut caller, |wasi, mem| wasi.poll_finish(mem, &plan, events, out))?;
                Ok::<i32, wasmtime::Error>(done.err().unwrap_or(0))
            })
        },
    )?;
    Ok(())
}

/// Adds what `module` imports from WASI and nobody has defined: functions that answer that they
/// are not there. To be called last. Imports from elsewhere stay undefined, so that instantiating
/// names them.
pub fn define_unknown(linker: &mut Linker<Guest>, module: &Module) {
    for import in module.imports().filter(|import| import.module() == WASI) {
        if let ExternType::Func(ty) = import.ty() {
            // It fails where the name is defined, which is what we want.
            let _ = linker.func_new(WASI, import.name(), ty, |_, _, results| {
                results.iter_mut().for_each(|result| *result = Val::I32(Errno::NOSYS.0.into()));
                Ok(())
            });
        }
    }
}
