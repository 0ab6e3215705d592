//! Entry and system calls on aarch64.

use core::arch::{asm, global_asm};

/// Numbers of the system calls that init uses.
pub mod nr {
    pub const FCNTL: usize = 25;
    pub const CHDIR: usize = 49;
    pub const CLOSE: usize = 57;
    pub const WRITE: usize = 64;
    pub const PWRITE64: usize = 68;
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const KILL: usize = 129;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const SETSID: usize = 157;
    pub const PRCTL: usize = 167;
    pub const EXECVE: usize = 221;
    pub const WAIT4: usize = 260;
}

global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, #0",
    "mov x30, #0",
    "mov x0, sp",
    "bl init_main",
    "brk #1",
);

/// One system call. Every pointer among the arguments must be right for the call.
pub unsafe fn syscall(nr: usize, args: [usize; 5]) -> isize {
    let result: isize;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the convention of the kernel; the caller answers for the arguments.
    unsafe {
        asm!("svc #0", in("x8") nr, inlateout("x0") args[0] as isize => result,
            in("x1") args[1], in("x2") args[2], in("x3") args[3], in("x4") args[4],
            options(nostack));
    }
    result
}

/// Starts `child(arg)` in our memory on the stack that ends at `top`; goes on once the child
/// has executed a program or ended. Answers its pid or a negative error number.
pub unsafe fn vfork_on(top: usize, child: extern "C" fn(usize) -> !, arg: usize) -> isize {
    let result: isize;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: CLONE_VM | CLONE_VFORK | SIGCHLD; the child leaves this code at once for a
    // function that does not return.
    unsafe {
        asm!("svc #0", "cbnz x0, 2f", "mov x29, #0", "mov x0, x21", "blr x20", "brk #1", "2:",
            in("x8") 220usize, inlateout("x0") 0x4111isize => result, in("x1") top,
            in("x2") 0usize, in("x3") 0usize, in("x4") 0usize, in("x20") child, in("x21") arg,
            lateout("x30") _);
    }
    result
}
