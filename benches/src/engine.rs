//! Create, run, stop: ours beside the others.

use crate::ours::{self, Times};
use crate::place::Place;
use crate::report::{Report, median};
use crate::rivals::{self, Runc};
use std::time::Duration;

/// Rounds before the next one's turn.
const TURN: usize = 10;

/// What the rows of HTTP are held against, ms.
pub struct Rivals {
    /// `runc run` and a first command.
    pub run_and_exec: f64,
    /// A command in a running container, back to back and quiet.
    pub exec: [f64; 2],
}

/// The rows of the engine.
pub async fn measure(place: &Place, n: usize, report: &mut Report) -> anyhow::Result<Rivals> {
    let engine = ours::open(place).await?;
    let runc = Runc::new(place)?;
    // Once for the caches, not counted.
    ours::rounds(&engine, usize::MAX, 3, Duration::ZERO).await?;
    runc.rounds(1, Duration::ZERO)?;
    let mut exec = [0.0; 2];
    for (i, (gap, kind)) in [(0, "back to back"), (100, "quiet")].into_iter().enumerate() {
        let gap = Duration::from_millis(gap);
        let (mut floor, mut ours) = (Times::default(), Times::default());
        let (mut theirs, mut bwrap) = (Times::default(), Vec::new());
        // By turns, so that all see the same machine.
        for turn in 0..n.div_ceil(TURN) {
            floor.add(tokio::task::block_in_place(|| rivals::floor(place, TURN, gap))?);
            ours.add(ours::rounds(&engine, turn, TURN, gap).await?);
            theirs.add(tokio::task::block_in_place(|| runc.rounds(TURN, gap))?);
            bwrap.extend(tokio::task::block_in_place(|| rivals::bubblewrap(place, TURN, gap))?);
        }
        let [create, run, stop] = [&ours.create, &ours.exec, &ours.stop].map(|t| median(t));
        let of_runc = [&theirs.create, &theirs.exec, &theirs.stop].map(|t| ("runc", median(t)));
        let of_floor = [&floor.create, &floor.exec, &floor.stop].map(|t| ("floor", median(t)));
        exec[i] = of_runc[1].1;
        report.ratio(&format!("create and start, {kind}"), create, of_runc[0], 0.15);
        report.ratio(&format!("create and start, {kind}"), create, of_floor[0], 2.5);
        report.ratio(&format!("a command, {kind}"), run, of_runc[1], 0.1);
        report.ratio(&format!("a command, {kind}"), run, of_floor[1], 2.0);
        report.ratio(&format!("stop, {kind}"), stop, of_runc[2], 0.05);
        let (floor, whole) = (of_floor[2].1, create + stop);
        report.tell(&format!("stop, {kind}"), format!("{stop:.2} ms; floor {floor:.2} ms"));
        let bwrap = median(&bwrap);
        let found = format!("{whole:.2} ms; bubblewrap, running `true` once, {bwrap:.2} ms");
        report.tell(&format!("create, start and stop, {kind}"), found);
    }
    drop(engine);
    crate::place::remove_groups(&place.sub("engine")?);
    let run_and_exec = tokio::task::block_in_place(|| runc.run_and_exec(n))?;
    Ok(Rivals { run_and_exec: median(&run_and_exec), exec })
}
