use super::{filter, worker, worker_filter};
use crate::sys::Instruction;

const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xC000_003E } else { 0xC000_00B7 };
const ALLOW: u32 = 0x7FFF_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const KILL: u32 = 0x8000_0000;

/// Runs the filter of instances as the kernel would.
fn run(architecture: u32, number: u32, argument: u32) -> u32 {
    interpret(filter(), architecture, number, [argument, 0])
}

fn interpret(filter: &[Instruction], architecture: u32, number: u32, arguments: [u32; 2]) -> u32 {
    let (mut pc, mut a) = (0usize, 0u32);
    loop {
        let i = filter[pc];
        pc += 1;
        let test = match i.code {
            0x20 => {
                a = match i.value {
                    0 => number,
                    4 => architecture,
                    16 => arguments[0],
                    24 => arguments[1],
                    other => panic!("load of {other}"),
                };
                continue;
            }
            0x05 => {
                pc += i.value as usize;
                continue;
            }
            0x06 => return i.value,
            0x15 => a == i.value,
            0x35 => a >= i.value,
            0x45 => a & i.value != 0,
            other => panic!("code {other:#x}"),
        };
        pc += usize::from(if test { i.yes } else { i.no });
    }
}

#[test]
fn every_number_gets_what_the_rules_say() {
    let special = [
        super::rules::CLONE,
        super::rules::CLONE3,
        super::rules::SOCKET,
        super::rules::SOCKETPAIR,
        super::rules::PERSONALITY,
    ];
    let allowed: Vec<u32> = super::rules::ALLOWED.iter().map(|(_, number)| *number).collect();
    for number in (0..2000).filter(|number| !special.contains(number)) {
        let expected = match number {
            n if allowed.contains(&n) => ALLOW,
            n if n > super::rules::LAST => ENOSYS,
            _ => EPERM,
        };
        assert_eq!(run(ARCHITECTURE, number, 0), expected, "call {number}");
    }
}

#[test]
fn arguments_count() {
    use super::rules::{CLONE, CLONE3, PERSONALITY, SOCKET, SOCKETPAIR};
    for (number, argument, expected) in [
        (CLONE, 0x0001_0011, ALLOW),
        (CLONE, 0x1000_0011, EPERM),
        (CLONE, 0x0002_0000, EPERM),
        (CLONE3, 0, ENOSYS),
        (SOCKET, 1, ALLOW),
        (SOCKET, 2, ALLOW),
        (SOCKET, 16, ALLOW),
        (SOCKET, 17, EPERM),
        (SOCKET, 38, EPERM),
        (SOCKET, 40, EPERM),
        (SOCKETPAIR, 1, ALLOW),
        (SOCKETPAIR, 30, EPERM),
        (PERSONALITY, 0x2_0008, ALLOW),
        (PERSONALITY, 0xFFFF_FFFF, ALLOW),
        (PERSONALITY, 0x40_0000, EPERM),
    ] {
        assert_eq!(run(ARCHITECTURE, number, argument), expected, "{number} {argument:#x}");
    }
}

#[test]
fn another_architecture_is_killed_and_x32_unknown() {
    assert_eq!(run(0x4000_0003, 1, 0), KILL);
    assert_eq!(run(ARCHITECTURE, 0x4000_0001, 0), ENOSYS);
}

#[test]
fn what_reaches_the_machine_is_refused() {
    for number in [
        libc::SYS_unshare,
        libc::SYS_mount,
        libc::SYS_setns,
        libc::SYS_ptrace,
        libc::SYS_keyctl,
        libc::SYS_bpf,
        libc::SYS_userfaultfd,
        libc::SYS_perf_event_open,
        libc::SYS_io_uring_setup,
        libc::SYS_kexec_load,
        libc::SYS_pidfd_getfd,
        libc::SYS_open_by_handle_at,
        libc::SYS_process_vm_readv,
        libc::SYS_init_module,
        libc::SYS_reboot,
        libc::SYS_settimeofday,
        libc::SYS_fsopen,
        libc::SYS_move_mount,
        libc::SYS_open_tree,
        libc::SYS_mount_setattr,
        libc::SYS_pivot_root,
        libc::SYS_umount2,
        libc::SYS_swapon,
        libc::SYS_syslog,
        libc::SYS_add_key,
        libc::SYS_quotactl,
    ] {
        assert_eq!(run(ARCHITECTURE, number as u32, 0), EPERM, "call {number}");
    }
}

#[test]
fn workers_make_threads_and_nothing_else_new() {
    let run = |number: libc::c_long, arguments| {
        interpret(worker_filter(), ARCHITECTURE, number as u32, arguments)
    };
    let (thread, new_user) = (libc::CLONE_THREAD as u32, libc::CLONE_NEWUSER as u32);
    for (number, arguments, expected) in [
        (libc::SYS_clone, [thread, 0], ALLOW),
        (libc::SYS_clone, [0x11, 0], EPERM),
        (libc::SYS_clone, [thread | new_user, 0], EPERM),
        (libc::SYS_clone3, [0, 0], ENOSYS),
        (libc::SYS_socketpair, [1, 0], ALLOW),
        (libc::SYS_socketpair, [2, 0], EPERM),
        (libc::SYS_ioctl, [0, libc::FIONBIO as u32], ALLOW),
        (libc::SYS_ioctl, [libc::FIONBIO as u32, libc::TIOCSTI as u32], EPERM),
        (libc::SYS_prctl, [libc::PR_SET_NAME as u32, 0], ALLOW),
        (libc::SYS_prctl, [libc::PR_SET_SECCOMP as u32, 0], EPERM),
        (libc::SYS_socket, [1, 0], EPERM),
        (libc::SYS_execve, [0, 0], EPERM),
        (libc::SYS_kill, [1, 9], EPERM),
        (2000, [0, 0], ENOSYS),
    ] {
        assert_eq!(run(number, arguments), expected, "{number} {arguments:?}");
    }
    let special = worker::PROFILE.special;
    for (name, number) in worker::PROFILE.allowed {
        assert!(special.iter().all(|(other, _)| other != number), "{name} stands twice");
        assert_eq!(run(i64::from(*number), [0, 0]), ALLOW, "{name}");
    }
}

#[test]
fn the_filter_is_small() {
    assert!(filter().len() < 400, "{} instructions cost load time", filter().len());
}
