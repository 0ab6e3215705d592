//! Helpers and supervisors are killed at odd moments: a code may be unknown, never wrong.

mod common;

use common::{Dirs, busybox, create, helper, request, wait_until};
use std::os::fd::AsFd;
use std::time::Duration;

/// Deterministic, so that a failure can be had again.
struct Odd(u64);

impl Odd {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }
}

#[test]
fn no_code_is_ever_wrong() {
    let mut odd = Odd(7);
    let mut helper = helper();
    let mut kept = Vec::new();
    for number in 0..60u32 {
        let code = i32::try_from(number % 100).expect("small") + 1;
        let wait = odd.next(80);
        let mut wanted = request();
        wanted.generation = u64::from(number);
        let script = format!("usleep {}; exit {code}", wait * 1000);
        wanted.entrypoint = Some(vec!["sh".to_owned(), "-c".to_owned(), script]);
        let instance = create(&helper, Dirs::new(busybox), &wanted);
        if odd.next(3) == 0 {
            std::thread::sleep(Duration::from_millis(odd.next(80)));
            if let Ok(supervisor) = spawner::pidfd_open(instance.file.supervisor_pid) {
                // Ended already is one of the moments.
                let _ = spawner::signal(supervisor.as_fd(), 9);
            }
        }
        if odd.next(6) == 0 {
            spawner::signal(helper.pidfd(), 9).expect("kill the helper");
            helper = common::helper();
        }
        kept.push((instance, code));
    }
    let (mut known, mut from_exit) = (0, 0);
    for (instance, code) in &kept {
        wait_until("init ends", || !spawner::alive(instance.init.as_fd()));
        let supervisor = format!("/proc/{}/exe", instance.file.supervisor_pid);
        let exit = instance.dirs.path("run/exit");
        wait_until("the supervisor ends", || {
            exit.exists() || std::fs::read_link(&supervisor).is_err()
        });
        let run = common::dir_fd(&instance.dirs.path("run"));
        // Nobody killed init: its own file must know.
        let status = spawner::read_status(run.as_fd()).expect("read");
        assert_eq!(status, Some(code << 8));
        known += 1;
        if exit.exists() {
            assert_eq!(instance.exit_file().main, Some(code << 8));
            from_exit += 1;
        }
        spawner::kill_remains(&instance.file).expect("nothing is left");
    }
    assert_eq!(known, 60);
    assert!(from_exit > 10, "most supervisors lived: {from_exit}");
}
