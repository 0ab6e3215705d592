//! From a module as it comes to one that is only code.
//!
//! Contexts start from a base image, which holds what the data segments would write: without
//! them the machine code is smaller, and a memory that is mapped is not written over. Names and
//! producers are for debuggers; the names tell first where the functions are that we call.

use super::Error;
use std::ops::Range;
use wasmparser::{
    DataKind, Export, ExternalKind, KnownCustom, Name, Operator, Parser, Payload, TypeRef,
};

/// Bytes that the module would write into its memory when it is instantiated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSegment {
    /// Where in the memory.
    pub address: u32,
    /// The bytes, as a range of the original module.
    pub bytes: Range<usize>,
}

/// A module that is only code, and what was taken from it.
#[derive(Debug)]
pub struct Stripped {
    /// The module.
    pub wasm: Vec<u8>,
    /// What its memory holds before anything runs.
    pub data: Vec<DataSegment>,
    /// Initial size of its memory, bytes.
    pub memory_bytes: u64,
}

/// Version of what is done here: part of the key of a compiled module.
pub(crate) const VERSION: u32 = 4;

const EXPORTS: u8 = 7;
const DATA: u8 = 11;
/// A data segment that code copies from by its number.
const PASSIVE: u8 = 1;

/// Takes data, names and producers out of a module, and exports the functions of these names.
///
/// # Errors
/// [`Error::Module`] where it is no module, lacks a function, has not one memory of its own, or
/// has data whose place is not a constant.
pub fn strip(engine: &str, wasm: &[u8], exports: &[&str]) -> Result<Stripped, Error> {
    let wrong = |what: String| Error::Module { engine: engine.to_owned(), what };
    let broken = |e: wasmparser::BinaryReaderError| wrong(e.to_string());
    let mut out = wasm.get(..8).ok_or_else(|| wrong("it is too short".into()))?.to_vec();
    let mut found: Vec<Option<u32>> = vec![None; exports.len()];
    let (mut data, mut memories, mut hole) = (Vec::new(), Vec::new(), None);
    let mut known: Vec<Export<'_>> = Vec::new();
    let (mut globals, mut tables, mut watched) = (0, 0, Vec::new());
    let passive = has_passive(wasm).map_err(broken)?;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload.map_err(broken)?;
        match &payload {
            Payload::CustomSection(section) => {
                if let KnownCustom::Name(names) = section.as_known() {
                    for name in names {
                        if let Name::Function(map) = name.map_err(broken)? {
                            for naming in map {
                                let naming = naming.map_err(broken)?;
                                let wanted = exports.iter().position(|name| *name == naming.name);
                                if let Some(i) = wanted {
                                    found[i] = Some(naming.index);
                                }
                            }
                        }
                    }
                }
                continue;
            }
            Payload::MemorySection(section) => {
                for memory in section.clone() {
                    memories.push(memory.map_err(broken)?);
                }
            }
            Payload::DataSection(section) => {
                let mut rest = Vec::new();
                leb(&mut rest, section.count() as usize);
                for segment in section.clone() {
                    let segment = segment.map_err(broken)?;
                    let kept = match segment.kind {
                        DataKind::Passive => segment.data,
                        DataKind::Active { .. } => {
                            data.push(place(&segment).map_err(wrong)?);
                            &[]
                        }
                    };
                    rest.push(PASSIVE);
                    leb(&mut rest, kept.len());
                    rest.extend_from_slice(kept);
                }
                if passive {
                    self::section(&mut out, DATA, &rest);
                }
                continue;
            }
            // The names come last: its place is kept.
            Payload::ExportSection(section) => {
                for export in section.clone() {
                    known.push(export.map_err(broken)?);
                }
                hole = Some(out.len());
                continue;
            }
            // What is not memory must not change between executions; the host looks at it by
            // these names.
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    match import.map_err(broken)?.ty {
                        TypeRef::Global(_) => globals += 1,
                        TypeRef::Table(_) => tables += 1,
                        _ => {}
                    }
                }
            }
            Payload::GlobalSection(section) => {
                for global in section.clone() {
                    if global.map_err(broken)?.ty.mutable {
                        watched.push((ExternalKind::Global, globals));
                    }
                    globals += 1;
                }
            }
            Payload::TableSection(section) => {
                for _ in section.clone() {
                    watched.push((ExternalKind::Table, tables));
                    tables += 1;
                }
            }
            // Code that copies from data segments itself does not compile without this section.
            Payload::DataCountSection { .. } if !passive => continue,
            Payload::CodeSectionEntry(_) | Payload::Version { .. } | Payload::End(_) => continue,
            _ => {}
        }
        if let Some((id, range)) = payload.as_section() {
            section(&mut out, id, &wasm[range]);
        }
    }
    let hole = hole.ok_or_else(|| wrong("it exports nothing".into()))?;
    let mut all = Vec::new();
    // Asyncify's last global says where it copied a stack to. It says nothing once that is done,
    // which the one before it tells, and it keeps what it said.
    if known.iter().any(|export| export.name == "asyncify_start_unwind") {
        let last = watched.iter().rposition(|(kind, _)| *kind == ExternalKind::Global);
        last.map(|at| watched.remove(at));
    }
    watched.retain(|(kind, index)| !known.iter().any(|e| e.kind == *kind && e.index == *index));
    leb(&mut all, known.len() + exports.len() + watched.len());
    for export in &known {
        entry(&mut all, export.name, kind(export.kind), export.index);
    }
    for (name, index) in exports.iter().zip(found) {
        let index = index.ok_or_else(|| wrong(format!("it has no function {name}")))?;
        entry(&mut all, name, kind(ExternalKind::Func), index);
    }
    for (what, index) in watched {
        entry(&mut all, &format!("sandkeep.{what:?}.{index}"), kind(what), index);
    }
    let mut exported = Vec::new();
    section(&mut exported, EXPORTS, &all);
    out.splice(hole..hole, exported);
    let [memory] = &memories[..] else {
        return Err(wrong(format!("it has {} memories", memories.len())));
    };
    Ok(Stripped { wasm: out, data, memory_bytes: memory.initial << 16 })
}

