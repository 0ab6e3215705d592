//! Code whose client goes away takes no time of the processor any more, before anybody asks again.

use crate::damage::workers;
use crate::rig::*;
use e2e::{Server, eventually};
use futures::StreamExt as _;
use serde_json::json;
use std::time::Duration;

/// Processor time that the server's workers took so far, clock ticks, all of their threads.
pub fn ticks(server: &Server) -> u64 {
    let of = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
        Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
    };
    workers(server).into_iter().filter_map(of).sum()
}

/// What writes nothing, and what writes all the time.
fn loops(lang: &Lang) -> [String; 2] {
    let loud = match lang.language {
        "javascript" => "for (;;) console.log('more')",
        "python" => "while True: print('more')",
        "ruby" => "loop { puts 'more' }",
        _ => "while (1) { print \"more\\n\" }",
    };
    [lang.spin, loud].map(|spin| format!("{}\n{}\n{spin}", lang.add, says(lang.language)))
}

/// A word that a stream shows at once.
fn says(language: &str) -> &'static str {
    match language {
        "javascript" => "console.log('begun')",
        "python" => "print('begun', flush=True)",
        "ruby" => "puts 'begun'; $stdout.flush",
        _ => "use IO::Handle; STDOUT->autoflush(1); print \"begun\\n\";",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_reads_any_more_takes_no_time() {
    let server = server().await;
    for lang in languages() {
        let id = context(&server, "s", lang.binding).await;
        run(&server, "s", &id, lang.set).await;
        for (kind, code) in loops(lang).into_iter().enumerate() {
            let url = format!("{}/v1/sandboxes/s/contexts/{id}/execute", server.url);
            let send = server.http.post(url).header("accept", "application/x-ndjson");
            let send = send.json(&json!({ "code": code, "timeoutMs": 600_000 })).send();
            let mut pieces = send.await.expect("an answer").bytes_stream();
            let first = tokio::time::timeout(SOON, pieces.next()).await.expect("it runs");
            let first = first.expect("a piece").expect("whole");
            assert!(String::from_utf8_lossy(&first).contains("begun"), "{first:?}");
            // It is the processor's time that is seen.
            let before = ticks(&server);
            let grown = || async { (ticks(&server) > before + 5).then_some(()) };
            eventually("it takes time", SOON, grown).await;
            drop(pieces);
            let rests = || async {
                let before = ticks(&server);
                tokio::time::sleep(Duration::from_millis(300)).await;
                (ticks(&server) == before).then_some(())
            };
            eventually("it takes none", SOON, rests).await;
            assert_eq!(workers(&server).len(), 1, "it was the code that ended");
            let next = run(&server, "s", &id, lang.get).await;
            assert_eq!(text(&next), "42", "{} {kind}: the memory is as before", lang.language);
            assert_eq!(next["executionCount"], 2 + kind, "{}", lang.language);
        }
    }
}
