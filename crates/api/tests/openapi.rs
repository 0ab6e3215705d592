//! The checked-in document is the one that the server serves. `UPDATE=1` writes it anew.

use std::path::Path;

#[test]
fn the_document_is_up_to_date() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/v1.json");
    let now = api::document().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == now, "openapi/v1.json is stale: UPDATE=1 cargo test -p api --test openapi");
}
