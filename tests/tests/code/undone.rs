//! An execution that does not end by itself leaves the context as it was: memory, working
//! directory, environment and open files together. What it wrote to files stays.

use crate::rig::*;
use e2e::{Server, eventually};
use futures::future::join_all;
use serde_json::{Value, json};

/// What a language begins with, how all of it is changed, and what is told of it.
struct Undone {
    language: &'static str,
    begin: &'static [&'static str],
    change: &'static str,
    /// A list: `x`, the next of a generator, directory, `OWN`, `LOST` and `NEW` of the environment, and
    /// where there are descriptors four bytes of each of two, and of one that nobody has opened.
    told: &'static str,
    descriptors: bool,
}

/// Four bytes each.
const LINES: &str = "one\ntwo\nsix\nten\n";

const ALL: [Undone; 4] = [
    Undone {
        language: "javascript",
        begin: &[
            "const fs = require('fs'); let x = 41; function* count() { for (let n = 0;;) yield n++ }\nconst gen = count(); gen.next()",
            "fs.mkdirSync('a'); fs.mkdirSync('b'); process.chdir('a'); process.env.OWN = 'before'; process.env.LOST = 'there'",
        ],
        change: "x = 0; gen.next(); process.chdir('/workspace/b'); process.env.OWN = 'changed'; process.env.NEW = 'new'; delete process.env.LOST; Array.prototype.extra = 1;",
        told: "[x, gen.next().value, process.cwd(), process.env.OWN, process.env.LOST, process.env.NEW ?? 'none', [].extra ?? 'none']",
        descriptors: false,
    },
    Undone {
        language: "python",
        begin: &[
            "import errno, os; x = 41; gen = iter(range(99)); next(gen)",
            "os.mkdir('a'); os.mkdir('b'); os.chdir('a'); os.environ['OWN'] = 'before'; os.environ['LOST'] = 'there'",
            "one, two = [os.open('/workspace/lines', os.O_RDONLY) for _ in range(2)]; os.read(one, 4), os.read(two, 4)",
            "def at(fd):\n    try: return os.read(fd, 4).decode()\n    except OSError as e: return errno.errorcode[e.errno]",
        ],
        change: "x = 0; next(gen); os.chdir('/workspace/b'); os.environ['OWN'] = 'changed'; os.environ['NEW'] = 'new'; del os.environ['LOST']; os.read(one, 4); os.close(two); opened = [os.open('/workspace/lines', os.O_RDONLY) for _ in range(2)]; assert opened == [two, two + 1]",
        told: "[x, next(gen), os.getcwd(), os.environ['OWN'], os.environ['LOST'], os.environ.get('NEW', 'none'), at(one), at(two), at(two + 1)]",
        descriptors: true,
    },
    Undone {
        language: "ruby",
        begin: &[
            "x = 41; gen = Enumerator.new { |y| n = 0; loop { y << n; n += 1 } }; gen.next",
            "Dir.mkdir('a'); Dir.mkdir('b'); Dir.chdir('a'); ENV['OWN'] = 'before'; ENV['LOST'] = 'there'",
            "one = File.open('/workspace/lines'); two = File.open('/workspace/lines'); four = ->(f) { f.sysread(4).force_encoding('UTF-8') }; four.(one) + four.(two)",
            "others = ->(n) { (n + 1..n + 9).map { |n| IO.for_fd(n, autoclose: false).sysread(4) rescue $!.class.name.delete_prefix('Errno::') }.uniq.join }",
        ],
        change: "x = 0; gen.next; Dir.chdir('/workspace/b'); ENV['OWN'] = 'changed'; ENV['NEW'] = 'new'; ENV.delete('LOST'); one.sysread(4); was = two.fileno; two.close; opened = [0, 1].map { File.open('/workspace/lines') }; raise unless opened.all? { |f| f.fileno.between?(was, was + 9) }",
        told: "[x, gen.next, Dir.pwd, ENV['OWN'], ENV['LOST'], ENV.fetch('NEW', 'none'), four.(one), four.(two), others.(two.fileno)]",
        descriptors: true,
    },
    Undone {
        language: "perl",
        begin: &[
            "use Cwd; our $x = 41; my $n = 0; my $gen = sub { $n++ }; $gen->()",
            "mkdir 'a' or die; mkdir 'b' or die; chdir 'a' or die; $ENV{OWN} = 'before'; $ENV{LOST} = 'there';",
            "open our $one, '<', '/workspace/lines' or die; open our $two, '<', '/workspace/lines' or die; sub four { my $four; return sysread($_[0], $four, 4) ? $four : 'EBADF' } four($one) . four($two)",
            "sub third { my $third; return open($third, '<&=', $_[0]) ? four($third) : 'EBADF' }",
        ],
        change: "$x = 0; $gen->(); chdir '/workspace/b' or die; $ENV{OWN} = 'changed'; $ENV{NEW} = 'new'; delete $ENV{LOST}; four($one); my $was = fileno $two; close $two; our @opened = map { open my $f, '<', '/workspace/lines' or die; $f } 1 .. 2; die unless fileno($opened[0]) == $was && fileno($opened[1]) == $was + 1;",
        told: "[$x, $gen->(), getcwd(), $ENV{OWN}, $ENV{LOST}, $ENV{NEW} // 'none', four($one), four($two), third(1 + fileno $two)]",
        descriptors: true,
    },
];

