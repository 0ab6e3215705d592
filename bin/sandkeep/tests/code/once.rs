//! One execution at a time.

use crate::common::{Server, sandkeep, told};
use crate::server;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

/// What the verb says to this code in the sandbox `c`.
fn code(server: &Server, words: &[&str], code: &str) -> (i32, String, String) {
    server.verb(&[&["code", "c"], words, &["-e", code]].concat())
}

fn fine(server: &Server, words: &[&str], text: &str) -> String {
    let (exit, stdout, stderr) = code(server, words, text);
    assert_eq!((exit, stderr.as_str()), (0, ""), "{text}");
    stdout
}

#[test]
fn variables_stay_and_values_are_told() {
    let data = tempfile::tempdir().expect("a directory");
    let mut server = server(data.path(), &[]);
    assert_eq!(fine(&server, &[], "x = 6 * 7"), "");
    assert_eq!(fine(&server, &[], "print('hello'); x + 1"), "hello\n43\n");
    let js = ["--language", "js"];
    assert_eq!(fine(&server, &js, "process.stdout.write('no end'); 1"), "no end\n1\n");
    assert_eq!(fine(&server, &js, "let x = 'mine'"), "");
    assert_eq!(fine(&server, &["--binding", "JAVASCRIPT"], "x.length"), "4\n");
    // One sandbox, one workspace, and no instance yet.
    fine(&server, &[], "open('f', 'w').write('from python') and None");
    assert_eq!(server.json(&["inspect", "c"])["record"], serde_json::Value::Null);
    assert_eq!(server.ok(&["exec", "c", "--", "cat", "f"]), "from python");
    server.ok(&["exec", "c", "--", "sh", "-c", "echo from sh > g"]);
    assert_eq!(fine(&server, &[], "open('g').read()"), "'from sh\\n'\n");

    rustix::process::kill_process(server.pid(), rustix::process::Signal::KILL).expect("there");
    server.wait();
    let server = crate::server(data.path(), &[]);
    assert_eq!(fine(&server, &[], "x"), "42\n");
    assert_eq!(fine(&server, &js, "x"), "'mine'\n");
    let json = server.json(&["code", "c", "-e", "x"]);
    assert_eq!(json["results"][0]["json"], 42);
    assert_eq!(json["rolledBack"], false);
}

#[test]
fn errors_and_limits_have_their_codes() {
    let data = tempfile::tempdir().expect("a directory");
    let server = server(data.path(), &[]);
    let (exit, stdout, stderr) = code(&server, &[], "print('before')\ny = 1\n1 / 0");
    assert_eq!((exit, stdout.as_str()), (1, "before\n"));
    assert!(stderr.ends_with("ZeroDivisionError: division by zero\n"), "{stderr}");
    assert_eq!(stderr.matches("division by zero").count(), 1, "{stderr}");
    assert!(stderr.contains("line 3"), "{stderr}");
    assert_eq!(fine(&server, &[], "y"), "1\n");
    let (exit, _, stderr) = code(&server, &["--language", "js"], "null.x");
    assert_eq!(exit, 1);
    assert_eq!(stderr.matches("TypeError").count(), 1, "{stderr}");

    // What ends its own interpreter loses what it changed, and that is told.
    fine(&server, &[], "z = 1");
    let (exit, stdout, stderr) = code(&server, &[], "z = 2; import os; os._exit(0)");
    assert_eq!((exit, stdout.as_str()), (0, ""));
    assert!(stderr.contains("the variables are as they were before"), "{stderr}");
    assert_eq!(fine(&server, &[], "z"), "1\n");

    for (text, exit) in [
        ("raise SystemExit(3)", 3),
        ("exit()", 0),
        ("import sys; sys.exit(0)", 0),
        ("raise SystemExit('no')", 1),
    ] {
        assert_eq!(code(&server, &[], text).0, exit, "{text}");
    }
    let (exit, _, stderr) = code(&server, &["--timeout", "300ms"], "y = 2\nwhile True: pass");
    assert_eq!(exit, 124, "{stderr}");
    assert!(stderr.contains("ExecutionLimitError"), "{stderr}");
    let json = ["--json", "code", "c", "--timeout", "300ms", "--language", "js"];
    let (exit, stdout, _) = server.verb(&[&json[..], &["-e", "for (;;) {}"]].concat());
    assert_eq!(exit, 124);
    let result: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(result["rolledBack"], true);
    assert_eq!(fine(&server, &[], "y"), "1\n", "it went back");

    for (words, why) in [
        (&["code", "c", "-e", "1", "--context", "none"][..], "contexts ls"),
        (&["code", "c", "-e", "1", "--binding", "NONE"], "NONE"),
        (&["contexts", "rm", "c", "../.."], "contexts ls"),
    ] {
        let (exit, _, stderr) = server.verb(words);
        assert_eq!(exit, 125, "{words:?}");
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{words:?}: {stderr}");
    }
}

#[test]
fn an_engine_that_is_missing_is_told_with_the_cure() {
    let (data, cache) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("one"));
    let cache = cache.path().to_str().expect("UTF-8");
    let server = Server::start(data.path(), &["--engine-cache", cache]);
    let (exit, _, stderr) = server.verb(&["code", "c", "-e", "1"]);
    assert_eq!(exit, 125);
    assert!(stderr.contains("sandkeep engines install"), "{stderr}");
}