impl Stripped {
    /// Writes into a fresh memory what the original module would.
    ///
    /// # Errors
    /// The address where it does not fit.
    pub fn write_data(&self, original: &[u8], memory: &mut [u8]) -> Result<(), u32> {
        for segment in &self.data {
            let bytes = original.get(segment.bytes.clone()).ok_or(segment.address)?;
            let place = memory.get_mut(segment.address as usize..);
            let place = place.and_then(|rest| rest.get_mut(..bytes.len()));
            place.ok_or(segment.address)?.copy_from_slice(bytes);
        }
        Ok(())
    }
}

/// Whether code may copy from data segments by their numbers: they stay then, the others empty.
fn has_passive(wasm: &[u8]) -> Result<bool, wasmparser::BinaryReaderError> {
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::DataSection(section) = payload? {
            for segment in section {
                if matches!(segment?.kind, DataKind::Passive) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Where a segment lies; what is wrong with it.
fn place(segment: &wasmparser::Data<'_>) -> Result<DataSegment, String> {
    let DataKind::Active { memory_index: 0, offset_expr } = &segment.kind else {
        return Err("it has a data segment that is not for its memory".into());
    };
    let mut operators = offset_expr.get_operators_reader();
    match operators.read() {
        Ok(Operator::I32Const { value }) => {
            let start = segment.range.end - segment.data.len();
            Ok(DataSegment { address: value.cast_unsigned(), bytes: start..segment.range.end })
        }
        _ => Err("it has a data segment whose place is not a constant".into()),
    }
}

fn kind(kind: ExternalKind) -> u8 {
    match kind {
        ExternalKind::Func | ExternalKind::FuncExact => 0,
        ExternalKind::Table => 1,
        ExternalKind::Memory => 2,
        ExternalKind::Global => 3,
        ExternalKind::Tag => 4,
    }
}

fn section(out: &mut Vec<u8>, id: u8, body: &[u8]) {
    out.push(id);
    leb(out, body.len());
    out.extend_from_slice(body);
}

fn entry(out: &mut Vec<u8>, name: &str, kind: u8, index: u32) {
    leb(out, name.len());
    out.extend_from_slice(name.as_bytes());
    out.push(kind);
    leb(out, index as usize);
}

/// An unsigned number as modules hold it.
fn leb(out: &mut Vec<u8>, mut n: usize) {
    while n > 0x7f {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

#[cfg(test)]
mod tests;
