//! A value is valid or was never made, and is written as the contract writes it.

use proptest::prelude::*;
use serde_json::{Value, json};
use types::{
    Cause, Error, ErrorCode, ExecRequest, ObjectId, Owner, Patch, Record, SandboxId, SandboxName,
    Settings, SettingsRequest, State, TimeDefaults, format_ms, iso8601, parse_ms,
};

fn refused(name: &str) -> String {
    name.parse::<SandboxId>().expect_err(name).to_string()
}

#[test]
fn names_follow_the_rule_and_the_message_names_it() {
    for good in ["a", "A", "a.b", "a..b", "_", ".a", "a.", "0", "x-y", &"n".repeat(63)] {
        assert_eq!(good.parse::<SandboxId>().expect(good).as_str(), good);
    }
    assert!(refused("").contains("1 to 63"));
    assert!(refused(&"n".repeat(64)).contains("64 characters: at most 63"));
    assert!(refused("a/b").contains("'/' at position 2"));
    assert!(refused("é").contains("'é' at position 1"));
    assert!(refused("a\nb").contains(r"'\n'"));
    assert!(refused("-a").contains("starts with the character '-'"));
    assert!(refused("a-").contains("ends with the character '-'"));
    assert!(refused(".").contains("are not names") && refused("..").contains("are not names"));
    for reserved in types::RESERVED_NAMES {
        assert!(refused(&reserved.to_uppercase()).contains("reserved"));
        // Reserved for sandboxes alone.
        assert!(reserved.parse::<Owner>().is_ok());
    }
}

#[test]
fn an_object_is_the_digest_of_the_whole_name() {
    let object = |owner: &str, id: &str| {
        SandboxName::new(owner.parse().expect("a name"), id.parse().expect("a name")).object_id()
    };
    let ada = object("ada", "notes");
    // As `printf ada/notes | sha256sum` says.
    let digest = "68bbd0dd2e955546b0d323a47360800e2adeb6d75013ce53d6cfaafb79c3cf46";
    assert_eq!(ada.to_string(), digest);
    assert_eq!(ada.to_string().parse::<ObjectId>(), Ok(ada));
    assert_ne!(ada, object("ada", "Notes"), "case twins are two");
    assert_ne!(object("a", "b.c"), object("a.b", "c"), "the slash parts them");
    assert!(ada.to_string().to_uppercase().parse::<ObjectId>().is_err());
    assert!("é".repeat(32).parse::<ObjectId>().is_err());
}

#[test]
fn durations_are_what_people_write() {
    let cases = [("1500ms", 1500), ("10s", 10_000), ("10m", 600_000), ("24h", 86_400_000)];
    for (text, ms) in cases.into_iter().chain([("30d", 2_592_000_000), ("7", 7), ("0", 0)]) {
        assert_eq!(parse_ms(text), Ok(ms), "{text}");
    }
    for bad in ["", "s", "1.5s", "-1s", "1 s", "1S", "10 min", "99999999999999999999", "40000d"] {
        assert!(parse_ms(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn a_duration_is_read_as_it_is_written(ms in 0u64..3_153_600_000_000) {
        prop_assert_eq!(parse_ms(&format_ms(ms)), Ok(ms));
    }

    #[test]
    fn times_sort_as_their_texts(a in 0i64..4_102_444_800_000, b in 0i64..4_102_444_800_000) {
        prop_assert_eq!(a.cmp(&b), iso8601(a).cmp(&iso8601(b)));
    }
}

#[test]
fn times_are_iso_8601() {
    assert_eq!(iso8601(0), "1970-01-01T00:00:00.000Z");
    assert_eq!(iso8601(951_782_399_999), "2000-02-28T23:59:59.999Z");
    assert_eq!(iso8601(951_782_400_000), "2000-02-29T00:00:00.000Z");
    assert_eq!(iso8601(1_790_270_030_663), "2026-09-24T17:13:50.663Z");
    assert_eq!(iso8601(-1), "1969-12-31T23:59:59.999Z");
}

fn field_of(error: &Error) -> &Value {
    assert_eq!(error.code, ErrorCode::ValidationFailed, "{error}");
    &error.context["field"]
}

#[test]
fn settings_keep_their_limits() {
    let base = Settings::defaults(TimeDefaults::default());
    let with = |body: Value| {
        let request: SettingsRequest = serde_json::from_value(body).expect("a request");
        base.with(&request)
    };
    assert_eq!(with(json!({})), Ok(base.clone()), "nothing asked, nothing changed");
    for (field, body) in [
        ("memoryMib", json!({"memoryMib": 1})),
        ("pids", json!({"pids": 0})),
        ("vcpu", json!({"vcpu": 0.0})),
        ("diskMb", json!({"diskMb": 0})),
        ("image", json!({"image": ""})),
        ("entrypoint", json!({"entrypoint": []})),
        ("env", json!({"env": {"A=B": "x"}})),
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 60_000})),
        ("inactivityTimeoutMs", json!({"inactivityTimeoutMs": 21_600_001})),
        ("checkIntervalMs", json!({"checkIntervalMs": 0})),
    ] {
        let error = with(body.clone()).expect_err(&body.to_string());
        assert_eq!(field_of(&error), field, "{body}");
    }
    // 0 is never, for these two alone.
    assert!(with(json!({"idleLimitMs": 0, "idleTtlMs": 0})).is_ok());
}

