use super::context;
use crate::kit::all;
use serde_json::json;

#[tokio::test]
async fn the_last_expression_is_the_result() {
    let mut c = context();
    let cases = [
        ("1 + 1", "2"),
        ("'é' * 2", "\"éé\""),
        ("[1, 2.5, nil, true, { 'a' => 'b' }]", "[1, 2.5, nil, true, {\"a\" => \"b\"}]"),
        ("{ a: 1 }", "{a: 1}"),
        ("2**64", "18446744073709551616"),
        ("0.0 / 0", "NaN"),
        (":name", ":name"),
        ("x = 5; x * 2", "10"),
        ("class A; def inspect = 'an A'; end; A.new", "an A"),
        ("1..3", "1..3"),
        ("\"\\xff\"", "\"\\xFF\""),
        ("def f = 1", ":f"),
        ("self", "main"),
    ];
    all(&mut c, &cases).await;
    for nothing in ["nil", "puts", "# a comment", "x = nil"] {
        let ran = c.run(nothing).await;
        assert_eq!((ran.outcome.result, ran.outcome.error), (None, None), "{nothing}");
    }
}

#[tokio::test]
async fn json_is_there_where_nothing_is_lost() {
    let mut c = context();
    let lossless = [
        ("9007199254740991", json!(9007199254740991u64)),
        ("-0.1", json!(-0.1)),
        ("1e300", json!(1e300)),
        ("1.0", json!(1.0)),
        ("\"a\\u0000\\\"\\\\\\n\\u2028é😀\"", json!("a\0\"\\\n\u{2028}é😀")),
        ("[[], {}, nil, false]", json!([[], {}, null, false])),
        ("{ 'b' => 1, 'a' => { 'é' => [] } }", json!({ "b": 1, "a": { "é": [] } })),
        ("'abc'.encode('UTF-16LE')", json!("abc")),
    ];
    for (code, value) in lossless {
        assert_eq!(c.run(code).await.json(), Some(value), "{code}");
    }
    let lossy = [
        "9007199254740992",
        "2**70",
        "Float::INFINITY",
        "-Float::NAN",
        ":symbol",
        "{ a: 1 }",
        "{ 1 => 2 }",
        "{ nil => 2 }",
        "[1, :a]",
        "1..2",
        "'a'.b",
        "\"\\xff\"",
        "Time.at(0)",
        "1r",
        "Set[1]",
        "a = []; a << a; a",
        "class S < String; end; S.new('a')",
        "class H < Hash; end; H.new",
        "'x' * 2_000_000",
    ];
    for code in lossy {
        assert_eq!(c.run(code).await.json(), None, "{code}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_says_so() {
    let mut c = context();
    let ran = c.run("'é' * 1_000_000").await;
    assert!(ran.text().ends_with("é… 475714 more characters"), "{}", ran.text().len());
    assert!(ran.outcome.truncated);
    assert!(ran.text().len() < 1_100_000);
}

#[tokio::test]
async fn errors_have_a_name_a_message_a_line_and_the_users_frames() {
    let mut c = context();
    let ran = c.run("def inner(n)\n  10 / n\nend\n\ndef outer = inner(0)\n\nouter").await;
    let error = ran.error();
    assert_eq!(error.name, "ZeroDivisionError");
    assert_eq!(error.message, "divided by 0");
    assert_eq!(error.line_number, Some(2));
    let frames = [
        "<code 1>:2:in 'Integer#/': divided by 0 (ZeroDivisionError)",
        "\tfrom <code 1>:2:in 'Object#inner'",
        "\tfrom <code 1>:5:in 'Object#outer'",
        "\tfrom <code 1>:7:in '<main>'",
    ];
    assert_eq!(error.traceback, frames);
    assert!(!ran.rolled_back());

    for (code, name, line) in [
        ("1 +", "SyntaxError", Some(1)),
        ("a = 1\nb = )", "SyntaxError", Some(2)),
        ("\n\nraise 'x'", "RuntimeError", Some(3)),
        ("nope", "NameError", Some(1)),
        ("nil.nope", "NoMethodError", Some(1)),
        ("Integer('x')", "ArgumentError", Some(1)),
        ("raise Class.new(StandardError)", "#<Class:", Some(1)),
        ("module M; class E < StandardError; end; end\nraise M::E", "M::E", Some(2)),
        ("throw :nothing", "UncaughtThrowError", Some(1)),
        ("break", "SyntaxError", Some(1)),
        ("Fiber.yield", "FiberError", Some(1)),
        ("require 'no/such'", "LoadError", Some(1)),
        ("exit 3", "SystemExit", Some(1)),
        ("abort 'bye'", "SystemExit", Some(1)),
        ("fork", "NotImplementedError", Some(1)),
        ("Thread.new {}", "NotImplementedError", Some(1)),
        ("exec 'ls'", "NotImplementedError", Some(1)),
        ("raise Interrupt", "Interrupt", Some(1)),
    ] {
        let ran = c.run(code).await;
        assert!(ran.error().name.starts_with(name), "{code}: {ran:?}");
        assert_eq!(ran.error().line_number, line, "{code}: {ran:?}");
        assert!(!ran.rolled_back(), "{code}");
        let trace = ran.error().traceback.join("\n");
        assert!(!trace.contains("driver"), "{code}: {trace}");
        assert!(!trace.is_empty(), "{code}");
    }
    assert_eq!(c.run("exit 3").await.error().message, "exit 3");
    assert_eq!(c.run("exit").await.error().message, "exit 0");
    assert_eq!(c.run("abort 'bye'").await.error().message, "bye");
    let ran = c.run("begin; raise 'first'; rescue; raise TypeError, 'second'; end").await;
    let trace = ran.error().traceback.join("\n");
    assert!(
        trace.contains("second (TypeError)") && trace.contains("first (RuntimeError)"),
        "{trace}"
    );
}

#[tokio::test]
async fn a_return_outside_of_methods_is_an_error_and_no_end() {
    let mut c = context();
    c.run("x = 1").await;
    for code in
        ["return", "return 5", "[1].each { return }", "begin; return 1; ensure; x += 1; end"]
    {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "LocalJumpError", "{code}");
        assert!(!ran.rolled_back(), "{code}");
    }
    assert_eq!(c.run("def m; [1].each { return 7 }; end; m + x").await.text(), "9");
}

#[tokio::test]
async fn output_environment_input_and_directory() {
    let mut c = context();
    c.env.insert("NAME".into(), "é".into());
    c.stdin = b"one\ntwo\n".to_vec();
    let ran = c.run("puts 'a'; $stderr.puts 'b'; print 'c'; warn 'd'").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("a\nc", "b\nd\n"));
    assert_eq!(c.run("ENV.to_h").await.json(), Some(json!({ "NAME": "é" })));
    assert_eq!(c.run("ENV['NAME'] = 'ü'; ENV.map { |k, v| k + v }").await.text(), "[\"NAMEü\"]");
    c.env.insert("MORE".into(), "m".into());
    let all = json!({ "NAME": "ü", "MORE": "m" });
    assert_eq!(c.again("ENV.to_h").await.json(), Some(all));
    for call in ["system('ls')", "`ls`", "spawn('ls')", "IO.popen('ls')", "fork", "exec('ls')"] {
        assert_eq!(c.run(call).await.error().name, "NotImplementedError", "{call}");
    }
    assert_eq!(c.run("Kernel.system('ls') rescue 1").await.error().name, "NotImplementedError");
    assert_eq!(c.run("[gets, STDIN.read, gets]").await.text(), "[\"one\\n\", \"two\\n\", nil]");
    c.stdin = b"three".to_vec();
    assert_eq!(c.run("[$stdin.read, gets]").await.text(), "[\"three\", nil]");
    c.stdin = b"four\nfive".to_vec();
    assert_eq!(c.run("[gets, ARGF.read]").await.text(), "[\"four\\n\", \"five\"]");
    c.stdin.clear();
    assert_eq!(c.run("[gets, STDIN.read]").await.text(), "[nil, \"\"]");
    c.run("Dir.mkdir('sub'); Dir.chdir('sub'); File.write('é.txt', 'ü')").await.text();
    assert_eq!(c.cwd, "/workspace/sub");
    assert_eq!(std::fs::read(c.workspace().join("sub/é.txt")).unwrap(), "ü".as_bytes());
    assert_eq!(
        c.again("[Dir.pwd, Dir.children('.')]").await.text(),
        "[\"/workspace/sub\", [\"é.txt\"]]"
    );
    assert_eq!(
        c.run("Dir.chdir('/'); Dir.children('/').sort & ['etc', 'home']").await.text(),
        "[]"
    );
    assert_eq!(c.run("File.exist?('/etc/passwd')").await.text(), "false");
}

