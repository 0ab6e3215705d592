//! The rules: what works without privilege over the machine, after the profile that Docker users
//! know, less what needs CAP_SYS_ADMIN or CAP_SYS_PTRACE, io_uring, keyrings and odd sockets.

/// New namespaces; threads and processes without them are free.
pub(super) const CLONE_REFUSED: u32 = 0x7E02_0000;

/// Families of `socket`. Others (vsock, packet, alg, …) reach the host or much kernel code.
pub(super) const FAMILIES: &[u32] =
    &[libc::AF_UNIX as u32, libc::AF_INET as u32, libc::AF_INET6 as u32, libc::AF_NETLINK as u32];

/// The only family of `socketpair`.
pub(super) const UNIX: &[u32] = &[libc::AF_UNIX as u32];

/// Values of `personality`: Linux with and without 32 bit uname and fixed addresses, and the
/// question which it is.
pub(super) const PERSONALITIES: &[u32] = &[0, 8, 0x2_0000, 0x2_0008, 0xFFFF_FFFF];

/// The newest call that these rules know of; later ones are ENOSYS.
pub(super) const LAST: u32 = 462;

pub(super) const CLONE: u32 = libc::SYS_clone as u32;
pub(super) const CLONE3: u32 = libc::SYS_clone3 as u32;
pub(super) const SOCKET: u32 = libc::SYS_socket as u32;
pub(super) const SOCKETPAIR: u32 = libc::SYS_socketpair as u32;
pub(super) const PERSONALITY: u32 = libc::SYS_personality as u32;

