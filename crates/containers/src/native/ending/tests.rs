use super::*;

fn exit(by: EndedBy, main: Option<i32>, init: Option<i32>) -> ExitFile {
    ExitFile { generation: 1, main, init, oom: false, by, note: Some("n".into()), at_ms: 5 }
}

#[test]
fn the_main_process_tells_before_init() {
    let ended = of_exit(&exit(EndedBy::Itself, Some(7 << 8), Some(9)));
    assert_eq!(ended, Ending::Main { main: Main::Code(7), oom: false, at_ms: 5 });
}

#[test]
fn a_killed_init_is_a_signal() {
    let ended = of_exit(&exit(EndedBy::Itself, None, Some(9)));
    assert_eq!(ended, Ending::Main { main: Main::Signal(9), oom: false, at_ms: 5 });
    // 0x80: with a core dump.
    assert_eq!(main_of(0x8b), Main::Signal(11));
}

#[test]
fn what_we_ended_is_no_matter_of_codes() {
    for (by, ending) in [
        (EndedBy::Stopped, Ending::Stopped { note: Some("n".into()), at_ms: 5 }),
        (EndedBy::DiskFull, Ending::DiskFull { at_ms: 5 }),
        (EndedBy::Inactivity, Ending::Inactivity { at_ms: 5 }),
    ] {
        assert_eq!(of_exit(&exit(by, Some(0), Some(0))), ending);
    }
}

#[test]
fn nothing_known_is_unknown() {
    assert_eq!(of_exit(&exit(EndedBy::Itself, None, None)), Ending::Unknown { at_ms: 5 });
    assert_eq!(of_lost(&Lost::default(), 1), Ending::Unknown { at_ms: 1 });
}

#[test]
fn a_lost_supervisor_leaves_inits_word() {
    let lost = Lost { status_before: Some(9), ..Lost::default() };
    assert_eq!(of_lost(&lost, 1), Ending::Main { main: Main::Signal(9), oom: false, at_ms: 1 });
    let killed_by_us = Lost { status_after: Some(9), ..Lost::default() };
    assert_eq!(of_lost(&killed_by_us, 1), Ending::Unknown { at_ms: 1 });
    let in_between = Lost { status_after: Some(3 << 8), ..Lost::default() };
    assert_eq!(of_lost(&in_between, 1), Ending::Main { main: Main::Code(3), oom: false, at_ms: 1 });
    let stopping = Lost { stop_asked: Some(None), status_before: Some(9), ..Lost::default() };
    assert_eq!(of_lost(&stopping, 1), Ending::Stopped { note: None, at_ms: 1 });
}