#[tokio::test]
async fn results_are_displayed_in_several_forms() {
    let mut c = context();
    let ran = c
        .run(
            "class T; def inspect = 'a T'; def to_html = '<b>é</b>'; def to_svg = '<svg/>'; \
             def to_png = \"\\x89PNG\".b; end\ndisplay(1); display([2], T.new); \
             display('text/html' => '<i>', 'application/json' => '[1]'); def later = display(3); later; T.new",
        )
        .await;
    let texts: Vec<_> = ran.displayed.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts, ["1", "[2]", "a T", "", "3"]);
    for shown in [&ran.displayed[2], ran.outcome.result.as_ref().unwrap()] {
        assert_eq!(shown.mime["text/html"], "<b>é</b>");
        assert_eq!(shown.mime["image/svg+xml"], "<svg/>");
        assert_eq!(shown.mime["image/png"], "iVBORw==");
        assert_eq!(shown.json, None);
    }
    assert_eq!(ran.displayed[3].mime["text/html"], "<i>");
    let ran = c.run("5.display; 6").await;
    assert_eq!((ran.stdout.as_str(), ran.text()), ("5", "6"));
}

#[tokio::test]
async fn what_code_redefines_does_not_break_its_answers() {
    let mut c = context();
    for code in [
        "def puts(*) = raise('no')",
        "class Object; def inspect = raise('no'); end",
        "class BasicObject; def method_missing(*) = raise('no'); end",
        "class String; def gsub(*) = raise('no'); def inspect = 'mine'; end",
        "class Integer; def to_s(*) = 'mine'; end; class Float; def to_s = 'mine'; end",
        "module Kernel; def class = raise('no'); def self.eval(*) = raise('no'); end",
        "class Exception; def message = raise('no'); def backtrace = raise('no'); end",
        "JSON = 1 rescue 0; class Binding; def eval(*) = raise('no'); end",
        "STDOUT.sync = false; $stdout = nil rescue 0; $, = 'x'; $/ = 'y'; $; = 'z'",
        "def self.display(*) = 1",
        "class Module; def name = raise('no'); def to_s = raise('no'); end",
    ] {
        let ran = c.run(code).await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
        let ran = c.run("[41 + 1, 0.5, 'a', nil]").await;
        assert_eq!(ran.json(), Some(json!([42, 0.5, "a", null])), "after {code}");
        assert_eq!(c.run("1 / 0").await.error().name, "ZeroDivisionError", "after {code}");
    }
    assert!(c.run("Object.new").await.text().starts_with("#<Object:0x"));
    // What the language itself stands on may break its own methods, and ours do not care.
    c.run("module Kernel; def respond_to?(*) = raise('no'); end").await;
    for _ in 0..2 {
        assert!(!c.run("x = 1").await.rolled_back());
    }
}

