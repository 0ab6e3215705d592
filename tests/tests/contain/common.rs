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

/// Lets commands execute what executes them (`/proc/self/exe`), and opens the program behind
/// every process for writing: while it runs, and through a descriptor once it has ended.
pub async fn hunt_our_programs(server: &Server, program: &Path) {
    let before = std::fs::read(program).expect("the program");
    let script = "ln -s /proc/self/exe /workspace/self; \
        printf '#!/proc/self/exe\\n' > /workspace/bang; chmod +x /workspace/bang";
    sh(server, "a", script).await;
    let hunter = r#"
        my (%held, %seen);
        my $end = time + 4;
        while (time < $end) {
            for my $d (glob "/proc/[0-9]*") {
                my $to = readlink "$d/exe";
                next unless defined $to;
                $seen{$to} = 1;
                print "wrote $to\n" if $to !~ m{^/usr/} && open(my $w, "+<", "$d/exe");
                open($held{$to}, "<", "$d/exe") unless $to =~ m{^/usr/} or $held{$to};
            }
            for my $to (keys %held) {
                next unless $held{$to};
                my $n = fileno $held{$to};
                print "wrote $to later\n" if open(my $w, "+<", "/proc/self/fd/$n");
            }
        }
        print "saw $_\n" for sort keys %seen;"#;
    let hunting = perl(server, "a", hunter);
    let starting = async {
        for _ in 0..20 {
            for argv in [["/workspace/self", "--help"], ["/workspace/bang", "x"], ["true", "x"]] {
                let body = json!({ "argv": argv });
                let answer = server.post("/v1/sandboxes/a/exec", body).await;
                assert!(matches!(answer.status, 200 | 422), "{}", answer.text());
            }
        }
    };
    let (found, ()) = tokio::join!(hunting, starting);
    let found = found["stdout"].as_str().expect("text");
    assert!(found.contains("saw /usr/bin/perl"), "{found}");
    assert!(!found.contains("wrote"), "{found}");
    assert!(std::fs::read(program).expect("the program") == before, "it was changed");
}
