//! What stands before an entry of an archive: long names (GNU) and extended headers (POSIX).

use crate::error::Error;
use std::io::Read;
use tar::{Entry, EntryType, PaxExtensions};

/// Longest of these, bytes: what is larger is no name but an attack on memory.
const MOST: u64 = 256 << 10;

/// What was said of the next entry.
#[derive(Default)]
pub(crate) struct Before {
    /// Its name.
    pub name: Option<Vec<u8>>,
    /// What it links to.
    pub link: Option<Vec<u8>>,
}

impl Before {
    /// Reads an entry that only tells of the next one; `false`: it is no such entry.
    pub fn read<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> Result<bool, Error> {
        match entry.header().entry_type() {
            EntryType::GNULongName => self.name = Some(whole(entry)?),
            EntryType::GNULongLink => self.link = Some(whole(entry)?),
            EntryType::XHeader => {
                let bytes = raw(entry)?;
                for record in PaxExtensions::new(&bytes) {
                    let record = record.map_err(|_| {
                        Error::Malformed("an extended header of the archive is damaged")
                    })?;
                    match record.key_bytes() {
                        b"path" => self.name = Some(record.value_bytes().to_vec()),
                        b"linkpath" => self.link = Some(record.value_bytes().to_vec()),
                        // What is so large that its header cannot say so is too large here.
                        b"size" => {
                            return Err(Error::Invalid(
                                "it says its length in an extended header, which is not taken",
                            ));
                        }
                        key if key.starts_with(b"GNU.sparse") => {
                            return Err(Error::Invalid(
                                "it has holes (sparse), which is not taken",
                            ));
                        }
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

fn raw<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, Error> {
    if entry.size() > MOST {
        return Err(Error::Malformed("a header of the archive is larger than 262144 bytes"));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(super::unpack::broke)?;
    Ok(bytes)
}

fn whole<R: Read>(entry: &mut Entry<'_, R>) -> Result<Vec<u8>, Error> {
    let mut bytes = raw(entry)?;
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}
