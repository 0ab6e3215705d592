use super::context;
use crate::kit::all;
use serde_json::json;

#[tokio::test]
async fn the_last_expression_is_the_result() {
    let mut c = context();
    let cases = [
        ("1 + 1", "2"),
        ("'é' x 2", "éé"),
        ("[1, 2.5, undef, !!1, { a => 'b' }]", "[1, 2.5, undef, !!1, {\"a\" => \"b\"}]"),
        ("{ a => \"q\\\"\\$\\n\" }", "{\"a\" => \"q\\\"\\$\\n\"}"),
        ("\\ my $s", "\\undef"),
        ("9**9**9", "Inf"),
        ("my $x = 5; $x * 2", "10"),
        ("package A; use overload '\"\"' => sub { 'an A' }; bless []", "an A"),
        ("qr/a/i", "(?^i:a)"),
        ("my @a = (1, 2, 3); @a", "3"),
        ("if (1) { 'in' } else { 'out' }", "in"),
        ("return 9; 10", "9"),
        ("sub f { 1 } # a comment at the end", "undef"),
        ("'long' . <<E\nheredoc\nE", "longheredoc\n"),
        ("__FILE__ . ':' . __LINE__", "<code 15>:1"),
        ("1;\n__END__\nmy $not = 2;", "1"),
    ];
    for (code, text) in cases {
        let ran = c.run(code).await;
        if text == "undef" {
            assert_eq!((ran.outcome.result, ran.outcome.error), (None, None), "{code}");
        } else {
            assert_eq!(ran.text(), text, "{code}");
        }
    }
    for nothing in ["undef", "# a comment", "();", "my $none"] {
        let ran = c.run(nothing).await;
        assert_eq!((ran.outcome.result, ran.outcome.error), (None, None), "{nothing}");
    }
}

#[tokio::test]
async fn json_is_there_where_nothing_is_lost() {
    let mut c = context();
    let lossless = [
        ("9007199254740991", json!(9007199254740991u64)),
        ("-9007199254740991", json!(-9007199254740991i64)),
        ("0.1 + 0.2", json!(0.1 + 0.2)),
        ("1e300", json!(1e300)),
        ("1/3", json!(1.0 / 3.0)),
        ("'10'", json!("10")),
        ("10", json!(10)),
        ("\"a\\0\\\"\\\\\\n\\x{2028}é😀\\xff\"", json!("a\0\"\\\n\u{2028}é😀\u{ff}")),
        ("[[], {}, undef, !!0]", json!([[], {}, null, false])),
        ("{ b => 1, a => { 'é' => [] }, 1 => 2 }", json!({ "b": 1, "a": { "é": [] }, "1": 2 })),
        ("use JSON::PP; JSON::PP::true()", json!(true)),
    ];
    for (code, value) in lossless {
        assert_eq!(c.run(code).await.json(), Some(value), "{code}");
    }
    let lossy = [
        "9007199254740992",
        "2**53",
        "-2**53",
        "18446744073709551615",
        "9**9**9",
        "-sin(9**9**9)",
        "\\1",
        "sub { 1 }",
        "qr/a/",
        "bless {}, 'A'",
        "[1, bless []]",
        "*STDOUT",
        "\\*STDOUT",
        "\"\\x{d800}\"",
        "\"\\x{110000}\"",
        "my $r = []; push @$r, $r; $r",
        "'x' x 2_000_000",
    ];
    for code in lossy {
        assert_eq!(c.run(code).await.json(), None, "{code}");
    }
}

#[tokio::test]
async fn a_text_that_is_too_long_says_so() {
    let mut c = context();
    let ran = c.run("'é' x 2_000_000").await;
    assert!(ran.text().ends_with("é… 1475712 more characters"), "{}", ran.text().len());
    assert!(ran.outcome.truncated);
    let ran = c.run("[1 .. 500_000]").await;
    assert!(
        ran.text().len() < 3 << 20
            && ran.text().starts_with("[1, 2, ")
            && ran.text().ends_with("… more characters")
    );
    assert_eq!((ran.json(), ran.outcome.truncated), (None, true));
}

