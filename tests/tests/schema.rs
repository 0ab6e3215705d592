//! The API document against a real server: no request that it allows, and none that it does not,
//! is answered by a 5xx or in a way that it does not tell of.

use e2e::Builder;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How long requests are made up, seconds; `SANDKEEP_TEST_SCHEMA` asks for another time.
const SECONDS: &str = "60";
/// Who makes them up.
const PACKAGE: &str = "schemathesis==4.32.5";
/// What is held against each answer. That a request is refused which the document does not allow
/// is told by it too: those with names that no owner can have, for example.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// The package, unpacked below the target directory by pip, once.
fn schemathesis() -> PathBuf {
    let mut dir = e2e::binary();
    dir.pop();
    dir.pop();
    let dir = dir.join("test-tools").join(PACKAGE);
    let done = dir.join("done");
    if !done.exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--upgrade", "--target"]).arg(&dir).arg(PACKAGE);
        let output = pip.output().expect("python3: cargo xtask setup --tests");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(done, "").expect("write");
    }
    dir
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_every_answer_is_one_that_the_document_tells_of() {
    let packages = schemathesis();
    let server = Builder::default().start().await;
    let place = tempfile::tempdir().expect("a directory");
    let seconds = std::env::var("SANDKEEP_TEST_SCHEMA").unwrap_or_else(|_| SECONDS.to_owned());
    let document = format!("{}/openapi.json", server.url);
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).current_dir(place.path()).stdin(Stdio::null());
    command.args(["-m", "schemathesis.cli", "run", &document, "--url", &server.url]);
    command.args(["--max-time", &seconds, "--request-timeout", "30", "--checks", CHECKS]);
    command.args(["--no-color", "--continue-on-failure", "--warnings", "off"]);
    // An archive is made up by nobody.
    command.args(["--exclude-operation-id", "writeArchive"]);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("it ends").expect("python3: cargo xtask setup --tests");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "schemathesis ended with {}", output.status);
    server.get("/healthz").await.expect(200);
}
