use super::context;
use crate::kit::all;
use serde_json::json;

/// Everything here is made in one instance, and used in another one, twice.
#[tokio::test]
async fn all_that_code_made_is_there_in_a_new_instance() {
    let mut c = context();
    for code in [
        "our $x = 1; our @list = (1 .. 20_000); our %map = (a => [1, { b => 'é' }])",
        "sub add { my ($a, $b) = @_; $a + ($b // 2) }",
        "package Point; sub new { my ($class, $x) = @_; bless { x => $x }, $class } sub x { $_[0]{x} } 1",
        "my $point = Point->new(3)",
        "my ($counter, @array, %hash) = (0); @array = (1, 2); %hash = (k => 'v')",
        "my $inc = sub { ++$counter }",
        "{ my $hidden = 10; sub hidden { $hidden++ } } 1",
        "my $pattern = qr/(\\d+)-é/",
        "use List::Util qw(first reduce); use Time::Local; 1",
        "open our $file, '+>', 'open.txt' or die; print $file 'written '; $file->flush; 1",
        "my $text = 'ü' x 10_000; my $format = sprintf '%05.1f', 3.14159",
        "use constant PI => 3; use strict; use warnings; our $under_strict = 4; my $lexical = 5",
        "state $once = 6",
    ] {
        let ran = c.run(code).await;
        assert_eq!(ran.outcome.error, None, "{code}");
    }
    c.evict();
    for round in ["1", "2"] {
        let hidden = if round == "1" { "10" } else { "11" };
        let cases = [
            ("$x + @list + $map{a}[0]", "20002"),
            ("$map{a}[1]{b}", "é"),
            ("add(1) . add(1, 1)", "32"),
            ("$point->x + Point->new(1)->x", "4"),
            ("$inc->()", round),
            ("$counter", round),
            ("hidden()", hidden),
            ("'2026-é' =~ $pattern and $1", "2026"),
            ("first { $_ > 1 } @array", "2"),
            ("$hash{k} . length($text) . $format", "v10000003.1"),
            ("use strict; $under_strict + $lexical + PI + $once", "18"),
            ("use strict; use warnings FATAL => 'all'; my $lexical = 5; $lexical", "5"),
        ];
        all(&mut c, &cases).await;
        c.evict();
    }
    c.again("print $file 'more'; $file->flush; 1").await.text();
    assert_eq!(c.again("seek $file, 0, 0; join '', <$file>").await.text(), "written more");
    assert_eq!(std::fs::read(c.workspace().join("open.txt")).unwrap(), b"written more");
}

#[tokio::test]
async fn lexical_variables_are_those_of_the_outermost_level() {
    let mut c = context();
    let cases = [
        ("my $x = 1; { my $x = 2; } $x", "1"),
        ("$x++; $x", "2"),
        ("my $x = 10; $x", "10"),
        ("$x", "10"),
        ("for my $x (1 .. 3) { } $x", "10"),
        ("sub f { my $x = 7; my $y = 8; $x } f() . $x", "710"),
        ("defined $y ? 'y' : 'no y'", "no y"),
        ("my ($p, undef, $q) = (1, 2, 3); $p . $q", "13"),
        ("our $p = 'global'; $main::p . $p", "globalglobal"),
        ("$p", "global"),
        ("my $text = 'my $fake = 1'; # my $comment\n$text", "my $fake = 1"),
        ("defined $fake || defined $comment ? 'yes' : 'no'", "no"),
        ("package Foo; my $in_foo = 5; our $of_foo = 6; 1", "1"),
        ("$in_foo", "5"),
        ("$Foo::of_foo", "6"),
        ("my $c1 = 1; my $see = sub { $c1 }; $see->()", "1"),
        ("$c1 = 2; $see->()", "2"),
        ("my $c1 = 3; $see->() . $c1", "23"),
    ];
    all(&mut c, &cases).await;
    assert_eq!(c.run("my $before = 1; die 'then'").await.error().message, "then");
    assert_eq!(c.run("$before").await.text(), "1");
    c.run("my $never = 1; if (").await.error();
    assert_eq!(c.again("defined $never ? 1 : 0").await.text(), "0");
    // Many of them, and used in any later run.
    for n in 0..100 {
        c.run(&format!("my $v{n} = {n}; my @a{n} = ({n}); my %h{n} = (k => {n}); 1")).await.text();
    }
    assert_eq!(c.again("$v99 + $a50[0] + $h7{k}").await.text(), "156");
}

#[tokio::test]
async fn thirty_contexts_side_by_side_do_not_mix() {
    let mut contexts: Vec<_> = (0..30).map(|_| context()).collect();
    for (n, c) in contexts.iter_mut().enumerate() {
        c.run(&format!("my $x = {n}; our $y = 'é' x {n}; sub n {{ {n} }} 1")).await.text();
    }
    for (n, c) in contexts.iter_mut().enumerate() {
        if n % 2 == 0 {
            c.evict();
        }
        assert_eq!(c.run("[$x, length $y, n()]").await.json(), Some(json!([n, n, n])));
    }
}

#[tokio::test]
async fn random_differs_between_contexts_and_goes_on_in_one() {
    let (mut a, mut b) = (context(), context());
    let code = "use List::Util 'shuffle'; [rand(), int rand 2**50, shuffle 1 .. 50]";
    let first = a.run(code).await.text().to_owned();
    assert_ne!(first, b.run(code).await.text());
    let second = a.again(code).await.text().to_owned();
    assert_ne!(first, second);
    // From one snapshot the same goes on: nothing is seeded but a context's first execution.
    let mut fork = a.fork();
    assert_eq!(fork.run(code).await.text(), a.again(code).await.text());
}

#[tokio::test]
async fn time_does_not_go_back() {
    let mut c = context();
    let now = "use Time::HiRes 'time'; sprintf '%.6f', time";
    let mut last = 0.0;
    for _ in 0..5 {
        let time: f64 = c.again(now).await.text().parse().unwrap();
        assert!(time >= last, "{time} after {last}");
        last = time;
    }
    assert_eq!(c.run("(localtime)[5] >= 125").await.text(), "1");
}

#[tokio::test]
async fn a_small_step_takes_little_room() {
    let mut c = context();
    c.run("my $x = 1").await.text();
    c.run("$x + 1").await.text();
    let stored = c.stored();
    assert!(stored < 512 << 10, "{stored} bytes");
}

#[tokio::test]
async fn what_was_sent_is_not_kept() {
    let mut c = context();
    let long = "x".repeat(60_000);
    for n in 0..1500 {
        let ran = c.run(&format!("length('{long}') + {n}")).await;
        assert_eq!(ran.text(), (60_000 + n).to_string());
    }
}
