//! The order of the layers, and what each refuses.

use super::*;
use serde_json::json;
use std::io::Write as _;

fn load(
    flags: serde_json::Value,
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Config, String> {
    let mut toml = tempfile::NamedTempFile::new().unwrap();
    toml.write_all(file.unwrap_or_default().as_bytes()).unwrap();
    let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Config::load(&flags, &environment, file.map(|_| toml.path())).map_err(|e| format!("{e:#}"))
}

#[test]
fn each_layer_is_over_the_next() {
    let file =
        Some("idle-limit = \"3m\"\nidle-ttl = \"3d\"\ncheck-interval = 3000\non-stop = \"f\"");
    let environment = [("SANDKEEP_IDLE_LIMIT", "2m"), ("SANDKEEP_CHECK_INTERVAL", "2s")];
    let config = load(json!({ "idle-limit": 1 }), &environment, file).unwrap();
    assert_eq!(config.idle_limit, 1, "the flag");
    assert_eq!(config.check_interval, 2000, "the environment");
    assert_eq!(config.idle_ttl, 3 * 86_400_000, "the file");
    assert_eq!(config.inactivity_timeout, 300_000, "the default");
    assert_eq!(config.on_stop.as_deref(), Some("f"));
}

#[test]
fn nothing_at_all_is_the_defaults() {
    let config = load(json!({}), &[], None).unwrap();
    assert_eq!(config.time(), TimeDefaults::default());
    assert_eq!(config.listen.to_string(), "127.0.0.1:7700");
    assert_eq!((config.engine, config.runtime.as_str()), (EngineKind::Native, "runc"));
    assert_eq!((config.id_base, config.disk_floor, config.data), (None, None, None));
}

#[test]
fn the_documented_variable_is_below_our_own() {
    let documented = ("SANDBOX_IDLE_TTL_MS", "1234");
    assert_eq!(load(json!({}), &[documented], None).unwrap().idle_ttl, 1234);
    let both = [documented, ("SANDKEEP_IDLE_TTL", "5s")];
    assert_eq!(load(json!({}), &both, None).unwrap().idle_ttl, 5000);
    let over_file = load(json!({}), &[documented], Some("idle-ttl = 1")).unwrap();
    assert_eq!(over_file.idle_ttl, 1234);
    let error = load(json!({}), &[("SANDBOX_IDLE_TTL_MS", "1h")], None).unwrap_err();
    assert!(error.contains("SANDBOX_IDLE_TTL_MS"), "{error}");
}

#[test]
fn text_of_the_environment_is_taken_as_it_is() {
    let environment = [
        ("SANDKEEP_ON_STOP", "true"),
        ("SANDKEEP_STOP_ON_EXIT", "1"),
        ("SANDKEEP_ID_BASE", "600000"),
        ("SANDKEEP_DATA", "[a]"),
        ("SANDKEEP_ENGINE", "oci"),
        ("SANDKEEP_IDLE_LIMIT", ""),
        ("SANDKEEP_URL", "http://elsewhere"),
    ];
    let config = load(json!({}), &environment, None).unwrap();
    assert_eq!(config.on_stop.as_deref(), Some("true"));
    assert!(config.stop_on_exit);
    assert_eq!(config.id_base, Some(600_000));
    assert_eq!(config.data.as_deref(), Some(Path::new("[a]")));
    assert_eq!(config.engine, EngineKind::Oci);
    assert_eq!(config.idle_limit, 600_000, "an empty variable sets nothing");
}

#[test]
fn unknown_keys_are_named() {
    let error = load(json!({}), &[], Some("idel-limit = 1")).unwrap_err();
    assert!(error.starts_with("unknown key \"idel-limit\" in "), "{error}");
}

#[test]
fn unknown_keys_of_a_table_are_named_with_it() {
    for (toml, key, table) in [
        ("[quotas]\nruning = 3", "runing", "quotas"),
        ("[quotas.machine]\nruning = 3", "runing", "quotas.machine"),
        ("[quotas.owners.ada]\nruning = 3", "runing", "quotas.owners.ada"),
        ("[account]\naplication = \"x\"", "aplication", "account"),
        ("[otel]\nendpiont = \"x\"", "endpiont", "otel"),
    ] {
        let error = load(json!({}), &[], Some(toml)).unwrap_err();
        let begin = format!("unknown key {key:?} in [{table}] in ");
        assert!(error.starts_with(&begin), "{toml}: {error}");
    }
}

#[test]
fn bad_values_name_their_key_and_place() {
    for (value, key) in [
        ("idle-limit = \"soon\"", "idle-limit"),
        ("idle-limit = -1", "idle-limit"),
        ("idle-limit = true", "idle-limit"),
        ("open = \"maybe\"", "open"),
        ("id-base = 4294967296", "id-base"),
        ("listen = \"nowhere\"", "listen"),
        ("engine = \"docker\"", "engine"),
        ("on-stop = 7", "on-stop"),
    ] {
        let error = load(json!({}), &[], Some(value)).unwrap_err();
        assert!(error.starts_with(&format!("{key:?} in ")), "{value}: {error}");
    }
    let error = load(json!({}), &[("SANDKEEP_IDLE_LIMIT", "soon")], None).unwrap_err();
    assert!(error.contains("SANDKEEP_IDLE_LIMIT") && error.contains("soon"), "{error}");
    let error = load(json!({}), &[], Some("idle-limit = ")).unwrap_err();
    assert!(error.contains("configuration"), "{error}");
}

#[test]
fn time_settings_must_agree() {
    let error = load(json!({ "check-interval": 300_000 }), &[], None).unwrap_err();
    assert!(error.contains("inactivityTimeoutMs"), "{error}");
}

#[test]
fn what_would_keep_nothing_is_refused() {
    for key in ["events", "executions"] {
        let error =
            load(json!({}), &[], Some(&format!("[retention]\n{key} = \"0\"\n"))).unwrap_err();
        assert!(error.contains(key) && error.contains("longer than 0"), "{error}");
    }
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let none = Some(Path::new("/nonexistent/sandkeep.toml"));
    let error = Config::load(&json!({}), &BTreeMap::new(), none).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/sandkeep.toml"), "{error}");
}

#[test]
fn instances_never_get_the_ids_of_the_machine() {
    for base in [0, 1000, 65_535, u32::MAX] {
        let error = load(json!({ "id-base": base }), &[], None).unwrap_err();
        assert!(error.contains(&base.to_string()), "{error}");
    }
}

#[test]
fn bindings_stand_in_the_file() {
    let file = "engine-cache = \"/e\"\n[bindings]\nPY = \"python-data\"\nJAVASCRIPT = \"ruby\"\n";
    let config = load(json!({}), &[], Some(file)).unwrap();
    assert_eq!(config.bindings["PY"], "python-data");
    assert_eq!(config.bindings.len(), 2);
    assert_eq!(config.engine_cache, Some("/e".into()));
    let over = load(json!({}), &[("SANDKEEP_ENGINE_CACHE", "/f")], Some(file)).unwrap();
    assert_eq!(over.engine_cache, Some("/f".into()));
    let error = load(json!({}), &[], Some("[bindings]\nPY = 1\n")).unwrap_err();
    assert!(error.contains("bindings"), "{error}");
}
