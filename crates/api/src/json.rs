//! Request bodies in JSON: read strictly, and refused with the name of the field.

use hyper::{HeaderMap, header};
use serde::Deserializer;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use types::{Error, ErrorCode, Patch, Result};

/// Longest message that repeats a part of the request, characters.
const MESSAGE: usize = 300;

/// Checks that the headers say JSON, or nothing. Errors: `UNSUPPORTED_MEDIA_TYPE`.
pub(crate) fn check_type(headers: &HeaderMap) -> Result<()> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|e| e != "identity") {
        return Err(wrong_type("bodies with a content-encoding are not taken"));
    }
    let Some(kind) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let kind = kind.to_str().unwrap_or_default();
    let mut parts = kind.split(';').map(str::trim);
    let json = parts.next().is_some_and(|t| t.eq_ignore_ascii_case("application/json"));
    let utf8 = parts.filter_map(|p| p.split_once('=')).all(|(name, value)| {
        !name.eq_ignore_ascii_case("charset")
            || value.trim_matches('"').eq_ignore_ascii_case("utf-8")
    });
    if json && utf8 {
        return Ok(());
    }
    let shown: String = kind.chars().take(100).collect();
    Err(wrong_type(&format!("the content type {shown:?} is not taken")))
}

/// 415, with what to do.
pub(crate) fn wrong_type(why: &str) -> Error {
    let message = format!("{why}: send JSON in UTF-8 with content-type: application/json");
    Error::new(ErrorCode::UnsupportedMediaType, message).with("expected", "application/json")
}

/// Whether it is well-formed JSON.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Reads an object; an empty body is an empty one. Errors: `VALIDATION_FAILED`.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let bytes = checked(bytes)?;
    let mut json = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut json).map_err(|e| refused(&e))
}

/// Reads a [`Patch`], whose own reading forgets where it was.
pub(crate) fn parse_patch(bytes: &[u8]) -> Result<Patch> {
    let mut fields: Map<String, Value> = parse(bytes)?;
    #[derive(Default, serde::Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Own {
        env_vars: Option<BTreeMap<String, Option<String>>>,
        labels: Option<BTreeMap<String, Option<String>>>,
    }
    let own = ["envVars", "labels"].iter().filter_map(|name| fields.remove_entry(*name));
    let own = Value::Object(own.collect());
    let own: Own = serde_path_to_error::deserialize(own).map_err(|e| refused(&e))?;
    let settings = serde_path_to_error::deserialize(Value::Object(fields));
    let settings = settings.map_err(|e| refused(&e))?;
    Ok(Patch { env_vars: own.env_vars, labels: own.labels, settings })
}

/// Checks that it is one object in which no key stands twice, however deep.
fn checked(bytes: &[u8]) -> Result<&[u8]> {
    let bytes = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}".as_slice() } else { bytes };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize::<_, Once>(&mut json).map_err(|e| unread(&e))?;
    json.end().map_err(|e| Error::invalid("body", format!("the body is not JSON: {e}")))?;
    // Serde reads a struct from an array as well, by position.
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Error::invalid("body", "the body must be a JSON object"));
    }
    Ok(bytes)
}

/// The error of a text that may be no JSON at all.
fn unread(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let inner = error.inner();
    match inner.classify() {
        serde_json::error::Category::Syntax | serde_json::error::Category::Eof => {
            let text: String = inner.to_string().chars().take(MESSAGE).collect();
            Error::invalid("body", format!("the body is not JSON: {text}"))
        }
        _ => refused(error),
    }
}

/// The error of what is JSON, with the field that it is about.
fn refused(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let inner = error.inner();
    let text: String = inner.to_string().chars().take(MESSAGE).collect();
    // A field that is unknown, missing or twice there is named in the text and not in the path.
    let named = ["unknown field `", "missing field `", "duplicate field `"]
        .iter()
        .find_map(|start| text.strip_prefix(start)?.split_once('`'))
        .map(|(name, _)| name.to_owned());
    let path: String = error.path().to_string().chars().take(MESSAGE).collect();
    let field = match (path.as_str(), named) {
        (".", Some(name)) => name,
        (".", None) => "body".to_owned(),
        (path, Some(name)) if path != name && !path.ends_with(&format!(".{name}")) => {
            format!("{path}.{name}")
        }
        _ => path,
    };
    Error::invalid(&field, format!("{field}: {text}"))
}

/// Any JSON in which no object has a key twice.
struct Once;

impl<'de> serde::Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        d.deserialize_any(OnceVisitor)
    }
}

struct OnceVisitor;

macro_rules! scalar {
    ($($visit:ident: $t:ty),*) => {
        $(fn $visit<E>(self, _: $t) -> std::result::Result<Once, E> { Ok(Once) })*
    };
}

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Once;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    scalar!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
    fn visit_unit<E>(self) -> std::result::Result<Once, E> {
        Ok(Once)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> std::result::Result<Once, A::Error> {
        while all.next_element::<Once>()?.is_some() {}
        Ok(Once)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> std::result::Result<Once, A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = all.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            seen.insert(key);
            all.next_value::<Once>()?;
        }
        Ok(Once)
    }
}
