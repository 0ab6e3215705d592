//! PID 1 of an instance: starts the main process, reaps everything, forwards signals, and
//! writes how main ended to a file that nothing inside can reach.
//!
//! `argv`: own name, then working directory and the main process's own argv; with the name
//! alone it idles. `envp` is the main process's. Descriptors: 3 status file, 4 ready pipe,
//! 6 read end of main's output (kept so that main gets no SIGPIPE when the supervisor dies).
//!
//! Stand-alone: no libc, no heap, no panics. The crate's build script compiles it.
#![no_std]
#![no_main]

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
mod mem;
mod start;

use arch::{nr, syscall};

/// Head of the status record; the supervisor's `files` module reads it.
const MAGIC: [u8; 8] = *b"SKMAIN01";
const STATUS: usize = 3;
const READY: usize = 4;
const OUTPUT: usize = 6;

const SIGTERM: usize = 15;
const SIGCHLD: usize = 17;
const CAP_KILL: u32 = 1 << 5;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(125)
}

fn exit(code: usize) -> ! {
    loop {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: exit_group takes no pointer and does not return.
        unsafe { syscall(nr::EXIT_GROUP, [code, 0, 0, 0, 0]) };
    }
}

/// Called by the entry code with the stack as the kernel left it.
#[unsafe(no_mangle)]
unsafe extern "C" fn init_main(stack: *const usize) -> ! {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: at entry the stack holds argc, argv with a null, envp with a null.
    let (argc, argv, envp) = unsafe {
        let argc = *stack;
        (argc, stack.add(1).cast::<*const u8>(), stack.add(argc + 2).cast::<*const u8>())
    };
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: plain calls without pointers; nothing here depends on their success but secrecy
    // of the status file, which is root's alone anyway.
    unsafe {
        syscall(nr::PRCTL, [4, 0, 0, 0, 0]); // PR_SET_DUMPABLE 0
        for fd in [STATUS, READY, OUTPUT] {
            syscall(nr::FCNTL, [fd, 2, 1, 0, 0]); // F_SETFD FD_CLOEXEC
        }
    }
    set_mask(!0);
    let main = if argc > 2 {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: the arrays are the kernel's and end with a null.
        match unsafe { start::main(argv, envp) } {
            Ok(pid) => pid,
            Err((stage, errno)) => {
                report(&[b'E', stage, errno as u8, (errno >> 8) as u8]);
                exit(127)
            }
        }
    } else {
        0
    };
    // CAP_KILL stays beside a main process: one that changed its user must still get SIGTERM.
    drop_capabilities(if main > 0 { CAP_KILL } else { 0 });
    report(b"R");
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: closes a descriptor that is not used any more.
    unsafe { syscall(nr::CLOSE, [READY, 0, 0, 0, 0]) };
    attend(main)
}

fn attend(main: isize) -> ! {
    let all = !0u64;
    loop {
        let mut info = [0u32; 32];
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: the kernel reads 8 bytes of the set and writes 128 of the info.
        let sig = unsafe {
            syscall(
                nr::RT_SIGTIMEDWAIT,
                [&raw const all as usize, info.as_mut_ptr() as usize, 0, 8, 0],
            )
        };
        if sig == SIGCHLD as isize {
            reap(main);
        } else if sig > 0 && main > 0 {
            // JUSTIFICATION: stand-alone code, without a library that could do it safely.
            // SAFETY: no pointers.
            unsafe { syscall(nr::KILL, [main as usize, sig as usize, 0, 0, 0]) };
        } else if sig == SIGTERM as isize && info[4] == 0 {
            // Sender 0 is outside of this pid namespace: the supervisor asks.
            exit(0);
        }
    }
}

fn reap(main: isize) {
    loop {
        let mut status = 0i32;
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: the kernel writes 4 bytes to `status`.
        let pid = unsafe { syscall(nr::WAIT4, [usize::MAX, &raw mut status as usize, 1, 0, 0]) };
        if pid <= 0 {
            return;
        }
        if pid == main {
            record(status);
            let signal = status & 0x7f;
            exit(if signal == 0 { (status >> 8) & 0xff } else { 128 + signal } as usize);
        }
    }
}

fn record(status: i32) {
    let mut text = [0u8; 16];
    let parts = [MAGIC, join(status.to_le_bytes(), (!status).to_le_bytes())];
    for (to, from) in text.iter_mut().zip(parts.as_flattened()) {
        *to = *from;
    }
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the kernel reads 16 bytes of `text`.
    unsafe { syscall(nr::PWRITE64, [STATUS, text.as_ptr() as usize, text.len(), 0, 0]) };
}

fn join(a: [u8; 4], b: [u8; 4]) -> [u8; 8] {
    [a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]]
}

fn report(text: &[u8]) {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the kernel reads `text`.
    unsafe { syscall(nr::WRITE, [READY, text.as_ptr() as usize, text.len(), 0, 0]) };
}

fn set_mask(set: u64) {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: SIG_SETMASK reads 8 bytes of `set`.
    unsafe { syscall(nr::RT_SIGPROCMASK, [2, &raw const set as usize, 0, 8, 0]) };
}

fn drop_capabilities(keep: u32) {
    let head = [0x2008_0522u32, 0];
    let data = [keep, keep, 0, 0, 0, 0];
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: version 3 reads two words of the head and six of the data.
    unsafe { syscall(nr::CAPSET, [head.as_ptr() as usize, data.as_ptr() as usize, 0, 0, 0]) };
}
