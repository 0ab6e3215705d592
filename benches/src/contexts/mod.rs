//! Code contexts, beside an ipykernel (what hosted code interpreters are made of) and pyodide.

mod crowd;
mod peers;
mod steps;

use crate::place::Place;
use crate::report::Report;
use anyhow::Context as _;
use client::{Client, Place as Where};
use peers::Peers;
use std::path::{Path, PathBuf};
use types::{CodeRequest, CodeResult, ContextInfo, ContextRequest};

/// Small steps that are timed in all three.
pub const STEPS: [&str; 4] = [
    "x = 1",
    "sum(range(1000))",
    "def f(n):\n    return [i * i for i in range(n)]\nf(100)",
    "import json\njson.dumps({'a': [1, 2, 3]})",
];

/// Where the peers are installed.
pub struct Peer {
    /// A Python with ipykernel and jupyter_client.
    pub python: PathBuf,
    /// The module file of pyodide.
    pub pyodide: PathBuf,
    /// The directory with the peers' scripts.
    pub scripts: PathBuf,
}

/// All rows.
pub async fn measure(
    place: &Place,
    peer: &Peer,
    cache: &Path,
    n: usize,
    report: &mut Report,
) -> anyhow::Result<()> {
    let peers = Peers::measure(peer, n)?;
    steps::measure(place, cache, &peers, n, report).await?;
    crowd::measure(place, cache, n, &peers, report).await
}

/// A new context of a binding.
pub async fn context(client: &Client, id: &str, binding: &str) -> anyhow::Result<ContextInfo> {
    let request = ContextRequest { binding: Some(binding.to_owned()), ..Default::default() };
    Ok(client.create_context(id, &request).await?)
}

/// Runs code in a context; an error of the guest is one of ours.
pub async fn execute(
    client: &Client,
    id: &str,
    context: &str,
    code: &str,
) -> anyhow::Result<CodeResult> {
    let request = CodeRequest { code: code.to_owned(), ..Default::default() };
    let result = client.execute(Where::Context(id, context), &request).await?;
    anyhow::ensure!(
        result.error.is_none() && !result.rolled_back,
        "{code:?} came out as {:?}",
        result.error
    );
    Ok(result)
}

/// The text of a result.
pub fn text(result: &CodeResult) -> anyhow::Result<&str> {
    Ok(&result.results.first().context("it has no result")?.text)
}
