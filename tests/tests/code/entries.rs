//! A workspace has a hundred thousand entries and no more, also for code.

use crate::rig::*;
use e2e::eventually;
use serde_json::json;

/// What a workspace may hold.
const MOST: usize = 100_000;
/// What is left for code.
const LEFT: usize = 10;

/// Defines `fill`, which makes files whose names begin so until that fails: how it failed, and how
/// many there are; and `clean`, which removes so many of them.
fn fill(language: &str) -> &'static str {
    match language {
        "javascript" => {
            "const fs = require('fs'); function fill(name) { let n = 0; try { for (;; n++) fs.writeFileSync(name + n, '') } catch (e) { return [e.code, n] } }\n\
             function clean(name, n) { while (n-- > 0) fs.unlinkSync(name + n) }"
        }
        "python" => {
            "import errno, os\ndef fill(name):\n    n = 0\n    try:\n        while True:\n            open(f'{name}{n}', 'w').close()\n            n += 1\n    except OSError as e:\n        return [errno.errorcode[e.errno], n]\n\
             def clean(name, n):\n    for i in range(n): os.remove(f'{name}{i}')"
        }
        "ruby" => {
            "def fill(name)\n  n = 0\n  loop { File.write(\"#{name}#{n}\", ''); n += 1 }\nrescue SystemCallError => e\n  [e.class.name.delete_prefix('Errno::'), n]\nend\n\
             def clean(name, n) = n.times { |i| File.delete(\"#{name}#{i}\") }"
        }
        _ => {
            "use Errno; sub fill { my $n = 0; while (open my $f, '>', \"$_[0]$n\") { close $f; $n++ } return [$!{ENOSPC} ? 'ENOSPC' : \"$!\", $n] }\n\
             sub clean { unlink map { $_[0] . $_ } 0 .. $_[1] - 1 }"
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn code_meets_the_limit_of_entries_and_goes_on() {
    let server = server().await;
    let mut contexts = Vec::new();
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        for code in [lang.set, fill(lang.language)] {
            let answer = run(&server, "s", &id, code).await;
            assert!(answer.get("error").is_none(), "{answer}");
        }
        contexts.push((lang, id));
    }
    // A file has at most 65 000 names on ext4. The directories count too.
    let (mut made, mut dirs) = (0, 0);
    while made < MOST - LEFT {
        let dir = place(&server, "s", &format!("d{dirs}"));
        std::fs::create_dir(&dir).expect("made");
        std::fs::write(dir.join("f"), "").expect("written");
        (made, dirs) = (made + 2, dirs + 1);
        for n in 0..20_000.min(MOST - LEFT - made) {
            std::fs::hard_link(dir.join("f"), dir.join(n.to_string())).expect("linked");
            made += 1;
        }
    }
    let counted = || async {
        let info = server.get("/v1/sandboxes/s").await.expect(200);
        (info["workspace"]["files"] == made).then_some(())
    };
    eventually("they are counted", SOON, counted).await;
    for (lang, id) in &contexts {
        // What is removed after the first time is there for the second.
        for name in ["one", "two"] {
            let code = format!("{}\nfill('{name}')", lang.add);
            let answer = run(&server, "s", id, &code).await;
            text(&answer);
            let found = &answer["results"][0]["json"];
            assert_eq!(*found, json!(["ENOSPC", LEFT]), "{} {name}: {answer}", lang.language);
            assert_eq!(answer["rolledBack"], false);
            let code = format!("fill('more'); clean('{name}', {LEFT})");
            let answer = run(&server, "s", id, &code).await;
            assert!(answer.get("error").is_none(), "{answer}");
        }
        assert_eq!(text(&run(&server, "s", id, lang.get).await), "44", "{}", lang.language);
    }
    let (lang, id) = &contexts[0];
    let answer = run(&server, "s", id, "fill('last')").await;
    assert_eq!(answer["results"][0]["json"], json!(["ENOSPC", LEFT]), "{}", lang.language);
    // The same for whoever sends a file, and it is told of.
    let put = server.send("PUT", "/v1/sandboxes/s/files/sent", &[], Some(vec![1])).await;
    let error = put.expect("an answer").expect_error(500, "NO_SPACE");
    assert_eq!(
        (&error["context"]["of"], &error["context"]["limit"]),
        (&json!("entries"), &json!(MOST))
    );
    let refused = eventually("the refusal is told", SOON, || async {
        let page = server.get("/v1/events?type=quota.refused").await.expect(200);
        page["events"].as_array().expect("a list").first().map(|event| event["data"].clone())
    });
    let refused = refused.await;
    assert_eq!((&refused["quota"], &refused["limit"]), (&json!("workspaceEntries"), &json!(MOST)));
}
