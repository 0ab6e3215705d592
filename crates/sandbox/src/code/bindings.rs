//! Bindings: names under which callers ask for an engine.

use interpreters::engines::EngineBuild;
use types::{BindingInfo, Error, Language, Result};

/// A name for an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The name, as `PYTHON`.
    pub name: String,
    /// The engine, as `python`.
    pub engine: String,
}

/// The engines that there are, and what they speak.
const ENGINES: [(&str, Language); 5] = [
    ("python", Language::Python),
    ("python-data", Language::Python),
    ("javascript", Language::Javascript),
    ("ruby", Language::Ruby),
    ("perl", Language::Perl),
];

impl Binding {
    /// One for each engine, named after it.
    pub fn usual() -> Vec<Self> {
        let of = |(engine, _): (&str, Language)| Self {
            name: engine.replace('-', "_").to_ascii_uppercase(),
            engine: engine.to_owned(),
        };
        ENGINES.map(of).to_vec()
    }

    /// A binding of an operator's choice. The text says what is wrong with it.
    pub fn new(name: &str, engine: &str) -> Result<Self, String> {
        let mut bytes = name.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        if !first || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') || name.len() > 63 {
            return Err(format!(
                "the binding {name:?} must match ^[A-Za-z_][A-Za-z0-9_]*$ and have at most 63 characters"
            ));
        }
        if !ENGINES.iter().any(|(known, _)| *known == engine) {
            let known: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).collect();
            let known = known.join(", ");
            return Err(format!("the engine {engine:?} is none of {known}"));
        }
        Ok(Self { name: name.to_owned(), engine: engine.to_owned() })
    }

    pub(super) fn language(&self) -> Option<Language> {
        ENGINES.iter().find(|(name, _)| *name == self.engine).map(|(_, language)| *language)
    }
}

/// All bindings of a server.
pub(super) struct Bindings(Vec<Binding>);

impl Bindings {
    pub fn new(all: Vec<Binding>) -> Self {
        Self(all)
    }

    /// The one that is asked for; the name counts more than the language.
    pub fn choose(&self, name: Option<&str>, language: Option<Language>) -> Result<&Binding> {
        match (name, language) {
            (Some(name), language) => {
                let found = self.0.iter().find(|b| b.name == name).ok_or_else(|| {
                    let shown: String = name.chars().take(128).collect();
                    Error::invalid("binding", format!("unknown binding {shown:?}"))
                })?;
                match language {
                    Some(other) if found.language() != Some(other) => {
                        let other = other.as_str();
                        let message = format!("the binding {name} does not speak {other}");
                        Err(Error::invalid("language", message))
                    }
                    _ => Ok(found),
                }
            }
            (None, Some(language)) => {
                let found = self.0.iter().find(|b| b.language() == Some(language));
                found.ok_or_else(|| {
                    let language = language.as_str();
                    Error::invalid("language", format!("no binding speaks {language}"))
                })
            }
            (None, None) => {
                Err(Error::invalid("binding", "give a context, a binding or a language"))
            }
        }
    }
}

impl super::Code {
    /// The bindings, in order, with what is installed of them.
    pub fn bindings(&self) -> Vec<BindingInfo> {
        let installed = self.interpreters.as_ref().map(|i| i.engines()).unwrap_or_default();
        let info = |binding: &Binding| {
            let build = installed.iter().find(|build| build.name == binding.engine);
            Some(BindingInfo {
                binding: binding.name.clone(),
                language: binding.language()?,
                name: binding.engine.clone(),
                engine: build.map(|b| b.engine.clone()),
                build: build.map(EngineBuild::build),
                installed: build.is_some(),
            })
        };
        self.bindings.0.iter().filter_map(info).collect()
    }
}
