//! What is counted, for `/metrics`. Labels are words of ours and of the operator, never a name of
//! anybody else's, so that there are as many series with ten thousand sandboxes as with one.

use crate::service::Sandboxes;
use prometheus::core::Collector;
use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, exponential_buckets,
};
use types::Cause;

/// What the sandboxes of a server count.
pub(crate) struct Meters {
    starts: IntCounterVec,
    start_seconds: Histogram,
    stops: IntCounterVec,
    execs: IntCounter,
    exec_seconds: Histogram,
    executions: IntCounterVec,
    execution_seconds: Histogram,
    snapshot_seconds: Histogram,
    restores: IntCounterVec,
    restore_seconds: Histogram,
}

const CONSTANT: &str = "names and buckets of metrics are constants, and right";

fn counter(name: &str, help: &str) -> IntCounter {
    IntCounter::new(name, help).expect(CONSTANT)
}

fn counters(name: &str, help: &str, label: &str) -> IntCounterVec {
    IntCounterVec::new(Opts::new(name, help), &[label]).expect(CONSTANT)
}

/// From `first` seconds on, `count` buckets, each of twice the size.
fn histogram(name: &str, help: &str, first: f64, count: usize) -> Histogram {
    let buckets = exponential_buckets(first, 2.0, count).expect(CONSTANT);
    Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets)).expect(CONSTANT)
}

impl Meters {
    pub fn new() -> Self {
        let meters = Self {
            starts: counters(
                "sandkeep_starts_total",
                "Instances started, by result: ok or failed.",
                "result",
            ),
            start_seconds: histogram(
                "sandkeep_start_seconds",
                "From the committed intent to the running main process.",
                0.004,
                12,
            ),
            stops: counters("sandkeep_stops_total", "Instances stopped, by cause.", "cause"),
            execs: counter("sandkeep_execs_total", "Commands started."),
            exec_seconds: histogram(
                "sandkeep_exec_seconds",
                "From a command's start to its end.",
                0.001,
                20,
            ),
            executions: counters(
                "sandkeep_context_executions_total",
                "Executions of code in contexts, by result: saved, rolled_back or failed.",
                "result",
            ),
            execution_seconds: histogram(
                "sandkeep_context_execution_seconds",
                "From an execution's turn to its answer.",
                0.001,
                16,
            ),
            snapshot_seconds: histogram(
                "sandkeep_context_snapshot_seconds",
                "Saving what an execution left: finding, packing, syncing and committing it.",
                0.0005,
                14,
            ),
            restores: counters(
                "sandkeep_context_restores_total",
                "Contexts whose memory was brought back from the disk, by binding.",
                "binding",
            ),
            restore_seconds: histogram(
                "sandkeep_context_restore_seconds",
                "Bringing a context's memory back: fetching, checking and applying its packs.",
                0.0005,
                14,
            ),
        };
        // So that a rate can be told of the first one as well.
        for result in ["ok", "failed"] {
            meters.starts.with_label_values(&[result]);
        }
        for result in ["saved", "rolled_back", "failed"] {
            meters.executions.with_label_values(&[result]);
        }
        for cause in Cause::ALL {
            meters.stops.with_label_values(&[cause.as_str()]);
        }
        meters
    }

    pub fn started(&self, ok: bool, seconds: f64) {
        self.starts.with_label_values(&[if ok { "ok" } else { "failed" }]).inc();
        if ok {
            self.start_seconds.observe(seconds);
        }
    }

    pub fn stopped(&self, cause: Cause) {
        self.stops.with_label_values(&[cause.as_str()]).inc();
    }

    pub fn exec_started(&self) {
        self.execs.inc();
    }

    pub fn exec_ended(&self, seconds: f64) {
        self.exec_seconds.observe(seconds);
    }

    /// `snapshot_ms`: how long saving took, where it was saved.
    pub fn executed(&self, result: &str, seconds: f64, snapshot_ms: Option<u64>) {
        self.executions.with_label_values(&[result]).inc();
        self.execution_seconds.observe(seconds);
        if let Some(ms) = snapshot_ms {
            self.snapshot_seconds.observe(ms as f64 / 1000.0);
        }
    }

    /// A context's memory was brought back. `binding` is one that the operator named.
    pub fn restored(&self, binding: &str, seconds: f64) {
        self.restores.with_label_values(&[binding]).inc();
        self.restore_seconds.observe(seconds);
    }

    fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![
            Box::new(self.starts.clone()),
            Box::new(self.start_seconds.clone()),
            Box::new(self.stops.clone()),
            Box::new(self.execs.clone()),
            Box::new(self.exec_seconds.clone()),
            Box::new(self.executions.clone()),
            Box::new(self.execution_seconds.clone()),
            Box::new(self.snapshot_seconds.clone()),
            Box::new(self.restores.clone()),
            Box::new(self.restore_seconds.clone()),
        ]
    }
}

/// What is looked up when somebody asks, and not counted.
pub struct Gauges {
    running: IntGauge,
    sandboxes: IntGauge,
}

impl Gauges {
    /// Gauges of a server.
    pub fn new() -> Self {
        let gauge = |name, help| IntGauge::new(name, help).expect(CONSTANT);
        Self {
            running: gauge("sandkeep_instances_running", "Instances that run."),
            sandboxes: gauge("sandkeep_sandboxes", "Sandboxes of all owners."),
        }
    }

    /// The gauges, to be registered.
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        vec![Box::new(self.running.clone()), Box::new(self.sandboxes.clone())]
    }

    /// Looks. What cannot be looked up stays as it was.
    pub async fn look(&self, sandboxes: &Sandboxes) {
        let world = &sandboxes.world;
        let running = world.instances().len();
        self.running.set(i64::try_from(running).unwrap_or(i64::MAX));
        match world.store.count_sandboxes().await {
            Ok(count) => self.sandboxes.set(i64::try_from(count).unwrap_or(i64::MAX)),
            Err(error) => tracing::warn!(%error, "the sandboxes could not be counted"),
        }
    }
}

impl Default for Gauges {
    fn default() -> Self {
        Self::new()
    }
}

impl Sandboxes {
    /// All that this server's sandboxes and its store count, to be registered.
    pub fn collectors(&self) -> Vec<Box<dyn Collector>> {
        let mut all = self.world.meters.collectors();
        all.push(Box::new(self.world.store.commit_seconds()));
        all
    }
}
