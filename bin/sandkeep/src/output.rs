//! Data on standard output: JSON, tables for people, columns for programs.

use crate::fail::BrokenPipe;
use serde::Serialize;
use std::io::{IsTerminal as _, Write as _};

/// Writes bytes as they are. Errors: [`BrokenPipe`] where nobody reads.
pub fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Err(BrokenPipe.into()),
        Err(e) => Err(anyhow::Error::new(e).context("cannot write to standard output")),
    }
}

/// Writes a value as indented JSON.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    bytes(&text)
}

/// Writes rows: aligned below a header on a terminal, else one line each with tabs between.
pub fn rows(header: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
    let rows = rows.into_iter().map(|row| row.iter().map(|cell| plain(cell)).collect::<Vec<_>>());
    if !std::io::stdout().is_terminal() {
        let text: String = rows.map(|row| row.join("\t") + "\n").collect();
        return bytes(text.as_bytes());
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING).set_header(header.iter().copied());
    table.add_rows(rows);
    let text: String = table.lines().map(|line| format!("{}\n", line.trim())).collect();
    bytes(text.as_bytes())
}

/// Writes one more row, with tabs between its cells.
pub fn row(cells: &[String]) -> anyhow::Result<()> {
    let cells: Vec<_> = cells.iter().map(|cell| plain(cell)).collect();
    bytes(format!("{}\n", cells.join("\t")).as_bytes())
}

/// Writes names and values, one pair a line.
pub fn pairs(pairs: &[(&str, String)]) -> anyhow::Result<()> {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let line = |(name, value): &(&str, String)| format!("{name:width$}{}\n", plain(value));
    bytes(pairs.iter().map(line).collect::<String>().as_bytes())
}

/// Says something to people, on standard error. Nobody listening is no reason to stop.
pub fn say(text: impl std::fmt::Display) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Text that others chose, without the characters that would steer a terminal or break a line.
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain
}

/// A time as ISO 8601; a dash where there is none.
pub fn time(ms: impl Into<Option<i64>>) -> String {
    ms.into().map_or_else(|| "-".to_owned(), types::iso8601)
}

/// A number or a dash.
pub fn number<T: ToString>(number: Option<T>) -> String {
    number.map_or_else(|| "-".to_owned(), |n| n.to_string())
}