/// How an execution is ended from without.
#[derive(Debug, Clone, Copy)]
enum End {
    TimeLimit,
    /// Its client goes away, which waits for one answer, or reads a stream of this type.
    Leaves(Option<&'static str>),
}

/// A context with all of it.
async fn begin(server: &Server, lang: &Lang) -> (&'static Undone, String) {
    let undone = ALL.iter().find(|undone| undone.language == lang.language).expect("a table");
    let id = context(server, lang.language, lang.binding).await;
    let lines = format!("/v1/sandboxes/{}/files/lines", lang.language);
    let put = server.send("PUT", &lines, &[], Some(LINES.into())).await;
    put.expect("an answer").expect(200);
    for code in undone.begin {
        let answer = run(server, lang.language, &id, code).await;
        assert!(answer.get("error").is_none(), "{code}: {answer}");
    }
    (undone, id)
}

/// Changes everything, and ends it so.
async fn change(server: &Server, lang: &Lang, (undone, id): &(&Undone, String), end: End) {
    let (s, mark) = (lang.language, "changed");
    let file = place(server, s, mark);
    let code = format!("{}\n{}\n{}", undone.change, marks(s, mark), lang.spin);
    match end {
        End::TimeLimit => {
            let body = json!({ "code": code, "timeoutMs": 3000 });
            let answer = ask(server, s, id, body).await.expect(200);
            assert_eq!(answer["error"]["name"], "ExecutionLimitError", "{answer}");
            assert_eq!(answer["rolledBack"], true, "{answer}");
            assert_eq!(answer["context"]["cwd"], "/workspace/a", "{answer}");
        }
        End::Leaves(accept) => {
            let url = format!("{}/v1/sandboxes/{s}/contexts/{id}/execute", server.url);
            let body = json!({ "code": code, "timeoutMs": 600_000 });
            let send = server.http.post(url).header("accept", accept.unwrap_or("*/*")).json(&body);
            let client = tokio::spawn(async move { send.send().await?.bytes().await });
            eventually("all is changed", SOON, || async { file.exists().then_some(()) }).await;
            client.abort();
            assert!(client.await.expect_err("no answer came").is_cancelled());
        }
    }
    // Files are not rolled back.
    std::fs::remove_file(&file).expect("it was written");
}

/// All of it is as before the change, which was the one of this number.
async fn check(server: &Server, lang: &Lang, (undone, id): &(&Undone, String), round: usize) {
    let next = tokio::time::timeout(SOON, run(server, lang.language, id, undone.told)).await;
    let next = next.unwrap_or_else(|_| panic!("{}: its turn does not come", lang.language));
    text(&next);
    let line = &LINES[4 * (round + 1)..][..4];
    let mut wanted = json!([41, round + 1, "/workspace/a", "before", "there", "none"]);
    let list = wanted.as_array_mut().expect("a list");
    match undone.descriptors {
        true => list.extend([line, line, "EBADF"].map(Value::from)),
        false => list.push("none".into()),
    }
    assert_eq!(next["results"][0]["json"], wanted, "{} round {round}", lang.language);
    assert_eq!(next["executionCount"], undone.begin.len() + round + 1, "{}", lang.language);
    assert_eq!(next["context"]["cwd"], "/workspace/a");
    assert_eq!(told(server, lang.language, id).await["cwd"], "/workspace/a");
}

/// Ends a change in each of these ways; kill -9 comes right after the last one.
async fn all_goes_back(ends: [End; 3]) {
    let mut server = server().await;
    let languages = languages();
    let contexts = join_all(languages.iter().map(|lang| begin(&server, lang))).await;
    for (round, end) in ends.into_iter().enumerate() {
        let each = languages.iter().zip(&contexts);
        join_all(each.clone().map(|(lang, context)| change(&server, lang, context, end))).await;
        if round == 2 {
            server.kill();
            server.restart().await;
        }
        join_all(each.map(|(lang, context)| check(&server, lang, context, round))).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_context_goes_back_at_a_time_limit() {
    all_goes_back([End::TimeLimit; 3]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_context_goes_back_when_its_client_goes_away() {
    let streams = ["application/x-ndjson", "text/event-stream"].map(Some);
    all_goes_back([End::Leaves(None), End::Leaves(streams[0]), End::Leaves(streams[1])]).await;
}
