//! Code that does its worst: within the limits, and the next execution goes on as if nothing was.

use crate::rig::*;
use e2e::Server;
use serde_json::{Value, json};

/// What a piece of code comes to.
#[derive(Clone, Copy, PartialEq)]
enum Comes {
    /// Its time is up.
    Late,
    /// An error of the language, what was done before it stays.
    Error,
    /// The interpreter ended: as it was before.
    Back,
    /// Either of the two: the language's own word, or the end.
    Either,
}
use Comes::{Back, Either, Error, Late};

/// Each sets `x` to 0 first.
fn worst(language: &str) -> &'static [(&'static str, Comes)] {
    match language {
        "javascript" => &[
            ("for (;;) try { for (;;); } catch {}", Late),
            ("/^(a+)+$/.test('a'.repeat(60) + 'b')", Late),
            ("await new Promise((r) => setTimeout(r, 100_000))", Late),
            ("let n = 7n; for (;;) n *= n", Error),
            ("10n ** 10n ** 8n", Error),
            ("(function f() { return f() + 1 })()", Error),
            ("new Uint8Array(10_000_000_000)", Error),
            ("let s = 'x'; for (;;) s += s", Error),
            ("process.exit(3)", Error),
            ("process.abort()", Error),
            ("process.kill(process.pid, 'SIGKILL')", Error),
            ("require('child_process').fork('x')", Error),
            ("new Worker('x')", Error),
            ("Object.prototype.then = () => {}; throw 1", Error),
            (
                "Object.defineProperty(Object.prototype, 'value', { set() { throw 1 } }); throw 1",
                Error,
            ),
        ],
        "python" => &[
            (
                "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
                Late,
            ),
            ("import re; re.match(r'(a+)+$', 'a' * 60 + 'b')", Late),
            ("import time; time.sleep(100)", Late),
            ("10**10**8", Late),
            ("def f(): return f()\nf()", Error),
            ("import sys; sys.setrecursionlimit(10 ** 9)\ndef f(): return f()\nf()", Either),
            ("b'x' * 10_000_000_000", Error),
            ("a = []\nwhile True: a.append('x' * 1_000_000)", Either),
            ("exit(3)", Error),
            ("import os; os._exit(3)", Back),
            ("import os; os.abort()", Back),
            ("import os; os.kill(os.getpid(), 9)", Error),
            ("import os; os.fork()", Error),
            ("import os; os.execv('/bin/true', ['true'])", Error),
            ("import subprocess; subprocess.run(['true'])", Error),
            ("import multiprocessing as m; m.Process(target=print).start()", Error),
            ("import threading; threading.Thread(target=print).start()", Error),
            ("import ctypes; ctypes.string_at(0)", Error),
        ],
        "ruby" => &[
            ("begin; loop {}; rescue Exception; retry; ensure; loop {}; end", Late),
            ("('a' * 60 + 'b') =~ /^(a|a|aa)+\\1$/", Late),
            ("sleep 100", Late),
            ("10**10**8; raise 'done'", Either),
            ("def f = f() + 1\nf", Error),
            ("'x' * 10_000_000_000", Error),
            ("a = []; loop { a << 'x' * 1_000_000 }", Either),
            ("exit 3", Error),
            ("exit!", Back),
            ("abort 'no'", Error),
            ("Process.kill(:KILL, Process.pid); raise 'still here'", Either),
            ("class UnboundMethod; undef_method :bind_call; end", Back),
            ("x = 2; set_trace_func(proc { raise 'no' }); x", Back),
            ("fork", Error),
            ("exec 'true'", Error),
            ("Process.spawn('true')", Error),
            ("IO.popen('true')", Error),
            ("Thread.new { }.join", Error),
        ],
        _ => &[
            ("while (1) { eval { while (1) {} } }", Late),
            ("('a' x 60 . 'b') =~ /^(a|a|aa)+\\1$/", Late),
            ("sleep 100", Late),
            ("select undef, undef, undef, 100; sleep 100", Late),
            ("no warnings; sub deep { deep(@_, 1) } deep()", Back),
            ("my $a = 'x' x 10_000_000_000", Error),
            ("my @a; push @a, 'x' x 1_000_000 while 1", Back),
            ("exit 3", Error),
            ("CORE::exit(3)", Back),
            ("%main:: = ()", Back),
            ("delete $main::{$_} for keys %main::", Back),
            ("require POSIX; POSIX::_exit(3)", Error),
            ("kill 9, $$; die 'still here'", Either),
            ("defined fork or die", Error),
            ("exec 'true' or die", Error),
            ("system('true') == 0 or die", Error),
            ("open(my $p, '-|', 'true') or die", Error),
            ("require threads", Error),
        ],
    }
}

