//! A memory that is full to its limit, and kill -9 of the server: the context has what it had, can be
//! emptied, and is as roomy as before.

use crate::rig::*;
use serde_json::json;

/// How a language fills its memory, and lets it go.
struct Full {
    language: &'static str,
    begin: &'static str,
    /// Takes `{k}` bytes, about, that are not zero, and counts.
    step: &'static str,
    /// How often that was: each counted one is whole.
    told: &'static str,
    /// Lets the first one go: to look at all takes some room itself.
    less: &'static str,
    free: &'static str,
    /// Takes much of the memory afterwards, and its value.
    large: (&'static str, &'static str),
}

const ALL: [Full; 4] = [
    Full {
        language: "javascript",
        begin: "let b = [], n = 0; const own = 'own'; n",
        step: "b.push(new Uint8Array({k}).fill(7)); n += 1",
        told: "n === b.length && b.every((part) => part[0] + part.at(-1) === 14) ? n + own : 'torn'",
        less: "b.shift(); n -= 1",
        free: "b = null; 1",
        large: ("new Uint8Array(40_000_000).fill(7).length", "40000000"),
    },
    Full {
        language: "python",
        begin: "b = []; n = 0; own = 'own'; n",
        step: "b.append(b'7' * {k}); n += 1; n",
        told: "str(n) + own if n == len(b) and all(part[0] + part[-1] == 110 for part in b) else 'torn'",
        less: "del b[0]; n -= 1; n",
        free: "del b; 1",
        large: ("len(b'7' * 200_000_000)", "200000000"),
    },
    Full {
        language: "ruby",
        begin: "$b = []; n = 0; own = 'own'; n",
        step: "$b << '7' * {k}; n += 1",
        told: "n == $b.size && $b.all? { |part| part[0] + part[-1] == '77' } ? n.to_s + own : 'torn'",
        less: "$b.shift; n -= 1",
        free: "$b = nil; GC.start; 1",
        large: ("('7' * 20_000_000).length", "20000000"),
    },
    Full {
        language: "perl",
        begin: "our @b; our $n = 0; our $own = 'own'; $n",
        step: "push @b, '7' x {k}; $n += 1",
        told: "$n == @b && !(grep { substr($_, 0, 1) . substr($_, -1) ne '77' } @b) ? $n . $own : 'torn'",
        less: "shift @b; $n -= 1",
        free: "undef @b; 1",
        large: ("length('7' x 20_000_000)", "20000000"),
    },
];

#[tokio::test(flavor = "multi_thread")]
async fn a_full_memory_outlives_a_kill_and_can_be_emptied() {
    let mut server = server().await;
    for lang in languages() {
        let full = ALL.iter().find(|full| full.language == lang.language).expect("a table");
        let id = context(&server, "s", lang.binding).await;
        text(&run(&server, "s", &id, full.begin).await);
        // Ever smaller steps, until not even a small one is possible.
        let (mut size, mut kept) = (8usize << 20, 0);
        while size >= 1 << 12 {
            let answer = run(&server, "s", &id, &full.step.replace("{k}", &size.to_string())).await;
            match answer.get("error") {
                None => kept += 1,
                Some(_) => size /= 2,
            }
        }
        assert!(kept > 4, "{}: {kept}", lang.language);
        server.kill();
        server.restart().await;
        assert_eq!(text(&run(&server, "s", &id, full.less).await), (kept - 1).to_string());
        let answer = run(&server, "s", &id, full.told).await;
        let told = answer["results"][0]["json"].clone();
        assert_eq!(told, json!(format!("{}own", kept - 1)), "{}: {answer}", lang.language);
        assert_eq!(text(&run(&server, "s", &id, full.free).await), "1", "{}", lang.language);
        server.kill();
        server.restart().await;
        for _ in 0..2 {
            let answer = run(&server, "s", &id, full.large.0).await;
            assert_eq!(text(&answer), full.large.1, "{}", lang.language);
        }
    }
}
