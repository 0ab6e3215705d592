//! The compiler: a table of actions per call number, cut into ranges, searched in halves.

use super::rules::LAST;
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
pub(super) enum Action {
    /// EPERM.
    Refuse,
    /// ENOSYS.
    Unknown,
    Allow,
    /// Allowed where the first argument has none of these bits.
    Without(u32),
    /// Allowed where the first argument has the first bit and none of the others.
    With(u32, u32),
    /// Allowed where the argument of this number, from 0, is one of these.
    OneOf(u32, &'static [u32]),
}

impl Action {
    /// Whether two neighbours can share a range; only what needs no argument ever does.
    const fn same(self, other: Action) -> bool {
        matches!(
            (self, other),
            (Action::Refuse, Action::Refuse)
                | (Action::Unknown, Action::Unknown)
                | (Action::Allow, Action::Allow)
        )
    }
}

/// What a filter allows.
pub(super) struct Profile {
    /// Calls that are allowed whatever their arguments: name and number.
    pub(super) allowed: &'static [(&'static str, u32)],
    /// Calls with a rule of their own.
    pub(super) special: &'static [(u32, Action)],
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

    const fn one_of(&mut self, argument: u32, values: &[u32]) {
        self.put(LOAD, 0, 0, AT_ARGUMENT + 8 * argument);
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
            Action::Without(refused) => {
                self.put(LOAD, 0, 0, AT_ARGUMENT);
                self.put(IF_ANY_BIT, 0, 1, refused);
                self.put(RETURN, 0, 0, EPERM);
                self.put(RETURN, 0, 0, ALLOW);
            }
            Action::With(needed, refused) => {
                self.put(LOAD, 0, 0, AT_ARGUMENT);
                self.put(IF_ANY_BIT, 1, 0, refused);
                self.put(IF_ANY_BIT, 1, 0, needed);
                self.put(RETURN, 0, 0, EPERM);
                self.put(RETURN, 0, 0, ALLOW);
            }
            Action::OneOf(argument, values) => self.one_of(argument, values),
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

const fn ranges(profile: &Profile) -> Ranges {
    let mut table = [Action::Refuse; NUMBERS];
    let mut at = 0;
    while at < profile.allowed.len() {
        table[profile.allowed[at].1 as usize] = Action::Allow;
        at += 1;
    }
    at = 0;
    while at < profile.special.len() {
        table[profile.special[at].0 as usize] = profile.special[at].1;
        at += 1;
    }
    table[NUMBERS - 1] = Action::Unknown;
    let mut ranges = Ranges { start: [0; NUMBERS], action: [Action::Refuse; NUMBERS], len: 0 };
    let mut number = 0;
    while number < NUMBERS {
        let same = ranges.len > 0 && ranges.action[ranges.len - 1].same(table[number]);
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
pub(super) const fn compile(profile: &Profile) -> Program {
    let nothing = Instruction { code: 0, yes: 0, no: 0, value: 0 };
    let mut program = Program { code: [nothing; SIZE], len: 0 };
    program.put(LOAD, 0, 0, AT_ARCHITECTURE);
    program.put(IF_EQUAL, 1, 0, ARCHITECTURE);
    program.put(RETURN, 0, 0, KILL);
    program.put(LOAD, 0, 0, AT_NUMBER);
    let ranges = ranges(profile);
    program.search(&ranges, 0, ranges.len);
    program
}