#[tokio::test]
async fn no_bridge_and_no_driver_is_in_reach() {
    let mut c = context();
    assert_eq!(c.run("JS").await.error().name, "NameError");
    assert_eq!(c.run("require 'js'; JS.eval('1')").await.error().name, "NameError");
    assert_eq!(c.run("local_variables").await.text(), "[]");
    assert_eq!(c.run("global_variables.grep(/drive|sandkeep/i)").await.text(), "[]");
    assert_eq!(c.run("Object.constants.grep(/drive|sandkeep|DOOR/i)").await.text(), "[]");
}

#[tokio::test]
async fn bytes_that_are_no_text_are_told_by_their_numbers() {
    let mut c = context();
    for (code, message) in [
        ("raise \"a\\xffé\"", "a\\xFFé"),
        ("raise \"a\\xff\\xfe\".b", "a\\xFF\\xFE"),
        ("raise \"é\".b", "é"),
        ("# coding: ascii\nraise \"d\\xC3\\xA9j\\xC3\\xA0 \\xff\"", "déjà \\xFF"),
        ("raise 'é'.encode('UTF-16LE')", "é"),
        ("raise \"\\x81\".dup.force_encoding('Shift_JIS')", "\\x81"),
        ("raise \"\\x80\".dup.force_encoding('Windows-1252')", "€"),
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().message, message, "{code}");
        let trace = ran.error().traceback.join("\n");
        assert!(trace.contains(message), "{code}: {trace}");
    }
    let ran = c.run("class É < StandardError; def ö = raise(self); end\nÉ.new.ö").await;
    assert_eq!(ran.error().name, "É", "{ran:?}");
    assert!(ran.error().traceback.iter().any(|line| line.contains("ö")), "{ran:?}");
    let ran = c.run("class Odd; def inspect = \"<\\xff>\"; end; Odd.new").await;
    assert_eq!(ran.text(), "<\\xFF>");
}

