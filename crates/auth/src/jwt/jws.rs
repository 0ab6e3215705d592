//! A signed token, taken apart and checked. What signs is ring, as in TLS.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// What may sign: signatures with a key pair, never a shared secret, never nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// A public key. Which algorithm it is for is a part of it.
pub(super) enum PublicKey {
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// A point of P-256, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublicKey {
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Rsa(..) => Algorithm::Rs256,
            Self::P256(_) => Algorithm::Es256,
            Self::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let plain = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(message, signature)
        };
        let verdict = match self {
            Self::Rsa(n, e) => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
            Self::P256(point) => plain(&ECDSA_P256_SHA256_FIXED, point),
            Self::Ed25519(key) => plain(&ED25519, key),
        };
        verdict.is_ok()
    }
}

/// Why a token is not good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Bad {
    #[error("it is no JSON web token")]
    Form,
    #[error("its header asks for what is not understood here")]
    Critical,
    #[error("its algorithm is none of RS256, ES256 and EdDSA")]
    Algorithm,
    #[error("its signature is wrong")]
    Signature,
    #[error("it has no claim {0}, or one of the wrong form")]
    Claim(&'static str),
    #[error("it is expired")]
    Expired,
    #[error("it is not valid yet")]
    Early,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is for another audience")]
    Audience,
}

/// What the header says. That it names or brings along a key of its own counts for nothing.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
    b64: Option<Value>,
}

/// A token before it is believed.
pub(super) struct Token<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<String>,
    /// What is signed.
    message: &'a str,
    claims: &'a str,
    signature: Vec<u8>,
}

/// What the claims must say.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) issuer: String,
    pub(super) audience: Vec<String>,
    /// How far the issuer's clock may be from ours, s.
    pub(super) leeway_s: u32,
}

impl<'a> Token<'a> {
    /// Takes a token apart.
    pub(super) fn parse(text: &'a str) -> Result<Self, Bad> {
        let (message, signature) = text.rsplit_once('.').ok_or(Bad::Form)?;
        let (header, claims) = message.split_once('.').ok_or(Bad::Form)?;
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| Bad::Form)?;
        if header.crit.is_some() || header.b64.is_some() {
            return Err(Bad::Critical);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(Bad::Algorithm)?;
        let signature = decode(signature)?;
        Ok(Self { algorithm, kid: header.kid, message, claims, signature })
    }

    /// Whether the key signed it; the key must be of the kind that the header names.
    pub(super) fn signed_by(&self, key: &PublicKey) -> bool {
        key.algorithm() == self.algorithm && key.verifies(self.message.as_bytes(), &self.signature)
    }

    /// Its claims, held against the rules at `now_s`, s since the epoch. To be asked once a key
    /// signed it.
    pub(super) fn claims(&self, rules: &Rules, now_s: f64) -> Result<Map<String, Value>, Bad> {
        let claims = decode(self.claims)?;
        let claims: Map<String, Value> = serde_json::from_slice(&claims).map_err(|_| Bad::Form)?;
        let time = |name: &'static str| match claims.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().map(Some).ok_or(Bad::Claim(name)),
        };
        let leeway = f64::from(rules.leeway_s);
        if now_s >= time("exp")?.ok_or(Bad::Claim("exp"))? + leeway {
            return Err(Bad::Expired);
        }
        if time("nbf")?.is_some_and(|begin| now_s < begin - leeway) {
            return Err(Bad::Early);
        }
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(Bad::Claim("iss"))?;
        if issuer != rules.issuer {
            return Err(Bad::Issuer);
        }
        let ours = |value: &Value| {
            value.as_str().is_some_and(|name| rules.audience.iter().any(|ours| ours == name))
        };
        let named = match claims.get("aud").ok_or(Bad::Claim("aud"))? {
            Value::Array(all) => all.iter().any(ours),
            one => ours(one),
        };
        if named { Ok(claims) } else { Err(Bad::Audience) }
    }
}

/// Base64 for URLs, without padding, in its one form.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, Bad> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| Bad::Form)
}
