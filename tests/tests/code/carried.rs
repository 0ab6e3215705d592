//! What code makes and later code goes on with, language by language. Data alone: the tests of
//! workers take it too.

/// What is made once, and what it says each of the three times that it is asked afterwards.
pub struct Carried {
    /// The language's name, and its engine's.
    pub language: &'static str,
    pub set: &'static [&'static str],
    pub check: &'static [(&'static str, [&'static str; 3])],
}

pub const ALL: [&Carried; 4] = [&JAVASCRIPT, &PYTHON, &RUBY, &PERL];

/// Files are read and written whole; what stays open is a generator over the lines of one.
pub const JAVASCRIPT: Carried = Carried {
    language: "javascript",
    set: &[
        "let x = 41; const map = new Map([['k', new Set([1, 2])]]); var old = 'var'",
        "function twice(n) { return 2 * n }; const add = (() => { let n = 0; return () => ++n })()",
        "class P { #v; static made = 0; constructor(v) { this.#v = v; P.made++ } get v() { return this.#v } }\nconst p = new P(21)",
        "const fs = require('fs'), path = require('path'); fs.mkdirSync('js'); process.chdir('js')",
        "fs.writeFileSync('m.mjs', 'let n = 0; export const next = () => ++n'); const m = await import('./m.mjs'); m.next()",
        "function* count() { let n = 0; for (;;) yield n++ }\nconst counter = count(); counter.next()",
        "fs.writeFileSync('lines', 'one\\ntwo\\nthree\\nfour\\n'); fs.writeFileSync('log', '0')",
        "function* lines(file) { yield* fs.readFileSync(file, 'utf8').split('\\n') }\nconst reader = lines('lines'); reader.next()",
        "const later = Promise.resolve('kept'); const draws = [Math.random(), Math.random()]",
        "process.env.OWN = 'set by code'",
        "const euro = new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR' }); euro.format(1)",
    ],
    check: &[
        ("x += 1", ["42", "43", "44"]),
        ("map.get('k').size + old", ["'2var'"; 3]),
        ("twice(p.v)", ["42"; 3]),
        ("add()", ["1", "2", "3"]),
        ("new P(1); P.made", ["2", "3", "4"]),
        ("path.basename('/a/b')", ["'b'"; 3]),
        ("m.next()", ["2", "3", "4"]),
        ("(await import('./m.mjs')).next === m.next", ["true"; 3]),
        ("counter.next().value", ["1", "2", "3"]),
        ("reader.next().value", ["'two'", "'three'", "'four'"]),
        (
            "fs.appendFileSync('log', String(x - 41)); fs.readFileSync('log', 'utf8')",
            ["'01'", "'012'", "'0123'"],
        ),
        ("process.cwd() + fs.existsSync('/workspace/js/log')", ["'/workspace/jstrue'"; 3]),
        ("await later", ["'kept'"; 3]),
        ("draws.push(Math.random()); new Set(draws).size", ["3", "4", "5"]),
        ("process.env.OWN", ["'set by code'"; 3]),
        ("euro.format(1234.5)", ["'1.234,50\u{a0}€'"; 3]),
        (
            "new Date(0).toLocaleDateString('fr', { dateStyle: 'long', timeZone: 'Asia/Tokyo' })",
            ["'1 janvier 1970'"; 3],
        ),
    ],
};

pub const PYTHON: Carried = Carried {
    language: "python",
    set: &[
        "x = 41; table = {i: str(i) for i in range(5000)}",
        "def twice(n): return 2 * n\ndef adder():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n        return n\n    return add\nadd = adder()",
        "class P:\n    made = 0\n    def __init__(self, v): self.v = v; P.made += 1\np = P(21)",
        "import collections, json as j, os, random; os.mkdir('py'); os.chdir('py')",
        "with open('own.py', 'w') as f: _ = f.write('n = 0\\ndef step():\\n    global n\\n    n += 1\\n    return n\\n')",
        "import sys; sys.path.insert(0, os.getcwd()); import own; own.step()",
        "def count():\n    n = 0\n    while True:\n        yield n\n        n += 1\ncounter = count(); next(counter)",
        "with open('lines', 'w') as f: _ = f.write('one\\ntwo\\nthree\\nfour\\n')",
        "reader = open('lines'); reader.readline()",
        "writer = open('log', 'w'); writer.write('0')",
        "random.seed(7); first = [random.random() for _ in range(9)]; random.seed(7); drawn = 0",
        "os.environ['OWN'] = 'set by code'",
    ],
    check: &[
        ("x += 1; x", ["42", "43", "44"]),
        ("len(table), table[4999]", ["(5000, '4999')"; 3]),
        ("twice(p.v)", ["42"; 3]),
        ("add()", ["1", "2", "3"]),
        ("isinstance(p, P), P(1) and P.made", ["(True, 2)", "(True, 3)", "(True, 4)"]),
        ("j.dumps(collections.Counter('aa'))", ["'{\"a\": 2}'"; 3]),
        ("own.step()", ["2", "3", "4"]),
        ("next(counter)", ["1", "2", "3"]),
        ("reader.readline()", ["'two\\n'", "'three\\n'", "'four\\n'"]),
        (
            "_ = writer.write(str(x - 41)); writer.flush(); open('log').read()",
            ["'01'", "'012'", "'0123'"],
        ),
        ("os.getcwd(), os.path.exists('/workspace/py/log')", ["('/workspace/py', True)"; 3]),
        ("drawn += 1; random.random() == first[drawn - 1]", ["True"; 3]),
        ("os.environ['OWN']", ["'set by code'"; 3]),
    ],
};

