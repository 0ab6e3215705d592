//! Labels, orders and times of lists.

use serde_json::json;
use std::collections::BTreeMap;
use types::{
    LABELS_MAX, ListFilter, Patch, SettingsRequest, Sort, changed_labels, iso8601, parse_time,
};

fn field_of(error: &types::Error) -> &str {
    error.context["field"].as_str().expect("a field")
}

#[test]
fn labels_have_a_form() {
    let check = |name: &str, value: &str| {
        let body = json!({"labels": {name: value}});
        let request: SettingsRequest = serde_json::from_value(body).expect("a request");
        request.validate_maps()
    };
    for (name, value) in [
        ("job", "42"),
        ("a", ""),
        ("example.com/team_a-B", "Ünïcode = fine, \"quoted\""),
        (&"n".repeat(63), &"v".repeat(255)),
        ("-", "-"),
    ] {
        assert_eq!(check(name, value), Ok(()), "{name:?}");
    }
    for (name, value) in [
        ("", "x"),
        (&*"n".repeat(64), "x"),
        ("a b", "x"),
        ("é", "x"),
        ("a=b", "x"),
        ("a\0", "x"),
        ("a", &*"v".repeat(256)),
        ("a", &*"é".repeat(128)),
        ("a", "x\n"),
        ("a", "\0"),
        ("a", "\u{7f}"),
        ("a", "\u{85}"),
    ] {
        let error = check(name, value).expect_err(name);
        assert_eq!(field_of(&error), "labels", "{error}");
        assert!(error.message.len() > 20, "{error}");
    }
    let many: BTreeMap<_, _> =
        (0..=LABELS_MAX).map(|n| (format!("l{n}"), "x".to_owned())).collect();
    let request = SettingsRequest { labels: Some(many.clone()), ..SettingsRequest::default() };
    assert_eq!(field_of(&request.validate_maps().expect_err("33")), "labels");
    let filter = ListFilter { labels: many.into_iter().collect(), ..ListFilter::default() };
    assert_eq!(field_of(&filter.validate().expect_err("33")), "label");
}

#[test]
fn a_patch_sets_and_removes_labels() {
    let body = json!({"labels": {"a": "1", "b": null}, "pids": 9});
    let patch: Patch = serde_json::from_value(body.clone()).expect("a patch");
    assert_eq!(serde_json::to_value(&patch).expect("JSON"), body);
    let old = BTreeMap::from([("b".to_owned(), "2".to_owned()), ("c".to_owned(), "3".to_owned())]);
    let changed = changed_labels(&old, patch.labels.as_ref().expect("labels")).expect("few");
    assert_eq!(json!(changed), json!({"a": "1", "c": "3"}));

    // As many as may be, one for another, and one too many.
    let full: BTreeMap<_, _> = (0..LABELS_MAX).map(|n| (format!("l{n}"), "x".to_owned())).collect();
    let swap = BTreeMap::from([("l0".to_owned(), None), ("m".to_owned(), Some("x".to_owned()))]);
    assert_eq!(changed_labels(&full, &swap).expect("as many").len(), LABELS_MAX);
    let more = BTreeMap::from([("m".to_owned(), Some("x".to_owned()))]);
    assert_eq!(field_of(&changed_labels(&full, &more).expect_err("33")), "labels");
}

#[test]
fn orders_are_written_one_way() {
    for sort in Sort::ALL {
        assert_eq!(sort.as_str().parse::<Sort>(), Ok(sort));
        assert_eq!(serde_json::to_value(sort).expect("JSON"), sort.as_str());
        assert_eq!(sort.descends(), sort.as_str().starts_with('-'));
    }
    for bad in ["", "Created", "+created", "created,name", "--name"] {
        assert_eq!(field_of(&bad.parse::<Sort>().expect_err(bad)), "sort");
    }
}

#[test]
fn times_are_read_as_they_are_written() {
    for ms in [0, 1, -1, 1_790_771_696_789, -62_135_596_800_000, 253_402_300_799_999] {
        assert_eq!(parse_time(&iso8601(ms)), Some(ms), "{ms}");
        assert_eq!(parse_time(&ms.to_string()), Some(ms));
    }
    for (text, same) in [
        ("2026-09-30T12:34:56Z", "2026-09-30T12:34:56.000Z"),
        ("2026-09-30t12:34:56.1z", "2026-09-30T12:34:56.100Z"),
        ("2026-09-30 12:34:56.123456789Z", "2026-09-30T12:34:56.123Z"),
        ("2026-09-30T14:34:56+02:00", "2026-09-30T12:34:56.000Z"),
        ("2026-09-30T14:34:56 02:00", "2026-09-30T12:34:56.000Z"),
        ("2026-09-30T23:34:56-00:30", "2026-10-01T00:04:56.000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
        ("2026-06-30T23:59:60Z", "2026-07-01T00:00:00.000Z"),
    ] {
        assert_eq!(parse_time(text).map(iso8601).as_deref(), Some(same), "{text}");
    }
    for bad in [
        "",
        "-",
        "x",
        "1.5",
        "+5",
        "9999999999999999999",
        "2026-09-30",
        "2026-09-30T12:34:56",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-09-31T00:00:00Z",
        "2026-09-30T24:00:00Z",
        "2026-09-30T12:60:00Z",
        "2026-09-30T12:34:56.Z",
        "2026-09-30T12:34:56+2:00",
        "2026-09-30T12:34:56+0200",
        "2026-09-30T12:34:56Zx",
        "２026-09-30T12:34:56Z",
        "2026-9-30T012:34:56Z",
    ] {
        assert_eq!(parse_time(bad), None, "{bad:?}");
    }
}
