use super::context;
use crate::kit::goes_on;
use serde_json::json;

const PROBE: &str = "[41 + 1, 0.5, 'aé', nil]";

#[tokio::test]
async fn code_that_redefines_what_all_objects_have_changes_no_answer() {
    for code in [
        "class BasicObject; def ==(o) = raise; def equal?(o) = raise('mine'); def ! = raise; end; 1",
        "class NilClass; def equal?(o) = raise; def nil? = raise; def ==(o) = raise; end; 1",
        "class TrueClass; def equal?(o) = raise; end; class FalseClass; def equal?(o) = raise; end; 1",
        "class Object; def to_s = raise; def hash = raise; end; 1",
        "class Exception; def self.===(o) = false; def backtrace = raise; end; 1",
        "class Module; def ===(o) = false; def name = raise; end; 1",
        "class Exception; def cause = raise; def self.exception(*) = raise('never'); end; 1",
        "class IO; def read(*) = raise; def flush = raise; def write(*) = raise; end; 1",
        "$stdout = Object.new; def $stdout.write(*) = raise; $stderr = $stdout; 1",
        "STDIN.close; $stdin = nil; 1",
        "ObjectSpace.each_object(Array) { |s| s.clear rescue 0 }; ObjectSpace.each_object(Hash) { |s| s.clear rescue 0 }; nil",
        "class RubyVM::InstructionSequence; def self.translate(i) = raise('mine'); end; 1",
        "def Dir.pwd = raise; def Dir.chdir(*) = raise; 1",
        "def ENV.[]=(*) = raise; def ENV.delete(*) = raise; def ENV.replace(*) = raise; 1",
        "Object.constants.each { |c| Object.send(:remove_const, c) rescue 0 }; 1",
        "ObjectSpace.each_object(Module) { |m| m.freeze rescue 0 }; 1",
        "at_exit { exit! }; END { abort 'mine' }; trap('EXIT') { exit! }; 1",
        "ObjectSpace.each_object(String) { |s| s.clear rescue 0 }; nil",
        "ObjectSpace.each_object(BasicObject) { |o| o.instance_variable_set(:@given, 5) rescue 0 }; 1",
        "ObjectSpace.each_object(Class) { |m| m.send(:define_method, :run) { 'mine' } rescue 0 if m.singleton_class? }; 1",
        "ObjectSpace.each_object(Class) { |m| m.send(:undef_method, :run) rescue 0 if m.singleton_class? }; 1",
        "class Hash; def self.[](*) = raise; def ==(o) = raise; undef_method :each_key; undef_method :key?; end; 1",
        "class Method; def call(*) = raise; undef_method :unbind; end; 1",
        "class << self; undef_method :display; end; undef eval rescue 0; 1",
        "class Array; undef_method :join; undef_method :<<; undef_method :length; undef_method :[]; end; nil",
        "class String; undef_method :+; def bytesize = raise; def encoding = raise; def dup = raise; end; nil",
        "class String; def self.new(*) = raise; def encode(*) = raise; def scrub(*) = raise; def to_s = raise; end; nil",
        "class Integer; %i[- < > == to_s].each { |m| undef_method m }; end; nil",
        "module Comparable; def between?(*) = raise; end; class Float; def finite? = raise; def to_s = raise; end; 1",
    ] {
        let ran = goes_on(&mut context(), code, (PROBE, json!([42, 0.5, "aé", null])), RAISE).await;
        assert!(!ran.rolled_back(), "{code}: {ran:?}");
    }
}

/// In words that hardly any redefinition is in the way of.
const RAISE: &str = "raise 'x'";

#[tokio::test]
async fn errors_are_told_whatever_became_of_errors() {
    let mut c = context();
    let code = "class Exception; def self.===(o) = false; def message = raise; def backtrace = raise; end; 1";
    c.run(code).await.text();
    for _ in 0..2 {
        let ran = c.again("raise 'x'").await;
        assert_eq!((ran.error().name.as_str(), ran.rolled_back()), ("RuntimeError", false));
        assert_eq!(c.again("return 5").await.error().name, "LocalJumpError");
        assert_eq!(c.again("1 + 1").await.text(), "2");
    }
}

/// Code that could do it, and does not, has run.
#[tokio::test]
async fn nothing_is_taken_for_broken_that_is_not() {
    let mut c = context();
    for code in [
        "class Integer; def to_s(*) = 'n'; def inspect = 'i'; def +(o) = 42; end; nil",
        "class Array; def inspect = 'mine'; def to_s = 'mine'; def ==(o) = false; def to_html = '<b>'; end; nil",
        "class String; def inspect = 'mine'; def ==(o) = false; def hash = 1; def encode(*) = 'x'; end; nil",
        "class Float; def to_s = format('%.2f', self); def inspect = 'f'; end; class NilClass; def to_s = 'nil!'; end; nil",
        "class Hash; def [](k) = 5; def inspect = 'h'; def each = nil; end; nil",
        "class Object; def method_missing(*) = 7; def respond_to_missing?(*) = true; def inspect = 'o'; end; nil",
        "class Array; def length = 0; def [](*) = nil; def map = nil; def join(*) = 9; def at(*) = 1; end; nil",
        "Encoding.default_internal = 'ISO-8859-1'; Encoding.default_external = 'Shift_JIS'; def x = 1",
        "$VERBOSE = true; $; = ','; $, = '-'; def y = 1; def y = 2",
        "module Kernel; def puts(*) = nil; def p(*) = nil; end; class Symbol; def to_proc = raise; end; nil",
        "module Mine; refine(String) { def +(o) = raise }; end; using Mine; def z = 1",
        "def error = raise('mine')\nbegin; error; rescue => e; $kept = e; end; class MyError < StandardError; end; nil",
    ] {
        let ran = c.run(code).await;
        assert!(!ran.rolled_back() && ran.outcome.error.is_none(), "{code}: {ran:?}");
        let ran = c.run("[1, 0.5, 'é', nil, { 'a' => true }]").await;
        assert_eq!(ran.json(), Some(json!([1, 0.5, "é", null, { "a": true }])), "after {code}");
        assert_eq!(c.again("raise 'x'").await.error().name, "RuntimeError", "after {code}");
    }
}