/// Calls that are allowed whatever their arguments: name and number.
pub(super) const ALLOWED: &[(&str, u32)] = &[
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
    ("chdir", libc::SYS_chdir as u32),
    ("fchdir", libc::SYS_fchdir as u32),
    ("chroot", libc::SYS_chroot as u32),
    ("mkdirat", libc::SYS_mkdirat as u32),
    ("mknodat", libc::SYS_mknodat as u32),
    ("linkat", libc::SYS_linkat as u32),
    ("symlinkat", libc::SYS_symlinkat as u32),
    ("unlinkat", libc::SYS_unlinkat as u32),
    ("renameat2", libc::SYS_renameat2 as u32),
    ("fchmod", libc::SYS_fchmod as u32),
    ("fchmodat", libc::SYS_fchmodat as u32),
    ("fchown", libc::SYS_fchown as u32),
    ("fchownat", libc::SYS_fchownat as u32),
    ("umask", libc::SYS_umask as u32),
    ("truncate", libc::SYS_truncate as u32),
    ("ftruncate", libc::SYS_ftruncate as u32),
    ("fallocate", libc::SYS_fallocate as u32),
    ("fadvise64", libc::SYS_fadvise64 as u32),
    ("readahead", libc::SYS_readahead as u32),
    ("copy_file_range", libc::SYS_copy_file_range as u32),
    ("sendfile", libc::SYS_sendfile as u32),
    ("splice", libc::SYS_splice as u32),
    ("tee", libc::SYS_tee as u32),
    ("vmsplice", libc::SYS_vmsplice as u32),
    ("sync", libc::SYS_sync as u32),
    ("syncfs", libc::SYS_syncfs as u32),
    ("fsync", libc::SYS_fsync as u32),
    ("fdatasync", libc::SYS_fdatasync as u32),
    ("flock", libc::SYS_flock as u32),
    ("fcntl", libc::SYS_fcntl as u32),
    ("ioctl", libc::SYS_ioctl as u32),
    ("dup", libc::SYS_dup as u32),
    ("dup3", libc::SYS_dup3 as u32),
    ("pipe2", libc::SYS_pipe2 as u32),
    ("utimensat", libc::SYS_utimensat as u32),
    #[cfg(target_arch = "x86_64")]
    ("creat", libc::SYS_creat as u32),
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
    ("getdents", libc::SYS_getdents as u32),
    #[cfg(target_arch = "x86_64")]
    ("mkdir", libc::SYS_mkdir as u32),
    #[cfg(target_arch = "x86_64")]
    ("rmdir", libc::SYS_rmdir as u32),
    #[cfg(target_arch = "x86_64")]
    ("mknod", libc::SYS_mknod as u32),
    #[cfg(target_arch = "x86_64")]
    ("link", libc::SYS_link as u32),
    #[cfg(target_arch = "x86_64")]
    ("symlink", libc::SYS_symlink as u32),
    #[cfg(target_arch = "x86_64")]
    ("unlink", libc::SYS_unlink as u32),
    #[cfg(target_arch = "x86_64")]
    ("rename", libc::SYS_rename as u32),
    #[cfg(target_arch = "x86_64")]
    ("renameat", libc::SYS_renameat as u32),
    #[cfg(target_arch = "x86_64")]
    ("chmod", libc::SYS_chmod as u32),
    #[cfg(target_arch = "x86_64")]
    ("chown", libc::SYS_chown as u32),
    #[cfg(target_arch = "x86_64")]
    ("lchown", libc::SYS_lchown as u32),
    #[cfg(target_arch = "x86_64")]
    ("sync_file_range", libc::SYS_sync_file_range as u32),
    #[cfg(target_arch = "x86_64")]
    ("dup2", libc::SYS_dup2 as u32),
    #[cfg(target_arch = "x86_64")]
    ("pipe", libc::SYS_pipe as u32),
    #[cfg(target_arch = "x86_64")]
    ("utime", libc::SYS_utime as u32),
    #[cfg(target_arch = "x86_64")]
    ("utimes", libc::SYS_utimes as u32),
    #[cfg(target_arch = "x86_64")]
    ("futimesat", libc::SYS_futimesat as u32),
    ("fchmodat2", 452),
    ("cachestat", 451),
    // Extended attributes.
    ("getxattr", libc::SYS_getxattr as u32),
    ("lgetxattr", libc::SYS_lgetxattr as u32),
    ("fgetxattr", libc::SYS_fgetxattr as u32),
    ("setxattr", libc::SYS_setxattr as u32),
    ("lsetxattr", libc::SYS_lsetxattr as u32),
    ("fsetxattr", libc::SYS_fsetxattr as u32),
    ("listxattr", libc::SYS_listxattr as u32),
    ("llistxattr", libc::SYS_llistxattr as u32),
    ("flistxattr", libc::SYS_flistxattr as u32),
    ("removexattr", libc::SYS_removexattr as u32),
    ("lremovexattr", libc::SYS_lremovexattr as u32),
    ("fremovexattr", libc::SYS_fremovexattr as u32),
    // Waiting for many.
    ("pselect6", libc::SYS_pselect6 as u32),
    ("ppoll", libc::SYS_ppoll as u32),
    ("epoll_create1", libc::SYS_epoll_create1 as u32),
    ("epoll_ctl", libc::SYS_epoll_ctl as u32),
    ("epoll_pwait", libc::SYS_epoll_pwait as u32),
    ("epoll_pwait2", libc::SYS_epoll_pwait2 as u32),
    ("eventfd2", libc::SYS_eventfd2 as u32),
    ("signalfd4", libc::SYS_signalfd4 as u32),
    ("timerfd_create", libc::SYS_timerfd_create as u32),
    ("timerfd_settime", libc::SYS_timerfd_settime as u32),
    ("timerfd_gettime", libc::SYS_timerfd_gettime as u32),
    ("inotify_init1", libc::SYS_inotify_init1 as u32),
    ("inotify_add_watch", libc::SYS_inotify_add_watch as u32),
    ("inotify_rm_watch", libc::SYS_inotify_rm_watch as u32),
    ("fanotify_mark", libc::SYS_fanotify_mark as u32),
    ("io_setup", libc::SYS_io_setup as u32),
    ("io_destroy", libc::SYS_io_destroy as u32),
    ("io_submit", libc::SYS_io_submit as u32),
    ("io_cancel", libc::SYS_io_cancel as u32),
    ("io_getevents", libc::SYS_io_getevents as u32),
    #[cfg(target_arch = "x86_64")]
    ("select", libc::SYS_select as u32),
    #[cfg(target_arch = "x86_64")]
    ("poll", libc::SYS_poll as u32),
    #[cfg(target_arch = "x86_64")]
    ("epoll_create", libc::SYS_epoll_create as u32),
    #[cfg(target_arch = "x86_64")]
    ("epoll_wait", libc::SYS_epoll_wait as u32),
    #[cfg(target_arch = "x86_64")]
    ("eventfd", libc::SYS_eventfd as u32),
    #[cfg(target_arch = "x86_64")]
    ("signalfd", libc::SYS_signalfd as u32),
    #[cfg(target_arch = "x86_64")]
    ("inotify_init", libc::SYS_inotify_init as u32),
    // Memory.
    ("brk", libc::SYS_brk as u32),
    ("mmap", libc::SYS_mmap as u32),
    ("munmap", libc::SYS_munmap as u32),
    ("mprotect", libc::SYS_mprotect as u32),
    ("mremap", libc::SYS_mremap as u32),
    ("msync", libc::SYS_msync as u32),
    ("madvise", libc::SYS_madvise as u32),
    ("mincore", libc::SYS_mincore as u32),
    ("mlock", libc::SYS_mlock as u32),
    ("mlock2", libc::SYS_mlock2 as u32),
    ("mlockall", libc::SYS_mlockall as u32),
    ("munlock", libc::SYS_munlock as u32),
    ("munlockall", libc::SYS_munlockall as u32),
    ("remap_file_pages", libc::SYS_remap_file_pages as u32),
    ("memfd_create", libc::SYS_memfd_create as u32),
    ("memfd_secret", libc::SYS_memfd_secret as u32),
    ("membarrier", libc::SYS_membarrier as u32),
    ("pkey_alloc", libc::SYS_pkey_alloc as u32),
    ("pkey_free", libc::SYS_pkey_free as u32),
    ("pkey_mprotect", libc::SYS_pkey_mprotect as u32),
    ("shmget", libc::SYS_shmget as u32),
    ("shmat", libc::SYS_shmat as u32),
    ("shmctl", libc::SYS_shmctl as u32),
    ("shmdt", libc::SYS_shmdt as u32),
    ("map_shadow_stack", 453),
    ("mseal", 462),
    // Processes and threads.
    ("execve", libc::SYS_execve as u32),
    ("execveat", libc::SYS_execveat as u32),
    ("exit", libc::SYS_exit as u32),
    ("exit_group", libc::SYS_exit_group as u32),
    ("wait4", libc::SYS_wait4 as u32),
    ("waitid", libc::SYS_waitid as u32),
    ("kill", libc::SYS_kill as u32),
    ("tkill", libc::SYS_tkill as u32),
    ("tgkill", libc::SYS_tgkill as u32),
    ("pidfd_open", libc::SYS_pidfd_open as u32),
    ("pidfd_send_signal", libc::SYS_pidfd_send_signal as u32),
    ("getpid", libc::SYS_getpid as u32),
    ("getppid", libc::SYS_getppid as u32),
    ("gettid", libc::SYS_gettid as u32),
    ("getpgid", libc::SYS_getpgid as u32),
    ("setpgid", libc::SYS_setpgid as u32),
    ("getsid", libc::SYS_getsid as u32),
    ("setsid", libc::SYS_setsid as u32),
    ("set_tid_address", libc::SYS_set_tid_address as u32),
    ("set_robust_list", libc::SYS_set_robust_list as u32),
    ("get_robust_list", libc::SYS_get_robust_list as u32),
    ("rseq", libc::SYS_rseq as u32),
    ("futex", libc::SYS_futex as u32),
    ("futex_waitv", libc::SYS_futex_waitv as u32),
    ("prctl", libc::SYS_prctl as u32),
    ("getcpu", libc::SYS_getcpu as u32),
    ("process_mrelease", libc::SYS_process_mrelease as u32),
    ("restart_syscall", libc::SYS_restart_syscall as u32),
    ("seccomp", libc::SYS_seccomp as u32),
    ("landlock_create_ruleset", libc::SYS_landlock_create_ruleset as u32),
    ("landlock_add_rule", libc::SYS_landlock_add_rule as u32),
    ("landlock_restrict_self", libc::SYS_landlock_restrict_self as u32),
    #[cfg(target_arch = "x86_64")]
    ("fork", libc::SYS_fork as u32),
    #[cfg(target_arch = "x86_64")]
    ("vfork", libc::SYS_vfork as u32),
    #[cfg(target_arch = "x86_64")]
    ("getpgrp", libc::SYS_getpgrp as u32),
    #[cfg(target_arch = "x86_64")]
    ("arch_prctl", libc::SYS_arch_prctl as u32),
    #[cfg(target_arch = "x86_64")]
    ("modify_ldt", libc::SYS_modify_ldt as u32),
    #[cfg(target_arch = "x86_64")]
    ("set_thread_area", libc::SYS_set_thread_area as u32),
    #[cfg(target_arch = "x86_64")]
    ("get_thread_area", libc::SYS_get_thread_area as u32),
    ("futex_wake", 454),
    ("futex_wait", 455),
    ("futex_requeue", 456),
    // Identity.
    ("getuid", libc::SYS_getuid as u32),
    ("geteuid", libc::SYS_geteuid as u32),
    ("getgid", libc::SYS_getgid as u32),
    ("getegid", libc::SYS_getegid as u32),
    ("getresuid", libc::SYS_getresuid as u32),
    ("getresgid", libc::SYS_getresgid as u32),
    ("getgroups", libc::SYS_getgroups as u32),
    ("setuid", libc::SYS_setuid as u32),
    ("setgid", libc::SYS_setgid as u32),
    ("setreuid", libc::SYS_setreuid as u32),
    ("setregid", libc::SYS_setregid as u32),
    ("setresuid", libc::SYS_setresuid as u32),
    ("setresgid", libc::SYS_setresgid as u32),
    ("setfsuid", libc::SYS_setfsuid as u32),
    ("setfsgid", libc::SYS_setfsgid as u32),
    ("setgroups", libc::SYS_setgroups as u32),
    ("capget", libc::SYS_capget as u32),
    ("capset", libc::SYS_capset as u32),
    // Limits and scheduling.
    ("prlimit64", libc::SYS_prlimit64 as u32),
    ("getrusage", libc::SYS_getrusage as u32),
    ("times", libc::SYS_times as u32),
    ("sysinfo", libc::SYS_sysinfo as u32),
    ("uname", libc::SYS_uname as u32),
    ("getpriority", libc::SYS_getpriority as u32),
    ("setpriority", libc::SYS_setpriority as u32),
    ("ioprio_get", libc::SYS_ioprio_get as u32),
    ("ioprio_set", libc::SYS_ioprio_set as u32),
    ("sched_yield", libc::SYS_sched_yield as u32),
    ("sched_getaffinity", libc::SYS_sched_getaffinity as u32),
    ("sched_setaffinity", libc::SYS_sched_setaffinity as u32),
    ("sched_getparam", libc::SYS_sched_getparam as u32),
    ("sched_setparam", libc::SYS_sched_setparam as u32),
    ("sched_getscheduler", libc::SYS_sched_getscheduler as u32),
    ("sched_setscheduler", libc::SYS_sched_setscheduler as u32),
    ("sched_getattr", libc::SYS_sched_getattr as u32),
    ("sched_setattr", libc::SYS_sched_setattr as u32),
    ("sched_get_priority_max", libc::SYS_sched_get_priority_max as u32),
    ("sched_get_priority_min", libc::SYS_sched_get_priority_min as u32),
    ("sched_rr_get_interval", libc::SYS_sched_rr_get_interval as u32),
    #[cfg(target_arch = "x86_64")]
    ("getrlimit", libc::SYS_getrlimit as u32),
    #[cfg(target_arch = "x86_64")]
    ("setrlimit", libc::SYS_setrlimit as u32),
    // Signals and time.
    ("rt_sigaction", libc::SYS_rt_sigaction as u32),
    ("rt_sigprocmask", libc::SYS_rt_sigprocmask as u32),
    ("rt_sigpending", libc::SYS_rt_sigpending as u32),
    ("rt_sigqueueinfo", libc::SYS_rt_sigqueueinfo as u32),
    ("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo as u32),
    ("rt_sigreturn", libc::SYS_rt_sigreturn as u32),
    ("rt_sigsuspend", libc::SYS_rt_sigsuspend as u32),
    ("rt_sigtimedwait", libc::SYS_rt_sigtimedwait as u32),
    ("sigaltstack", libc::SYS_sigaltstack as u32),
    ("nanosleep", libc::SYS_nanosleep as u32),
    ("clock_nanosleep", libc::SYS_clock_nanosleep as u32),
    ("clock_gettime", libc::SYS_clock_gettime as u32),
    ("clock_getres", libc::SYS_clock_getres as u32),
    ("clock_adjtime", libc::SYS_clock_adjtime as u32),
    ("adjtimex", libc::SYS_adjtimex as u32),
    ("gettimeofday", libc::SYS_gettimeofday as u32),
    ("getitimer", libc::SYS_getitimer as u32),
    ("setitimer", libc::SYS_setitimer as u32),
    ("timer_create", libc::SYS_timer_create as u32),
    ("timer_settime", libc::SYS_timer_settime as u32),
    ("timer_gettime", libc::SYS_timer_gettime as u32),
    ("timer_getoverrun", libc::SYS_timer_getoverrun as u32),
    ("timer_delete", libc::SYS_timer_delete as u32),
    #[cfg(target_arch = "x86_64")]
    ("alarm", libc::SYS_alarm as u32),
    #[cfg(target_arch = "x86_64")]
    ("pause", libc::SYS_pause as u32),
    #[cfg(target_arch = "x86_64")]
    ("time", libc::SYS_time as u32),
    // Sockets and messages.
    ("bind", libc::SYS_bind as u32),
    ("listen", libc::SYS_listen as u32),
    ("accept", libc::SYS_accept as u32),
    ("accept4", libc::SYS_accept4 as u32),
    ("connect", libc::SYS_connect as u32),
    ("getsockname", libc::SYS_getsockname as u32),
    ("getpeername", libc::SYS_getpeername as u32),
    ("getsockopt", libc::SYS_getsockopt as u32),
    ("setsockopt", libc::SYS_setsockopt as u32),
    ("shutdown", libc::SYS_shutdown as u32),
    ("sendto", libc::SYS_sendto as u32),
    ("sendmsg", libc::SYS_sendmsg as u32),
    ("sendmmsg", libc::SYS_sendmmsg as u32),
    ("recvfrom", libc::SYS_recvfrom as u32),
    ("recvmsg", libc::SYS_recvmsg as u32),
    ("recvmmsg", libc::SYS_recvmmsg as u32),
    ("semget", libc::SYS_semget as u32),
    ("semop", libc::SYS_semop as u32),
    ("semtimedop", libc::SYS_semtimedop as u32),
    ("semctl", libc::SYS_semctl as u32),
    ("msgget", libc::SYS_msgget as u32),
    ("msgsnd", libc::SYS_msgsnd as u32),
    ("msgrcv", libc::SYS_msgrcv as u32),
    ("msgctl", libc::SYS_msgctl as u32),
    ("mq_open", libc::SYS_mq_open as u32),
    ("mq_unlink", libc::SYS_mq_unlink as u32),
    ("mq_timedsend", libc::SYS_mq_timedsend as u32),
    ("mq_timedreceive", libc::SYS_mq_timedreceive as u32),
    ("mq_notify", libc::SYS_mq_notify as u32),
    ("mq_getsetattr", libc::SYS_mq_getsetattr as u32),
    // The rest.
    ("getrandom", libc::SYS_getrandom as u32),
    ("name_to_handle_at", libc::SYS_name_to_handle_at as u32),
];
