//! Rich results as files.

use crate::fail::Failure;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use types::RichResult;

/// Numbers that are tried before the directory counts as full.
const NUMBERS: usize = 100_000;

/// Where files go. Nothing that is there is ever replaced.
pub struct Directory(PathBuf);

impl Directory {
    /// Makes it where it is not there.
    pub fn new(path: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&path)
            .map_err(|e| Failure::new(format!("cannot make {}: {e}", path.display())))?;
        Ok(Self(path))
    }

    /// Writes each form but the text, all under one number; the files' paths.
    pub fn keep(&self, result: &RichResult) -> anyhow::Result<Vec<String>> {
        let mut all: Vec<(String, Vec<u8>)> = Vec::new();
        for (mime, form) in forms(result) {
            let mut extension = extension(mime);
            // Two types may end alike.
            if all.iter().any(|(other, _)| *other == extension) {
                extension = format!("{}.{extension}", all.len() + 1);
            }
            all.push((extension, client::form_bytes(mime, form)));
        }
        let forms = all;
        if forms.is_empty() {
            return Ok(Vec::new());
        }
        let mut files = self.create(&forms)?;
        for ((path, file), (_, bytes)) in files.iter_mut().zip(&forms) {
            file.write_all(bytes)
                .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))?;
        }
        Ok(files.into_iter().map(|(path, _)| path.display().to_string()).collect())
    }

    fn create(&self, forms: &[(String, Vec<u8>)]) -> anyhow::Result<Vec<(PathBuf, File)>> {
        'numbers: for number in 1..=NUMBERS {
            let mut files: Vec<(PathBuf, File)> = Vec::new();
            for (extension, _) in forms {
                let path = self.0.join(format!("result-{number}.{extension}"));
                match File::create_new(&path) {
                    Ok(file) => files.push((path, file)),
                    Err(e) => {
                        for (path, _) in files {
                            let _ = std::fs::remove_file(path);
                        }
                        if e.kind() == ErrorKind::AlreadyExists {
                            continue 'numbers;
                        }
                        let text = format!("cannot make {}: {e}", path.display());
                        return Err(Failure::new(text).into());
                    }
                }
            }
            return Ok(files);
        }
        Err(Failure::new(format!("{} is full of results", self.0.display())).into())
    }
}

/// The forms of a result besides its text.
pub fn forms(result: &RichResult) -> impl Iterator<Item = (&str, &str)> {
    let forms = result.mime.iter().map(|(mime, form)| (mime.as_str(), form.as_str()));
    forms.filter(|(mime, _)| *mime != "text/plain")
}

/// What files of a MIME type are called. The type is the code's own word: only what can stand in
/// any name is taken from it.
fn extension(mime: &str) -> String {
    let kind = mime.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = match kind.as_str() {
        "image/svg+xml" => "svg",
        "image/jpeg" => "jpg",
        "text/markdown" => "md",
        "text/latex" => "tex",
        "text/javascript" | "application/javascript" => "js",
        _ => "",
    };
    if !known.is_empty() {
        return known.to_owned();
    }
    let last = kind.rsplit(['/', '+']).next().unwrap_or_default();
    let fine = (1..=16).contains(&last.len()) && last.bytes().all(|b| b.is_ascii_alphanumeric());
    if fine { last.to_owned() } else { "bin".to_owned() }
}

#[cfg(test)]
mod tests;
