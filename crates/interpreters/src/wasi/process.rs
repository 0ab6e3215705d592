//! Arguments, environment, clocks, randomness, and what is not there.

use super::Wasi;
use super::clocks::nanos;
use super::errno::Errno;
use super::fixed::BEGAN;
use super::mem::Mem;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::ClockId;

/// Most random bytes of one call: it cannot be interrupted.
const RANDOM_MAX: u32 = 4 << 20;

/// Writes strings and pointers to them, as `argv` and `environ` want them.
fn put_strings(
    mem: &mut Mem<'_>,
    list: &[Vec<u8>],
    mut pointers: u32,
    mut bytes: u32,
) -> Result<(), Errno> {
    for text in list {
        mem.put_u32(pointers, bytes)?;
        mem.put(bytes, text)?;
        let end = bytes.checked_add(text.len() as u32).ok_or(Errno::FAULT)?;
        mem.put(end, &[0])?;
        bytes = end.checked_add(1).ok_or(Errno::FAULT)?;
        pointers = pointers.checked_add(4).ok_or(Errno::FAULT)?;
    }
    Ok(())
}

fn put_sizes(mem: &mut Mem<'_>, list: &[Vec<u8>], count: u32, size: u32) -> Result<(), Errno> {
    mem.put_u32(count, list.len() as u32)?;
    mem.put_u32(size, list.iter().map(|text| text.len() as u32 + 1).sum())
}

impl Wasi {
    pub(crate) fn args_sizes_get(
        &mut self,
        mem: &mut Mem<'_>,
        count: u32,
        size: u32,
    ) -> Result<(), Errno> {
        put_sizes(mem, &self.args, count, size)
    }

    pub(crate) fn args_get(&mut self, mem: &mut Mem<'_>, argv: u32, buf: u32) -> Result<(), Errno> {
        put_strings(mem, &self.args, argv, buf)
    }

    pub(crate) fn environ_sizes_get(
        &mut self,
        mem: &mut Mem<'_>,
        count: u32,
        size: u32,
    ) -> Result<(), Errno> {
        put_sizes(mem, &self.env, count, size)
    }

    pub(crate) fn environ_get(
        &mut self,
        mem: &mut Mem<'_>,
        environ: u32,
        buf: u32,
    ) -> Result<(), Errno> {
        put_strings(mem, &self.env, environ, buf)
    }

    /// What a clock of the guest's says, ns.
    pub(crate) fn clock(&self, id: u32) -> Result<u64, Errno> {
        if let (Some(fixed), 0..=3) = (&self.fixed, id) {
            return Ok(fixed.time() + if id == 0 { BEGAN } else { 0 });
        }
        match id {
            0 => Ok(nanos(ClockId::Realtime)),
            1 => Ok(self.clocks.monotonic()),
            2 | 3 => Ok(self.clocks.cpu_total()),
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn clock_time_get(
        &mut self,
        mem: &mut Mem<'_>,
        id: u32,
        _precision: u64,
        out: u32,
    ) -> Result<(), Errno> {
        let now = self.clock(id)?;
        mem.put_u64(out, now)
    }

    pub(crate) fn clock_res_get(
        &mut self,
        mem: &mut Mem<'_>,
        id: u32,
        out: u32,
    ) -> Result<(), Errno> {
        self.clock(id)?;
        mem.put_u64(out, 1)
    }

    pub(crate) fn random_get(
        &mut self,
        mem: &mut Mem<'_>,
        buf: u32,
        len: u32,
    ) -> Result<(), Errno> {
        if len > RANDOM_MAX {
            return Err(Errno::INVAL);
        }
        let mut rest = mem.get_mut(buf, len)?;
        if let Some(fixed) = &self.fixed {
            fixed.random(rest);
            return Ok(());
        }
        while !rest.is_empty() {
            let filled = match getrandom(&mut *rest, GetRandomFlags::empty()) {
                Ok(filled) => filled,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            rest = &mut rest[filled..];
        }
        Ok(())
    }

    pub(crate) fn sched_yield(&mut self, _mem: &mut Mem<'_>) -> Result<(), Errno> {
        Ok(())
    }

    pub(crate) fn sock_accept(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        _flags: u32,
        _out: u32,
    ) -> Result<(), Errno> {
        self.no_socket(fd)
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn sock_recv(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        _vecs: u32,
        _count: u32,
        _flags: u32,
        _out: u32,
        _out_flags: u32,
    ) -> Result<(), Errno> {
        self.no_socket(fd)
    }

    pub(crate) fn sock_send(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        _vecs: u32,
        _count: u32,
        _flags: u32,
        _out: u32,
    ) -> Result<(), Errno> {
        self.no_socket(fd)
    }

    pub(crate) fn sock_shutdown(
        &mut self,
        _mem: &mut Mem<'_>,
        fd: u32,
        _how: u32,
    ) -> Result<(), Errno> {
        self.no_socket(fd)
    }

    fn no_socket(&mut self, fd: u32) -> Result<(), Errno> {
        self.fds.get(fd)?;
        Err(Errno::NOTSOCK)
    }
}
