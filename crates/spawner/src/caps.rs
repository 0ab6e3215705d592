//! The capabilities of everything that runs in an instance.

use crate::sys;
use std::io;

macro_rules! capabilities {
    ($($name:literal = $bit:literal),* $(,)?) => {
        /// What root of an instance has, in its own user namespace; nothing else is in any set.
        /// `CAP_SYS_ADMIN` and `CAP_SYS_PTRACE` would void masks and secrets: never add them.
        pub const CAPABILITIES: &[&str] = &[$($name),*];
        /// The same as bits.
        pub(crate) const MASK: u64 = 0 $(| 1 << $bit)*;
    };
}

capabilities! {
    "CAP_CHOWN" = 0,
    "CAP_DAC_OVERRIDE" = 1,
    "CAP_FOWNER" = 3,
    "CAP_FSETID" = 4,
    "CAP_KILL" = 5,
    "CAP_SETGID" = 6,
    "CAP_SETUID" = 7,
    "CAP_SETPCAP" = 8,
    "CAP_NET_BIND_SERVICE" = 10,
    "CAP_NET_RAW" = 13,
    "CAP_SYS_CHROOT" = 18,
    "CAP_MKNOD" = 27,
    "CAP_AUDIT_WRITE" = 29,
    "CAP_SETFCAP" = 31,
}

/// The capabilities as an OCI runtime takes them: bounding, effective and permitted; none
/// inheritable or ambient.
pub fn oci_capabilities() -> serde_json::Value {
    serde_json::json!({
        "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
        "inheritable": [], "ambient": [],
    })
}

/// What a worker has in its own user namespace: its files are those of every user of the
/// instance, as they are root's there. CHOWN, DAC_OVERRIDE, FOWNER.
pub(crate) const WORKER: u64 = 1 | 1 << 1 | 1 << 3;

/// Takes everything else out of the bounding set; needs CAP_SETPCAP in effect.
pub(crate) fn bound() -> io::Result<()> {
    bound_to(MASK)
}

/// Takes everything but these out of the bounding set; needs CAP_SETPCAP in effect.
pub(crate) fn bound_to(mask: u64) -> io::Result<()> {
    for bit in 0..64usize {
        if mask & (1 << bit) != 0 {
            continue;
        }
        match sys::prctl(libc::PR_CAPBSET_DROP, bit) {
            Ok(_) => {}
            // Past the last one that this kernel knows.
            Err(e) if e.raw_os_error() == Some(libc::EINVAL) => break,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Sets what is left, and that nothing is ever gained by an exec. Root keeps the mask; another
/// user has lost everything at the change of ids already.
pub(crate) fn settle(root: bool) -> io::Result<()> {
    settle_with(if root { MASK } else { 0 })
}

/// Sets exactly these capabilities, and that nothing is ever gained by an exec.
pub(crate) fn settle_with(mask: u64) -> io::Result<()> {
    sys::set_capabilities(mask, 0)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1).map(drop)
}
