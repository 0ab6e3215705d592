//! What is kept of a value's text and JSON: one rule for all languages.

mod kit;

use kit::{Context, Engine};

const ENGINES: [&str; 4] = ["python", "javascript", "ruby", "perl"];
const MAX: usize = 1 << 20;

fn context(engine: &str) -> Context {
    Context::new(&Engine::load(engine, 256 << 20))
}

/// A text of so many `x`, and a list of so many sevens.
fn code(engine: &str, count: usize) -> (String, String) {
    match engine {
        "perl" => (format!("'x' x {count}"), format!("[(7) x {count}]")),
        "javascript" => (format!("'x'.repeat({count})"), format!("new Array({count}).fill(7)")),
        _ => (format!("'x' * {count}"), format!("[7] * {count}")),
    }
}

#[tokio::test]
async fn json_is_there_up_to_its_bound_and_what_is_missing_is_told() {
    for engine in ENGINES {
        let mut c = context(engine);
        let ran = c.run(&code(engine, MAX - 2).0).await;
        assert!(ran.json().is_some() && !ran.outcome.truncated, "{engine}: a text that fits");
        let ran = c.run(&code(engine, MAX - 1).0).await;
        assert!(ran.json().is_none() && ran.outcome.truncated, "{engine}: a text that does not");
        assert!(ran.text().len() <= MAX + 40, "{engine}");
        let ran = c.run(&code(engine, MAX / 2 - 1).1).await;
        assert!(ran.json().is_some(), "{engine}: a list that fits");
        assert_eq!(ran.outcome.truncated, engine != "javascript", "{engine}: its text is cut");
        let ran = c.run(&code(engine, MAX / 2).1).await;
        assert!(ran.json().is_none() && ran.outcome.truncated, "{engine}: a list that does not");
        let ran = c.run(&code(engine, 20_000_000).0).await;
        assert!(ran.json().is_none() && ran.outcome.truncated, "{engine}: a text much too long");
        let ran = c.run("1").await;
        assert!(ran.json().is_some() && !ran.outcome.truncated, "{engine}");
    }
}

#[tokio::test]
async fn texts_are_cut_by_bytes_and_the_rest_is_counted() {
    for engine in ENGINES {
        let mut c = context(engine);
        let marks = usize::from(engine != "perl");
        let text = code(engine, MAX * 2).0;
        let ran = c.run(&text).await;
        let end = format!("x… {} more characters", MAX + 2 * marks);
        assert!(ran.text().ends_with(&end), "{engine}: {}", &ran.text()[MAX - 10..]);
        assert_eq!(ran.text().find('…'), Some(MAX), "{engine}");
        let ran = c.run(&text.replace('x', "€").replacen(" € ", " x ", 1)).await;
        assert_eq!(ran.text().find('…'), Some((MAX - marks) / 3 * 3 + marks), "{engine}");
        let kept = (MAX - marks) / 3 + marks;
        let end = format!("€… {} more characters", MAX * 2 + 2 * marks - kept);
        assert!(ran.text().ends_with(&end), "{engine}: {}", &ran.text()[MAX - 1..]);
        let shown = c.run(&format!("display({text}); 1")).await;
        assert!(shown.outcome.truncated && shown.displayed[0].mime.is_empty(), "{engine}");
        assert!(shown.displayed[0].text.ends_with(" more characters"), "{engine}");
        let throw = match engine {
            "python" => format!("raise ValueError({text})"),
            "javascript" => format!("throw new Error({text})"),
            "ruby" => format!("raise {text}"),
            _ => format!("die({text})"),
        };
        let ran = c.run(&throw).await;
        assert!(ran.outcome.truncated, "{engine}");
        assert_eq!(ran.error().message.find('…'), Some(MAX), "{engine}");
        assert!(ran.error().message.ends_with(&format!("x… {MAX} more characters")), "{engine}");
    }
}
