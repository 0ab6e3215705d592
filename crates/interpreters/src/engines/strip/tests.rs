use super::*;

/// Sections of a module, by their numbers.
const CUSTOM: u8 = 0;
const TYPES: u8 = 1;
const IMPORTS: u8 = 2;
const FUNCTIONS: u8 = 3;
const MEMORIES: u8 = 5;
const GLOBALS: u8 = 6;
const COUNT: u8 = 12;
const CODE: u8 = 10;

/// `() -> ()`.
const TYPE: &[u8] = &[1, 0x60, 0, 0];
/// One memory of two pages.
const MEMORY: &[u8] = &[1, 0, 2];
/// A mutable global that nobody exports, and a constant one.
const TWO_GLOBALS: &[u8] = &[2, 0x7f, 1, 0x41, 0, 0x0b, 0x7f, 0, 0x41, 0, 0x0b];
/// The memory, as `m`.
const EXPORT: &[u8] = &[1, 1, b'm', 2, 0];
/// Two functions without a body.
const BODIES: &[u8] = &[2, 2, 0, 0x0b, 2, 0, 0x0b];
/// `hello` at 16, and `you` at 65 536.
const SEGMENTS: &[u8] = b"\x02\0\x41\x10\x0b\x05hello\0\x41\x80\x80\x04\x0b\x03you";
/// The names of functions: 0 is `first`, 1 is `other`.
const NAMES: &[u8] = b"\x04name\x01\x0f\x02\x00\x05first\x01\x05other";

fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
    let mut all = b"\0asm\x01\0\0\0".to_vec();
    for (id, body) in sections {
        section(&mut all, *id, body);
    }
    all
}

/// A module with all that is taken out, and what stays.
fn whole() -> Vec<u8> {
    module(&[
        (CUSTOM, b"\x03oneSECRET"),
        (TYPES, TYPE),
        (FUNCTIONS, &[2, 0, 0]),
        (MEMORIES, MEMORY),
        (GLOBALS, TWO_GLOBALS),
        (EXPORTS, EXPORT),
        (COUNT, &[2]),
        (CODE, BODIES),
        (DATA, SEGMENTS),
        (CUSTOM, NAMES),
        (CUSTOM, b"\x09producersSECRET"),
    ])
}

/// Numbers and bodies of a module's sections, in their order.
fn sections(wasm: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let payloads = Parser::new(0).parse_all(wasm).map(|payload| payload.expect("it is a module"));
    let sections = payloads.filter_map(|payload| payload.as_section());
    sections.map(|(id, range)| (id, wasm[range].to_vec())).collect()
}

fn exported(wasm: &[u8]) -> Vec<(String, u8, u32)> {
    let mut all = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::ExportSection(section) = payload.expect("it is a module") {
            let known = section.into_iter().map(|export| export.expect("an export"));
            all.extend(known.map(|e| (e.name.to_owned(), kind(e.kind), e.index)));
        }
    }
    all
}

