//! The compiler: a table of actions per call number, cut into ranges, searched in halves.

use super::rules::{
    ALLOWED, CLONE, CLONE_REFUSED, CLONE3, FAMILIES, LAST, PERSONALITIES, PERSONALITY, SOCKET,
    SOCKETPAIR,
};
use crate::sys::Instruction;

const SIZE: usize = 1024;
const NUMBERS: usize = LAST as usize + 2;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7FFF_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
const ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS as u32;

/// Offsets in seccomp_data: number, architecture, low half of the first argument.
const AT_NUMBER: u32 = 0;
const AT_ARCHITECTURE: u32 = 4;
const AT_ARGUMENT: u32 = 16;

/// What happens to a call.
#[derive(Clone, Copy)]
enum Action {
    Refuse,
    Unknown,
    Allow,
    CloneFlags,
    Family,
    UnixAlone,
    Persona,
}

/// A compiled filter.
pub(super) struct Program {
    code: [Instruction; SIZE],
    len: usize,
}

impl Program {
    pub(super) fn instructions(&self) -> &[Instruction] {
        &self.code[..self.len]
    }

    const fn put(&mut self, code: u16, yes: usize, no: usize, value: u32) {
        assert!(yes < 256 && no < 256, "a jump is too long");
        self.code[self.len] = Instruction { code, yes: yes as u8, no: no as u8, value };
        self.len += 1;
    }

    const fn one_of(&mut self, values: &[u32]) {
        self.put(LOAD, 0, 0, AT_ARGUMENT);
        let mut at = 0;
        while at < values.len() {
            // Equal: over the remaining comparisons and the refusal.
            self.put(IF_EQUAL, values.len() - at, 0, values[at]);
            at += 1;
        }
        self.put(RETURN, 0, 0, EPERM);
        self.put(RETURN, 0, 0, ALLOW);
    }

    const fn leaf(&mut self, action: Action) {
        match action {
            Action::Refuse => self.put(RETURN, 0, 0, EPERM),
            Action::Unknown => self.put(RETURN, 0, 0, ENOSYS),
            Action::Allow => self.put(RETURN, 0, 0, ALLOW),
            Action::CloneFlags => {
                self.put(LOAD, 0, 0, AT_ARGUMENT);
                self.put(IF_ANY_BIT, 0, 1, CLONE_REFUSED);
                self.put(RETURN, 0, 0, EPERM);
                self.put(RETURN, 0, 0, ALLOW);
            }
            Action::Family => self.one_of(FAMILIES),
            Action::UnixAlone => self.one_of(&[libc::AF_UNIX as u32]),
            Action::Persona => self.one_of(PERSONALITIES),
        }
    }

    /// Searches ranges `from..to`.
    const fn search(&mut self, ranges: &Ranges, from: usize, to: usize) {
        if to - from == 1 {
            self.leaf(ranges.action[from]);
            return;
        }
        let middle = (from + to) / 2;
        let test = self.len;
        self.put(IF_AT_LEAST, 0, 0, ranges.start[middle]);
        self.search(ranges, from, middle);
        let over = self.len - test - 1;
        if over < 256 {
            self.code[test].yes = over as u8;
        } else {
            // Too far for the test's eight bits: again, with a jump of its own.
            self.len = test;
            self.put(IF_AT_LEAST, 0, 1, ranges.start[middle]);
            self.put(JUMP, 0, 0, over as u32);
            self.search(ranges, from, middle);
        }
        self.search(ranges, middle, to);
    }
}

struct Ranges {
    start: [u32; NUMBERS],
    action: [Action; NUMBERS],
    len: usize,
}

const fn ranges() -> Ranges {
    let mut table = [Action::Refuse; NUMBERS];
    let mut at = 0;
    while at < ALLOWED.len() {
        table[ALLOWED[at].1 as usize] = Action::Allow;
        at += 1;
    }
    table[CLONE as usize] = Action::CloneFlags;
    table[CLONE3 as usize] = Action::Unknown;
    table[SOCKET as usize] = Action::Family;
    table[SOCKETPAIR as usize] = Action::UnixAlone;
    table[PERSONALITY as usize] = Action::Persona;
    table[NUMBERS - 1] = Action::Unknown;
    let mut ranges = Ranges { start: [0; NUMBERS], action: [Action::Refuse; NUMBERS], len: 0 };
    let mut number = 0;
    while number < NUMBERS {
        let same = ranges.len > 0 && ranges.action[ranges.len - 1] as u8 == table[number] as u8;
        if !same {
            ranges.start[ranges.len] = number as u32;
            ranges.action[ranges.len] = table[number];
            ranges.len += 1;
        }
        number += 1;
    }
    ranges
}

/// Compiles the rules.
pub(super) const fn compile() -> Program {
    let nothing = Instruction { code: 0, yes: 0, no: 0, value: 0 };
    let mut program = Program { code: [nothing; SIZE], len: 0 };
    program.put(LOAD, 0, 0, AT_ARCHITECTURE);
    program.put(IF_EQUAL, 1, 0, ARCHITECTURE);
    program.put(RETURN, 0, 0, KILL);
    program.put(LOAD, 0, 0, AT_NUMBER);
    let ranges = ranges();
    program.search(&ranges, 0, ranges.len);
    program
}