fn zero(language: &str) -> &'static str {
    match language {
        "python" => "x = 0\n",
        "perl" => "our $x = 0; ",
        _ => "x = 0; ",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_code_does_the_next_execution_goes_on() {
    let server = server().await;
    let each = languages().into_iter().map(|lang| {
        let server = &server;
        async move {
            let id = context(server, "s", lang.binding).await;
            let mut bad = Vec::new();
            for (code, comes) in worst(lang.language) {
                run(server, "s", &id, lang.set).await;
                let timeout = if *comes == Late { 400 } else { 60_000 };
                let code = format!("{}{code}", zero(lang.language));
                let body = json!({ "code": code, "timeoutMs": timeout });
                let answer = ask(server, "s", &id, body).await.expect(200);
                let name = answer["error"]["name"].as_str().unwrap_or_else(|| panic!("{answer}"));
                let back = answer["rolledBack"] == true;
                let as_told = match comes {
                    Late => back && name == "ExecutionLimitError",
                    Back => back,
                    Error => !back && name != "ExecutionLimitError",
                    Either => true,
                };
                let next = run(server, "s", &id, lang.get).await;
                if !as_told || text(&next) != if back { "42" } else { "1" } {
                    bad.push(format!("{}: {code}: {answer}, then {next}", lang.binding));
                }
            }
            bad
        }
    });
    let bad = futures::future::join_all(each).await.concat();
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Prints 30 MB.
fn much(language: &str) -> &'static str {
    match language {
        "javascript" => "for (let i = 0; i < 300; i++) console.log('x'.repeat(99_999)); 'end'",
        "python" => "for _ in range(300): print('x' * 99_999)\n'end'",
        "ruby" => "300.times { puts 'x' * 99_999 }; 'end'",
        _ => "print 'x' x 99_999, \"\\n\" for 1 .. 300; 'end'",
    }
}

fn kept(answer: &Value) -> usize {
    let entries = answer["logs"]["entries"].as_array().expect("a list");
    entries.iter().map(|entry| entry["text"].as_str().expect("text").len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_megabytes_of_output_are_cut_in_every_language() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        let answer = run(&server, "s", &id, much(lang.language)).await;
        assert!(text(&answer).contains("end"), "{}", lang.binding);
        assert_eq!(answer["usage"]["outputBytes"], 30_000_000);
        assert_eq!(
            (&answer["logs"]["truncated"], &answer["rolledBack"]),
            (&json!(true), &json!(false))
        );
        assert!(kept(&answer) <= 1 << 20, "{}", kept(&answer));
        assert_eq!(text(&run(&server, "s", &id, lang.get).await), "42");
    }
}

/// Looks for the machine: environment, files, other processes, network.
fn look(language: &str) -> &'static [(&'static str, &'static str)] {
    match language {
        "javascript" => &[
            ("Object.keys(process.env).sort().join()", "MINE"),
            ("fs.readdirSync('/').sort().join()", "dev,tmp,usr,workspace"),
            ("fs.existsSync('/etc/passwd') || fs.existsSync('/proc/self/environ')", "false"),
            (
                "typeof fetch + typeof XMLHttpRequest + typeof WebSocket",
                "undefinedundefinedundefined",
            ),
        ],
        "python" => &[
            ("import os; ','.join(sorted(os.environ))", "MINE"),
            ("','.join(sorted(set(os.listdir('/')) & {'etc', 'proc', 'home', 'root', 'sys'}))", ""),
            ("os.path.exists('/etc/passwd') or os.path.exists('/proc/self/environ')", "False"),
        ],
        "ruby" => &[
            ("ENV.keys.sort.join(',')", "MINE"),
            ("(Dir.children('/') & %w[etc proc home root sys]).join", ""),
            ("File.exist?('/etc/passwd') || File.exist?('/proc/self/environ')", "false"),
        ],
        _ => &[
            ("join ',', sort keys %ENV", "MINE"),
            (
                "opendir my $d, '/' or die; join ',', grep /^(etc|proc|home|root|sys)$/, readdir $d",
                "",
            ),
            ("-e '/etc/passwd' || -e '/proc/self/environ' ? 'true' : 'false'", "false"),
        ],
    }
}

