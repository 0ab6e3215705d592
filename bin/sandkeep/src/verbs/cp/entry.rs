//! Entries of a tar archive with names of any bytes and length.

use std::io::{self, Read, Write};
use tar::{Builder, Entry, EntryType, Header, PaxExtensions};

/// Bytes of a name in a header.
const NAME: usize = 100;
/// Longest name, bytes: what is larger is no name but an attack on memory.
const LONGEST: u64 = 256 << 10;

/// What an entry is, besides its bytes.
pub struct Head<'a> {
    pub kind: EntryType,
    pub name: &'a [u8],
    /// Where a link leads.
    pub link: &'a [u8],
    pub mode: u32,
    /// Seconds since the epoch.
    pub mtime: u64,
    pub size: u64,
}

/// Appends an entry; `data` has exactly `head.size` bytes.
pub fn append(out: &mut Builder<impl Write>, head: &Head<'_>, data: impl Read) -> io::Result<()> {
    long(out, EntryType::GNULongName, head.name)?;
    long(out, EntryType::GNULongLink, head.link)?;
    let mut header = Header::new_gnu();
    header.set_entry_type(head.kind);
    header.set_mode(head.mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(head.mtime);
    header.set_size(head.size);
    let old = header.as_old_mut();
    for (field, bytes) in [(&mut old.name, head.name), (&mut old.linkname, head.link)] {
        let length = bytes.len().min(NAME);
        field[..length].copy_from_slice(&bytes[..length]);
    }
    header.set_cksum();
    out.append(&header, data)
}

fn long(out: &mut Builder<impl Write>, kind: EntryType, bytes: &[u8]) -> io::Result<()> {
    if bytes.len() <= NAME {
        return Ok(());
    }
    let mut header = Header::new_gnu();
    let name = b"././@LongLink";
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64 + 1);
    header.set_cksum();
    out.append(&header, bytes.chain(&b"\0"[..]))
}

/// What stood before an entry and tells of it.
#[derive(Default)]
pub struct Before {
    pub name: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
}

impl Before {
    /// Reads an entry that only tells of the next one; `false`: it is no such entry.
    pub fn read<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> io::Result<bool> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.name = Some(whole(entry)?),
            EntryType::GNULongLink => self.link = Some(whole(entry)?),
            EntryType::XHeader => {
                let bytes = raw(entry)?;
                for record in PaxExtensions::new(&bytes) {
                    let record = record?;
                    match record.key_bytes() {
                        b"path" => self.name = Some(record.value_bytes().to_vec()),
                        b"linkpath" => self.link = Some(record.value_bytes().to_vec()),
                        _ => {}
                    }
                }
            }
            EntryType::XGlobalHeader => drop(raw(entry)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn raw<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    if entry.size() > LONGEST {
        return Err(io::Error::other("a name in it is too long"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn whole<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    let mut bytes = raw(entry)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}