#[tokio::test]
async fn errors_have_a_name_a_message_a_line_and_the_users_frames() {
    let mut c = context();
    let ran =
        c.run("sub inner {\n  die \"bad $_[0]\";\n}\nsub outer { inner(@_) }\n\nouter(7);").await;
    let error = ran.error();
    assert_eq!(error.name, "PerlError");
    assert_eq!(error.message, "bad 7");
    assert_eq!(error.line_number, Some(2));
    let frames = [
        "bad 7 at <code 1> line 2.",
        "\tmain::inner called at <code 1> line 4",
        "\tmain::outer called at <code 1> line 6",
    ];
    assert_eq!(error.traceback, frames);
    assert!(!ran.rolled_back());

    for (code, name, line) in [
        ("1 +", "PerlError", Some(1)),
        ("my $a = 1;\nmy $b = );", "PerlError", Some(2)),
        ("if (1) {", "PerlError", Some(1)),
        ("my $m = 3; if (1) {", "PerlError", Some(1)),
        ("\n\ndie", "PerlError", Some(3)),
        ("\ndie \"no place\\n\"", "PerlError", Some(2)),
        ("use strict; $nope", "PerlError", Some(1)),
        ("nope()", "PerlError", Some(1)),
        ("undef->nope", "PerlError", Some(1)),
        ("\n1 / 0", "PerlError", Some(2)),
        (
            "package My::Error; sub new { bless {}, shift } package main;\ndie My::Error->new",
            "My::Error",
            Some(2),
        ),
        ("\ndie { code => 5 }", "PerlError", Some(2)),
        ("require No::Such", "PerlError", Some(1)),
        ("use Carp; sub f { croak 'from f' }\n\nf()", "PerlError", Some(1)),
        ("fork", "PerlError", Some(1)),
        ("exit 3", "SystemExit", None),
        ("eval { exit 4 }; 5", "SystemExit", None),
        ("sub quit { exit } quit() for 1 .. 3", "SystemExit", None),
        ("goto NOWHERE", "PerlError", Some(1)),
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, name, "{code}: {ran:?}");
        assert_eq!(ran.error().line_number, line, "{code}: {ran:?}");
        assert!(!ran.rolled_back(), "{code}");
        let trace = ran.error().traceback.join("\n");
        assert!(!trace.contains("driver") && !trace.contains("Sandkeep"), "{code}: {trace}");
        assert!(!trace.is_empty(), "{code}");
    }
    let object = "package E; sub message { 'of the object' } package main; die bless {}, 'E'";
    assert_eq!(c.run(object).await.error().message, "of the object");
    assert_eq!(c.run("die { code => 5 }").await.error().message, "{\"code\" => 5}");
    assert_eq!(c.run("exit 3").await.error().message, "exit 3");
}

