//! What a worker may call: files beneath what it sees, memory, threads, its inherited sockets.
//! No new process, no program, no socket to anywhere, nobody to look into or to signal.

use super::compile::{Action, Profile};
use super::rules::{CLONE, CLONE_REFUSED, CLONE3, SOCKETPAIR, UNIX};
use crate::pagemap::PAGEMAP_SCAN;

/// Names of threads and of memory, whether others may look into this process, and what the kernel
/// told it at its start.
const PRCTL: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_DUMPABLE as u32,
    0x5356_4d41,
    0x4155_5856,
];

/// Non-blocking and close-on-exec by another name, how much is there, is it a terminal, which
/// pages were written.
const IOCTL: &[u32] = &[
    libc::FIONBIO as u32,
    libc::FIONREAD as u32,
    libc::FIOCLEX as u32,
    libc::TCGETS as u32,
    PAGEMAP_SCAN,
];

pub(super) const PROFILE: Profile = Profile {
    allowed: ALLOWED,
    special: &[
        // Threads of this process, and no process.
        (CLONE, Action::With(libc::CLONE_THREAD as u32, CLONE_REFUSED)),
        (CLONE3, Action::Unknown),
        // A runtime talks to itself; there is no socket to talk to others.
        (SOCKETPAIR, Action::OneOf(0, UNIX)),
        (libc::SYS_prctl as u32, Action::OneOf(0, PRCTL)),
        (libc::SYS_ioctl as u32, Action::OneOf(1, IOCTL)),
    ],
};

