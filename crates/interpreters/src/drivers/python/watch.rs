//! What the driver of Python stands on, and whether it is as it is in the base.
//!
//! ```text
//!   dict       ──▶ keys ──▶ how many entries, and all of them: keys and values
//!   function       globals, code, defaults, closure
//!   type           its own type, the order of its bases
//! ```
//! Objects are told by their addresses when the base is made. What is in them is looked for there
//! by what must be in it: where CPython lays it out in another way, no base is made. Counts of
//! references and versions are left out: these change without anybody's doing. What a code object
//! or a tuple holds cannot be changed.

use crate::{Live, Stop};
use serde_json::Value;
use std::ops::Range;

/// What is told: functions with their globals, code and defaults; dicts with their length, first
/// key and first value; types with their order; objects whose type stays; calls of the host's.
type Told = (Vec<[u32; 4]>, Vec<[u32; 4]>, Vec<[u32; 2]>, Vec<u32>, Vec<u32>);

/// Where an object has its type.
const TYPE: u32 = 4;
/// Where a function has globals, code and defaults, and where the last ends with the closure.
const FUNCTION: [u32; 3] = [8, 24, 28];
const FUNCTION_END: u32 = 40;
/// Where the keys of a dict have the size of their index as a power of two, whether they are all
/// strings, how many entries, and the index, behind which the entries lie.
const INDEX_SIZE: u32 = 5;
const KIND: u32 = 6;
const ENTRIES: u32 = 16;
const INDEX: u32 = 20;
/// How far into a dict and a type is looked.
const DICT_END: u32 = 40;
const TYPE_END: u32 = 256;

/// The ranges of memory that must stay as they are, and the calls.
///
/// # Errors
/// [`Stop::Driver`] where something is not where it should be.
pub(super) fn find(live: &Live, told: &[u8]) -> Result<(Vec<Range<u32>>, Vec<u32>), Stop> {
    let told = serde_json::from_slice::<Told>(told);
    let (functions, dicts, orders, typed, calls) =
        told.map_err(|e| Stop::Driver(format!("what to watch is not understood: {e}")))?;
    let look = Look(live);
    let mut ranges = Vec::new();
    for [function, globals, code, defaults] in functions {
        let found = FUNCTION.map(|at| look.word(function.wrapping_add(at)).ok());
        if found != [globals, code, defaults].map(Some) {
            return Err(odd("a function", function));
        }
        ranges.push(function + FUNCTION[0]..function + FUNCTION[0] + 4);
        ranges.push(function + FUNCTION[1]..function + FUNCTION_END);
    }
    for dict in dicts {
        ranges.extend(look.dict(dict)?);
    }
    for [kind, order] in orders {
        let at = (0..TYPE_END).step_by(4).find(|at| look.word(kind + at).ok() == Some(order));
        let at = kind + at.ok_or_else(|| odd("a type", kind))?;
        ranges.push(at..at + 4);
    }
    ranges.extend(typed.into_iter().map(|object| object + TYPE..object + TYPE + 4));
    Ok((ranges, calls))
}

/// As handles have them.
pub(super) fn flat(ranges: &[Range<u32>]) -> Vec<u32> {
    ranges.iter().flat_map(|range| [range.start, range.end]).collect()
}

/// From the handles.
pub(super) fn unflat(flat: &Value) -> Vec<Range<u32>> {
    let words = flat.as_array().map_or(&[][..], Vec::as_slice);
    let word = |value: &Value| value.as_u64().and_then(|word| u32::try_from(word).ok());
    let range = |pair: &[Value]| Some(word(pair.first()?)?..word(pair.get(1)?)?);
    words.chunks(2).filter_map(range).collect()
}

/// Whether these ranges hold the same.
pub(super) fn same(ranges: &[Range<u32>], memory: &[u8], base: &[u8]) -> bool {
    let of =
        |bytes, range: &Range<u32>| <[u8]>::get(bytes, range.start as usize..range.end as usize);
    ranges
        .iter()
        .all(|range| of(memory, range).zip(of(base, range)).is_some_and(|(now, then)| now == then))
}

struct Look<'a>(&'a Live);

impl Look<'_> {
    fn word(&self, at: u32) -> Result<u32, Stop> {
        let bytes = self.0.read(at, 4)?;
        Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    fn byte(&self, at: u32) -> Result<u8, Stop> {
        Ok(self.0.read(at, 1)?[0])
    }

    /// Where a dict has the address of its keys, and these have their entries.
    fn dict(&self, [dict, length, key, value]: [u32; 4]) -> Result<[Range<u32>; 3], Stop> {
        let keys = (TYPE + 4..DICT_END).step_by(4).find_map(|at| {
            let keys = self.word(dict + at).ok().filter(|keys| *keys != 0)?;
            let entries = self.entries(keys, length, key, value).ok()??;
            Some([dict + at..dict + at + 4, keys + ENTRIES..keys + ENTRIES + 4, entries])
        });
        keys.ok_or_else(|| odd("a dict", dict))
    }

    /// The entries, where these are the keys of a dict of that length that begins so.
    fn entries(
        &self,
        keys: u32,
        length: u32,
        key: u32,
        value: u32,
    ) -> Result<Option<Range<u32>>, Stop> {
        // A hash comes before keys that are not all strings; the third kind has no values.
        let (size, skip) = match self.byte(keys.wrapping_add(KIND))? {
            0 => (12, 4),
            1 => (8, 0),
            _ => return Ok(None),
        };
        let index = self.byte(keys.wrapping_add(INDEX_SIZE))?;
        let count = self.word(keys.wrapping_add(ENTRIES))?;
        if index > 20 || count < length || count > 1 << 16 {
            return Ok(None);
        }
        let start = keys.wrapping_add(INDEX + (1 << index));
        for at in 0..count {
            let entry = start.wrapping_add(at * size + skip);
            // One whose value is gone was deleted.
            if self.word(entry.wrapping_add(4))? != 0 {
                let found = (self.word(entry)?, self.word(entry.wrapping_add(4))?) == (key, value);
                return Ok(found.then_some(start..start + count * size));
            }
        }
        Ok(None)
    }
}

fn odd(what: &str, at: u32) -> Stop {
    Stop::Driver(format!("{what} at {at:#x} is not laid out as it should be"))
}