#[tokio::test]
async fn output_environment_input_and_directory() {
    let mut c = context();
    c.env.insert("NAME".into(), "é=ü".into());
    c.stdin = "one\ntwö\n".into();
    let ran = c
        .run("print 'a', \"\\n\"; print STDERR \"b\\n\"; print 'é'; warn \"d\\n\"; system('ls'); my $o = `ls`; say 'ü'")
        .await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("a\néü\n", "b\nd\n"));
    assert_eq!(c.run("\\%ENV").await.json(), Some(json!({ "NAME": "é=ü" })));
    assert_eq!(c.run("$ENV{NAME} = 'ä'; $ENV{NAME}").await.text(), "ä");
    c.env.insert("MORE".into(), "m".into());
    assert_eq!(c.again("\\%ENV").await.json(), Some(json!({ "NAME": "ä", "MORE": "m" })));
    c.env.remove("MORE");
    c.env.insert("NAME".into(), "é=ü!".into());
    assert_eq!(c.run("\\%ENV").await.json(), Some(json!({ "NAME": "é=ü!" })));
    c.env.insert("NAME".into(), "é=ü".into());
    // What no reader takes is told by its number.
    assert_eq!(c.run("\"a\\x{d83d}\\x{110000}\"").await.text(), "a\\x{d83d}\\x{110000}");
    assert_eq!(c.run("die \"\\x{d800}\\n\"").await.error().message, "\\x{d800}");
    assert_eq!(
        c.run("use warnings; my $l = 'ünï'; print $l; print STDERR \"$ENV{NAME}\"; 1").await.stderr,
        "é=ü"
    );
    assert_eq!(
        c.run("[scalar <STDIN>, join('', <STDIN>), scalar <STDIN>]").await.json(),
        Some(json!(["one\n", "twö\n", null]))
    );
    c.stdin = b"three\nfour".to_vec();
    assert_eq!(c.run("my @l = <>; \\@l").await.json(), Some(json!(["three\n", "four"])));
    c.stdin = b"five".to_vec();
    assert_eq!(c.run("my @l = <>; \\@l").await.json(), Some(json!(["five"])));
    c.stdin.clear();
    assert_eq!(c.run("my @l = (<STDIN>, <>); scalar @l").await.text(), "0");
    c.run("mkdir 'sub' or die; chdir 'sub' or die; open my $f, '>:utf8', 'a.txt' or die; print $f 'ü'; close $f").await.text();
    assert_eq!(c.cwd, "/workspace/sub");
    assert_eq!(std::fs::read(c.workspace().join("sub/a.txt")).unwrap(), "ü".as_bytes());
    assert_eq!(
        c.again("use Cwd; [getcwd(), glob '*']").await.json(),
        Some(json!(["/workspace/sub", "a.txt"]))
    );
    assert_eq!(c.run("-e '/etc/passwd' ? 1 : 0").await.text(), "0");
}

#[tokio::test]
async fn results_are_displayed_in_several_forms() {
    let mut c = context();
    let ran = c
        .run(
            "package T; sub to_html { '<b>é</b>' } sub to_svg { '<svg/>' } sub to_png { \"\\x89PNG\" } package main; \
             my $t = bless [], 'T'; display(1); display([2], $t); display('text/html' => '<i>', 'application/json' => '[1]'); \
             sub later { display(3) } later(); $t",
        )
        .await;
    let texts: Vec<_> =
        ran.displayed.iter().map(|result| &result.text[..3.min(result.text.len())]).collect();
    assert_eq!(texts, ["1", "[2]", "T=A", "", "3"]);
    for shown in [&ran.displayed[2], ran.outcome.result.as_ref().unwrap()] {
        assert_eq!(shown.mime["text/html"], "<b>é</b>");
        assert_eq!(shown.mime["image/svg+xml"], "<svg/>");
        assert_eq!(shown.mime["image/png"], "iVBORw==");
        assert_eq!(shown.json, None);
    }
    assert_eq!(ran.displayed[3].mime["text/html"], "<i>");
}

#[tokio::test]
async fn what_code_redefines_does_not_break_its_answers() {
    let mut c = context();
    for code in [
        "*Sandkeep::run = sub { 'broken' }; 1",
        "undef &Sandkeep::run; 1",
        "%INC = (); @INC = (); 1",
        "undef &Scalar::Util::blessed; undef &Scalar::Util::reftype; 1",
        "delete $main::{'Sandkeep::'}; 1",
        "%Sandkeep:: = (); 1",
        "delete $Sandkeep::{run}; $Sandkeep::take = 5; 1",
        "$Sandkeep::take = sub { die }; my $kept = 1",
        "$, = 'x'; $\\ = 'y'; $\" = 'z'; $/ = undef; $; = 'q'; 1",
        "*Scalar::Util::blessed = sub { die }; *Cwd::getcwd = sub { die }; *MIME::Base64::encode_base64 = sub { die }; 1",
        "*CORE::GLOBAL::warn = sub { CORE::die('mine') }; *CORE::GLOBAL::caller = sub { () }; 1",
        "$SIG{__DIE__} = sub { print 'handled' }; $SIG{__WARN__} = sub { die }; 1",
        "*UNIVERSAL::can = sub { die }; 1",
        "close STDERR; close STDIN; select STDERR; 1",
        "package Other; no utf8; use strict; use warnings FATAL => 'all'; 1",
        "@_ = (1); $_ = 5; $@ = 'left'; 1",
        "*main::display = sub { 1 }; 1",
    ] {
        let ran = c.run(code).await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
        let ran = c.run("[41 + 1, 0.5, 'aé', undef]").await;
        assert_eq!(ran.json(), Some(json!([42, 0.5, "aé", null])), "after {code}");
        assert!(c.run("die 'x'").await.error().message.starts_with('x'), "after {code}");
    }
}

