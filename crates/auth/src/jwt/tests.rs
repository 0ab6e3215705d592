//! With keys made here, and a server of keys on loopback.

mod issuer;

use super::*;
use issuer::{Keyholder, Server, claims, now_s};
use serde_json::json;
use std::time::Duration;
use types::ErrorCode;

fn options(keys: Source) -> Options {
    Options {
        keys,
        issuer: "https://issuer.example".to_owned(),
        audience: vec!["sandkeep".to_owned()],
        owner_claim: "sub".to_owned(),
    }
}

async fn ask(issuer: &Issuer, token: &str) -> Result<String> {
    let digest = crate::secret::digest(token);
    let owner = issuer.owner(token, &digest, now_s() * 1000).await?;
    Ok(owner.as_str().to_owned())
}

#[track_caller]
fn refused(result: Result<String>, why: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unauthenticated, "{error}");
    assert!(error.message.contains(why), "{error}");
}

/// An issuer whose keys are in a file that is gone again.
async fn of_file(keys: serde_json::Value) -> Issuer {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), keys.to_string()).unwrap();
    Issuer::new(options(Source::File(file.path().into()))).await.unwrap()
}

#[tokio::test]
async fn each_algorithm_that_is_taken() {
    let all = [Keyholder::es256("a"), Keyholder::ed25519("b"), Keyholder::rs256("c")];
    let issuer = of_file(json!({"keys": all.iter().map(Keyholder::jwk).collect::<Vec<_>>()})).await;
    for key in &all {
        let token = key.sign(&claims("ada"));
        for _ in 0..2 {
            assert_eq!(ask(&issuer, &token).await.as_deref(), Ok("ada"), "{}", key.algorithm());
        }
        // The name of the key may be left out.
        let unnamed = key.signed(&json!({"alg": key.algorithm()}), &claims("bob"));
        assert_eq!(ask(&issuer, &unnamed).await.as_deref(), Ok("bob"));
        // One character of any part.
        for part in 0..3 {
            let mut parts: Vec<String> = token.split('.').map(str::to_owned).collect();
            let middle = parts[part].len() / 2;
            let other = if parts[part].as_bytes()[middle] == b'A' { "B" } else { "A" };
            parts[part].replace_range(middle..=middle, other);
            refused(ask(&issuer, &parts.join(".")).await, "");
        }
    }
}

#[tokio::test]
async fn wrong_claims() {
    let key = Keyholder::es256("a");
    let issuer = of_file(json!({"keys": [key.jwk()]})).await;
    let with = |name: &str, value: serde_json::Value| {
        let mut all = claims("ada");
        all[name] = value;
        all
    };
    let without = |name: &str| {
        let mut all = claims("ada");
        all.as_object_mut().unwrap().remove(name);
        all
    };
    let now = now_s();
    for (claims, why) in [
        (with("exp", json!(now - 3600)), "expired"),
        (with("exp", json!("tomorrow")), "exp"),
        (without("exp"), "exp"),
        (with("nbf", json!(now + 3600)), "not valid yet"),
        (with("nbf", json!("soon")), "nbf"),
        (with("iss", json!("https://evil.example")), "issuer"),
        (without("iss"), "iss"),
        (with("aud", json!("another")), "audience"),
        (with("aud", json!(["another", "third"])), "audience"),
        (without("aud"), "aud"),
        (without("sub"), "the claim sub"),
        (with("sub", json!(7)), "the claim sub"),
        (with("sub", json!("")), "owner is empty"),
        (with("sub", json!("ada@example.org")), "the character '@' at position 4"),
        (with("sub", json!("..")), "`.` and `..` are not names"),
        (with("sub", json!("a/b")), "'/'"),
        (with("sub", json!("\u{430}da")), "position 1"),
        (with("sub", json!("a".repeat(64))), "64 characters"),
    ] {
        refused(ask(&issuer, &key.sign(&claims)).await, why);
    }
    // These are right.
    for claims in [
        with("aud", json!(["another", "sandkeep"])),
        with("exp", json!(now as f64 + 100.5)),
        without("nbf"),
    ] {
        assert_eq!(ask(&issuer, &key.sign(&claims)).await.as_deref(), Ok("ada"));
    }
}

