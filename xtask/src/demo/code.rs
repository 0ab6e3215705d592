//! Code contexts: their variables outlive `kill -9`, and their files are the instance's.

use super::curl::Curl;
use super::server::Server;
use super::title;
use serde_json::{Value, json};

const EXECUTE: &str = "/v1/sandboxes/notes/execute?owner=ada";

/// Installs what is not there yet; the small one first.
pub fn install(server: &Server) -> anyhow::Result<()> {
    title("Interpreters for code, installed once: JavaScript, which is small, then Python");
    server.install(&["javascript", "python"])
}

/// A variable is there again after the server was killed.
pub fn survives(curl: &Curl, server: &mut Server) -> anyhow::Result<()> {
    title("Code in `notes`. Its variables stay, those of each language by themselves");
    value(curl, "javascript", "const x = ['no', 'instance', 'needed']; x.length", &json!(3))?;
    execute(curl, "python", "x = 6 * 7", &json!({"results": []}))?;

    title("kill -9 of the server; restarted, x is there");
    server.kill()?;
    server.start()?;
    value(curl, "python", "x", &json!(42))?;
    value(curl, "javascript", "x[0]", &json!("no"))?;

    title("An error is a result, and takes nothing away");
    let error = json!({"error": {"name": "ZeroDivisionError", "lineNumber": 2}, "results": []});
    execute(curl, "python", "x = 43\nx / 0", &error)?;
    value(curl, "python", "x", &json!(43))
}

/// A file of the one is a file of the other.
pub fn shares(curl: &Curl) -> anyhow::Result<()> {
    title("A file that Python wrote, read by cat; one that the shell wrote, read by Python");
    value(curl, "python", "open('shared', 'w').write('from python')", &json!(11))?;
    let read = json!({"argv": ["cat", "shared"]});
    curl.post("/users/ada/sandboxes/notes", &read)?
        .is(200, &json!({"stdout": "from python", "exitCode": 0}))?;
    let write = json!({"argv": ["sh", "-c", "echo from the shell > shared"]});
    curl.post("/users/ada/sandboxes/notes", &write)?.is(200, &json!({"exitCode": 0}))?;
    value(curl, "python", "open('shared').read()", &json!("from the shell\n"))
}

/// Runs code whose last expression has this value.
fn value(curl: &Curl, language: &str, code: &str, json: &Value) -> anyhow::Result<()> {
    execute(curl, language, code, &json!({"results": [{"json": json}]}))
}

fn execute(curl: &Curl, language: &str, code: &str, expected: &Value) -> anyhow::Result<()> {
    let mut expected = expected.clone();
    expected["language"] = json!(language);
    expected["rolledBack"] = json!(false);
    curl.post(EXECUTE, &json!({"code": code, "language": language}))?.is(200, &expected)
}
