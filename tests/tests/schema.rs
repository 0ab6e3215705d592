//! The API document against a real server: no request that it allows, and none that it does not,
//! is answered by a 5xx or in a way that it does not tell of.

use e2e::{Builder, Server};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How long requests are made up, seconds; `SANDKEEP_TEST_SCHEMA` asks for another time.
const SECONDS: &str = "90";
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

/// Makes up requests to a server, as somebody with this token.
async fn schemathesis_finds_nothing(server: &Server, token: Option<&str>, seconds: &str) {
    let packages = schemathesis();
    let place = tempfile::tempdir().expect("a directory");
    let document = format!("{}/openapi.json", server.url);
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", packages).current_dir(place.path()).stdin(Stdio::null());
    command.args(["-m", "schemathesis.cli", "run", &document, "--url", &server.url]);
    command.args(["--max-time", seconds, "--request-timeout", "30", "--checks", CHECKS]);
    command.args(["--no-color", "--continue-on-failure", "--warnings", "off"]);
    // An archive is made up by nobody.
    command.args(["--exclude-operation-id", "writeArchive"]);
    if let Some(token) = token {
        command.arg("--header").arg(format!("Authorization: Bearer {token}"));
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("it ends").expect("python3: cargo xtask setup --tests");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    eprintln!("{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "schemathesis ended with {}", output.status);
    server.get("/healthz").await.expect(200);
}

fn seconds() -> String {
    std::env::var("SANDKEEP_TEST_SCHEMA").unwrap_or_else(|_| SECONDS.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_every_answer_is_one_that_the_document_tells_of() {
    let server = Builder::default().start().await;
    schemathesis_finds_nothing(&server, None, &seconds()).await;
}

/// Where callers are asked for a token, and limits are reached.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_every_answer_to_an_administrator_is_one_that_the_document_tells_of() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("sandkeep.toml");
    let quotas = "[quotas]\nsandboxes = 3\nrunning = 1\ncontexts = 2\nworkspace-bytes = \"1MB\"\n";
    std::fs::write(&file, quotas).expect("written");
    let server = Builder::default().args(&["--config", file.to_str().expect("text")]).start().await;
    let door = client::Client::unix(&server.data.join("admin.sock"), None, None).expect("one");
    let scope = Some(types::Scope::Admin);
    let request = types::TokenRequest { scope, ..types::TokenRequest::default() };
    let admin = door.create_token(&request).await.expect("a token");
    schemathesis_finds_nothing(&server, Some(&admin.token), &seconds()).await;
}
