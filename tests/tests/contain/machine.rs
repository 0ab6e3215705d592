//! The machine from inside: files, processes, sockets, network, cgroups, other sandboxes; and
//! the programs of the image `host`.

use crate::common::*;
use e2e::{Server, eventually, read_instance};
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_the_machine() {
    let server = Server::start().await;
    let beside =
        tempfile::Builder::new().prefix("sandkeep-secret-").tempdir().expect("a directory");
    std::fs::write(beside.path().join("file"), "secret").expect("written");
    let path = beside.path().to_str().expect("text");
    let script = format!("cat {path}/file; ls -A /tmp /root /home /var/lib /opt /srv /mnt /media");
    let told = sh(&server, "a", &format!("({script}) 2>&1")).await;
    assert!(!told.contains("secret\n") && told.contains("No such file"), "{told}");
    for dir in ["/tmp", "/root", "/home", "/var/lib", "/opt", "/srv", "/mnt", "/media", "/boot"] {
        assert_eq!(sh(&server, "a", &format!("ls -A {dir} 2>/dev/null")).await, "", "{dir}");
    }
    let script = "cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/* /etc/npmrc /etc/machine-id \
        /etc/fstab /var/run/docker.sock 2>/dev/null; \
        ls -A /usr/local/etc /usr/etc /usr/src 2>/dev/null | grep -v ':$'; \
        find / -xdev '(' -name '.npmrc' -o -name 'npmrc' -o -name '.cargo' -o -name '.ssh' -o \
        -name 'id_rsa*' -o -name 'authorized_keys' -o -name '.bash_history' -o \
        -name '.git-credentials' ')' 2>/dev/null; \
        find /usr -xdev -name npmrc 2>/dev/null; \
        find / -xdev -type s 2>/dev/null; find /run /dev /tmp -type s 2>/dev/null; true";
    assert_eq!(sh(&server, "a", script).await.trim(), "");
    // Nor the paths of the machine, but for that of the workspace.
    let mounts = sh(&server, "a", "cat /proc/self/mountinfo").await;
    let data = server.data.to_str().expect("text");
    for line in mounts.lines().filter(|line| !line.contains(" /workspace ")) {
        assert!(!line.contains(data) && !line.contains("upperdir=/tmp"), "{line}");
    }
    // What is written inside changes nothing outside.
    let script =
        "echo x > /etc/made; echo x > /usr/made; echo x > /made; rm -f /etc/passwd; ls /etc/made";
    assert_eq!(sh(&server, "a", &format!("({script}) 2>/dev/null")).await, "/etc/made");
    for path in ["/etc/made", "/usr/made", "/made"] {
        assert!(!Path::new(path).exists(), "{path}");
    }
    assert!(Path::new("/etc/passwd").exists());
    assert_eq!(sh(&server, "b", "ls /etc/passwd").await, "/etc/passwd");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_of_the_machine_or_of_others() {
    let server = Server::start().await;
    let number = format!("77{}", std::process::id());
    let mut outside = std::process::Command::new("sleep").arg(&number).spawn().expect("sleep");
    let script = format!("echo mine > /tmp/own; echo w > /workspace/own; sleep {number}3 & ");
    sh(&server, "a", &script).await;
    let look = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /tmp /workspace";
    let told = sh(&server, "b", look).await;
    let pid = outside.id();
    let kill = format!("kill -9 {pid} 2>&1; ls -d /proc/{pid} 2>&1");
    let killed = sh(&server, "b", &kill).await;
    let lives = outside.try_wait().expect("asked").is_none();
    outside.kill().expect("it lives");
    outside.wait().expect("it ends");
    assert!(!told.contains(&number) && !told.contains("own"), "{told}");
    assert!(lives, "{killed}");
    assert!(killed.contains("No such"), "{killed}");
    // The pids inside are few: init, the shell and what it runs.
    let count = sh(&server, "b", "ls -d /proc/[0-9]* | wc -l").await;
    assert!(count.parse::<u32>().is_ok_and(|n| n <= 5), "{count}");
    // Not even of init, which is on the list.
    let script = "kill -9 1; kill -STOP 1; kill -KILL -1 2>/dev/null; true";
    server.exec("b", &["sh", "-c", script]).await;
    assert_eq!(sh(&server, "b", "echo alive").await, "alive");
    assert_eq!(sh(&server, "a", "cat /tmp/own").await, "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_socket_and_no_network_of_the_machine() {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    let server = Server::start().await;
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("bound").port();
    let name = format!("sandkeep-test-{}-{port}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("an address");
    let listener = UnixListener::bind_addr(&address).expect("bound");
    // From outside both are reached.
    let echo = std::thread::spawn(move || {
        let (mut one, _) = listener.accept().expect("somebody");
        let mut text = [0; 2];
        one.read_exact(&mut text).expect("read");
        listener
    });
    UnixStream::connect_addr(&address).expect("it listens").write_all(b"hi").expect("written");
    let _listener = echo.join().expect("it was reached");
    std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let http = server.url.rsplit_once(':').expect("a port").1.to_owned();
    let program = format!(
        r#"use Socket;
        for my $port ({port}, {http}) {{
            socket(my $s, PF_INET, SOCK_STREAM, 0) or die; $! = 0;
            print connect($s, pack_sockaddr_in($port, inet_aton("127.0.0.1"))) ? "reached" : $! + 0, "\n";
        }}
        socket(my $u, PF_UNIX, SOCK_STREAM, 0) or die; $! = 0;
        print connect($u, pack_sockaddr_un("\0{name}")) ? "reached" : $! + 0, "\n";
        socket(my $o, PF_INET, SOCK_DGRAM, 0) or die; $! = 0;
        print connect($o, pack_sockaddr_in(53, inet_aton("192.0.2.1"))) ? "reached" : $! + 0, "\n";"#
    );
    // Refused, refused, refused, and no way to the network.
    assert_eq!(perl(&server, "a", &program).await["stdout"], "111\n111\n111\n101\n");
    let script = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route; \
        ls /sys/class/net; wc -l < /proc/net/unix";
    assert_eq!(sh(&server, "a", script).await, "lo\nlo\n1");
    // Its own loopback works, and is not that of others.
    let listen = r#"use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or die;
        bind($s, pack_sockaddr_in(7070, INADDR_ANY)) or die $!; listen($s, 5) or die $!;
        if (fork) { exit 0 } close(STDOUT); close(STDERR); while (accept(my $c, $s)) { print $c "hello"; close $c; }"#;
    perl(&server, "a", listen).await;
    let ask = r#"use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0) or die; $! = 0;
        print connect($s, pack_sockaddr_in(7070, inet_aton("127.0.0.1"))) ? <$s> // "" : $! + 0;"#;
    assert_eq!(perl(&server, "b", ask).await["stdout"], "111");
    assert_eq!(perl(&server, "a", ask).await["stdout"], "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cgroup_of_the_machine() {
    let server = Server::start().await;
    let told = sh(&server, "a", "cat /proc/self/cgroup /proc/1/cgroup").await;
    let object = Server::object("local", "a");
    assert!(!told.contains("sandkeep") && !told.contains(&object), "{told}");
    let script = "find /sys/fs/cgroup -mindepth 1 | head -5; mkdir /sys/fs/cgroup/x 2>/dev/null && echo made; \
        mkdir /tmp/cg; mount -t cgroup2 none /tmp/cg 2>/dev/null && echo mounted; \
        mount -t cgroup -o memory none /tmp/cg 2>/dev/null && echo mounted; true";
    assert_eq!(sh(&server, "a", script).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_stays_within_its_limit() {
    let server = Server::start().await;
    server.put("/v1/sandboxes/bomb", json!({ "pids": 64 })).await.expect(201);
    server.exec("bomb", &["true"]).await;
    let script = "use POSIX; for (1..3) { fork } while (1) { my $p = fork; POSIX::setsid() if defined $p && !$p; }";
    let (http, url) = (server.http.clone(), format!("{}/v1/sandboxes/bomb/exec", server.url));
    let body = json!({ "argv": ["perl", "-e", script] }).to_string();
    let bomb = tokio::spawn(async move {
        let request = http.post(url).header("content-type", "application/json").body(body);
        request.send().await.expect("an answer").status().as_u16()
    });
    let object = Server::object("local", "bomb");
    let file = read_instance(&server.data, &object).expect("it runs");
    let groups = file["cgroups"]["v1"].as_array().cloned().unwrap_or_default();
    let groups = groups.iter().chain([&file["cgroups"]["v2"]]).filter_map(|g| g.as_str());
    let count = groups.map(|g| Path::new(g).join("pids.current")).find(|path| path.exists());
    let count = count.expect("processes are counted");
    let now = || std::fs::read_to_string(&count).ok().and_then(|n| n.trim().parse::<u32>().ok());
    eventually("the bomb fills its limit", LIMIT, || async { now().filter(|n| *n >= 60) }).await;
    for _ in 0..20 {
        assert!(now().is_some_and(|n| n <= 64), "{:?}", now());
    }
    assert_eq!(sh(&server, "other", "echo fine").await, "fine");
    server.post("/v1/sandboxes/bomb/stop", json!(null)).await.expect(204);
    assert_eq!(bomb.await.expect("a task"), 409);
    assert!(!count.exists(), "its cgroup is there after the stop");
    server.delete("/v1/sandboxes/bomb").await.expect(204);
    server.delete("/v1/sandboxes/other").await.expect(204);
    eventually("no leaks", LIMIT, || async { server.leaks().0.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_of_the_machine_work() {
    let server = Server::start().await;
    let c = "printf '#include <stdio.h>\\nint main(void){puts(\"42\");}' > /tmp/x.c && \
        gcc -o /workspace/x /tmp/x.c && /workspace/x";
    let git = "cd /workspace && git init -q r && cd r && echo x > f && git add f && \
        git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s";
    let vi =
        "printf 'one\\n' > /tmp/f && vi -es -c '%s/one/42/' -c 'wq' /tmp/f </dev/null; cat /tmp/f";
    let programs = [
        ("awk", "awk 'BEGIN { print 6 * 7 }'", "42"),
        ("vi", vi, "42"),
        ("perl", "perl -MList::Util=sum -e 'print sum(40, 2)'", "42"),
        ("python3", "python3 -c 'import json, ssl, sqlite3; print(json.loads(\"42\"))'", "42"),
        ("git", git, "one"),
        ("gcc", c, "42"),
    ];
    let mut tried = 0;
    for (program, script, expected) in programs {
        let dirs = ["/usr/bin", "/usr/local/bin"];
        if !dirs.iter().any(|dir| Path::new(dir).join(program).exists()) {
            continue;
        }
        let result = server.exec("a", &["sh", "-c", script]).await;
        let told = result["stdout"].as_str().expect("text").trim();
        assert_eq!(told, expected, "{program}: {result}");
        tried += 1;
    }
    assert!(tried > 0, "the machine has none of them");
    // For other users than root, too.
    let closed = "find / -xdev -type d ! -perm -005 2>/dev/null";
    assert_eq!(sh(&server, "a", closed).await, "/root");
    assert_eq!(sh_as(&server, "a", "1000", "echo x > /var/tmp/x; cat /var/tmp/x").await, "x");
}