#[tokio::test]
async fn a_handler_of_errors_that_code_sets_stays() {
    let mut c = context();
    c.run("$SIG{__DIE__} = sub { print \"seen: $_[0]\" }; 1").await.text();
    assert_eq!(c.again("die \"it\\n\"").await.stdout, "seen: it\n");
    c.run("$SIG{__DIE__} = 'DEFAULT'; 1").await.text();
    let ran = c.again("sub g { die 'again' }\ng()").await;
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.error().traceback[1], "\tmain::g called at <code 4> line 2");
}

#[tokio::test]
async fn usual_modules_are_there_and_unicode_gives_no_warnings() {
    let mut c = context();
    for module in [
        "JSON::PP",
        "List::Util",
        "Scalar::Util",
        "Data::Dumper",
        "Time::HiRes",
        "Time::Local",
        "File::Temp",
        "File::Path",
        "Digest::SHA",
        "MIME::Base64",
        "Math::BigInt",
        "Getopt::Long",
        "Text::Wrap",
        "Time::Piece",
    ] {
        assert_eq!(c.run(&format!("use warnings; use {module}; 1")).await.text(), "1", "{module}");
    }
    let ran = c.run("use warnings; use strict; my $ключ = 'é'; my %h = (ß => $ключ); print %h, \"\\n\"; length $h{ß}").await;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.text()), ("ßé\n", "", "1"));
    all(&mut c, &[("use List::Util 'sum'; sum(1 .. 4)", "10"), ("sum(1, 2)", "3")]).await;
}

/// Objects are known by where they are, and asked for nothing but their text.
#[tokio::test]
async fn overloaded_operators_are_not_met_by_the_driver() {
    let mut c = context();
    let ran = c
        .run(
            "package E5; use overload q{\"\"} => sub { 'five' }; package main; die bless([], 'E5')",
        )
        .await;
    let error = ran.error();
    assert_eq!(
        (error.name.as_str(), error.message.as_str(), error.line_number),
        ("E5", "five", Some(1))
    );
    for (class, overloads, text) in [
        ("A", "'==' => sub { die }, '\"\"' => sub { 'a' }", "a"),
        ("B", "bool => sub { die }, '\"\"' => sub { 'b' }", "b"),
        ("C", "'\"\"' => sub { die }", "C(...)"),
        ("D", "bool => sub { 1 }", "1"),
        ("E", "bool => sub { die }", "E(...)"),
        ("F", "'0+' => sub { 5 }", "5"),
        (
            "G",
            "'<=>' => sub { die }, eq => sub { die }, '.' => sub { die }, '\"\"' => sub { 'g' }",
            "g",
        ),
        (
            "H",
            "'!' => sub { die }, '${}' => sub { die }, '@{}' => sub { die }, '\"\"' => sub { 'h' }",
            "h",
        ),
    ] {
        let ran = c.run(&format!("package {class}; use overload {overloads}; package main; our $o = bless {{}}, '{class}'; $o")).await;
        assert_eq!(ran.text(), text, "{class}");
        for fallback in [
            "die $o",
            "eval { die $o }; die $@",
            "our $p = 'p'; local $SIG{__DIE__} = sub { die $_[0] }; die $o",
        ] {
            let ran = c.run(fallback).await;
            assert_eq!(ran.error().name, class, "{fallback}: {ran:?}");
            assert_eq!(ran.error().message, text, "{fallback}: {ran:?}");
        }
        assert_eq!(c.run("my $k = 1; 1").await.text(), "1");
    }
    // What it takes for a handler, a variable or the result may be such an object too.
    c.run("$SIG{__DIE__} = bless sub { 1 }, 'E'; 1").await.text();
    assert!(c.run("die 'x'").await.error().message.starts_with('x'));
    c.run("$SIG{__DIE__} = 'DEFAULT'; 1").await.text();
    c.run("package V; use overload '!=' => sub { die }, '==' => sub { die }; package main; bless \\my $v, 'V'; bless \\my @v, 'V'; 1").await.text();
    assert_eq!(c.run("$v = 5; $v").await.text(), "5");
    assert_eq!(c.run("die bless {}, '0'").await.error().name, "0");
    c.run("package P; sub to_png { \"\\x{263a}\" } sub new { bless {} } 1").await.text();
    assert!(c.run("P->new").await.text().starts_with("P=HASH"));
    c.run("package T; sub TIESCALAR { bless {} } sub FETCH { die 'no' } package main; tie our $t, 'T'; 1").await.text();
    assert!(c.run("\\$t").await.text().contains("..."));
    assert_eq!(c.run("1").await.text(), "1");
}

