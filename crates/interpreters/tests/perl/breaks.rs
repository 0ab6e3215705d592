use super::context;
use crate::kit::goes_on;
use serde_json::json;

const PROBE: &str = "[41 + 1, 0.5, 'aé', undef]";

/// Whatever the driver needs, it does not ask for by a name.
#[tokio::test]
async fn code_that_changes_what_has_a_name_changes_no_answer() {
    for code in [
        "undef &feature::import; undef &warnings::unimport; undef &strict::unimport; 1",
        "*feature::import = sub { die 'mine' }; *warnings::unimport = sub { die 'mine' }; 1",
        "*feature::feature = {}; %feature::feature = (); %warnings::Offsets = (); 1",
        "BEGIN { *CORE::GLOBAL::require = sub { die 'mine' } } 1",
        "*CORE::GLOBAL::die = sub { CORE::die(@_, \" mine\") }; *CORE::GLOBAL::warn = sub { 1 }; 1",
        "package Tied; sub TIEHASH { bless {} } sub STORE { die } sub FETCH { die } package main; tie %INC, 'Tied'; 1",
        "delete $main::{'feature::'}; delete $main::{'strict::'}; delete $main::{'warnings::'}; 1",
        "package Tied; sub TIEHANDLE { bless {} } package main; tie *STDIN, 'Tied'; 1",
        "undef %{'IO::Handle::'}; delete $main::{'IO::'}; 1",
        "*DB::sub = sub { die 'mine' }; $^P = 1; 1",
        "$^P = 0x33f; $^H = -1; $^W = 1; 1",
        "${^MAX_NESTED_EVAL_BEGIN_BLOCKS} = 0; 1",
        "close STDOUT; close STDERR; close STDIN; select STDERR; 1",
        "$Sandkeep::take->('main', '$a b; die', \\1); 1",
        "BEGIN { $Sandkeep::take->('main', '$x; die; my $y', \\my $z) } my $x = 1; 1",
        "BEGIN { $Sandkeep::take->('main', '$x', 5) } my $x = 1; 1",
        "BEGIN { $Sandkeep::take->('main', '@x', \\1) } my @x = 1; 1",
        "Internals::SvREADONLY($_, 1) for $/, $,, $\\, $@, $;, $\"; 1",
        "sub my { die } sub our { die } sub eval { die } sub UNIVERSAL::AUTOLOAD { die } 1",
        "END { CORE::exit(5) } $SIG{__WARN__} = sub { die @_ }; @ARGV = %ENV = (); 1",
    ] {
        let ran =
            goes_on(&mut context(), code, (PROBE, json!([42, 0.5, "aé", null])), "die 'x'").await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
    }
}

/// The variables that code declares are found by reading it: what only looks like one is none.
#[tokio::test]
async fn words_that_only_look_like_declarations_are_none() {
    let mut c = context();
    for code in [
        "my $x = 'my @_ my $_ my %_'; 1 # our @_ my ($_, @x) state $_",
        "q{my @INC my %ENV my %SIG my @ARGV my $main}; 1",
        "package Foo; q{my @INC my %ENV our $utf8 our @strict our ($q, @z}; 1",
    ] {
        let ran = goes_on(&mut c, code, (PROBE, json!([42, 0.5, "aé", null])), "die 'x'").await;
        assert_eq!(ran.text(), "1", "{code}");
    }
    c.run("my @INC = (5); my %ENV = (A => 1); 1").await.text();
    assert_eq!(
        c.again("[$INC[0], $ENV{A}, $main::ENV{A}]").await.json(),
        Some(json!([5, 1, null]))
    );
}

/// Code that could do it, and does not, has run.
#[tokio::test]
async fn nothing_is_taken_for_broken_that_is_not() {
    let mut c = context();
    c.run("open my $g, '>', 'lines' or die; print $g \"a\\nb\\n\"; close $g; 1").await.text();
    c.run("open our $reader, '<', 'lines' or die; scalar <$reader>").await.text();
    for code in [
        "package P; our $made = 0; sub new { $made++; bless {}, shift } P->new; $P::made",
        "$main::x = 1",
        "local $SIG{__DIE__} = sub { die 'mine' }; local $main::y = 1",
        "$SIG{__DIE__} = sub { print \"seen $_[0]\" }; $main::z = 1",
        "$@ = 'left'; $! = 5; $? = 9; *main::alias = \\1; $^W = 0; 1",
        "package Num { use overload '+' => sub { 5 }, '/' => sub { 6 }, '\"\"' => sub { 7 }; } $main::n = bless [], 'Num'; 1",
        "use integer; use bigint; $main::i = 1; 1",
        "use strict; use warnings FATAL => 'all'; my $w = $main::w // 1",
        "*JSON::PP::true = sub { 5 }; *Data::Dumper::Dumper = sub { 6 }; 1",
        "$/ = undef; $\\ = 'x'; $, = 'y'; $; = 'z'; $\" = '-'; $main::p = 1",
        "eval { die { code => 5 } }; $main::q = 1",
        "$SIG{ALRM} = $SIG{__WARN__} = sub { die }; warn 'w'; $main::r = 1",
    ] {
        let ran = c.run(code).await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(c.run("[1, 'é']").await.json(), Some(json!([1, "é"])), "after {code}");
    }
    let ran = c.run("$SIG{__DIE__} = 'DEFAULT'; <$reader>; die 'x'").await;
    assert_eq!((ran.error().message.as_str(), ran.error().line_number), ("x", Some(1)));
}

/// What leaves nothing to run code with is taken back.
#[tokio::test]
async fn code_that_takes_everything_away_has_not_run() {
    let mut c = context();
    c.run("our $x = 1").await.text();
    for code in [
        "$x = 2; %main:: = (); 1",
        "$x = 2; undef %main::; 1",
        "$x = 2; undef %{'main::'}; 1",
        "$x = 2; delete $main::{$_} for keys %main::; 1",
        "$x = 2; delete $main::{'_'}; 1",
        "$x = 2; delete $main::{'@'}; 1",
        "$x = 2; undef &builtin::is_bool; undef &builtin::created_as_number; 1",
        "$x = 2; undef &utf8::is_utf8; 1",
    ] {
        let ran = goes_on(&mut c, code, (PROBE, json!([42, 0.5, "aé", null])), "die 'x'").await;
        assert!(ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(ran.error().name, "EngineError", "{code}");
        assert!(ran.error().message.contains("what the interpreter itself needs"), "{ran:?}");
        assert_eq!(c.run("$x").await.text(), "1", "after {code}");
    }
}
