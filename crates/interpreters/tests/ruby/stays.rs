use super::context;
use crate::kit::all;

/// Everything here is made in one instance, and used in another one, twice.
#[tokio::test]
async fn all_that_code_made_is_there_in_a_new_instance() {
    let mut c = context();
    for code in [
        "x = 1; $g = 'global'; CONST = [1, 2].freeze",
        "def add(a, b = 2) = a + b",
        "class Point\n  attr_reader :x\n  def initialize(x) = @x = x\n  def ==(o) = x == o.x\nend",
        "module Tools; def self.twice(n) = n * 2; end",
        "point = Point.new(3)",
        "counter = 0; inc = -> { counter += 1 }",
        "fiber = Fiber.new { 3.times { |i| Fiber.yield i * 10 }; :done }; fiber.resume",
        "enum = [1, 2, 3].each; enum.next",
        "lazy = (1..Float::INFINITY).lazy.map { |n| n * n }",
        "pattern = /(?<year>\\d+)-é/",
        "require 'json'; require 'date'; day = Date.new(2026, 11, 29)",
        "struct = Struct.new(:a, :b).new(1, 'é')",
        "hash = Hash.new { |h, k| h[k] = k.to_s * 2 }; hash[:z]",
        "big = 3**500; text = 'ü' * 10_000; list = (1..20_000).to_a",
        "file = File.open('open.txt', 'w+'); file.write('written '); file.flush",
        "def yielder = yield(1)",
        "method_object = point.method(:x)",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
    }
    c.evict();
    for round in ["1", "2"] {
        let counter = round;
        let cases = [
            ("[x, $g, CONST.frozen?]", "[1, \"global\", true]"),
            ("[add(1), Tools.twice(4), point.x, point == Point.new(3)]", "[3, 8, 3, true]"),
            ("inc.call", counter),
            ("counter", counter),
            ("lazy.first(3)", "[1, 4, 9]"),
            ("pattern.match('2026-é')[:year]", "\"2026\""),
            ("(day + 1).to_s", "\"2026-11-30\""),
            ("struct.b", "\"é\""),
            ("hash[:q]", "\"qq\""),
            ("[big == 3**500, text.size, list.sum]", "[true, 10000, 200010000]"),
            ("yielder { |n| n + x }", "2"),
            ("method_object.call", "3"),
        ];
        all(&mut c, &cases).await;
        c.evict();
    }
    let cases = [
        ("fiber.resume", "10"),
        ("enum.next", "2"),
        ("fiber.resume", "20"),
        ("fiber.resume", ":done"),
    ];
    for (code, text) in cases {
        assert_eq!(c.again(code).await.text(), text);
    }
    assert_eq!(
        c.again("enum.next; begin; enum.next; rescue StopIteration; 'end'; end").await.text(),
        "\"end\""
    );
    c.again("file.write('more'); file.flush").await;
    assert_eq!(c.again("file.rewind; file.read").await.text(), "\"written more\"");
    assert_eq!(std::fs::read(c.workspace().join("open.txt")).unwrap(), b"written more");
}

#[tokio::test]
async fn an_error_keeps_what_was_done_before_it() {
    let mut c = context();
    c.run("x = 1").await;
    assert_eq!(c.run("x = 2; y = 3; raise 'late'").await.error().line_number, Some(1));
    assert_eq!(c.again("[x, y]").await.text(), "[2, 3]");
}

#[tokio::test]
async fn thirty_contexts_side_by_side_do_not_mix() {
    let mut contexts: Vec<_> = (0..30).map(|_| context()).collect();
    for (n, c) in contexts.iter_mut().enumerate() {
        c.run(&format!("x = {n}; $y = 'é' * {n}; class Foo; def self.n = {n}; end")).await.text();
    }
    for (n, c) in contexts.iter_mut().enumerate() {
        if n % 2 == 0 {
            c.evict();
        }
        assert_eq!(c.run("[x, $y.size, Foo.n]").await.text(), format!("[{n}, {n}, {n}]"));
    }
}

#[tokio::test]
async fn random_differs_between_contexts_and_goes_on_in_one() {
    let (mut a, mut b) = (context(), context());
    let code = "[rand(2**52), [*1..50].shuffle, Random.rand]";
    let first = a.run(code).await.text().to_owned();
    assert_ne!(first, b.run(code).await.text());
    let second = a.again(code).await.text().to_owned();
    assert_ne!(first, second);
    // From one snapshot the same goes on: nothing is seeded but a context's first execution.
    let mut fork = a.fork();
    assert_eq!(fork.run(code).await.text(), a.again(code).await.text());
    let hex = "require 'securerandom'; SecureRandom.hex";
    assert_ne!(a.run(hex).await.text(), b.run(hex).await.text());
}

#[tokio::test]
async fn time_does_not_go_back() {
    let mut c = context();
    let now = "Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)";
    let mut last = 0;
    for _ in 0..5 {
        let ran = c.again(now).await;
        let time: u64 = ran.text().parse().unwrap();
        assert!(time > last, "{time} after {last}");
        last = time;
    }
    assert_eq!(c.run("Time.now.year >= 2025").await.text(), "true");
}

#[tokio::test]
async fn a_small_step_takes_little_room() {
    let mut c = context();
    c.run("x = 1").await.text();
    c.run("x + 1").await.text();
    let stored = c.stored();
    assert!(stored < 512 << 10, "{stored} bytes");
}