#[tokio::test]
async fn executions_have_numbers_and_lines_are_those_of_the_current_one() {
    let mut c = context();
    c.run("\n\n\nsub deep {\n  die 'x'\n}").await;
    let ran = c.run("\ndeep(1)").await;
    let error = ran.error();
    assert_eq!((error.message.as_str(), error.line_number), ("x", Some(2)));
    let trace = ["x at <code 1> line 5.", "\tmain::deep called at <code 2> line 2"];
    assert_eq!(error.traceback, trace);
    let ran = c.again("warn 'w'; my $r = sub { [caller 0]->[1] }; join ' ', __FILE__, $r->(), eval { die 'y' } // $@").await;
    assert_eq!(ran.stderr, "w at <code 3> line 1.\n");
    assert_eq!(ran.text(), "<code 3> <code 3> y at <code 3> line 1.\n");
    assert_eq!(
        c.fork().run("\n\n1 / 0").await.error().traceback[0],
        "Illegal division by zero at <code 4> line 3."
    );
    assert_eq!(c.run("sub later { deep() }\n\n)").await.error().line_number, Some(3));
    let ran = c.run("sub thrower { die bless [], 'X' } sub later { deep() } 1").await;
    ran.text();
    assert_eq!(c.run("\nthrower()").await.error().line_number, Some(2));
    assert_eq!(c.run("\n\nlater()").await.error().line_number, Some(3));
    // That of the current one.
    assert_eq!(c.run("grep { /^_<.*code/ } keys %main::").await.text(), "1");
}

#[tokio::test]
async fn streams_that_code_closes_are_there_again() {
    let mut c = context();
    for _ in 0..2 {
        assert_eq!(c.run("close STDOUT; close STDERR; close STDIN; 1").await.text(), "1");
        c.stdin = "é\ntwo\n".as_bytes().to_vec();
        let ran = c.run("print 'é'; warn 'careful'; print STDOUT 'more'; scalar <STDIN>").await;
        assert_eq!(ran.stdout, "émore");
        assert!(ran.stderr.starts_with("careful at <code"), "{}", ran.stderr);
        assert_eq!(ran.text(), "é\n");
        // What was not read is not of the next one.
        c.stdin = b"three\n".to_vec();
        assert_eq!(c.again("scalar <STDIN>").await.text(), "three\n");
        c.stdin.clear();
    }
    // A stream that code put elsewhere stays there.
    c.run("close STDOUT; open STDOUT, '>', '/workspace/out'; print 'kept'; close STDOUT; 1").await;
    assert_eq!(c.run("print 'back'; 1").await.stdout, "back");
    c.run("close STDOUT; open STDOUT, '>', \\my $text; 1").await;
    assert_eq!(c.run("print 'inside'; $text").await.text(), "inside");
    c.run("package Mine; sub TIEHANDLE { bless {} } sub PRINT { 7 } package main; tie *STDOUT, 'Mine'; 1").await;
    assert_eq!(c.run("print 'inside'").await.text(), "7");
}