#[test]
fn code_and_its_input_come_from_files_and_pipes() {
    let data = tempfile::tempdir().expect("a directory");
    let server = server(data.path(), &[]);
    let at = |name: &str| data.path().join(name).to_str().expect("UTF-8").to_owned();
    std::fs::write(at("f.ts"), "const n: number = 40; n + 2").expect("written");
    std::fs::write(at("in"), b"two\nlines").expect("written");
    assert_eq!(server.ok(&["code", "c", &at("f.ts")]), "42\n");
    let read = "import sys; len(sys.stdin.buffer.read())";
    assert_eq!(fine(&server, &["--stdin", &at("in")], read), "9\n");
    assert_eq!(fine(&server, &[], read), "0\n");

    let piped = |words: &[&str], stdin: &[u8]| {
        let mut child = sandkeep()
            .arg("--data")
            .arg(data.path())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let _ = child.stdin.take().expect("piped").write_all(stdin);
        told(&child.wait_with_output().expect("it ends"))
    };
    assert_eq!(piped(&["code", "c", "-"], b"1 +\\\n1").1, "2\n");
    assert_eq!(piped(&["code", "c", "-e", read, "--stdin", "-"], &[255; 5]).1, "5\n");
    assert_eq!(piped(&["code", "--stateless", "-"], b"'none'").1, "'none'\n");
    let (exit, _, stderr) = piped(&["code", "c", "-"], &[b'#'; 70_000]);
    assert_eq!(exit, 125);
    assert!(stderr.contains("hint: put it into the workspace"), "{stderr}");
    let (exit, _, stderr) = piped(&["code", "c", "-"], b"\xff");
    assert!(exit == 125 && stderr.contains("not UTF-8"), "{stderr}");

    // Nothing that looks like a shell's is one.
    let hostile = "'$(id) `id` \"; rm -rf /'";
    assert_eq!(fine(&server, &[], &format!("len({hostile:?})")), format!("{}\n", hostile.len()));
    server.ok(&["env", "c", "A=$(id)", "B=b\nb"]);
    assert_eq!(fine(&server, &[], "import os; os.environ['A']"), "'$(id)'\n");
    assert_eq!(server.ok(&["exec", "c", "--", "printenv", "B"]), "b\nb\n");
    assert_eq!(
        fine(
            &server,
            &["--env", "A=x", "--unset", "B"],
            "os.environ.get('A'), os.environ.get('B')"
        ),
        "('x', None)\n"
    );
    server.ok(&["env", "c", "--unset", "B"]);
    assert_eq!(server.json(&["env", "c"]), serde_json::json!({"A": "$(id)"}));
    assert_eq!(server.ok(&["env", "c"]), "A\t$(id)\n");
}

#[test]
fn rich_results_are_named_or_kept() {
    let data = tempfile::tempdir().expect("a directory");
    let server = server(data.path(), &[]);
    let class = "class A:\n  def __repr__(self): return 'an A'\n  def _repr_html_(self): return \
                 '<b>A</b>'\n  def _repr_png_(self): return b'\\x89PNG'\n";
    let (exit, stdout, stderr) = code(&server, &[], &format!("{class}A()"));
    assert_eq!((exit, stdout.as_str()), (0, "an A\n"), "{stderr}");
    assert!(stderr.contains("image/png, text/html"), "{stderr}");
    let dir = data.path().join("kept");
    let save = ["--save", dir.to_str().expect("UTF-8")];
    let (exit, _, stderr) = code(&server, &save, "display(A()); A()");
    assert_eq!(exit, 0, "{stderr}");
    for name in ["result-1", "result-2"] {
        assert_eq!(
            std::fs::read(dir.join(name).with_extension("html")).expect("kept"),
            b"<b>A</b>"
        );
        assert_eq!(std::fs::read(dir.join(name).with_extension("png")).expect("kept"), b"\x89PNG");
    }
    let script = "display({'application/x-sh': 'echo hi there'}, raw=True)";
    let (exit, _, stderr) = code(&server, &save, script);
    assert_eq!(exit, 0, "{stderr}");
    let kept = std::fs::read(dir.join("result-1.bin")).expect("kept");
    assert_eq!(kept, b"echo hi there", "text of any type");
}

/// Code that tells that it runs, and the process that runs it.
fn begun(server: &Server, text: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = sandkeep()
        .arg("--data")
        .arg(&server.data)
        .args(["code", "c", "-e", text])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it runs");
    assert_eq!(line, "on\n", "output comes while the code runs");
    (child, stdout)
}

#[test]
fn leaving_stops_the_code() {
    let data = tempfile::tempdir().expect("a directory");
    let server = server(data.path(), &[]);
    fine(&server, &[], "x = 1");
    let (child, stdout) = begun(&server, "x = 2; print('on', flush=True)\nwhile True: pass");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    drop(stdout);
    // The next one of this context waits for the end of that one.
    assert_eq!(fine(&server, &["--timeout", "20s"], "x"), "1\n");
    // A reader that has enough.
    let (child, stdout) = begun(&server, "print('on', flush=True)\nwhile True: print('y' * 99)");
    drop(stdout);
    assert_eq!(child.wait_with_output().expect("it ends").status.code(), Some(141));
    assert_eq!(fine(&server, &[], "x"), "1\n");
}

#[test]
fn a_server_that_is_killed_leaves_the_end_unknown() {
    let data = tempfile::tempdir().expect("a directory");
    let mut first = server(data.path(), &[]);
    fine(&first, &[], "x = 1");
    let (child, _stdout) = begun(&first, "x = 2; print('on', flush=True)\nwhile True: pass");
    rustix::process::kill_process(first.pid(), rustix::process::Signal::KILL).expect("there");
    first.wait();
    let (exit, _, stderr) = told(&child.wait_with_output().expect("it ends"));
    assert_eq!(exit, 125);
    assert!(stderr.starts_with("error: the end of the execution is not known"), "{stderr}");
    let second = server(data.path(), &[]);
    assert_eq!(fine(&second, &[], "x"), "1\n");
}
