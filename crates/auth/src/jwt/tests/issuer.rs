//! An issuer: keys, tokens, and a server that tells the keys.

use super::super::Source;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
    RsaKeyPair,
};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub fn now_s() -> i64 {
    objects::Clock::default().now_ms() / 1000
}

/// What a token of `owner` says.
pub fn claims(owner: &str) -> Value {
    let now = now_s();
    json!({
        "iss": "https://issuer.example", "aud": "sandkeep", "sub": owner,
        "iat": now, "nbf": now, "exp": now + 3600,
    })
}

fn part(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.{}.", part(header), part(claims))
}

pub fn hs256(secret: &[u8], header: &Value, claims: &Value) -> String {
    let message = format!("{}.{}", part(header), part(claims));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let signature = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>),
}

/// Who signs.
pub struct Keyholder {
    kid: String,
    pair: Pair,
}

impl Keyholder {
    pub fn es256(kid: &str) -> Self {
        let (rng, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &rng).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &rng).unwrap();
        Self { kid: kid.to_owned(), pair: Pair::Ec(pair) }
    }

    pub fn ed25519(kid: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        Self { kid: kid.to_owned(), pair: Pair::Ed(pair) }
    }

    /// What makes the others makes none of these.
    pub fn rs256(kid: &str) -> Self {
        let words = ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];
        let made = Command::new("openssl").args(words).args(["-outform", "DER"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let pair = RsaKeyPair::from_pkcs8(&made.stdout)
            .or_else(|_| RsaKeyPair::from_der(&made.stdout))
            .unwrap();
        Self { kid: kid.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    pub fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The public key.
    pub fn jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.pair {
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": text(&point[1..33]), "y": text(&point[33..])})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref())})
            }
            Pair::Rsa(pair) => {
                let public = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": text(&public.n), "e": text(&public.e)})
            }
        };
        jwk["kid"] = json!(self.kid);
        jwk["use"] = json!("sig");
        jwk["alg"] = json!(self.algorithm());
        jwk
    }

    pub fn sign(&self, claims: &Value) -> String {
        self.signed(&json!({"alg": self.algorithm(), "kid": self.kid, "typ": "JWT"}), claims)
    }

    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", part(header), part(claims));
        let rng = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Ec(pair) => pair.sign(&rng, message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &rng, message.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// A server of keys.
pub struct Server {
    url: String,
    asked: Arc<AtomicU32>,
    answer: Arc<Mutex<(u16, String)>>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(keys: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicU32::new(0));
        let answer = Arc::new(Mutex::new((200, keys.to_string())));
        let (count, told) = (asked.clone(), answer.clone());
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                count.fetch_add(1, Ordering::Relaxed);
                let (status, body) = told.lock().unwrap().clone();
                let length = body.len();
                let text = format!(
                    "HTTP/1.1 {status} X\r\nLocation: /keys\r\nConnection: close\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                );
                // One that has enough goes away.
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Self { url, asked, answer, task }
    }

    pub fn source(&self) -> Source {
        self.url.parse().unwrap()
    }

    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }

    pub fn answer(&self, keys: Value) {
        *self.answer.lock().unwrap() = (200, keys.to_string());
    }

    pub fn answer_status(&self, status: u16) {
        self.answer.lock().unwrap().0 = status;
    }

    /// From now on nobody listens.
    pub async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}
