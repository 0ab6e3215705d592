//! Error numbers as guests know them.

use rustix::io::Errno as Host;

/// An error number of WASI preview 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub u16);

macro_rules! errnos {
    ($($name:ident = $value:literal $(<- $($host:ident),+)?;)*) => {
        #[allow(dead_code)]
        impl Errno {
            $(pub const $name: Errno = Errno($value);)*
        }

        impl From<Host> for Errno {
            fn from(host: Host) -> Self {
                match host {
                    $($($(Host::$host)|+ => Errno::$name,)?)*
                    _ => Errno::IO,
                }
            }
        }
    };
}

errnos! {
    TOOBIG = 1 <- TOOBIG;
    ACCES = 2 <- ACCESS;
    AGAIN = 6 <- AGAIN;
    BADF = 8 <- BADF;
    BUSY = 10 <- BUSY;
    DQUOT = 19 <- DQUOT;
    EXIST = 20 <- EXIST;
    FAULT = 21 <- FAULT;
    FBIG = 22 <- FBIG;
    ILSEQ = 25 <- ILSEQ;
    INTR = 27 <- INTR;
    INVAL = 28 <- INVAL;
    IO = 29 <- IO;
    ISDIR = 31 <- ISDIR;
    LOOP = 32 <- LOOP;
    MFILE = 33 <- MFILE;
    MLINK = 34 <- MLINK;
    NAMETOOLONG = 37 <- NAMETOOLONG;
    NFILE = 41 <- NFILE;
    NODEV = 43 <- NODEV;
    NOENT = 44 <- NOENT;
    NOMEM = 48 <- NOMEM;
    NOSPC = 51 <- NOSPC;
    NOSYS = 52 <- NOSYS;
    NOTDIR = 54 <- NOTDIR;
    NOTEMPTY = 55 <- NOTEMPTY;
    NOTSOCK = 57 <- NOTSOCK;
    NOTSUP = 58 <- OPNOTSUPP;
    NXIO = 60 <- NXIO;
    OVERFLOW = 61 <- OVERFLOW;
    // A way that leads out of the directory it started from.
    PERM = 63 <- PERM;
    ROFS = 69 <- ROFS;
    SPIPE = 70 <- SPIPE;
    STALE = 72 <- STALE;
    TXTBSY = 74 <- TXTBSY;
    XDEV = 75 <- XDEV;
}
