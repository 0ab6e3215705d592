//! Without root: what works, and what is refused by name.

use crate::common;

use crate::common::helper;
use std::process::Command;

/// Runs this test's child part as `nobody`, with a data directory of its own.
#[test]
fn an_ordinary_user_has_instances_of_his_own() {
    if std::env::var_os("SANDKEEP_AS_NOBODY").is_some() {
        return;
    }
    if !common::root() {
        part();
        return;
    }
    let place = tempfile::Builder::new().prefix("sandkeep-nobody-").tempdir().unwrap();
    let path = place.path();
    // Programs are copied to where he may read them.
    let (me, bin) = (path.join("test"), path.join("helper"));
    std::fs::copy(std::env::current_exe().unwrap(), &me).unwrap();
    std::fs::copy(helper(), &bin).unwrap();
    std::fs::create_dir(path.join("tmp")).unwrap();
    for dir in [path.to_owned(), path.join("tmp")] {
        std::os::unix::fs::chown(&dir, Some(65534), Some(65534)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"])
        .arg(&me)
        .args(["--exact", "ordinary::as_nobody", "--nocapture", "--test-threads=1"])
        .env("SANDKEEP_AS_NOBODY", &bin)
        .env("TMPDIR", path.join("tmp"))
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    assert!(text.contains("all of it ran"), "{text}\n{errors}");
}

#[test]
fn as_nobody() {
    if std::env::var_os("SANDKEEP_AS_NOBODY").is_some() {
        part();
    }
}

fn part() {
    use crate::common::{Bed, command, ended, run, sh};
    use containers::{Ending, Engine, Error, ExecError, InstanceSpec, Main};
    use types::Limits;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bed = Bed::with_box();
        let capabilities = bed.engine.capabilities();
        assert!(!capabilities.users && capabilities.adopt);
        let instance = bed.start(1).await;
        let told =
            sh(&instance, "id -u; echo x > /root/f; echo y > /workspace/g; cat /root/f").await;
        assert_eq!((told.text().as_str(), told.code()), ("0\nx\n", 0), "{told:?}");
        let mut other = command(&["id"]);
        other.user = Some("1000".into());
        assert!(matches!(run(&instance, other).await, Err(ExecError::Unsupported(_))));
        let status =
            sh(&instance, "grep -E '^(NoNewPrivs|Seccomp:|CapEff)' /proc/self/status").await;
        assert_eq!(status.text(), "CapEff:\t00000000a80425fb\nNoNewPrivs:\t1\nSeccomp:\t2\n");
        if !capabilities.memory_limit {
            let limits = Limits { memory_mib: 64, vcpu: 1.0, pids: 512, disk_mb: 2000 };
            let refused = bed.engine.start(InstanceSpec { limits, ..bed.spec(2) }).await;
            assert!(matches!(refused, Err(Error::Unsupported(_))));
        }
        // A kill of a command reaches its own process; a stop reaches all.
        let running = instance.exec(common::shell("sleep 1000 & sleep 1000")).await.unwrap();
        drop(running);
        common::finish(&instance).await;
        let instance = bed.main(3, "exit 5").await;
        let ending = ended(&instance).await;
        assert!(matches!(ending, Ending::Main { main: Main::Code(5), .. }), "{ending:?}");
        instance.release().await;
        let spec = InstanceSpec { image: "host".into(), ..bed.spec(4) };
        let instance = bed.engine.start(spec).await.unwrap();
        assert_eq!(sh(&instance, "uname -s").await.text(), "Linux\n");
        common::finish(&instance).await;
        bed.assert_clean().await;
        println!("all of it ran");
    });
}