pub const RUBY: Carried = Carried {
    language: "ruby",
    set: &[
        "x = 41; $table = (0...5000).to_h { |i| [i, i.to_s] }; LIST = [1, 2].freeze",
        "def twice(n) = 2 * n\nn = 0; add = -> { n += 1 }",
        "class P\n  @@made = 0\n  def self.made = @@made\n  attr_reader :v\n  def initialize(v) = (@v = v; @@made += 1)\nend\np = P.new(21)",
        "require 'json'; Dir.mkdir('rb'); Dir.chdir('rb')",
        "File.write('own.rb', \"module Own; @n = 0; def self.step = @n += 1; end\"); require './own'; Own.step",
        "counter = Enumerator.new { |y| i = 0; loop { y << i; i += 1 } }; counter.next",
        "fiber = Fiber.new { 9.times { |i| Fiber.yield i * 10 } }; fiber.resume",
        "File.write('lines', \"one\\ntwo\\nthree\\nfour\\n\"); reader = File.open('lines'); reader.gets",
        "writer = File.open('log', 'w'); writer.write('0')",
        "srand 7; first = Array.new(9) { rand }; srand 7; drawn = 0",
        "ENV['OWN'] = 'set by code'",
    ],
    check: &[
        ("x += 1", ["42", "43", "44"]),
        ("[$table.size, $table[4999], LIST.frozen?]", ["[5000, \"4999\", true]"; 3]),
        ("twice(p.v)", ["42"; 3]),
        ("add.call", ["1", "2", "3"]),
        ("P.new(1); P.made", ["2", "3", "4"]),
        ("JSON.generate({ a: 2 })", ["\"{\\\"a\\\":2}\""; 3]),
        ("Own.step", ["2", "3", "4"]),
        ("require './own'", ["false"; 3]),
        ("counter.next", ["1", "2", "3"]),
        ("fiber.resume", ["10", "20", "30"]),
        ("reader.gets", ["\"two\\n\"", "\"three\\n\"", "\"four\\n\""]),
        ("writer.write(x - 41); writer.flush; File.read('log')", ["\"01\"", "\"012\"", "\"0123\""]),
        ("[Dir.pwd, File.exist?('/workspace/rb/log')]", ["[\"/workspace/rb\", true]"; 3]),
        ("drawn += 1; rand == first[drawn - 1]", ["true"; 3]),
        ("ENV['OWN']", ["\"set by code\""; 3]),
    ],
};

/// An iterator is a closure.
pub const PERL: Carried = Carried {
    language: "perl",
    set: &[
        "my $x = 41; our %table = map { $_ => \"v$_\" } 0 .. 4999; my @list = (1, 2)",
        "sub twice { return 2 * $_[0] } my $n = 0; my $add = sub { ++$n };",
        "package P; our $made = 0; sub new { my ($c, $v) = @_; $made++; return bless { v => $v }, $c } sub v { $_[0]{v} } package main; our $p = P->new(21);",
        "use List::Util qw(sum); use Cwd; mkdir 'pl' or die; chdir 'pl' or die; 1",
        "open my $f, '>', 'Own.pm' or die; print $f 'package Own; my $n = 0; sub step { ++$n } 1;'; close $f; require './Own.pm'; Own::step()",
        "sub count { my $n = shift; return sub { $n++ } } my $counter = count(0); $counter->()",
        "open my $g, '>', 'lines' or die; print $g \"one\\ntwo\\nthree\\nfour\\n\"; close $g; 1",
        "open our $reader, '<', 'lines' or die; scalar <$reader>",
        "open our $writer, '>', 'log' or die; print $writer '0'",
        "srand 7; my @first = map { rand } 1 .. 9; srand 7; my $drawn = 0",
        "$ENV{OWN} = 'set by code'",
    ],
    check: &[
        ("$x += 1", ["42", "43", "44"]),
        ("keys(%table) . $table{4999} . @list", ["5000v49992"; 3]),
        ("twice($p->v)", ["42"; 3]),
        ("$add->()", ["1", "2", "3"]),
        ("P->new(1); $P::made", ["2", "3", "4"]),
        ("sum(@list)", ["3"; 3]),
        ("Own::step()", ["2", "3", "4"]),
        ("$counter->()", ["1", "2", "3"]),
        ("my $line = <$reader>; chomp $line; $line", ["two", "three", "four"]),
        (
            "print $writer $x - 41; $writer->flush; open my $l, '<', 'log' or die; scalar <$l>",
            ["01", "012", "0123"],
        ),
        ("getcwd() . (-e '/workspace/pl/log' ? 1 : 0)", ["/workspace/pl1"; 3]),
        ("rand() == $first[$drawn++] ? 'goes on' : 'another'", ["goes on"; 3]),
        ("$ENV{OWN}", ["set by code"; 3]),
    ],
};
