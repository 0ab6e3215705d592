//! The memory functions that the compiler may call; there is no libc to have them.

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for at in 0..len {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: the caller owns `len` bytes; volatile keeps this loop from becoming a call
        // of itself.
        unsafe { to.add(at).write_volatile(byte as u8) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for at in 0..len {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: as in `memset`, for both.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    for at in 0..len {
        // JUSTIFICATION: stand-alone code, without a library that could do it safely.
        // SAFETY: as in `memset`, for both.
        let (x, y) = unsafe { (a.add(at).read_volatile(), b.add(at).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, len: usize) -> i32 {
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the same promise.
    unsafe { memcmp(a, b, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len = 0;
    // JUSTIFICATION: stand-alone code, without a library that could do it safely.
    // SAFETY: the caller's text ends with a NUL.
    while unsafe { text.add(len).read_volatile() } != 0 {
        len += 1;
    }
    len
}

/// Named by the tables of the core library; never called, as panics abort.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
