//! The others, by their own clients.

use super::{Peer, STEPS};
use crate::report::median_ms;
use anyhow::{Context as _, ensure};
use serde::Deserialize;
use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Deserialize)]
struct Times {
    start: Vec<f64>,
    warm: HashMap<String, Vec<f64>>,
    #[serde(default)]
    quiet: HashMap<String, Vec<f64>>,
    #[serde(default)]
    memory: f64,
}

/// What one of the others takes.
pub struct Rival {
    /// From nothing to the first result, ms.
    pub start: f64,
    /// Each of [`STEPS`], back to back, ms.
    pub warm: Vec<f64>,
    /// Each of them after a pause, ms; empty where that was not measured.
    pub quiet: Vec<f64>,
    /// What one adds to the machine's memory, MiB; 0 where it was not measured.
    pub memory: f64,
}

/// Both, and native CPython.
pub struct Peers {
    /// An ipykernel.
    pub kernel: Rival,
    /// Pyodide in node.
    pub pyodide: Rival,
    /// [`CPU_BOUND`] by native CPython, ms.
    pub native: f64,
    /// Its version.
    pub version: String,
}

/// Code that does nothing but compute; its value is the time that it took, ms.
pub const CPU_BOUND: &str = "\
import time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def run():
    begun = time.perf_counter()
    fib(24)
    table = {}
    for i in range(100_000):
        table[i % 1000] = table.get(i % 1000, 0) + i
    words = sorted(str(i * 7919 % 100_003) for i in range(50_000))
    return (time.perf_counter() - begun) * 1000
";

impl Peers {
    /// Measures them, one after the other. Blocks.
    pub fn measure(peer: &Peer, n: usize) -> anyhow::Result<Self> {
        let starts = (n / 6).max(3);
        let counts = [n.to_string(), starts.to_string()];
        let kernel = run(Command::new(&peer.python).arg(peer.scripts.join("kernel.py")), &counts)
            .context("ipykernel")?;
        let mut node = Command::new("node");
        node.arg(peer.scripts.join("pyodide.mjs")).arg(&peer.pyodide);
        let pyodide = run(&mut node, &counts).context("pyodide")?;
        let (native, version) = native(&peer.python)?;
        Ok(Self { kernel, pyodide, native, version })
    }
}

fn run(command: &mut Command, counts: &[String]) -> anyhow::Result<Rival> {
    let piped = command.args(counts).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::null()).spawn()?;
    child.stdin.take().context("no standard input")?.write_all(&serde_json::to_vec(&STEPS)?)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "it ended with {}", output.status);
    let times: Times = serde_json::from_slice(&output.stdout)?;
    let median = |of: &HashMap<String, Vec<f64>>, step: &str| {
        of.get(step).map(|t| median_ms(t)).with_context(|| format!("no time of {step:?}"))
    };
    let warm = STEPS.iter().map(|step| median(&times.warm, step)).collect::<anyhow::Result<_>>()?;
    let quiet = match times.quiet.is_empty() {
        true => Vec::new(),
        false => {
            STEPS.iter().map(|step| median(&times.quiet, step)).collect::<anyhow::Result<_>>()?
        }
    };
    Ok(Rival { start: median_ms(&times.start), warm, quiet, memory: times.memory })
}

fn native(python: &Path) -> anyhow::Result<(f64, String)> {
    let code = format!("{CPU_BOUND}import platform\nprint(platform.python_version())\n");
    let code = format!("{code}run()\nfor _ in range(5):\n    print(run())\n");
    let output = Command::new(python).args(["-c", &code]).output()?;
    ensure!(output.status.success(), "native python ended with {}", output.status);
    let text = String::from_utf8(output.stdout)?;
    let mut lines = text.lines();
    let version = lines.next().context("no version")?.to_owned();
    let times = lines.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    Ok((median_ms(&times), version))
}