/// Must fail, all of them.
fn connect(language: &str, port: &str) -> Vec<String> {
    let code: &[&str] = match language {
        "javascript" => &[
            "require('net').connect(PORT, '127.0.0.1')",
            "require('http').get('http://127.0.0.1:PORT/')",
            "await fetch('http://127.0.0.1:PORT/')",
            "await import('http://127.0.0.1:PORT/x.js')",
        ],
        "python" => &[
            "import socket; socket.create_connection(('127.0.0.1', PORT))",
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', PORT))",
            "socket.getaddrinfo('localhost', PORT)[0][4][0][99]",
            "import urllib.request; urllib.request.urlopen('http://127.0.0.1:PORT/v1/health')",
            "socket.socket().bind(('127.0.0.1', 0))",
        ],
        "ruby" => &[
            "require 'socket'; TCPSocket.new('127.0.0.1', PORT)",
            "require 'net/http'; Net::HTTP.get('127.0.0.1', '/', PORT)",
            "require 'open-uri'; URI.open('http://127.0.0.1:PORT/')",
            "open('|true')",
        ],
        _ => &[
            "socket(my $s, 2, 1, 0) && connect($s, pack('S n C4 x8', 2, PORT, 127, 0, 0, 1)) or die 'no'",
            "use IO::Socket::INET; IO::Socket::INET->new('127.0.0.1:PORT') or die 'no'",
            "use HTTP::Tiny; HTTP::Tiny->new->get('http://127.0.0.1:PORT/')->{success} or die 'no'",
            "gethostbyname('localhost') or die 'no'",
        ],
    };
    code.iter().map(|code| code.replace("PORT", port)).collect()
}

async fn sees_nothing(server: &Server, lang: &Lang, port: &str) {
    let body = json!({ "binding": lang.binding, "envVars": { "MINE": "1" } });
    let made = server.post("/v1/sandboxes/s/contexts", body).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    for (code, told) in look(lang.language) {
        let answer = run(server, "s", id, code).await;
        let seen = text(&answer).trim_matches(['\'', '"']);
        assert_eq!(seen, *told, "{}: {code}", lang.binding);
    }
    for path in ["/etc/passwd", "/proc/self/environ", "/proc/1/cmdline", "/workspace/../etc/passwd"]
    {
        let read = lang.read.replace("/workspace/note.txt", path);
        let answer = run(server, "s", id, &read).await;
        assert!(answer.get("error").is_some(), "{}: {path}: {answer}", lang.binding);
        let write = lang.write.replace("/workspace/note.txt", path);
        let answer = run(server, "s", id, &write).await;
        assert!(answer.get("error").is_some(), "{}: {path}: {answer}", lang.binding);
    }
    for code in connect(lang.language, port) {
        let answer = ask(server, "s", id, json!({ "code": code, "timeoutMs": 20_000 })).await;
        let answer = answer.expect(200);
        let name = answer["error"]["name"].as_str().unwrap_or_else(|| panic!("{code}: {answer}"));
        assert_ne!(name, "ExecutionLimitError", "{code}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_of_no_language_sees_the_machine() {
    let server = started(builder().env("SANDKEEP_TEST_SECRET", "secret")).await;
    let before = std::fs::read("/etc/passwd").expect("it is there");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("it has one").port().to_string();
    let each = languages().into_iter().map(|lang| sees_nothing(&server, lang, &port));
    futures::future::join_all(each).await;
    let came = listener.accept().expect_err("nobody came");
    assert_eq!(came.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(std::fs::read("/etc/passwd").expect("it is there"), before);
}
