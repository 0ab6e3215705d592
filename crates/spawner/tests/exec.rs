//! Commands: what they get, how they fail, that each end is its own.

mod common;

use common::{Instance, command, helper, write_script};
use spawner::protocol::{ExecFailure, FromSupervisor, ToSupervisor};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn failures_name_their_kind() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let workspace = instance.dirs.path("workspace");
    fs::write(workspace.join("plain"), "text").expect("write");
    write_script(&workspace.join("lost"), "#!/no/such/interpreter\n");
    write_script(&workspace.join("bare"), "echo no interpreter line\n");
    let users = common::is_root();
    let too_long = "x".repeat(128 * 1024);
    let mut cases = vec![
        ("a", vec!["nowhere"], None, None, ExecFailure::NotFound),
        ("b", vec!["/no/such"], None, None, ExecFailure::NotFound),
        ("c", vec![""], None, None, ExecFailure::NotFound),
        ("d", vec!["./plain"], None, None, ExecFailure::NotExecutable),
        ("e", vec!["/workspace"], None, None, ExecFailure::NotExecutable),
        ("f", vec!["./lost"], None, None, ExecFailure::NotExecutable),
        ("g", vec!["./bare"], None, None, ExecFailure::NotExecutable),
        ("h", vec!["true"], Some("/no/dir"), None, ExecFailure::CwdNotFound),
        ("i", vec!["true"], Some("/etc/passwd"), None, ExecFailure::CwdNotFound),
        ("j", vec!["true"], None, Some("bob"), ExecFailure::UserNotFound),
        ("k", vec!["true"], None, Some("65536"), ExecFailure::UserNotFound),
        ("l", vec!["true", &too_long], None, None, ExecFailure::TooLarge),
        ("bad/id", vec!["true"], None, None, ExecFailure::Failed),
        ("nul", vec!["true", "a\0b"], None, None, ExecFailure::Failed),
    ];
    if !users {
        cases.push(("m", vec!["true"], None, Some("1000"), ExecFailure::UserNotFound));
    }
    for (id, argv, cwd, user, kind) in cases {
        let mut wanted = command(id, &argv);
        wanted.cwd = cwd.unwrap_or("/workspace").to_owned();
        wanted.user = user.map(str::to_owned);
        let _pipes = instance.start(&wanted);
        let failed = instance.started(id).expect_err("must fail");
        assert_eq!(failed.0, kind, "{id}: {failed:?}");
    }
    let many: Vec<String> = (0..3072).map(|_| "y".repeat(1023)).collect();
    let mut wanted = command("many", &["true"]);
    wanted.argv.extend(many);
    let _pipes = instance.start(&wanted);
    assert_eq!(instance.started("many").expect_err("3 MiB").0, ExecFailure::TooLarge);
    assert_eq!(instance.sh("after", "echo fine").text(), "fine\n");
    let run = instance.dirs.path("run");
    common::wait_until("status files of failed commands go", || {
        let names =
            fs::read_dir(&run).expect("list").map(|entry| entry.expect("entry").file_name());
        !names
            .into_iter()
            .any(|name| name.to_string_lossy().trim_start_matches('.').starts_with('x'))
    });
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn what_a_command_gets() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let mut wanted = command("env", &["/bin/cat", "/proc/self/environ"]);
    let odd = "A;touch /x;B=line\n\"quoted\" $(id) '";
    wanted.env = vec![odd.to_owned(), "E=".to_owned()];
    assert_eq!(instance.run(&wanted).text(), format!("{odd}\0E=\0"));
    let wanted = command("in", &["cat"]);
    let input: Vec<u8> = (0..=255u8).cycle().take(300_000).collect();
    let pipes = instance.start_with(&wanted, &input);
    assert_eq!(instance.finish(&wanted, pipes).stdout, input);
    let ran = instance.run(&command("fds", &["ls", "/proc/self/fd"]));
    // 3 is the directory that ls itself reads.
    assert_eq!(ran.text(), "0\n1\n2\n3\n");
    let wanted = command("signals", &["grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status"]);
    let signals = instance.run(&wanted);
    let zero = "0000000000000000";
    assert_eq!(signals.text(), format!("SigBlk:\t{zero}\nSigIgn:\t{zero}\nSigCgt:\t{zero}\n"));
    if common::is_root() {
        let mut wanted = command("user", &["id"]);
        wanted.user = Some("ada".to_owned());
        let text = "uid=1000(ada) gid=100(users) groups=10(wheel)\n";
        assert_eq!(instance.run(&wanted).text().replace(",100(users)", ""), text);
    }
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn five_hundred_at_once_each_with_its_own_code() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let mut expected = BTreeMap::new();
    for number in 0..500 {
        let id = format!("n{number}");
        let wanted = command(&id, &["sh", "-c", &format!("exit {}", number % 251)]);
        // Nobody reads these pipes, and nothing is written.
        drop(instance.start(&wanted));
        expected.insert(id, number % 251);
    }
    while !expected.is_empty() {
        let (id, status) = instance.wait(|message| match message {
            FromSupervisor::Exited { id, end } => Some((id.clone(), end.wait_status)),
            // All of them at once are more than `pids` allows, or memory has.
            FromSupervisor::ExecFailed { step, .. } => panic!("{step}"),
            _ => None,
        });
        assert_eq!(status, expected.remove(&id).expect("once") << 8, "{id}");
        instance.send(&ToSupervisor::Forget { id });
    }
    let ran = instance.sh("zombies", "ps -o stat | grep -c Z; true");
    assert_eq!(ran.text(), "0\n");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn an_id_is_used_once() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let wanted = command("same", &["sleep", "1000"]);
    let _first = instance.start(&wanted);
    instance.started("same").expect("started");
    let _second = instance.start(&wanted);
    assert_eq!(instance.started("same").expect_err("twice").0, ExecFailure::Duplicate);
    instance.send(&ToSupervisor::Kill { id: "same".to_owned() });
    assert_eq!(instance.exited("same").wait_status, 9);
    let _third = instance.start(&wanted);
    assert_eq!(instance.started("same").expect_err("known").0, ExecFailure::Duplicate);
    instance.stop();
    instance.leaves_nothing();
}
