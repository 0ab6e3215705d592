use super::context;
use crate::kit::{Filling, fill_and_free};
use interpreters::Stop;
use std::time::Duration;

#[tokio::test]
async fn what_does_not_end_is_stopped_and_the_last_snapshot_counts() {
    let mut c = context();
    c.run("my $x = 1").await.text();
    for code in [
        "$x = 2; while (1) {}",
        "$x = 2; 1 while 1",
        "('a' x 50) =~ /^(a?){50}a{50}b(?{1})|^(a|a|aa)+$(?!)/; 1 while 1",
        "$x = 2; sleep 100",
        "$x = 2; select undef, undef, undef, 100; sleep 100",
        "eval { while (1) {} }; $x = 5",
        "$x = 2; my @s = sort { 1 while 1 } 2, 1; 1",
    ] {
        c.timeout = Duration::from_millis(300);
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "ExecutionLimitError", "{code}");
        assert_eq!(ran.outcome.stopped, Some(Stop::Timeout(300)), "{code}");
        c.timeout = Duration::from_secs(60);
        assert_eq!(c.run("$x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn memory_has_an_end_that_costs_the_execution_alone() {
    let mut c = context();
    c.run("my $x = 1").await.text();
    for code in [
        "$x = 2; my $a = 'x' x 200_000_000; length $a",
        "$x = 2; my @a; push @a, 'x' x 1_000_000 while 1",
        "$x = 2; sub deep { deep(@_, 1) } deep()",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.error().name, "ExecutionLimitError", "{code}: {ran:?}");
        assert!(ran.rolled_back());
        assert_eq!(c.run("$x").await.text(), "1", "after {code}");
    }
    // What no memory could hold is an error that code may catch.
    assert_eq!(c.run("eval { my $a = 'x' x 10_000_000_000 }; $x").await.text(), "1");
    assert!(c.run("1").await.outcome.usage.memory_bytes <= super::MEMORY);
}

#[tokio::test]
async fn deep_values_end() {
    let mut c = context();
    c.run("my $x = 1").await.text();
    for code in [
        "my $d = []; $d = [$d] for 1 .. 1000; $d",
        "my $e = []; $e = [$e] for 1 .. 100_000; undef $e; 1",
        "sub count { my $n = shift; $n ? 1 + count($n - 1) : 0 } count(5000)",
    ] {
        c.run(code).await;
        assert_eq!(c.run("$x").await.text(), "1", "after {code}");
    }
}

#[tokio::test]
async fn output_is_cut_and_counted() {
    let mut c = context();
    let ran = c.run("print 'x' x 99, \"\\n\" for 1 .. 300_000; 7").await;
    assert_eq!(ran.text(), "7");
    assert!(ran.outcome.truncated);
    assert_eq!(ran.outcome.usage.output_bytes, 30_000_000);
    assert!(ran.stdout.len() <= 1 << 20);
    let ran = c.run("print STDERR 'y' x 20_000_000; 8").await;
    assert_eq!((ran.text(), ran.outcome.truncated), ("8", true));
}

#[tokio::test]
async fn exit_ends_the_run_and_keeps_what_it_did() {
    let mut c = context();
    c.run("my $x = 1").await.text();
    let ran = c.run("$x = 2; eval { exit 3 }; $x = 4").await;
    assert_eq!((ran.error().name.as_str(), ran.rolled_back()), ("SystemExit", false));
    assert_eq!(c.again("$x").await.text(), "2");
    assert_eq!(c.run("END { print 'end' } $x").await.text(), "2");
    // The built-in itself takes the interpreter with it.
    for code in ["$x = 5; CORE::exit(3)", "$x = 5; kill 9, $$; CORE::exit(0)"] {
        let ran = c.run(code).await;
        assert!(ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(c.run("$x").await.text(), "2", "after {code}");
    }
    c.run("exec 'ls'; $x = 2").await;
    assert_eq!(c.run("$x").await.text(), "2");
}

#[tokio::test]
async fn a_memory_that_is_full_can_be_emptied() {
    let filling = Filling {
        begin: "our @b; 1",
        steps: &[
            "push @b, 'x' x {k}; 1",
            "push @b, [map { \"v$_\" } 1 .. {k} / 64]; 1",
            "push @b, { map { $_ => [$_] } 1 .. {k} / 512 }; 1",
        ],
        frees: &["our @b = (); 1", "undef @b; 1", "$#b = -1; 1"],
        large: ("length('x' x 20_000_000)", "20000000"),
    };
    fill_and_free(&mut context(), &filling).await;
}
