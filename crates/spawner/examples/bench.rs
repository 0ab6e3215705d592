//! Medians of create, exec and stop, back to back and with 100 ms before each operation.
//!
//! `cargo run --release -p spawner --example bench [ROUNDS] [nocpu]`, as root, with
//! busybox-static. On a busy machine run it under `chrt -f 10` with `nocpu`: a real-time process
//! cannot join a version 1 cpu group.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Dirs, Instance, busybox, command, request, scratch};
use spawner::Helper;
use std::path::Path;
use std::time::{Duration, Instant};

fn main() {
    spawner::run_if_asked();
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100);
    let helper = match Helper::spawn() {
        Ok(helper) => helper,
        Err(e) => {
            eprintln!("no helper: {e}");
            std::process::exit(1)
        }
    };
    // One image for all: thousands of files that were just deleted make ext4 slow at making new
    // ones, which is not what is measured.
    let image = scratch();
    busybox(image.path());
    println!("ms: 10th, 50th, 90th of 100    create                exec                stop");
    for (name, gap) in [("back to back", 0), ("after 100 ms each", 100)] {
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..rounds {
            round(&helper, image.path(), Duration::from_millis(gap), &mut times);
        }
        print!("{name:26}");
        for times in &mut times {
            times.sort();
            let ms = |at: usize| times[at].as_secs_f64() * 1e3;
            let at = [times.len() / 10, times.len() / 2, times.len() * 9 / 10].map(ms);
            print!("  {:5.2} {:5.2} {:6.2}", at[0], at[1], at[2]);
        }
        println!();
    }
}

fn round(helper: &Helper, image: &Path, gap: Duration, times: &mut [Vec<Duration>; 3]) {
    let dirs = Dirs::of(image);
    let mut wanted = request();
    if std::env::args().any(|arg| arg == "nocpu") {
        wanted.cgroups.v1.retain(|dir| !dir.contains("/cpu"));
    }
    std::thread::sleep(gap);
    let start = Instant::now();
    let mut instance: Instance = common::create(helper, dirs, &wanted);
    times[0].push(start.elapsed());
    for id in ["a", "b"] {
        let wanted = command(id, &["/bin/true"]);
        std::thread::sleep(gap);
        let start = Instant::now();
        let pipes = instance.start(&wanted);
        let ran = instance.finish_alone(&wanted, pipes);
        times[1].push(start.elapsed());
        assert_eq!(ran.code(), 0);
    }
    std::thread::sleep(gap);
    let start = Instant::now();
    instance.stop();
    times[2].push(start.elapsed());
}
