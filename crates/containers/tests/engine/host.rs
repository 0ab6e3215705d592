//! The image that is made of the machine itself.

use crate::common::{Bed, finish, sh};
use containers::{Engine, InstanceSpec};

fn multi<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(test);
}

#[test]
fn the_host_image_has_tools_and_no_secrets() {
    multi(async {
        let bed = Bed::new();
        let spec = InstanceSpec { image: "host".into(), ..bed.spec(1) };
        let instance = bed.engine.start(spec).await.unwrap();
        for script in [
            "uname -s",
            "echo a b | awk '{print $2}'",
            "! command -v perl || perl -e 'print 1'",
            "! command -v python3 || python3 -c 'import ssl, json, subprocess; print(1)'",
            "! command -v git || git --version",
            "! command -v vi || test -e $(readlink -f $(command -v vi))",
            "getent passwd root",
            "getent hosts localhost",
            "touch /tmp/x /root/x /etc/x /workspace/x",
        ] {
            let told = sh(&instance, script).await;
            assert_eq!(told.code(), 0, "{script}: {told:?}");
        }
        let told =
            sh(&instance, "ls -A /root /home /opt /srv | grep -v -e : -e '^x$' -e '^$'").await;
        assert_eq!(told.text(), "");
        for path in [
            "/etc/shadow",
            "/etc/ssh",
            "/etc/npmrc",
            "/etc/pip.conf",
            "/etc/machine-id",
            "/var/lib/dpkg",
        ] {
            let told = sh(&instance, &format!("ls -d {path}")).await;
            assert_ne!(told.code(), 0, "{path}: {}", told.text());
        }
        assert_ne!(sh(&instance, "touch /usr/x").await.code(), 0);
        // The kernel shows where /workspace lies on its file system; nothing else of ours.
        let data = bed.dir.path().to_str().unwrap().to_owned();
        let show = "grep -v ' /workspace ' /proc/self/mountinfo; ls -la /proc/self/fd /proc/1/fd";
        let told = sh(&instance, show).await;
        assert!(!told.text().contains(&data), "{}", told.text());
        finish(&instance).await;
        bed.assert_clean().await;
    });
}

#[test]
fn the_host_image_leaves_out_local_configuration_and_sources() {
    multi(async {
        let bed = Bed::new();
        let spec = InstanceSpec { image: "host".into(), ..bed.spec(1) };
        let instance = bed.engine.start(spec).await.unwrap();
        for path in ["/usr/local/etc", "/usr/src"] {
            let told = sh(&instance, &format!("ls -A {path}")).await;
            assert_eq!(told.text(), "", "{path}");
        }
        finish(&instance).await;
        bed.assert_clean().await;
    });
}
