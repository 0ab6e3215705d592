//! Commands inside, and images for them.

use e2e::{Server, binary};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Generous: the machine may be busy.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Runs a shell script in a sandbox; its standard output, trimmed.
pub async fn sh(server: &Server, id: &str, script: &str) -> String {
    let result = server.exec(id, &["sh", "-c", script]).await;
    result["stdout"].as_str().expect("text").trim_end().to_owned()
}

/// Runs it as another user.
pub async fn sh_as(server: &Server, id: &str, user: &str, script: &str) -> String {
    let body = json!({ "argv": ["sh", "-c", script], "user": user });
    let result = server.post(&format!("/v1/sandboxes/{id}/exec"), body).await.expect(200);
    result["stdout"].as_str().expect("text").trim_end().to_owned()
}

/// Runs a Perl program in a sandbox of the image `host`; its whole result.
pub async fn perl(server: &Server, id: &str, program: &str) -> Value {
    let result = server.exec(id, &["perl", "-e", program]).await;
    assert_eq!(result["stderr"], "", "{result}");
    result
}

/// Makes a root file system of busybox alone.
pub fn busybox(root: &Path) {
    let program = ["/usr/bin/busybox", "/bin/busybox"].into_iter().find(|p| Path::new(p).exists());
    let program = program.expect("busybox-static is installed");
    for dir in ["bin", "etc", "root", "home"] {
        std::fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    std::fs::copy(program, root.join("bin/busybox")).expect("copied");
    let names = Command::new(program).arg("--list").output().expect("it runs").stdout;
    for name in String::from_utf8_lossy(&names).lines().filter(|name| *name != "busybox") {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).expect("a link");
    }
    let passwd = "root:x:0:0:root:/root:/bin/sh\nada:x:1000:1000::/home:/bin/sh\n";
    std::fs::write(root.join("etc/passwd"), passwd).expect("written");
    std::fs::write(root.join("etc/group"), "root:x:0:\nada:x:1000:\n").expect("written");
}

/// `sandkeep image import` into the server's data directory.
pub fn import(server: &Server, name: &str, path: &Path) {
    let output = Command::new(binary())
        .args(["image", "import", name])
        .arg(path)
        .arg("--data")
        .arg(&server.data)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