#[tokio::test]
async fn wrong_keys_and_wrong_algorithms() {
    let (key, stranger) = (Keyholder::es256("a"), Keyholder::es256("a"));
    let rsa = Keyholder::rs256("r");
    let secret = json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256"});
    let for_encryption = {
        let mut jwk = Keyholder::es256("e").jwk();
        jwk["use"] = json!("enc");
        jwk
    };
    let nonsense = json!({"kty": "new", "kid": "n"});
    let keys = json!([nonsense, 7, key.jwk(), rsa.jwk(), secret, for_encryption]);
    let issuer = of_file(json!({ "keys": keys })).await;
    let good = claims("ada");
    assert_eq!(ask(&issuer, &key.sign(&good)).await.as_deref(), Ok("ada"));
    refused(ask(&issuer, &stranger.sign(&good)).await, "signature");
    let algorithms = "none of RS256, ES256 and EdDSA";
    for (algorithm, kid) in [
        ("HS256", "s"),
        ("HS256", "a"),
        ("HS256", "r"),
        ("HS512", "r"),
        ("RS512", "r"),
        ("PS256", "r"),
        ("ES384", "a"),
    ] {
        let header = json!({"alg": algorithm, "kid": kid});
        refused(ask(&issuer, &key.signed(&header, &good)).await, algorithms);
    }
    // A shared secret made of the public key.
    let public = rsa.jwk().to_string();
    let forged = issuer::hs256(public.as_bytes(), &json!({"alg": "HS256", "kid": "r"}), &good);
    refused(ask(&issuer, &forged).await, algorithms);
    for none in ["none", "None", "NONE", ""] {
        let unsigned = issuer::unsigned(&json!({"alg": none, "kid": "a"}), &good);
        refused(ask(&issuer, &unsigned).await, algorithms);
    }
    // A key that the token brings along is nobody's.
    let header = json!({"alg": "ES256", "kid": "a", "jwk": stranger.jwk()});
    refused(ask(&issuer, &stranger.signed(&header, &good)).await, "signature");
    let header = json!({"alg": "ES256", "kid": "a", "crit": ["exp"], "exp": 1});
    refused(ask(&issuer, &key.signed(&header, &good)).await, "");
    // An algorithm and a key of another kind.
    refused(ask(&issuer, &key.signed(&json!({"alg": "RS256", "kid": "a"}), &good)).await, "no key");
    for text in
        ["eyJ.e.", "ey..", "eyJhbGciOiJFUzI1NiJ9.e30.", &format!("ey{}..", "J".repeat(20_000))]
    {
        assert!(Issuer::is_token(text), "{text}");
        refused(ask(&issuer, text).await, "");
    }
}

#[tokio::test]
async fn keys_that_change_are_fetched_once() {
    let (old, new) = (Keyholder::es256("old"), Keyholder::ed25519("new"));
    let server = Server::start(json!({"keys": [old.jwk()]})).await;
    let issuer = Issuer::new(options(server.source())).await.unwrap();
    let token = old.sign(&claims("ada"));
    assert_eq!(ask(&issuer, &token).await.as_deref(), Ok("ada"));
    assert_eq!(server.asked(), 1);
    server.answer(json!({"keys": [new.jwk()]}));
    // However many ask for unknown keys: not within the time.
    for n in 0..20 {
        let token = Keyholder::es256(&format!("unknown{n}")).sign(&claims("ada"));
        refused(ask(&issuer, &token).await, "no key of the issuer");
    }
    assert_eq!(server.asked(), 1);
    issuer.keys.forget_when().await;
    let fresh = new.sign(&claims("bob"));
    let asking = (0..20).map(|_| ask(&issuer, &fresh));
    for told in futures::future::join_all(asking).await {
        assert_eq!(told.as_deref(), Ok("bob"));
    }
    assert_eq!(server.asked(), 2);
    // What the withdrawn key signed is not remembered as good.
    refused(ask(&issuer, &token).await, "no key of the issuer");
}

#[tokio::test]
async fn a_server_of_keys_that_is_away() {
    let key = Keyholder::es256("a");
    let token = key.sign(&claims("ada"));
    let server = Server::start(json!({"keys": [key.jwk()]})).await;
    // Away from the start: not the caller's fault, and it may be there again.
    server.answer_status(500);
    let issuer = Issuer::new(options(server.source())).await.unwrap();
    let told = ask(&issuer, &token).await.unwrap_err();
    assert_eq!(told.code, ErrorCode::Unavailable);
    server.answer(json!({"keys": [key.jwk()]}));
    issuer.keys.forget_when().await;
    assert_eq!(ask(&issuer, &token).await.as_deref(), Ok("ada"));
    // Away later: what is known goes on.
    server.stop().await;
    assert_eq!(ask(&issuer, &key.sign(&claims("bob"))).await.as_deref(), Ok("bob"));
    issuer.keys.forget_when().await;
    let other = Keyholder::es256("b").sign(&claims("ada"));
    assert_eq!(ask(&issuer, &other).await.unwrap_err().code, ErrorCode::Unavailable);
    assert_eq!(ask(&issuer, &key.sign(&claims("eve"))).await.as_deref(), Ok("eve"));
}

#[tokio::test]
async fn answers_that_are_no_keys() {
    let key = Keyholder::es256("a");
    let token = key.sign(&claims("ada"));
    let large = json!({"keys": [key.jwk()], "more": "x".repeat(2 << 20)});
    for bad in [json!([]), json!({"keys": 7}), json!("text"), large] {
        let server = Server::start(bad).await;
        let issuer = Issuer::new(options(server.source())).await.unwrap();
        assert_eq!(ask(&issuer, &token).await.unwrap_err().code, ErrorCode::Unavailable);
    }
    // It leads elsewhere, or dawdles.
    let server = Server::start(json!({"keys": [key.jwk()]})).await;
    server.answer_status(302);
    let issuer = Issuer::new(options(server.source())).await.unwrap();
    assert_eq!(ask(&issuer, &token).await.unwrap_err().code, ErrorCode::Unavailable);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", silent.local_addr().unwrap());
    let opening = Issuer::new(options(Source::Url(url)));
    let issuer = tokio::time::timeout(Duration::from_secs(60), opening).await.unwrap().unwrap();
    assert_eq!(ask(&issuer, &token).await.unwrap_err().code, ErrorCode::Unavailable);
    for file in ["/nonexistent/keys.json", "/dev/null", "/dev/zero"] {
        assert!(Issuer::new(options(Source::File(file.into()))).await.is_err(), "{file}");
    }
}