#[tokio::test]
async fn executions_have_numbers_and_lines_are_those_of_the_current_one() {
    let mut c = context();
    c.run("\n\n\ndef deep(a)\n  raise \"x\"\nend").await;
    let ran = c.run("deep(1)").await;
    assert_eq!(ran.error().line_number, Some(1));
    let frames = ["<code 1>:5:in 'Object#deep': x (RuntimeError)", "\tfrom <code 2>:1:in '<main>'"];
    assert_eq!(ran.error().traceback, frames);
    assert_eq!(c.again("__FILE__").await.text(), "\"<code 3>\"");
    let ran = c.fork().run("\nwarn 'w', uplevel: 0; deep(caller(0)[0])").await;
    assert_eq!(
        (ran.stderr.as_str(), ran.error().line_number),
        ("<code 4>:2: warning: w\n", Some(2))
    );
    assert_eq!(c.run("\n)").await.error().line_number, Some(2));
    assert_eq!(
        c.run("def later = raise('y')\nbegin; deep(1); rescue; later; end")
            .await
            .error()
            .line_number,
        Some(1)
    );
}

#[tokio::test]
async fn streams_that_code_closes_are_there_again() {
    let mut c = context();
    for close in [
        "$stdin.close; $stdout.close; $stderr.close; 1",
        "[STDIN, STDOUT, STDERR].each(&:close); 1",
        "$stdout = File.open('/tmp/o', 'w'); $stdout.close; 1",
    ] {
        assert_eq!(c.run(close).await.text(), "1", "{close}");
        c.stdin = b"one\ntwo\n".to_vec();
        let ran = c.run("puts 'é'; warn 'careful'; STDOUT.print 'more'; gets").await;
        assert_eq!((&*ran.stdout, &*ran.stderr), ("é\nmore", "careful\n"), "{close}");
        assert_eq!(ran.text(), "\"one\\n\"", "{close}");
        // What was not read is not of the next one.
        c.stdin = b"three\n".to_vec();
        assert_eq!(c.run("gets").await.text(), "\"three\\n\"", "{close}");
        c.stdin.clear();
        let ran = c.again("print 'again'; gets.inspect").await;
        assert_eq!((&*ran.stdout, ran.text()), ("again", "\"nil\""), "{close}");
    }
    let ran = c.run("require 'stringio'; $stdout = StringIO.new; puts 1; $stdout.close; 1").await;
    assert_eq!(ran.stdout, "");
    assert_eq!(c.run("$stdout.closed?").await.text(), "true", "one of the code's own stays");
}
