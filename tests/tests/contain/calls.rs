//! Calls to the kernel that are refused, for root of the instance too.

use crate::common::*;
use e2e::Server;

/// Number, name and arguments (Perl) of calls that reach the machine or much kernel code.
#[cfg(target_arch = "x86_64")]
const REFUSED: &[(&str, &str)] = &[
    ("mount", r#"165, "x", "/tmp", "tmpfs", 0, 0"#),
    ("bind mount", r#"165, "/usr", "/tmp", 0, 4096, 0"#),
    ("remount", r#"165, 0, "/usr", 0, 32, 0"#),
    ("umount2", r#"166, "/proc/sys", 2"#),
    ("pivot_root", r#"155, "/tmp", "/tmp""#),
    ("open_tree", r#"428, -100, "/", 1"#),
    ("move_mount", r#"429, -100, "/", -100, "/tmp", 0"#),
    ("fsopen", r#"430, "tmpfs", 0"#),
    ("mount_setattr", r#"442, -100, "/usr", 0, "x" x 32, 32"#),
    ("unshare of users", "272, 0x10000000"),
    ("unshare of mounts", "272, 0x20000"),
    ("unshare of networks", "272, 0x40000000"),
    ("clone with a user namespace", "56, 0x10000011, 0, 0, 0, 0"),
    ("clone3", r#"435, "\0" x 88, 88"#),
    ("setns", "308, 0, 0"),
    ("ptrace attach", "101, 16, 1, 0, 0"),
    ("ptrace seize", "101, 0x4206, 1, 0, 0"),
    ("process_vm_readv", r#"310, 1, "x" x 16, 1, "x" x 16, 1, 0"#),
    ("process_vm_writev", r#"311, 1, "x" x 16, 1, "x" x 16, 1, 0"#),
    ("pidfd_getfd", "438, 0, 3, 0"),
    ("kcmp", "312, 1, 1, 0, 0, 0"),
    ("keyctl", "250, 0, -3, 1"),
    ("add_key", r#"248, "user", "k", "v", 1, -3"#),
    ("request_key", r#"249, "user", "k", 0, -3"#),
    ("bpf", r#"321, 0, "\0" x 64, 64"#),
    ("io_uring_setup", r#"425, 4, "\0" x 120"#),
    ("userfaultfd", "323, 0"),
    ("userfaultfd of user mode", "323, 1"),
    ("perf_event_open", r#"298, "\0" x 120, 0, -1, -1, 0"#),
    ("open_by_handle_at", r#"304, -100, "x" x 32, 0"#),
    ("init_module", r#"175, "x" x 8, 8, """#),
    ("finit_module", r#"313, 0, "", 0"#),
    ("delete_module", r#"176, "loop", 0"#),
    ("kexec_load", "246, 0, 0, 0, 0"),
    ("reboot", "169, 0xfee1dead, 672274793, 0x89abcdef, 0"),
    ("swapon", r#"167, "/workspace/x", 0"#),
    ("acct", r#"163, "/workspace/x""#),
    ("syslog", r#"103, 3, "x" x 64, 64"#),
    ("settimeofday", r#"164, "\0" x 16, 0"#),
    ("clock_settime", r#"227, 0, "\0" x 16"#),
    ("iopl", "172, 3"),
    ("ioperm", "173, 0, 1, 1"),
    ("quotactl", r#"179, 0, "/dev/null", 0, 0"#),
    ("fanotify_init", "300, 0, 0"),
    ("vsock", "41, 40, 1, 0"),
    ("packet socket", "41, 17, 3, 768"),
    ("kernel crypto socket", "41, 38, 5, 0"),
    ("key socket", "41, 15, 3, 2"),
    ("sethostname", r#"170, "other", 5"#),
];

#[cfg(target_arch = "x86_64")]
#[tokio::test(flavor = "multi_thread")]
async fn what_reaches_the_machine() {
    let server = Server::start().await;
    // Those that work tell that the way of asking is right.
    let works =
        r#"print syscall(39) > 1 ? "yes" : "no", " ", syscall(41, 1, 1, 0) >= 0 ? "yes" : "no";"#;
    assert_eq!(perl(&server, "a", works).await["stdout"], "yes yes");
    // Texts in a list of variables: the call wants to write to what it is given.
    let mut program =
        String::from("$| = 1; my $r; sub call { my @a = @_; syscall($a[0], @a[1..$#a]) }\n");
    for (name, call) in REFUSED {
        // A child of a clone that worked must not go on with the list.
        program += &format!(
            "$! = 0; my $p = $$; $r = call({call}); exit 0 if $$ != $p; \
             print '{name}: ', ($r == -1 ? $! + 0 : \"worked $r\"), \"\\n\";\n"
        );
    }
    let program = program.replace("my $p", "our $p");
    let result = perl(&server, "a", &program).await;
    let told = result["stdout"].as_str().expect("text");
    assert_eq!(told.lines().count(), REFUSED.len(), "{told}");
    for line in told.lines() {
        let (name, errno) = line.rsplit_once(": ").expect("two parts");
        // EPERM, EACCES, ENOSYS; of socket families EAFNOSUPPORT too.
        let refused =
            ["1", "13", "38"].contains(&errno) || (name.contains("sock") && errno == "97");
        assert!(refused, "{line}");
    }
    // Nothing of it took effect.
    assert_eq!(
        sh(&server, "a", "hostname; ls /tmp; touch /usr/x 2>/dev/null; ls /usr/x 2>/dev/null")
            .await,
        "a"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sets_something_of_the_machine() {
    let server = Server::start().await;
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("read");
    let script = "for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/panic \
        /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sys/vm/overcommit_memory \
        /proc/sys/net/ipv4/ip_forward /proc/sysrq-trigger /proc/irq/default_smp_affinity \
        /proc/sys/fs/binfmt_misc/register /sys/kernel/uevent_helper /sys/power/state \
        /sys/kernel/mm/transparent_hugepage/enabled /proc/sys/kernel/sysrq; do \
        if test -e $f && (echo 1 > $f) 2>/dev/null; then echo wrote $f; fi; done; \
        find /sys -maxdepth 4 -type d 2>/dev/null | head -300 | while read d; do \
        mkdir $d/made 2>/dev/null && echo made $d; done; \
        find /sys /proc/sys /proc/bus /proc/fs -type f 2>/dev/null | head -2000 | while read f; do \
        (: >> $f) 2>/dev/null && echo opened $f; done; echo end";
    let told = sh(&server, "a", script).await;
    assert_eq!(told, "end");
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/core_pattern").expect("read"), pattern);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tells_something_of_the_machine() {
    let server = Server::start().await;
    for masked in ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts"] {
        if std::path::Path::new(masked).exists() {
            let bytes = sh(&server, "a", &format!("cat {masked} 2>/dev/null | wc -c")).await;
            assert_eq!(bytes, "0", "{masked}");
        }
    }
    for masked in ["/proc/acpi", "/proc/scsi", "/proc/asound", "/sys/firmware"] {
        assert_eq!(sh(&server, "a", &format!("ls -A {masked} 2>/dev/null")).await, "", "{masked}");
    }
    let told =
        sh(&server, "a", "dmesg 2>/dev/null | wc -l; cat /proc/1/environ 2>/dev/null | wc -c")
            .await;
    assert_eq!(told, "0\n0");
}