const ALLOWED: &[(&str, u32)] = &[
    // Files and directories.
    ("read", libc::SYS_read as u32),
    ("write", libc::SYS_write as u32),
    ("readv", libc::SYS_readv as u32),
    ("writev", libc::SYS_writev as u32),
    ("pread64", libc::SYS_pread64 as u32),
    ("pwrite64", libc::SYS_pwrite64 as u32),
    ("preadv", libc::SYS_preadv as u32),
    ("pwritev", libc::SYS_pwritev as u32),
    ("preadv2", libc::SYS_preadv2 as u32),
    ("pwritev2", libc::SYS_pwritev2 as u32),
    ("openat", libc::SYS_openat as u32),
    ("openat2", libc::SYS_openat2 as u32),
    ("close", libc::SYS_close as u32),
    ("close_range", libc::SYS_close_range as u32),
    ("lseek", libc::SYS_lseek as u32),
    ("fstat", libc::SYS_fstat as u32),
    ("newfstatat", libc::SYS_newfstatat as u32),
    ("statx", libc::SYS_statx as u32),
    ("statfs", libc::SYS_statfs as u32),
    ("fstatfs", libc::SYS_fstatfs as u32),
    ("faccessat", libc::SYS_faccessat as u32),
    ("faccessat2", libc::SYS_faccessat2 as u32),
    ("readlinkat", libc::SYS_readlinkat as u32),
    ("getdents64", libc::SYS_getdents64 as u32),
    ("getcwd", libc::SYS_getcwd as u32),
    ("mkdirat", libc::SYS_mkdirat as u32),
    ("linkat", libc::SYS_linkat as u32),
    ("symlinkat", libc::SYS_symlinkat as u32),
    ("unlinkat", libc::SYS_unlinkat as u32),
    ("renameat2", libc::SYS_renameat2 as u32),
    ("fchmod", libc::SYS_fchmod as u32),
    ("fchmodat", libc::SYS_fchmodat as u32),
    ("ftruncate", libc::SYS_ftruncate as u32),
    ("fallocate", libc::SYS_fallocate as u32),
    ("fadvise64", libc::SYS_fadvise64 as u32),
    ("readahead", libc::SYS_readahead as u32),
    ("copy_file_range", libc::SYS_copy_file_range as u32),
    ("sendfile", libc::SYS_sendfile as u32),
    ("fsync", libc::SYS_fsync as u32),
    ("fdatasync", libc::SYS_fdatasync as u32),
    ("flock", libc::SYS_flock as u32),
    ("fcntl", libc::SYS_fcntl as u32),
    ("dup", libc::SYS_dup as u32),
    ("dup3", libc::SYS_dup3 as u32),
    ("pipe2", libc::SYS_pipe2 as u32),
    ("utimensat", libc::SYS_utimensat as u32),
    #[cfg(target_arch = "x86_64")]
    ("open", libc::SYS_open as u32),
    #[cfg(target_arch = "x86_64")]
    ("stat", libc::SYS_stat as u32),
    #[cfg(target_arch = "x86_64")]
    ("lstat", libc::SYS_lstat as u32),
    #[cfg(target_arch = "x86_64")]
    ("access", libc::SYS_access as u32),
    #[cfg(target_arch = "x86_64")]
    ("readlink", libc::SYS_readlink as u32),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", libc::SYS_mkdir as u32),
    #[cfg(target_arch = "x86_64")]
    ("rmdir", libc::SYS_rmdir as u32),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink as u32),
    #[cfg(target_arch = "x86_64")]
    ("rename", libc::SYS_rename as u32),
    #[cfg(target_arch = "x86_64")]
    ("renameat", libc::SYS_renameat as u32),
    #[cfg(target_arch = "x86_64")]
    ("dup2", libc::SYS_dup2 as u32),
    // Waiting for many.
    ("ppoll", libc::SYS_ppoll as u32),
    ("epoll_create1", libc::SYS_epoll_create1 as u32),
    ("epoll_ctl", libc::SYS_epoll_ctl as u32),
    ("epoll_pwait", libc::SYS_epoll_pwait as u32),
    ("epoll_pwait2", libc::SYS_epoll_pwait2 as u32),
    ("eventfd2", libc::SYS_eventfd2 as u32),
    ("timerfd_create", libc::SYS_timerfd_create as u32),
    ("timerfd_settime", libc::SYS_timerfd_settime as u32),
    #[cfg(target_arch = "x86_64")]
    ("poll", libc::SYS_poll as u32),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", libc::SYS_epoll_wait as u32),
    // Memory.
    ("brk", libc::SYS_brk as u32),
    ("mmap", libc::SYS_mmap as u32),
    ("munmap", libc::SYS_munmap as u32),
    ("mprotect", libc::SYS_mprotect as u32),
    ("mremap", libc::SYS_mremap as u32),
    ("madvise", libc::SYS_madvise as u32),
    ("mincore", libc::SYS_mincore as u32),
    ("memfd_create", libc::SYS_memfd_create as u32),
    ("membarrier", libc::SYS_membarrier as u32),
    // Threads of this process.
    ("exit", libc::SYS_exit as u32),
    ("exit_group", libc::SYS_exit_group as u32),
    ("tgkill", libc::SYS_tgkill as u32),
    ("getpid", libc::SYS_getpid as u32),
    ("gettid", libc::SYS_gettid as u32),
    ("set_tid_address", libc::SYS_set_tid_address as u32),
    ("set_robust_list", libc::SYS_set_robust_list as u32),
    ("rseq", libc::SYS_rseq as u32),
    ("futex", libc::SYS_futex as u32),
    ("futex_waitv", libc::SYS_futex_waitv as u32),
    ("getcpu", libc::SYS_getcpu as u32),
    ("restart_syscall", libc::SYS_restart_syscall as u32),
    ("sched_yield", libc::SYS_sched_yield as u32),
    ("sched_getaffinity", libc::SYS_sched_getaffinity as u32),
    ("sched_getparam", libc::SYS_sched_getparam as u32),
    ("sched_getscheduler", libc::SYS_sched_getscheduler as u32),
    #[cfg(target_arch = "x86_64")]
    ("arch_prctl", libc::SYS_arch_prctl as u32),
    // Who and what it is.
    ("getuid", libc::SYS_getuid as u32),
    ("geteuid", libc::SYS_geteuid as u32),
    ("getgid", libc::SYS_getgid as u32),
    ("getegid", libc::SYS_getegid as u32),
    ("prlimit64", libc::SYS_prlimit64 as u32),
    ("getrusage", libc::SYS_getrusage as u32),
    ("sysinfo", libc::SYS_sysinfo as u32),
    ("uname", libc::SYS_uname as u32),
    ("getrandom", libc::SYS_getrandom as u32),
    // Signals to itself and time.
    ("rt_sigaction", libc::SYS_rt_sigaction as u32),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask as u32),
    ("rt_sigreturn", libc::SYS_rt_sigreturn as u32),
    ("sigaltstack", libc::SYS_sigaltstack as u32),
    ("nanosleep", libc::SYS_nanosleep as u32),
    ("clock_nanosleep", libc::SYS_clock_nanosleep as u32),
    ("clock_gettime", libc::SYS_clock_gettime as u32),
    ("clock_getres", libc::SYS_clock_getres as u32),
    ("gettimeofday", libc::SYS_gettimeofday as u32),
    // The sockets that it was given.
    ("getsockopt", libc::SYS_getsockopt as u32),
    ("shutdown", libc::SYS_shutdown as u32),
    ("sendto", libc::SYS_sendto as u32),
    ("sendmsg", libc::SYS_sendmsg as u32),
    ("recvfrom", libc::SYS_recvfrom as u32),
    ("recvmsg", libc::SYS_recvmsg as u32),
];
