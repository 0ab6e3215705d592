//! The seccomp filters of everything in an instance and of workers, compiled when this crate is.
//!
//! One architecture (anything else is killed); a binary search over the call's number; what is
//! not allowed is EPERM, what this release has never heard of is ENOSYS, so that programs fall
//! back. x32 numbers are above everything known, so ENOSYS as well.

mod compile;
mod rules;
mod worker;

use crate::sys::{self, Instruction};
use compile::{Action, Profile, Program};
use rules::{
    CLONE, CLONE_REFUSED, CLONE3, FAMILIES, PERSONALITIES, PERSONALITY, SOCKET, SOCKETPAIR, UNIX,
};
use serde_json::{Value, json};
use std::io;

/// What runs in an instance.
const INSTANCE: Profile = Profile {
    allowed: rules::ALLOWED,
    special: &[
        (CLONE, Action::Without(CLONE_REFUSED)),
        (CLONE3, Action::Unknown),
        (SOCKET, Action::OneOf(0, FAMILIES)),
        (SOCKETPAIR, Action::OneOf(0, UNIX)),
        (PERSONALITY, Action::OneOf(0, PERSONALITIES)),
    ],
};

static PROGRAM: Program = compile::compile(&INSTANCE);
static WORKER: Program = compile::compile(&worker::PROFILE);

/// The filter of instances, ready to load.
pub(crate) fn filter() -> &'static [Instruction] {
    PROGRAM.instructions()
}

/// The filter of workers, ready to load.
pub(crate) fn worker_filter() -> &'static [Instruction] {
    WORKER.instructions()
}

/// Loads the filter of instances; no_new_privs must be set.
pub(crate) fn load() -> io::Result<()> {
    sys::load_filter(filter())
}

/// The same rules as the `linux.seccomp` object of an OCI runtime's configuration.
pub fn oci_json() -> Value {
    let architecture = if cfg!(target_arch = "x86_64") { "X86_64" } else { "AARCH64" };
    let equal = |value: &u32| json!([{"index": 0, "value": value, "op": "SCMP_CMP_EQ"}]);
    let allow = |name: &str, args: Value| json!({"names": [name], "action": "SCMP_ACT_ALLOW", "args": args});
    let names: Vec<&str> = rules::ALLOWED.iter().map(|(name, _)| *name).collect();
    let mut calls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        allow(
            "clone",
            json!([{"index": 0, "value": CLONE_REFUSED, "valueTwo": 0,
            "op": "SCMP_CMP_MASKED_EQ"}]),
        ),
        json!({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}),
        allow("socketpair", equal(&(libc::AF_UNIX as u32))),
    ];
    calls.extend(FAMILIES.iter().map(|family| allow("socket", equal(family))));
    calls.extend(PERSONALITIES.iter().map(|value| allow("personality", equal(value))));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::EPERM,
        "architectures": [format!("SCMP_ARCH_{architecture}")],
        "syscalls": calls,
    })
}

#[cfg(test)]
mod tests;