#[tokio::test]
async fn what_was_sent_is_not_kept() {
    let mut c = context();
    let long = "x".repeat(60_000);
    // Far more than the memory would hold if it stayed.
    for n in 0..400 {
        assert_eq!(c.run(&format!("'{long}'.size + {n}")).await.text(), (60_000 + n).to_string());
    }
    c.env.insert("LONG".into(), "y".repeat(700_000));
    for _ in 0..50 {
        assert_eq!(c.run("ENV['LONG'].size").await.text(), "700000");
    }
}

#[tokio::test]
async fn what_code_redefines_harms_itself_alone() {
    let mut c = context();
    for code in [
        "class Array; def each = raise; def map = raise; def first = raise; end; 0",
        "class Array; def drop(*) = raise; def find = raise; def filter_map = raise; end; 0",
        "class String; def lines(**) = raise; def strip = raise; end; 0",
        "class Hash; def each = raise; def to_a = raise; end; 0",
    ] {
        assert_eq!(c.run(code).await.text(), "0", "{code}");
        assert_eq!(c.run("6 * 7").await.text(), "42", "after {code}");
        let ran = c.again("raise ArgumentError, 'no'").await;
        let error = (ran.error().name.as_str(), ran.error().message.as_str());
        assert_eq!(error, ("ArgumentError", "no"), "after {code}");
    }
}

#[tokio::test]
async fn code_is_heard_whatever_became_of_numbers_and_arrays() {
    for (code, back) in [
        ("class Integer; alias old +; def +(o) = 42; end; 0", "class Integer; alias + old; end; 7"),
        (
            "class Integer; alias old <; def <(o) = false; end; 0",
            "class Integer; alias < old; end; 7",
        ),
        (
            "class Integer; alias old >; def >(o) = raise; end; 0",
            "class Integer; alias > old; end; 7",
        ),
        (
            "class Array; alias old <<; def <<(o) = self; end; 0",
            "class Array; alias << old; end; 7",
        ),
        ("class Array; alias old []; def [](*) = nil; end; 0", "class Array; alias [] old; end; 7"),
        (
            "class Array; alias old length; def length = 0; end; 0",
            "class Array; alias length old; end; 7",
        ),
        (
            "class Array; alias old join; def join(*) = 9; end; 0",
            "class Array; alias join old; end; 7",
        ),
        (
            "class String; alias old bytesize; def bytesize = raise; end; 0",
            "class String; alias bytesize old; end; 7",
        ),
    ] {
        let mut c = context();
        c.run(code).await;
        assert_eq!(c.again(back).await.text(), "7", "{code}");
        assert_eq!(c.run("[1, 2].sum").await.text(), "3", "after {code}");
    }
}

/// OpenSSL has a generator of its own; those that can be seeded go on where they were.
#[tokio::test]
async fn keys_of_openssl_are_fresh_in_copies_and_states_gone_back_to() {
    let mut c = context();
    c.run("require 'openssl'; OpenSSL::Random.random_bytes(1); Random.srand(5); 1").await.text();
    for draw in [
        "OpenSSL::PKey::EC.generate('prime256v1').private_key.to_s(16)[0, 16]",
        "OpenSSL::Random.random_bytes(16).unpack1('H*')",
        "OpenSSL::BN.rand(128).to_s(16)",
        "SecureRandom.hex(16)",
    ] {
        let mut copy = c.fork();
        let one = copy.run(draw).await.text().to_owned();
        assert_ne!(one, c.fork().run(draw).await.text(), "{draw}");
        assert_ne!(one, c.run(draw).await.text(), "{draw}");
        let again = copy.run(draw).await.text().to_owned();
        assert_ne!(one, again, "{draw}");
    }
    c.timeout = std::time::Duration::from_millis(300);
    let code = "$stdout.puts OpenSSL::Random.random_bytes(16).unpack1('H*'); loop {}";
    let (one, two) = (c.run(code).await, c.run(code).await);
    assert!(one.rolled_back() && two.rolled_back(), "{one:?} {two:?}");
    assert_ne!(one.stdout, two.stdout);
    let mut copy = c.fork();
    assert_eq!(copy.run("rand").await.text(), c.run("rand").await.text());
}

#[tokio::test]
async fn whatever_is_called_openssl_runs_nothing() {
    let mut c = context();
    for code in [
        "module OpenSSL; module Random; def self.seed(*) = exit!; end; end; 1",
        "OpenSSL::Random = 5 rescue 0; 1",
        "Object.send(:remove_const, :OpenSSL); OpenSSL = 5; 1",
        "Object.send(:remove_const, :OpenSSL); class Module; def const_missing(*) = exit!; end; 1",
    ] {
        c.run(code).await.text();
        assert_eq!(c.again("1 + 1").await.text(), "2", "after {code}");
    }
    let mut c = context();
    c.run("require 'openssl'; def (OpenSSL::Random).seed(*) = exit!; 1").await.text();
    assert_eq!(c.again("1 + 1").await.text(), "2");
    let mut c = context();
    c.run("require 'openssl'; 1").await.text();
    c.run("def (OpenSSL::Random).seed(*) = exit!; 1").await.text();
    assert_eq!(c.again("1 + 1").await.text(), "2");
}
