use super::*;

fn text(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn later_layers_win_and_null_removes() {
    let sandbox = text(&[("A", "s"), ("B", "s"), ("C", "s")]);
    let context = text(&[("B", "c"), ("C", "c"), ("D", "c")]);
    let call = [("C", Some("x")), ("A", None), ("D", None), ("NEVER", None)];
    let call = call.into_iter().map(|(k, v)| (k.to_owned(), v.map(str::to_owned))).collect();
    assert_eq!(merged(&sandbox, &context, &call), text(&[("B", "c"), ("C", "x")]));
}

#[test]
fn a_working_directory_lies_in_the_workspace() {
    for (given, wanted) in [
        (None, "/workspace"),
        (Some("/workspace"), "/workspace"),
        (Some("/workspace//a/./b/../c/"), "/workspace/a/c"),
        (Some("deep/er"), "/workspace/deep/er"),
        (Some("."), "/workspace"),
        (Some("/workspace/ü \n"), "/workspace/ü \n"),
    ] {
        assert_eq!(directory(given).unwrap(), wanted, "{given:?}");
    }
    let long = format!("/workspace/{}", "x".repeat(4096));
    for bad in [
        "",
        "/",
        "/tmp",
        "/workspacex",
        "..",
        "a/../..",
        "/workspace/..",
        "/etc/../workspace",
        "a\0",
        &long,
    ] {
        let error = directory(Some(bad)).unwrap_err();
        assert_eq!(error.context["field"], "cwd", "{bad:?}");
    }
}
