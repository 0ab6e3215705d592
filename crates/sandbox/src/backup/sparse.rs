//! Files with holes: an archive has their data, and before it a map of where each piece goes, as
//! GNU tar writes it (format 1.0): how many pieces, then offset and length of each, a line for
//! each number, filled up to whole blocks.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};

/// Bytes of a block of an archive.
const BLOCK: usize = 512;
/// Holes smaller than this, bytes, are read as zeros.
const HOLE: u64 = 64 << 10;
/// Most pieces; with more the smaller holes are filled.
const PIECES: usize = 65_536;

/// Where the data of a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Map {
    /// Offset and length, ascending.
    pub pieces: Vec<(u64, u64)>,
}

impl Map {
    /// The map of a file of this length; one piece where it has no holes, or nobody knows.
    pub fn of(file: &File, size: u64, stored: u64) -> io::Result<Self> {
        let whole = Self { pieces: vec![(0, size)] };
        if size.saturating_sub(stored) < HOLE {
            return Ok(whole);
        }
        let mut least = HOLE;
        loop {
            match pieces(file, size, least) {
                Ok(Some(pieces)) => return Ok(Self { pieces }),
                Ok(None) => least = least.saturating_mul(8),
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(whole),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether there are holes in a file of this length.
    pub fn holes(&self, size: u64) -> bool {
        self.pieces != [(0, size)]
    }

    /// Bytes of all pieces.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(_, length)| length).sum()
    }

    /// The text before the data. A last piece without bytes tells others where the file ends.
    pub fn text(&self, size: u64) -> Vec<u8> {
        let end = self.pieces.last().is_none_or(|(at, length)| at + length < size);
        let all = self.pieces.iter().copied().chain(end.then_some((size, 0)));
        let mut text = format!("{}\n", self.pieces.len() + usize::from(end));
        for (at, length) in all {
            text.push_str(&format!("{at}\n{length}\n"));
        }
        let mut text = text.into_bytes();
        text.resize(text.len().next_multiple_of(BLOCK), 0);
        text
    }

    /// Reads such a text, of a file of this length, and nothing of the data.
    pub fn read(from: &mut impl Read, size: u64) -> io::Result<Self> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "its map is wrong");
        let mut blocks = Blocks { from, block: [0; BLOCK], at: BLOCK };
        let count = blocks.number()?;
        if count > PIECES as u64 + 1 {
            return Err(wrong());
        }
        let mut pieces = Vec::new();
        let mut before = 0;
        for _ in 0..count {
            let (at, length) = (blocks.number()?, blocks.number()?);
            let end = at.checked_add(length).ok_or_else(wrong)?;
            if at < before || end > size {
                return Err(wrong());
            }
            before = end;
            pieces.push((at, length));
        }
        Ok(Self { pieces })
    }
}

/// `None`: too many.
fn pieces(file: &File, size: u64, least: u64) -> Result<Option<Vec<(u64, u64)>>, Errno> {
    let mut pieces: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) if data < size => data,
            // Nothing but a hole follows.
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error),
        };
        let end = seek(file, SeekFrom::Hole(data))?.min(size);
        if end <= data {
            // It is being cut.
            break;
        }
        let full = pieces.len() == PIECES;
        match pieces.last_mut() {
            Some((start, length)) if data - (*start + *length) < least => *length = end - *start,
            _ if full => return Ok(None),
            _ => pieces.push((data, end - data)),
        }
        at = end;
    }
    Ok(Some(pieces))
}

struct Blocks<'a, R> {
    from: &'a mut R,
    block: [u8; BLOCK],
    at: usize,
}

impl<R: Read> Blocks<'_, R> {
    fn number(&mut self) -> io::Result<u64> {
        let mut number = 0_u64;
        for digits in 0.. {
            if self.at == BLOCK {
                self.from.read_exact(&mut self.block)?;
                self.at = 0;
            }
            let byte = self.block[self.at];
            self.at += 1;
            let digit = match byte {
                b'0'..=b'9' => u64::from(byte - b'0'),
                b'\n' if digits > 0 => return Ok(number),
                _ => break,
            };
            let Some(next) = number.checked_mul(10).and_then(|n| n.checked_add(digit)) else {
                break;
            };
            number = next;
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "its map is wrong"))
    }
}
