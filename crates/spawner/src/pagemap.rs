//! Which pages of this process are its own by now, asked of the kernel in one call.

use crate::sys;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// `PAGEMAP_SCAN`, and what a page is: see the kernel's documentation of pagemap.
pub(crate) const PAGEMAP_SCAN: u32 = 0xC060_6610;
const IS_FILE: u64 = 1 << 2;
const IS_PRESENT: u64 = 1 << 3;
const IS_SWAPPED: u64 = 1 << 4;
/// Regions that one call gives at most.
const REGIONS: usize = 512;

/// `struct pm_scan_arg`.
#[repr(C)]
pub(crate) struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// How many pages this process has asked for by touching them, of whatever kind. While it stays the
/// same no page became the process's own.
///
/// # Errors
/// None that a kernel is known to give.
pub fn faults() -> io::Result<u64> {
    sys::faults()
}

/// Gives `found` the ranges of addresses between `range` whose pages are there and are not a
/// file's: of a private mapping, those that were written. In order. `map` is this process's
/// `/proc/self/pagemap`.
///
/// # Errors
/// Where the kernel is older than 6.7 and knows no such call, among others.
pub fn written(
    map: BorrowedFd<'_>,
    range: Range<u64>,
    mut found: impl FnMut(Range<u64>),
) -> io::Result<()> {
    let mut regions = [Region::default(); REGIONS];
    let mut start = range.start;
    while start < range.end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start,
            end: range.end,
            walk_end: 0,
            vec: regions.as_mut_ptr() as u64,
            vec_len: REGIONS as u64,
            max_pages: 0,
            category_inverted: IS_FILE,
            category_mask: IS_FILE,
            category_anyof_mask: IS_PRESENT | IS_SWAPPED,
            return_mask: IS_PRESENT | IS_SWAPPED,
        };
        let count = sys::scan_pages(map, &mut scan)?;
        for region in regions.iter().take(count) {
            found(region.start..region.end);
        }
        if scan.walk_end <= start {
            return Err(io::Error::other("the kernel did not say how far it came"));
        }
        start = scan.walk_end;
    }
    Ok(())
}
