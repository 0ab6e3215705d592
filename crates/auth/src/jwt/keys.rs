//! An issuer's keys, and when they are fetched anew.

use super::jws::{Algorithm, PublicKey, decode};
use super::source::{Source, SourceError};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use types::{Error, ErrorCode, Result};

/// Most keys of a set; the rest is left out.
const KEYS: usize = 64;
/// Most keys that are tried for a token which names none.
const TRIED: usize = 8;
/// However many tokens name unknown keys, they are fetched at most once in this time.
const AT_MOST: Duration = Duration::from_secs(30);
/// Keys that are in use are fetched anew after this long, so that a withdrawn one goes.
const FRESH: Duration = Duration::from_secs(300);

struct Key {
    kid: Option<String>,
    key: PublicKey,
}

/// Keys as they were at one time.
pub(super) struct KeySet {
    version: u64,
    text: String,
    keys: Vec<Key>,
}

impl KeySet {
    /// Which keys: another number, other keys.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn has(&self, kid: Option<&str>, algorithm: Algorithm) -> bool {
        self.find(kid, algorithm).next().is_some()
    }

    /// The key of this id, or where a token names none all that may have signed it.
    pub(super) fn find(
        &self,
        kid: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &PublicKey> {
        let fits = move |key: &&Key| {
            key.key.algorithm() == algorithm && (kid.is_none() || key.kid.as_deref() == kid)
        };
        self.keys.iter().filter(fits).map(|key| &key.key).take(TRIED)
    }
}

/// The keys of an issuer. One fetches at a time.
pub(super) struct Keys {
    inner: Arc<Inner>,
}

struct Inner {
    source: Source,
    set: RwLock<Arc<KeySet>>,
    /// When they were last asked for.
    asked: Mutex<Option<Instant>>,
    /// The last time they did not come.
    failed: AtomicBool,
    /// When they came, or were last asked for in passing.
    fresh: RwLock<Instant>,
}

impl Keys {
    pub(super) async fn open(source: Source) -> std::result::Result<Self, SourceError> {
        let empty = KeySet { version: 0, text: String::new(), keys: Vec::new() };
        let inner = Arc::new(Inner {
            source,
            set: RwLock::new(Arc::new(empty)),
            asked: Mutex::new(None),
            failed: AtomicBool::new(false),
            fresh: RwLock::new(Instant::now()),
        });
        let first = inner.fetch(&mut *inner.asked.lock().await).await;
        match first {
            // An issuer that is away for a while must not keep the server from starting.
            Err(error) if matches!(inner.source, Source::Url(_)) => inner.tell(&error),
            other => other?,
        }
        Ok(Self { inner })
    }

    /// The keys at hand. Where they are old, new ones are asked for in passing.
    pub(super) fn now(&self) -> Arc<KeySet> {
        let fresh = *self.inner.fresh.read().unwrap_or_else(PoisonError::into_inner);
        if fresh.elapsed() > FRESH {
            *self.inner.fresh.write().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            let inner = self.inner.clone();
            tokio::spawn(async move {
                let mut asked = inner.asked.lock().await;
                if let Err(error) = inner.fetch(&mut asked).await {
                    inner.tell(&error);
                }
            });
        }
        self.inner.set()
    }

    /// As if they had not been asked for yet.
    #[cfg(test)]
    pub(super) async fn forget_when(&self) {
        *self.inner.asked.lock().await = None;
    }

    /// The keys, where `old` lacked one. Errors: `UNAVAILABLE` where they cannot be had.
    pub(super) async fn renewed(&self, old: Arc<KeySet>) -> Result<Arc<KeySet>> {
        let inner = self.inner.clone();
        // By itself: a caller that goes away must not end a fetch for which others wait.
        let fetching = tokio::spawn(async move {
            let mut asked = inner.asked.lock().await;
            let due = asked.is_none_or(|at| at.elapsed() >= AT_MOST);
            if inner.set().version == old.version
                && due
                && let Err(error) = inner.fetch(&mut asked).await
            {
                inner.tell(&error);
            }
        });
        // A panic in there leaves the keys as they are.
        let _ = fetching.await;
        if self.inner.failed.load(Ordering::Relaxed) {
            let message = "the keys of the issuer cannot be had now";
            return Err(Error::new(ErrorCode::Unavailable, message));
        }
        Ok(self.inner.set())
    }
}

impl Inner {
    fn set(&self) -> Arc<KeySet> {
        self.set.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, error: &SourceError) {
        tracing::warn!(error = error as &dyn std::error::Error, "the issuer's keys did not come");
    }

    async fn fetch(&self, asked: &mut Option<Instant>) -> std::result::Result<(), SourceError> {
        *asked = Some(Instant::now());
        let fetched = async {
            let text = self.source.read().await?;
            let keys = parse(&text).ok_or(SourceError::NoKeys)?;
            Ok((text, keys))
        };
        let fetched: std::result::Result<_, SourceError> = fetched.await;
        self.failed.store(fetched.is_err(), Ordering::Relaxed);
        let (text, keys) = fetched?;
        *self.fresh.write().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let mut set = self.set.write().unwrap_or_else(PoisonError::into_inner);
        if set.text != text {
            tracing::info!(keys = keys.len(), "the issuer's keys are new");
            *set = Arc::new(KeySet { version: set.version + 1, text, keys });
        }
        Ok(())
    }
}

/// The usable keys of a JWKS; `None`: it is none. Keys of other kinds are passed over.
fn parse(text: &str) -> Option<Vec<Key>> {
    let set: Value = serde_json::from_str(text).ok()?;
    let all = set.get("keys")?.as_array()?.iter();
    Some(all.filter_map(key).take(KEYS).collect())
}

fn key(value: &Value) -> Option<Key> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let bytes = |name: &str| decode(text(name)?).ok();
    let key = match (text("kty")?, text("crv")) {
        ("RSA", _) => PublicKey::Rsa(bytes("n")?, bytes("e")?),
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            PublicKey::P256([&[4], x.as_slice(), y.as_slice()].concat())
        }
        ("OKP", Some("Ed25519")) => PublicKey::Ed25519(bytes("x")?),
        _ => return None,
    };
    let signs = value.get("use").is_none_or(|u| u == "sig");
    let fits = text("alg").is_none_or(|name| Algorithm::named(name) == Some(key.algorithm()));
    (signs && fits).then(|| Key { kid: text("kid").map(str::to_owned), key })
}
