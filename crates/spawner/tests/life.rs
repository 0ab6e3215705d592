//! An instance from its start to its end.

mod common;

use common::{Dirs, Instance, busybox, command, create, helper, host_skeleton, request};
use std::os::unix::fs::symlink;

#[test]
fn created_used_and_stopped() {
    let helper = helper();
    let mut instance = Instance::new(&helper);
    let ran = instance.sh("one", "echo hello; echo oops >&2; exit 7");
    assert_eq!((ran.code(), ran.text().as_str()), (7, "hello\n"));
    assert_eq!(ran.stderr, b"oops\n");
    assert!(!ran.end.timed_out && !ran.end.oom && !ran.end.instance_gone);
    let exit = instance.stop();
    assert_eq!(exit.by, spawner::protocol::EndedBy::Stopped);
    assert_eq!((exit.main, exit.generation), (None, 3));
    assert_eq!(exit, instance.exit_file());
    instance.leaves_nothing();
}

#[test]
fn the_machines_usr() {
    let helper = helper();
    let mut wanted = request();
    wanted.host_image = true;
    let mut instance = create(&helper, Dirs::new(host_skeleton), &wanted);
    let ran = instance.run(&command("perl", &["perl", "-e", "print 6 * 7, qq(\\n)"]));
    assert_eq!((ran.code(), ran.text().as_str()), (0, "42\n"));
    let ran = instance.sh("write", "touch /usr/x; echo $?; ls /root /home /etc/shadow 2>/dev/null");
    assert_eq!(ran.text(), "1\n");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn what_the_administrator_put_below_usr_is_covered_and_nothing_else() {
    let helper = helper();
    let mut wanted = request();
    wanted.host_image = true;
    let dirs = Dirs::new(host_skeleton);
    let usr = dirs.path("usr");
    busybox(&usr);
    std::fs::write(usr.join("etc/secret"), "s").expect("write");
    std::fs::rename(usr.join("etc"), usr.join("conf")).expect("rename");
    std::fs::create_dir(usr.join("local")).expect("make a directory");
    symlink("/etc", usr.join("etc")).expect("make a link");
    symlink("../conf", usr.join("local/etc")).expect("make a link");
    symlink("../workspace", usr.join("src")).expect("make a link");
    let mut instance = create(&helper, dirs, &wanted);
    let ran = instance.sh("look", "ls /usr/conf /usr/local/etc/");
    assert_eq!(ran.text(), "/usr/conf:\n\n/usr/local/etc/:\n", "both are covered");
    let ran = instance.sh("own", "cat /usr/etc/passwd; touch /etc/x /usr/src/x && ls /workspace");
    assert_eq!(ran.text(), "root:x:0:0::/root:/bin/sh\nx\n", "the instance's own is not");
    instance.stop();
    instance.leaves_nothing();
}

#[test]
fn a_main_process_and_its_code() {
    let helper = helper();
    let mut wanted = request();
    wanted.entrypoint = Some(["sh", "-c", "echo $A $PWD; exit 5"].map(String::from).to_vec());
    let mut instance = create(&helper, Dirs::new(busybox), &wanted);
    let exit = instance.ended();
    assert_eq!((exit.main, exit.init), (Some(5 << 8), Some(5 << 8)));
    assert_eq!(exit.by, spawner::protocol::EndedBy::Itself);
    let log = std::fs::read_to_string(instance.dirs.path("log/log")).expect("the log");
    assert_eq!(log, "b /workspace\n");
    instance.leaves_nothing();
}
