//! Rows, and what they must show.

use std::fmt::Write as _;
use std::time::Duration;

/// The middle of some times, ms.
pub fn median(times: &[Duration]) -> f64 {
    median_ms(&times.iter().map(|t| t.as_secs_f64() * 1000.0).collect::<Vec<_>>())
}

/// The middle of some numbers.
pub fn median_ms(times: &[f64]) -> f64 {
    let mut ms = times.to_vec();
    ms.sort_by(f64::total_cmp);
    match ms.len() {
        0 => f64::NAN,
        n => f64::midpoint(ms[(n - 1) / 2], ms[n / 2]),
    }
}

/// Who the others are, of `bench engine`.
const ENGINE_PEERS: &str = "\
- **runc**: the same namespaces (user among them), capabilities, filter, limits and masks, from a
  configuration of ours, its root directory owned by the instance's ids beforehand and used without overlay.
  Stop is `runc delete --force`, which kills and deletes.
- **bubblewrap**: `bwrap --unshare-all`, without limits or filter.
- **floor**: the bare system calls (`crates/spawner/examples/floor.rs`): six namespaces, overlay, one
  control group; no user namespace, limits, capabilities or filter.

";

/// Who the others are, of `bench contexts`.
const CONTEXTS_PEERS: &str = "\
- **ipykernel**: driven by jupyter_client, as notebook servers and hosted code interpreters do; it saves nothing.
  Its start is from nothing to the result of `x = 1`.
- **pyodide**: CPython as WebAssembly in node; called in its own process, without HTTP; it saves nothing.
- **CPython**: the native one that runs ipykernel.

Ours are over HTTP, and each execution is on the disk before it is answered.

";

/// What is listed, in `bench lists`.
const LISTS_NOTES: &str = "\
One store has an owner with 100 sandboxes, one with 10 000 and one with 100 000; every tenth sandbox has the
label of which pages are read. Pages are of 100 and over HTTP; the owners take turns, so that all see the same
machine. \"From the middle\" goes on from a cursor behind the first half. Those who ask for what another owner
has, and for what is not there, alternate, with a token over HTTP. Before each change whose event is followed there
is a rest of 5 to 120 ms.

";

struct Row {
    what: String,
    found: String,
    target: String,
    holds: Option<bool>,
}

/// A table that grows.
pub struct Report {
    what: &'static str,
    rounds: usize,
    rows: Vec<Row>,
    load: String,
}

impl Report {
    /// An empty one of `cargo xtask bench <what>`. `rounds` is how often most things were done.
    pub fn new(what: &'static str, rounds: usize) -> Self {
        Self { what, rounds, rows: Vec::new(), load: load() }
    }

    /// A row without a target.
    pub fn tell(&mut self, what: &str, found: String) {
        self.push(what, found, String::new(), None);
    }

    /// A time of ours that may be at most `most` times another one, ms both.
    pub fn ratio(&mut self, what: &str, ours: f64, (whose, theirs): (&str, f64), most: f64) {
        let ratio = ours / theirs;
        let found = format!("{ours:.2} ms; {whose} {theirs:.2} ms; {ratio:.3} ×");
        self.push(what, found, format!("≤ {most} × {whose}"), Some(ratio <= most));
    }

    /// A number that may be at most `most`.
    pub fn at_most(&mut self, what: &str, found: f64, unit: &str, most: f64) {
        let target = format!("≤ {most} {unit}");
        self.push(what, format!("{found:.2} {unit}"), target, Some(found <= most));
    }

    /// Any other row.
    pub fn push(&mut self, what: &str, found: String, target: String, holds: Option<bool>) {
        let row = Row { what: what.to_owned(), found, target, holds };
        println!("{:8}{what}: {} {}", word(row.holds), row.found, row.target);
        self.rows.push(row);
    }

    /// How many targets were met.
    pub fn verdict(&self) -> String {
        let judged: Vec<bool> = self.rows.iter().filter_map(|row| row.holds).collect();
        let held = judged.iter().filter(|held| **held).count();
        format!("{held} of {} targets met", judged.len())
    }

    /// The whole document.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Benchmarks\n\n");
        let _ = writeln!(
            text,
            "Written by `cargo xtask bench {}`: everything in one run on one machine, so the \
             ratios count and the\nmilliseconds are its own. Medians of {} unless a row says \
             otherwise. \"Quiet\" rows have a pause of\n100 ms before each operation, as a \
             server sees it that is not busy; \"back to back\" rows have none.\n",
            self.what, self.rounds
        );
        let _ = writeln!(text, "Machine: {}.\n", machine(&self.load));
        text += match self.what {
            "engine" => ENGINE_PEERS,
            "lists" => LISTS_NOTES,
            _ => CONTEXTS_PEERS,
        };
        text += "| what | found | target | |\n|---|---|---|---|\n";
        for row in &self.rows {
            let (what, found, target) = (&row.what, &row.found, &row.target);
            let _ = writeln!(text, "| {what} | {found} | {target} | {} |", word(row.holds));
        }
        let _ = writeln!(text, "\n{}.", self.verdict());
        text
    }
}

fn word(holds: Option<bool>) -> &'static str {
    match holds {
        Some(true) => "PASS",
        Some(false) => "MISS",
        None => "",
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// How many processes wanted to run in the last minute, on average.
fn load() -> String {
    read("/proc/loadavg").split(' ').next().unwrap_or("?").to_owned()
}

fn machine(load_before: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let v1 = read("/proc/self/mountinfo").contains(" - cgroup cgroup ");
    let groups = if v1 { "version 1 with an empty version 2" } else { "version 2" };
    let release = read("/proc/sys/kernel/osrelease");
    let kernel = release.split('-').next().unwrap_or_default().trim();
    format!(
        "Linux {kernel}, {cores} cores, control groups {groups}; priority raised; load average \
         {load_before} before, {} after",
        load()
    )
}
