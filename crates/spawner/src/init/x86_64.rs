//! Entry and system calls on x86_64.

use core::arch::{asm, global_asm};

/// Numbers of the system calls that init uses.
pub mod nr {
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const PWRITE64: usize = 18;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const SETSID: usize = 112;
    pub const CAPSET: usize = 126;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const PRCTL: usize = 157;
    pub const EXIT_GROUP: usize = 231;
}

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call init_main",
    "ud2",
);

/// One system call. Every pointer among the arguments must be right for the call.
pub unsafe fn syscall(nr: usize, args: [usize; 5]) -> isize {
    let result: isize;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the convention of the kernel; the caller answers for the arguments.
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3],
            in("r8") args[4], lateout("rcx") _, lateout("r11") _, options(nostack));
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
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r13",
            "call r12", "ud2", "2:",
            inlateout("rax") 56isize => result, in("rdi") 0x4111usize, in("rsi") top,
            in("rdx") 0usize, in("r10") 0usize, in("r8") 0usize, in("r12") child, in("r13") arg,
            lateout("rcx") _, lateout("r11") _);
    }
    result
}
