//! Tokens are counted as all else is, by whatever way they are made.

use crate::rig::{SOON, as_owner, quotas, with_file};
use client::Client;
use e2e::{Server, eventually};
use futures::future::join_all;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use types::{ErrorCode, Owner, Scope, TokenRequest};

fn request(owner: &str) -> TokenRequest {
    TokenRequest { owner: Some(owner.parse().expect("an owner")), ..TokenRequest::default() }
}

fn admin(server: &Server) -> Client {
    Client::unix(&server.data.join("admin.sock"), None, None).expect("a client")
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, client::Error>, scope: &str) -> types::Error {
    let Err(client::Error::Api(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.code, ErrorCode::QuotaExceeded, "{error:?}");
    assert_eq!(error.http_status(), 409);
    assert_eq!(error.context["what"], "tokens");
    assert_eq!(error.context["scope"], scope);
    error
}

/// `sandkeep token create` beside no server.
fn offline(data: &std::path::Path, owner: &str) -> (bool, String) {
    let output = Command::new(e2e::binary())
        .arg("--data")
        .arg(data)
        .args(["token", "create", "--owner", owner])
        .stdin(Stdio::null())
        .output()
        .expect("the program starts");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn fifty_tokens_at_once_are_as_many_as_the_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let toml = "[quotas]\ntokens = 5\n[quotas.owners.eve]\ntokens = 0\n";
    let builder = with_file(directory.path(), toml).args(&["--open"]);
    let mut server = builder.start().await;
    let admin = admin(&server);
    let ada = request("ada");
    let answers = join_all((0..50).map(|_| admin.create_token(&ada))).await;
    let (made, not): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), not.len()), (5, 45));
    for answer in not {
        let error = refused(answer, "owner");
        assert_eq!((&error.context["limit"], &error.context["current"]), (&json!(5), &json!(5)));
    }
    let report = quotas(&server, "ada").await;
    assert_eq!((&report["current"]["tokens"], &report["limits"]["tokens"]), (&json!(5), &json!(5)));
    let told = eventually("the refusal is told", SOON, || async {
        let path = "/v1/events?type=quota.refused";
        let page = as_owner(&server, "ada", "GET", path, Value::Null).await.expect(200);
        page["events"].as_array().expect("a list").first().cloned()
    })
    .await;
    assert_eq!(told["data"], json!({"quota": "tokens", "limit": 5, "current": 5}));
    // Others have their own; what is none needs no room.
    refused(admin.create_token(&request("eve")).await, "owner");
    admin.create_token(&request("ben")).await.expect("there is room");
    let scope = Some(Scope::Admin);
    let root = TokenRequest { scope, ..TokenRequest::default() };
    admin.create_token(&root).await.expect("a scope is of no owner");
    // A token that is revoked, and one that ends, give their places back.
    let first = &made[0].as_ref().expect("made").info.id;
    admin.revoke_token(first).await.expect("revoked");
    let short = TokenRequest { expires_in_ms: Some(1500), ..ada.clone() };
    admin.create_token(&short).await.expect("there is room");
    refused(admin.create_token(&ada).await, "owner");
    eventually("it has ended", SOON, || async {
        (quotas(&server, "ada").await["current"]["tokens"] == 4).then_some(())
    })
    .await;
    admin.create_token(&ada).await.expect("there is room");
    // The same limits hold where no server runs, and there too it is told.
    server.terminate();
    let (done, said) = offline(&server.data, "ada");
    assert!(!done && said.contains("the owner may have 5 tokens"), "{said}");
    let (done, said) = offline(&server.data, "eve");
    assert!(!done && said.contains("the owner may have 0 tokens"), "{said}");
    assert_eq!(offline(&server.data, "ben"), (true, String::new()));
    server.restart().await;
    let path = "/v1/events?type=quota.refused";
    let page = as_owner(&server, "eve", "GET", path, Value::Null).await.expect(200);
    assert_eq!(page["events"].as_array().expect("a list").len(), 2, "{page}");
}

#[tokio::test]
async fn the_machine_s_limit_counts_scopes_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let toml = "[quotas.machine]\ntokens = 2\n";
    let server = with_file(directory.path(), toml).args(&["--open"]).start().await;
    let admin = admin(&server);
    let scope = Some(Scope::ContainersRead);
    let reader = TokenRequest { scope, ..TokenRequest::default() };
    admin.create_token(&reader).await.expect("there is room");
    admin.create_token(&request("ada")).await.expect("there is room");
    let owner: Owner = "ada".parse().expect("an owner");
    for request in [&reader, &request(owner.as_str())] {
        let error = refused(admin.create_token(request).await, "machine");
        assert_eq!(error.context["limit"], 2);
        assert!(!error.context.contains_key("current"), "{error:?}");
    }
}
