//! Starts the main process as vfork does: in our memory, on its own stack.

use crate::arch::{nr, syscall, vfork_on};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering};

const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const ENOTDIR: i32 = 20;
const ENAMETOOLONG: i32 = 36;
const PATH_MAX: usize = 4096;

/// Stage in the upper half, error number in the lower; 0 while nothing failed.
static FAILED: AtomicU32 = AtomicU32::new(0);

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; 16384]>);
// JUSTIFICATION: stand-alone code, without a library that could do it safely.
// SAFETY: only the one child runs on it, while its parent is suspended.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; 16384]));

struct Plan {
    cwd: *const u8,
    argv: *const *const u8,
    envp: *const *const u8,
}

/// Starts `argv[2..]` in `argv[1]`. The error is a stage (`C` chdir, `X` exec, `F` fork) and
/// an error number.
///
/// # Safety
/// Both arrays end with a null, and `argv` has at least three entries.
pub unsafe fn main(argv: *const *const u8, envp: *const *const u8) -> Result<isize, (u8, i32)> {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: promised by the caller.
    let plan = unsafe { Plan { cwd: *argv.add(1), argv: argv.add(2), envp } };
    let top = STACK.0.get() as usize + 16384;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the stack is the child's alone, and `plan` lives until the parent goes on, which
    // is after the child's exec or end.
    let pid = unsafe { vfork_on(top, child, &raw const plan as usize) };
    if pid < 0 {
        return Err((b'F', -pid as i32));
    }
    match FAILED.load(Ordering::SeqCst) {
        0 => Ok(pid),
        failed => {
            // JUSTIFICATION: stand-alone code, without a library that could do it safely.
            // SAFETY: reaps the child that failed; no pointer is passed.
            unsafe { syscall(nr::WAIT4, [pid as usize, 0, 0, 0, 0]) };
            Err(((failed >> 16) as u8, (failed & 0xffff) as i32))
        }
    }
}

extern "C" fn child(plan: usize) -> ! {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: `main` passes the address of its plan and is suspended.
    let plan = unsafe { &*(plan as *const Plan) };
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: no pointers.
    unsafe { syscall(nr::SETSID, [0; 5]) };
    crate::set_mask(0);
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: `cwd` is a text of the kernel's argument area.
    let moved = unsafe { syscall(nr::CHDIR, [plan.cwd as usize, 0, 0, 0, 0]) };
    if moved < 0 {
        fail(b'C', -moved as i32);
    }
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: `argv[0]` is there and is a text.
    let errno = unsafe { exec(plan) };
    fail(b'X', errno)
}

fn fail(stage: u8, errno: i32) -> ! {
    FAILED.store((stage as u32) << 16 | errno as u32 & 0xffff, Ordering::SeqCst);
    crate::exit(127)
}

/// Tries the program itself where its name has a slash, else in each directory of `PATH`.
unsafe fn exec(plan: &Plan) -> i32 {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: as in the caller.
    let name = unsafe { text(*plan.argv) };
    if name.contains(&b'/') {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: `name` is followed by its NUL.
        return unsafe { execve(name.as_ptr(), plan) };
    }
    if name.is_empty() {
        return ENOENT;
    }
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: `envp` ends with a null.
    let path = unsafe { path_of(plan.envp) };
    let mut worst = ENOENT;
    for dir in path.split(|b| *b == b':') {
        let mut full = [0u8; PATH_MAX];
        let slash: &[u8] = if dir.is_empty() { b"./" } else { b"/" };
        if dir.len() + slash.len() + name.len() >= PATH_MAX {
            worst = ENAMETOOLONG;
            continue;
        }
        let bytes = dir.iter().chain(slash).chain(name);
        for (to, from) in full.iter_mut().zip(bytes) {
            *to = *from;
        }
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: `full` ends with a NUL, as it is longer than its text.
        match unsafe { execve(full.as_ptr(), plan) } {
            ENOENT | ENOTDIR => {}
            EACCES => worst = EACCES,
            other => return other,
        }
    }
    worst
}

unsafe fn execve(path: *const u8, plan: &Plan) -> i32 {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: a text and two arrays that end with a null.
    let r = unsafe {
        syscall(nr::EXECVE, [path as usize, plan.argv as usize, plan.envp as usize, 0, 0])
    };
    -r as i32
}

unsafe fn path_of(envp: *const *const u8) -> &'static [u8] {
    let mut at = envp;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the array ends with a null, and its entries are texts.
    unsafe {
        while !(*at).is_null() {
            if let Some(path) = text(*at).strip_prefix(b"PATH=") {
                return path;
            }
            at = at.add(1);
        }
    }
    b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

unsafe fn text(start: *const u8) -> &'static [u8] {
    let mut len = 0;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the text ends with a NUL, and stays for the life of the process.
    unsafe {
        while *start.add(len) != 0 {
            len += 1;
        }
        core::slice::from_raw_parts(start, len)
    }
}