/// What is wrong with a module.
fn wrong(wasm: &[u8], exports: &[&str]) -> String {
    match strip("small", wasm, exports) {
        Err(Error::Module { engine, what }) if engine == "small" => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_and_data_go_and_code_stays() {
    let original = whole();
    let stripped = strip("small", &original, &["other"]).expect("it is stripped");
    let ids: Vec<_> = sections(&stripped.wasm).iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [TYPES, FUNCTIONS, MEMORIES, GLOBALS, EXPORTS, CODE]);
    for (id, body) in sections(&stripped.wasm) {
        if id != EXPORTS {
            assert!(sections(&original).contains(&(id, body)), "section {id} is as it was");
        }
    }
    for gone in [&b"SECRET"[..], b"hello", b"you", b"first"] {
        assert!(!stripped.wasm.windows(gone.len()).any(|bytes| bytes == gone), "{gone:?}");
    }
    let wanted = [("m", 2, 0), ("other", 0, 1), ("sandkeep.Global.0", 3, 0)];
    assert_eq!(exported(&stripped.wasm), wanted.map(|(name, kind, i)| (name.to_owned(), kind, i)));
    assert_eq!(stripped.memory_bytes, 2 << 16);
    let data: Vec<_> =
        stripped.data.iter().map(|s| (s.address, &original[s.bytes.clone()])).collect();
    assert_eq!(data, [(16, &b"hello"[..]), (65_536, b"you")]);
}

#[test]
fn the_data_is_written_where_the_module_would_write_it() {
    let original = whole();
    let stripped = strip("small", &original, &[]).expect("it is stripped");
    let mut memory = vec![0; 2 << 16];
    stripped.write_data(&original, &mut memory).expect("it fits");
    assert_eq!((&memory[16..21], &memory[65_536..65_539]), (&b"hello"[..], &b"you"[..]));
    assert_eq!(memory.iter().filter(|byte| **byte != 0).count(), 8, "and nothing else");
    for (size, address) in [(1 << 16, 65_536), (65_538, 65_536), (20, 16), (0, 16)] {
        let written = stripped.write_data(&original, &mut vec![0; size]);
        assert_eq!(written, Err(address), "{size} bytes");
    }
    assert_eq!(stripped.write_data(&original[..40], &mut memory), Err(16), "another module");
}

/// Code copies from such a segment by its number: that of the others stays, without their bytes.
#[test]
fn data_that_code_copies_by_itself_stays() {
    let data = b"\x02\0\x41\x10\x0b\x05hello\x01\x04self";
    let original = module(&[
        (TYPES, TYPE),
        (FUNCTIONS, &[1, 0]),
        (MEMORIES, MEMORY),
        (EXPORTS, EXPORT),
        (COUNT, &[2]),
        (CODE, &[1, 2, 0, 0x0b]),
        (DATA, data),
    ]);
    let stripped = strip("small", &original, &[]).expect("it is stripped");
    let found = sections(&stripped.wasm);
    assert!(found.contains(&(COUNT, vec![2])));
    assert!(found.contains(&(DATA, b"\x02\x01\0\x01\x04self".to_vec())), "{found:?}");
    assert_eq!(stripped.data.len(), 1);
}

/// Of what asyncify tells, the last global keeps what it said, and is not looked at.
#[test]
fn the_last_global_of_asyncify_is_not_watched() {
    let globals = [&[3][..], &TWO_GLOBALS[1..6], &TWO_GLOBALS[1..6], &TWO_GLOBALS[1..6]].concat();
    let of = |name: &str| {
        let mut exports = vec![2, 1, b'm', 2, 0];
        entry(&mut exports, name, 0, 0);
        let module = module(&[
            (TYPES, TYPE),
            // A global that is imported has the first number.
            (IMPORTS, b"\x01\x01e\x01g\x03\x7f\0"),
            (FUNCTIONS, &[1, 0]),
            (MEMORIES, MEMORY),
            (GLOBALS, &globals),
            (EXPORTS, &exports),
            (CODE, &[1, 2, 0, 0x0b]),
        ]);
        let stripped = strip("small", &module, &[]).expect("it is stripped");
        let all = exported(&stripped.wasm).into_iter();
        all.filter(|(_, kind, _)| *kind == 3).map(|(_, _, index)| index).collect::<Vec<_>>()
    };
    assert_eq!(of("something"), [1, 2, 3]);
    assert_eq!(of("asyncify_start_unwind"), [1, 2]);
}

#[test]
fn what_a_module_lacks_is_told() {
    let sections: [(u8, &[u8]); 5] = [
        (TYPES, TYPE),
        (FUNCTIONS, &[2, 0, 0]),
        (MEMORIES, MEMORY),
        (EXPORTS, EXPORT),
        (CODE, BODIES),
    ];
    let without = |id: u8| {
        let mut left = sections.to_vec();
        left.retain(|(section, _)| *section != id);
        module(&left)
    };
    assert_eq!(wrong(&without(CODE)[..4], &[]), "it is too short");
    assert_eq!(wrong(&without(MEMORIES), &[]), "it has 0 memories");
    assert_eq!(wrong(&without(EXPORTS), &[]), "it exports nothing");
    assert_eq!(wrong(&without(0), &["other"]), "it has no function other", "nothing has a name");
    let data = |segment: &[u8]| module(&[&sections[..], &[(DATA, segment)]].concat());
    assert_eq!(
        wrong(&data(b"\x01\0\x23\0\x0b\x01x"), &[]),
        "it has a data segment whose place is not a constant"
    );
    assert_eq!(
        wrong(&data(b"\x01\x02\x01\x41\0\x0b\x01x"), &[]),
        "it has a data segment that is not for its memory"
    );
    let mut two = sections;
    two[2].1 = &[2, 0, 2, 0, 1];
    assert_eq!(wrong(&module(&two), &[]), "it has 2 memories");
}

/// Whatever is given: an error, or a module; of one that was cut off never one.
#[test]
fn damaged_modules_are_errors() {
    let original = whole();
    // The end of a section is the end of a module as well.
    let mut ends = vec![8];
    for payload in Parser::new(0).parse_all(&original) {
        ends.extend(payload.expect("it is a module").as_section().map(|(_, range)| range.end));
    }
    for end in (0..original.len()).filter(|end| !ends.contains(end)) {
        for exports in [&["other"][..], &[]] {
            let cut = strip("small", &original[..end], exports);
            assert!(matches!(cut, Err(Error::Module { .. })), "{end} of {}", original.len());
        }
    }
    let mut refused = 0;
    for at in 0..original.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, original[at] ^ 1, original[at] ^ 0x40] {
            let mut damaged = original.clone();
            damaged[at] = value;
            match strip("small", &damaged, &["other"]) {
                Ok(stripped) => {
                    let _ = stripped.write_data(&damaged, &mut vec![0; 2 << 16]);
                }
                Err(Error::Module { .. }) => refused += 1,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    assert!(refused > original.len(), "{refused}");
    for bytes in [&b""[..], b"\0asm", b"\x7fELF\x02\x01\x01\0\0\0", &[0xff; 64]] {
        assert!(!wrong(bytes, &[]).is_empty());
    }
}
