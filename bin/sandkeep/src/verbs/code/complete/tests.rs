//! What is whole and what goes on.

use super::is_whole;
use types::Language::{self, Javascript, Perl, Python, Ruby};

fn check(language: Language, whole: &[&str], open: &[&str]) {
    for text in whole {
        assert!(is_whole(language, text), "{language:?} should be whole: {text:?}");
    }
    for text in open {
        assert!(!is_whole(language, text), "{language:?} should go on: {text:?}");
        assert!(is_whole(language, &format!("{text}\n\n")), "two empty lines end {text:?}");
    }
}

#[test]
fn python() {
    check(
        Python,
        &[
            "x = 1",
            "",
            "  ",
            "def f():\n    return 1\n",
            "for i in range(3): print(i)",
            "'it''s'",
            "'not closed",
            "x = {1: 2}",
            "d[1:]",
            "'''a\nb'''",
            "# if x:",
            "print(')')",
            "x = ')'",
            "\"\\\"\"",
            "f(\n1)",
        ],
        &[
            "def f():",
            "def f():\n    return 1",
            "if x:  # why",
            "f(",
            "x = [1,\n2",
            "'''a\nb",
            "x = \\",
            "@cached",
            "@cached\ndef f():",
            "class A:\n    '''text'''",
            "d = {'a': '}',",
        ],
    );
}

#[test]
fn javascript() {
    check(
        Javascript,
        &["1 + 1", "const f = () => { return 1 }", "`a\nb`", "'{'", "// {", "/* { */ 1", "}"],
        &["function f() {", "f(1,", "`a", "/* a", "const o = {\n a: 1,"],
    );
}

#[test]
fn ruby() {
    check(
        Ruby,
        &[
            "1 + 1",
            "def f\n  1\nend",
            "x = 1 if y",
            "[1].each do |x|\n puts x\nend",
            "[1].map { |x| x }",
            "while x do\n y\nend",
            "def one = 1",
            "'end'",
            "# def f",
            "puts \"#{1 + 1}\"",
            "def f; 1; end",
        ],
        &[
            "def f",
            "class A\n  def b\n  end",
            "[1].each do |x|",
            "if x\n  y",
            "x = if y",
            "[1,",
            "\"a",
            "while x do",
            "begin",
        ],
    );
}

#[test]
fn perl() {
    check(
        Perl,
        &["1 + 1", "sub f { 1 }", "my %h = (a => 1);", "print 'a{';", "$#a", "# {", "$x{'a'}"],
        &["sub f {", "my @a = (1,", "print 'a", "if ($x) {\n  1;"],
    );
}

#[test]
fn here_documents() {
    for language in [Ruby, Perl] {
        check(
            language,
            &[
                "x = <<~SQL\n  select (\n  SQL",
                "x = <<~SQL\n  select (\n  SQL\n",
                "f(<<\"A\", <<'B')\n}\nA\n{\nB",
                "1 <<2",
                "a <<b",
                "x = <<A\n\"\nA\ny = 1",
            ],
            &[
                "x = <<~SQL",
                "x = <<-SQL\n  select",
                "f(<<A, <<B)\na\nA\nb",
                "x = <<~sql\nsql_\n",
                "f(<<A,\n)\nA\n",
            ],
        );
    }
    check(Ruby, &["class << self; end", "x <<~"], &[]);
    check(Python, &["A <<B"], &[]);
    check(Javascript, &["a <<B"], &[]);
}
