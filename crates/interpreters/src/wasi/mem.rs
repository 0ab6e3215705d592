//! The guest's memory with every access checked.

use super::errno::Errno;

/// Most buffers of one call.
const IOVECS_MAX: u32 = 1024;

/// The guest's memory in a call. Pointers are offsets; what lies outside is [`Errno::FAULT`].
pub(crate) struct Mem<'a>(pub &'a mut [u8]);

/// A buffer of the guest's: its address and length.
pub(crate) type IoVec = (u32, u32);

impl Mem<'_> {
    pub(crate) fn get(&self, at: u32, len: u32) -> Result<&[u8], Errno> {
        let start = at as usize;
        self.0.get(start..start.saturating_add(len as usize)).ok_or(Errno::FAULT)
    }

    pub(crate) fn get_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8], Errno> {
        let start = at as usize;
        self.0.get_mut(start..start.saturating_add(len as usize)).ok_or(Errno::FAULT)
    }

    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Errno> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::FAULT)?;
        self.get_mut(at, len)?.copy_from_slice(bytes);
        Ok(())
    }

    pub(crate) fn put_u32(&mut self, at: u32, value: u32) -> Result<(), Errno> {
        self.put(at, &value.to_le_bytes())
    }

    pub(crate) fn put_u64(&mut self, at: u32, value: u64) -> Result<(), Errno> {
        self.put(at, &value.to_le_bytes())
    }

    /// The buffers of a list of them, all of which lie in memory.
    pub(crate) fn iovecs(&self, at: u32, count: u32) -> Result<Vec<IoVec>, Errno> {
        if count > IOVECS_MAX {
            return Err(Errno::INVAL);
        }
        let list = self.get(at, count * 8)?;
        list.chunks_exact(8)
            .map(|pair| {
                let ptr = u32::from_le_bytes([pair[0], pair[1], pair[2], pair[3]]);
                let len = u32::from_le_bytes([pair[4], pair[5], pair[6], pair[7]]);
                self.get(ptr, len).map(|_| (ptr, len))
            })
            .collect()
    }
}
