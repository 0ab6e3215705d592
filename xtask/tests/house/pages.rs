//! Every error code has a page that says what happened and what to do.

use std::collections::BTreeSet;
use types::ErrorCode;

#[test]
fn every_code_has_a_true_page() {
    let dir = super::root().join("docs/errors");
    let index = std::fs::read_to_string(dir.join("README.md")).unwrap();
    for code in ErrorCode::ALL {
        let file = dir.join(format!("{code}.md"));
        let page =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("docs/errors/{code}.md: {e}"));
        let again =
            if code.retryable() { "may be sent again" } else { "not to be sent again as it is" };
        let head = format!("# {code}\n\nHTTP {} · {again}\n", code.http_status());
        assert!(page.starts_with(&head), "docs/errors/{code}.md must begin with\n{head}");
        assert!(page.contains("\n## What happened\n\n"), "{code}");
        assert!(page.contains("\n## What to do\n\n"), "{code}");
        assert!(index.contains(&format!("({code}.md)")), "the index lacks {code}");
    }
}

#[test]
fn no_page_is_of_a_code_that_is_gone() {
    let known: BTreeSet<String> = ErrorCode::ALL.iter().map(|code| format!("{code}.md")).collect();
    for entry in std::fs::read_dir(super::root().join("docs/errors")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || known.contains(&name), "docs/errors/{name} has no code");
    }
}