#[test]
fn unknown_fields_are_refused_and_variables_may_be_removed() {
    assert!(serde_json::from_value::<SettingsRequest>(json!({"nope": 1})).is_err());
    assert!(serde_json::from_value::<Patch>(json!({"nope": 1})).is_err());
    assert!(serde_json::from_value::<ExecRequest>(json!({"argv": ["a"], "nope": 1})).is_err());
    let body = json!({"envVars": {"A": "1", "B": null}, "pids": 9});
    let patch: Patch = serde_json::from_value(body).expect("a patch");
    let vars = patch.env_vars.as_ref().expect("variables");
    assert_eq!((&vars["A"], &vars["B"]), (&Some("1".to_owned()), &None));
    assert_eq!(patch.settings.pids, Some(9));
    let bad: Patch = serde_json::from_value(json!({"envVars": {"1A": "x"}})).expect("a patch");
    assert_eq!(field_of(&bad.validate_maps().expect_err("1A")), "envVars");
}

#[test]
fn commands_are_checked_before_anything_starts() {
    let check = |body: Value| {
        let request: ExecRequest = serde_json::from_value(body).expect("a request");
        request.validate()
    };
    assert_eq!(check(json!({"argv": ["a", ""], "env": {"A;touch /x;B": "\n"}})), Ok(()));
    for (field, body) in [
        ("argv", json!({"argv": []})),
        ("argv", json!({"argv": [""]})),
        ("argv", json!({"argv": ["a", "b\u{0}c"]})),
        ("env", json!({"argv": ["a"], "env": {"": "x"}})),
        ("env", json!({"argv": ["a"], "env": {"A=": "x"}})),
        ("env", json!({"argv": ["a"], "env": {"A": "\u{0}"}})),
        ("cwd", json!({"argv": ["a"], "cwd": "x"})),
        ("user", json!({"argv": ["a"], "user": ""})),
        ("timeoutMs", json!({"argv": ["a"], "timeoutMs": 0})),
    ] {
        let error = check(body.clone()).expect_err(&body.to_string());
        assert_eq!(field_of(&error), field, "{body}");
    }
}

#[test]
fn a_record_has_its_end_or_none_of_it() {
    let mut record = Record {
        state: State::Running,
        last_activity: 5,
        reason: None,
        exit_code: None,
        stopped_at: None,
        started_at: 1,
        starts: 1,
        cause: None,
    };
    let running = json!({"state": "running", "lastActivity": 5, "startedAt": 1, "starts": 1});
    assert_eq!(serde_json::to_value(&record).expect("JSON"), running);
    record.state = State::Stopped;
    record.reason = Some("idle".into());
    record.exit_code = Some(None);
    record.stopped_at = Some(9);
    record.cause = Some(Cause::Idle);
    let stopped = serde_json::to_value(&record).expect("JSON");
    assert_eq!(stopped["exitCode"], Value::Null);
    assert!(stopped.as_object().expect("an object").contains_key("exitCode"), "null, not absent");
    assert_eq!(serde_json::from_value::<Record>(stopped).expect("a record"), record);
}

#[test]
fn causes_and_codes_are_written_one_way() {
    for cause in [Cause::DiskFull, Cause::NodeLost, Cause::Oom, Cause::Unknown] {
        assert_eq!(cause.as_str().parse::<Cause>(), Ok(cause));
        assert_eq!(serde_json::to_value(cause).expect("JSON"), cause.as_str());
    }
    for code in ErrorCode::ALL {
        assert_eq!(serde_json::to_value(code).expect("JSON"), code.as_str());
        assert!((400..600).contains(&code.http_status()), "{code}");
        let body = Error::new(*code, "x").body(0);
        assert_eq!((body.http_status, body.retryable), (code.http_status(), code.retryable()));
    }
}
