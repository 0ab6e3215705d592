//! Arrows between crates point one way, as ARCHITECTURE.md draws them.

use std::collections::BTreeMap;

/// Each crate and which of ours it may stand on, outside its own tests.
const MAY_USE: &[(&str, &[&str])] = &[
    ("types", &[]),
    ("store", &["types"]),
    ("objects", &["store", "types"]),
    ("spawner", &["types"]),
    ("containers", &["spawner", "types"]),
    ("workspace", &["types"]),
    ("interpreters", &["spawner", "types", "workspace"]),
    ("sandbox", &["containers", "interpreters", "objects", "store", "types", "workspace"]),
    ("auth", &["objects", "store", "types"]),
    ("webhooks", &["store", "types"]),
    ("api", &["auth", "sandbox", "types", "webhooks"]),
    ("client", &["types"]),
    (
        "sandkeep",
        &[
            "api",
            "auth",
            "client",
            "containers",
            "interpreters",
            "objects",
            "sandbox",
            "spawner",
            "store",
            "types",
            "webhooks",
        ],
    ),
    ("e2e", &["client", "store", "types"]),
    ("benches", &["auth", "client", "containers", "spawner", "store", "types"]),
    ("xtask", &[]),
];

/// Programs and tests: the only ones that need not say which error they have.
const MAY_USE_ANYHOW: &[&str] = &["sandkeep", "e2e", "benches", "xtask"];

/// Package → what it depends on, outside its own tests.
fn graph() -> BTreeMap<String, Vec<String>> {
    let metadata = super::metadata(false);
    let packages = metadata["packages"].as_array().unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    packages
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap();
            let real = all.iter().filter(|d| d["kind"] != "dev");
            (text(&package["name"]), real.map(|d| text(&d["name"])).collect())
        })
        .collect()
}

#[test]
fn arrows_point_one_way() {
    let graph = graph();
    let known: BTreeMap<&str, &[&str]> = MAY_USE.iter().copied().collect();
    for (name, uses) in &graph {
        let allowed = known.get(&**name).unwrap_or_else(|| {
            panic!("{name} is new: say here and in ARCHITECTURE.md what it may stand on")
        });
        for used in uses.iter().filter(|used| graph.contains_key(*used)) {
            assert!(allowed.contains(&&**used), "{name} must not stand on {used}");
        }
    }
    for (name, _) in MAY_USE {
        assert!(graph.contains_key(*name), "{name} is gone: take it out of this table");
    }
}

#[test]
fn errors_of_libraries_have_types() {
    for (name, uses) in graph() {
        if uses.iter().any(|used| used == "anyhow") {
            assert!(MAY_USE_ANYHOW.contains(&&*name), "{name} must not use anyhow");
        }
    }
}

#[test]
fn only_the_store_opens_the_database() {
    for (name, uses) in graph() {
        let opens = uses.iter().any(|used| used == "rusqlite");
        assert!(!opens || name == "store", "{name} must not use rusqlite");
    }
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    for (path, text) in super::files(super::RUST, "toml") {
        if path.ends_with("Cargo.toml") {
            assert!(text.contains("[lints]\nworkspace = true"), "{}", path.display());
        }
    }
}
