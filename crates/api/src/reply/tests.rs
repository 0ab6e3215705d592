use super::*;

fn private() -> Vec<PathBuf> {
    vec!["/var/lib/sandkeep".into(), "/".into()]
}

#[test]
fn a_fault_of_ours_tells_only_where_to_look() {
    let id = RequestId::new();
    let error = Error::new(ErrorCode::Internal, "open /etc/x: denied").with("path", "/etc/x");
    let shown = shown(&private(), &id, error);
    assert!(shown.message.contains(&id.to_string()));
    assert!(!serde_json::to_string(&shown.body(0)).unwrap().contains("/etc"));
}

#[test]
fn no_5xx_tells_a_path_of_the_host() {
    let error = Error::new(
        ErrorCode::InstanceStartFailed,
        "mount \"/var/lib/sandkeep/a b\" on /bin/sh: /var/lib/sandkeep/run/x: no",
    )
    .with("at", serde_json::json!({"in": ["/var/lib/sandkeep/run, later"]}));
    let text = serde_json::to_string(&shown(&private(), &RequestId::new(), error).body(0)).unwrap();
    assert!(!text.contains("sandkeep"), "{text}");
    assert!(text.contains("/bin/sh: (a path of the server): no"), "{text}");
    assert!(text.contains("(a path of the server), later"), "{text}");
}

#[test]
fn errors_of_the_caller_stay_as_they_are() {
    let error = Error::invalid("cwd", "no /var/lib/sandkeep here");
    assert_eq!(shown(&private(), &RequestId::new(), error.clone()), error);
}

#[test]
fn no_answer_has_a_token() {
    let token = format!("sandkeep_{}", "aB3-_".repeat(8) + "xyz");
    let error = Error::invalid(&token, format!("no {token:?} here, nor sandkeep_short_name"))
        .with("all", serde_json::json!([[&token], {"in": &token}]));
    let text = serde_json::to_string(&shown(&[], &RequestId::new(), error).body(0)).unwrap();
    assert!(!text.contains("aB3-_"), "{text}");
    assert!(
        text.contains("no \\\"sandkeep_(a secret)\\\" here, nor sandkeep_short_name"),
        "{text}"
    );
}

#[test]
fn request_ids_differ() {
    assert_ne!(RequestId::new(), RequestId::new());
    assert_eq!(RequestId::new().to_string().len(), 16);
}