#[tokio::test]
async fn code_that_takes_away_what_answers_are_made_with_has_not_run() {
    let mut c = context();
    c.run("x = 1").await.text();
    for code in [
        "x = 2; class UnboundMethod; def bind_call(*) = raise; end; nil",
        "x = 2; class UnboundMethod; undef_method :bind_call; end; nil",
        "x = 2; TracePoint.new(:call) { raise 'mine' }.enable; 1",
        "x = 2; set_trace_func(proc { raise 'mine' }); 1",
        "x = 2; ObjectSpace.each_object(Module) { |m| (m.instance_methods(false) + m.private_instance_methods(false)) \
           .each { |n| m.send(:remove_method, n) rescue 0 } }; 1",
    ] {
        let ran = goes_on(&mut c, code, (PROBE, json!([42, 0.5, "aé", null])), RAISE).await;
        assert!(ran.rolled_back(), "{code}: {ran:?}");
        assert_eq!(ran.error().name, "EngineError", "{code}");
        assert_eq!(c.run("x").await.text(), "1", "after {code}");
    }
}

/// What code gives to all objects of a kind is for the code to call: the driver asks no value for a
/// conversion, and compares none with what may be redefined.
#[tokio::test]
async fn methods_of_all_objects_are_not_met_by_the_driver() {
    let bodies = ["$stderr.puts 'met'", "exit!", "raise 'met'"];
    let instance = [
        "method_missing(*)",
        "respond_to?(*)",
        "respond_to_missing?(*)",
        "coerce(*)",
        "==(*)",
        "hash",
        "to_io",
        "to_str",
        "to_ary",
        "to_hash",
        "to_proc",
        "to_path",
        "to_html",
    ];
    let class = ["inherited(*)", "method_added(*)", "const_missing(*)", "===(*)"];
    let kinds = [
        "Object",
        "BasicObject",
        "Kernel",
        "NilClass",
        "Integer",
        "String",
        "Hash",
        "Array",
        "Proc",
        "Exception",
    ];
    for kind in kinds {
        let keyword = if kind == "Kernel" { "module" } else { "class" };
        for body in bodies {
            for (place, methods) in [("", &instance[..]), ("self.", &class[..])] {
                for method in methods {
                    // A form that the value is to have.
                    if *method == "to_html"
                        && matches!(kind, "Integer" | "Object" | "BasicObject" | "Kernel")
                    {
                        continue;
                    }
                    let code =
                        format!("{keyword} {kind}; def {place}{method} = ({body}; nil); end; 1");
                    let mut c = context();
                    c.run(&code).await;
                    for _ in 0..2 {
                        let ran = c.run("41+1").await;
                        assert_eq!(
                            (ran.json(), ran.stderr.as_str()),
                            (Some(json!(42)), ""),
                            "after {code}"
                        );
                        let ran = c.run("nil").await;
                        assert_eq!(
                            (&ran.outcome.error, ran.stderr.as_str()),
                            (&None, ""),
                            "after {code}"
                        );
                        c.evict();
                    }
                }
            }
        }
    }
}

/// Of errors too, and where the environment changes.
#[tokio::test]
async fn errors_and_variables_are_told_without_them() {
    for (kind, methods) in [
        (
            "String",
            "== + << lines strip start_with? byteslice to_i empty? dup hash to_str respond_to_missing? method_missing",
        ),
        (
            "Array",
            "<< first drop size each map filter_map find concat to_ary join method_missing ==",
        ),
        ("Hash", "== each map default to_hash replace empty? method_missing"),
        ("Module", "=== == name to_s const_missing method_missing"),
        ("Object", "method_missing respond_to_missing? respond_to? to_s to_str to_io"),
        ("Symbol", "== to_proc to_s method_missing"),
        ("NilClass", "to_s == to_a nil? ! method_missing"),
    ] {
        for method in methods.split(' ') {
            let code = format!("class {kind}; def {method}(*) = exit!; end; 1");
            let mut c = context();
            c.run(&code).await;
            c.env.insert("A".into(), "1".into());
            c.run("nil").await;
            c.env.insert("A".into(), "2".into());
            c.env.insert("B".into(), "2".into());
            let ran = c.run("nil").await;
            assert_eq!((&ran.outcome.error, ran.rolled_back()), (&None, false), "after {code}");
            let ran = c.run("\nraise 'x'").await;
            assert_eq!(
                (ran.error().name.as_str(), ran.error().line_number),
                ("RuntimeError", Some(2)),
                "after {code}: {ran:?}"
            );
            assert_eq!(c.run("return 5").await.error().name, "LocalJumpError", "after {code}");
        }
    }
}
