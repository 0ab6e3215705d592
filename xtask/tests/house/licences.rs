//! Every dependency comes under a licence of deny.toml's list.

use std::collections::BTreeSet;

#[test]
fn every_licence_is_allowed() {
    let allowed = allowed();
    for package in super::metadata(true)["packages"].as_array().unwrap() {
        if package["source"].is_null() {
            continue;
        }
        let licence = package["license"].as_str().unwrap_or("none");
        let fine = holds(&licence.replace('/', " OR "), &allowed);
        assert!(fine, "{} comes under {licence}", package["name"]);
    }
}

fn allowed() -> BTreeSet<String> {
    let text = std::fs::read_to_string(super::root().join("deny.toml")).unwrap();
    let list = text.split("allow = [").nth(1).unwrap().split(']').next().unwrap();
    let names = list.split(',').map(|name| name.trim().trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Whether an SPDX expression can be met: OR binds less than AND, brackets most.
fn holds(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let alternatives = split(expression, " OR ");
    if alternatives.len() > 1 {
        return alternatives.iter().any(|part| holds(part, allowed));
    }
    let parts = split(expression, " AND ");
    if parts.len() > 1 {
        return parts.iter().all(|part| holds(part, allowed));
    }
    let bare = expression.trim();
    match bare.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => holds(inner, allowed),
        None => allowed.contains(bare),
    }
}

/// Splits where no bracket is open.
fn split(text: &str, at: &str) -> Vec<String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && text[i..].starts_with(at) && i >= start => {
                parts.push(text[start..i].to_owned());
                start = i + at.len();
            }
            _ => {}
        }
    }
    parts.push(text[start..].to_owned());
    parts
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let allowed = BTreeSet::from(["MIT", "Zlib"].map(str::to_owned));
    for (expression, fine) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("(GPL-3.0 OR MIT) AND BSL-1.0", false),
    ] {
        assert_eq!(holds(expression, &allowed), fine, "{expression}");
    }
}
