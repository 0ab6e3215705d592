//! Reading an archive: what it is packed with, its checksum, how far we are.

use super::ImageError;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Count and checksum of what was read.
#[derive(Default)]
struct Tally {
    hash: Sha256,
    read: u64,
}

/// A file that is hashed while it is read.
pub(super) struct Hashing {
    file: File,
    tally: Arc<Mutex<Tally>>,
}

/// The other end of a [`Hashing`].
pub(super) struct Meter(Arc<Mutex<Tally>>, File);

impl Read for Hashing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read(buffer)?;
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.hash.update(&buffer[..n]);
        tally.read += n as u64;
        Ok(n)
    }
}

impl Meter {
    /// Bytes read so far.
    pub fn read(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read
    }

    /// The checksum of the whole file, whose rest is read for it.
    pub fn finish(self) -> io::Result<String> {
        let mut rest = Hashing { file: self.1, tally: self.0.clone() };
        io::copy(&mut rest, &mut io::sink())?;
        let hash = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).hash;
        Ok(hex(&hash.finalize()))
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Opens an archive, unpacked by what its first bytes say.
pub(super) fn open(file: File) -> Result<(Box<dyn Read>, Meter), ImageError> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let shared = file.try_clone().map_err(ImageError::Source)?;
    let meter = Meter(tally.clone(), shared);
    let mut reader = BufReader::with_capacity(1 << 18, Hashing { file, tally });
    let head = io::BufRead::fill_buf(&mut reader).map_err(ImageError::Source)?;
    let unpacked: Box<dyn Read> = match head {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let zstd = zstd::stream::read::Decoder::with_buffer(reader);
            Box::new(zstd.map_err(ImageError::Source)?)
        }
        [0xfd, b'7', b'z', b'X', b'Z', ..] | [b'B', b'Z', b'h', ..] => {
            return Err(ImageError::Kind(
                "archives are plain, gzip or zstd; unpack this one first (xz -d, bzip2 -d)".into(),
            ));
        }
        [] => return Err(ImageError::Kind("the archive is empty".into())),
        _ => Box::new(reader),
    };
    Ok((unpacked, meter))
}
