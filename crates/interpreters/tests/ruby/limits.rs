use super::context;
use crate::kit::{Filling, fill_and_free};
use interpreters::Stop;
use std::time::Duration;

#[tokio::test]
async fn what_does_not_end_is_stopped_and_the_last_snapshot_counts() {
    let mut c = context();
    c.run("x = 1").await.text();
    for code in [
        "x = 2; loop {}",
        "x = 2; while true; end",
        "('a' * 60 + 'b') =~ /^(a|a|aa)+\\1$/",
        "x = 2; sleep 100",
        "begin; loop {}; ensure; loop {}; end",
        "begin; loop {}; rescue Exception; x = 5; end",
        "Fiber.new { loop {} }.resume",
        "10**10**8; loop {}",
    ] {
        c.timeout = Duration::from_millis(300);
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "ExecutionLimitError", "{code}");
        assert_eq!(ran.outcome.stopped, Some(Stop::Timeout(300)), "{code}");
        c.timeout = Duration::from_secs(60);
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn deep_recursion_is_an_error_of_the_language() {
    let mut c = context();
    for code in [
        "def deep(n) = deep(n + 1)\ndeep(0)",
        "a = []; a << a; b = [a]; def f(&b) = f(&b); f {}",
        "l = ->(n) { l.(n + 1) }; l.(0)",
        "class D; def inspect = [self].inspect; def to_s = \"#{self}\"; end; D.new.to_s",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "SystemStackError", "{code}");
        assert!(ran.error().traceback.len() < 60, "{code}");
        assert!(!ran.rolled_back(), "{code}");
    }
    assert_eq!(c.run("1").await.text(), "1");
    // Whatever a deep value does to the driver, the next execution runs.
    c.run("deepest = []; 100_000.times { deepest = [deepest] }; deepest").await;
    assert_eq!(c.run("2").await.text(), "2");
}

#[tokio::test]
async fn memory_has_an_end() {
    let mut c = context();
    c.run("x = 1").await.text();
    for code in [
        "a = 'x' * 10_000_000_000",
        "a = 'x' * 200_000_000",
        "a = Array.new(100_000_000) { |i| i.to_s }",
        "a = []; loop { a << 'x' * 1_000_000 }",
    ] {
        let ran = c.run(code).await;
        let name = &ran.error().name;
        assert!(
            ["NoMemoryError", "ArgumentError", "RangeError", "ExecutionLimitError"]
                .contains(&name.as_str()),
            "{code}: {ran:?}"
        );
        c.run("a = nil; GC.start").await;
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
    assert!(c.run("1").await.outcome.usage.memory_bytes <= super::MEMORY);
}

#[tokio::test]
async fn output_is_cut_and_counted() {
    let mut c = context();
    let ran = c.run("300_000.times { puts 'x' * 99 }; 7").await;
    assert_eq!(ran.text(), "7");
    assert!(ran.outcome.truncated);
    assert_eq!(ran.outcome.usage.output_bytes, 30_000_000);
    assert!(ran.stdout.len() <= 1 << 20);
    let ran = c.run("$stderr.print 'y' * 5_000_000; 8").await;
    assert_eq!((ran.text(), ran.outcome.truncated), ("8", true));
}

#[tokio::test]
async fn an_end_without_a_word_costs_the_execution_alone() {
    let mut c = context();
    c.run("x = 1").await.text();
    for code in ["x = 2; exit!", "x = 2; exit! 3", "x = 2; Process.exit!"] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "SystemExit", "{code}");
        assert!(ran.rolled_back(), "{code}");
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
    for code in
        ["Process.kill(:KILL, Process.pid)", "Process.kill(:TERM, 0)", "Process.spawn('ls')"]
    {
        c.run(code).await;
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn a_memory_that_is_full_can_be_emptied() {
    for begin in ["$b = []; 1", "$b = []; loop { $b << 'x' * 1_000_000 }"] {
        let filling = Filling {
            begin,
            steps: &[
                "$b << 'x' * {k}; 1",
                "$b << Array.new({k} / 64) { |i| i.to_s }; 1",
                "$b << Array.new({k} / 512) { |i| [i] }.to_h { |a| [a, a.to_s] }; 1",
            ],
            frees: &["$b = nil", "$b.clear; 1", "$b = []; 1"],
            large: ("('x' * 20_000_000).length", "20000000"),
        };
        fill_and_free(&mut context(), &filling).await;
    }
}
