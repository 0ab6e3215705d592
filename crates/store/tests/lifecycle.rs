//! What is written is read back, and each operation does what it says.

mod common;

use common::{ended, execution, name, open, owner, settings, stop, vars};
use store::{Error, OutboxItem, StopRecord};
use types::{Cause, ExecStatus, Record, State};

#[tokio::test]
async fn a_sandbox_is_made_once_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    assert_eq!(store.load(&object).await.unwrap(), None);
    assert!(!store.known(&object).await.unwrap());

    let mut wanted = settings();
    wanted.entrypoint = Some(vec!["sh".into(), "-c".into(), "a \"b\"\n'c' \u{1F600}".into()]);
    wanted.env = vars(&[("A;touch /x;B", "line\nquote\"")]);
    wanted.limits.vcpu = 0.1;
    let env = vars(&[("KEY", "väl\u{7f}ue")]);
    let (made, row) = store.create(&name, &wanted, &env, 1000, Some(5000)).await.unwrap();
    assert!(made);
    assert_eq!((row.created_at, row.last_activity, row.generation), (1000, 1000, 0));
    assert_eq!((&row.settings, &row.env_vars, &row.record), (&wanted, &env, &None));
    assert_eq!(store.load(&object).await.unwrap().as_ref(), Some(&row));
    assert_eq!(store.alarm(&object).await.unwrap(), Some(5000));

    let again = store.create(&name, &settings(), &vars(&[]), 2000, None).await.unwrap();
    assert_eq!(again, (false, row.clone()));
    assert_eq!(store.alarm(&object).await.unwrap(), Some(5000));

    store.close().await;
    assert!(matches!(store.load(&object).await, Err(Error::Closed)));
    assert!(matches!(store.set_alarm(&object, None).await, Err(Error::Closed)));
    assert_eq!(open(dir.path()).load(&object).await.unwrap(), Some(row));
}

#[tokio::test]
async fn update_changes_settings_variables_and_alarm() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    assert_eq!(store.update(&object, &settings(), &vars(&[]), None).await.unwrap(), None);
    store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
    let mut other = settings();
    other.image = "debian".into();
    let env = vars(&[("A", "1")]);
    let row = store.update(&object, &other, &env, Some(7)).await.unwrap().unwrap();
    assert_eq!((&row.settings, &row.env_vars), (&other, &env));
    assert_eq!(store.alarm(&object).await.unwrap(), Some(7));
    let page = store.list(&owner("ada"), &Default::default(), 10, None).await.unwrap();
    assert_eq!(page.sandboxes[0].image, "debian");
}

#[tokio::test]
async fn start_and_stop_move_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    let row = store.start(&name, &settings(), 1000, Some(9000)).await.unwrap();
    let running = Record {
        state: State::Running,
        last_activity: 1000,
        reason: None,
        exit_code: None,
        stopped_at: None,
        started_at: 1000,
        starts: 1,
        cause: None,
    };
    assert_eq!((row.generation, row.record.as_ref()), (1, Some(&running)));
    assert_eq!((row.created_at, &row.env_vars), (1000, &vars(&[])));
    let refused = store.start(&name, &settings(), 1001, None).await;
    assert!(matches!(refused, Err(Error::AlreadyRunning)));
    assert_eq!(store.alarm(&object).await.unwrap(), Some(9000));
    assert_eq!(store.running().await.unwrap(), vec![row]);

    assert!(!store.stop(&object, &stop(2, 1500), Some("no"), None).await.unwrap());
    assert!(!store.stop(&object, &stop(0, 1500), Some("no"), None).await.unwrap());
    let exited = StopRecord {
        generation: 1,
        reason: "exited".into(),
        exit_code: Some(7),
        cause: Cause::Exited,
        stopped_at: 2000,
    };
    assert!(store.stop(&object, &exited, Some("{\"a\":1}"), Some(99)).await.unwrap());
    assert!(!store.stop(&object, &stop(1, 2500), Some("no"), None).await.unwrap());
    let row = store.load(&object).await.unwrap().unwrap();
    let stopped = Record {
        state: State::Stopped,
        reason: Some("exited".into()),
        exit_code: Some(Some(7)),
        stopped_at: Some(2000),
        cause: Some(Cause::Exited),
        ..running
    };
    assert_eq!(row.record, Some(stopped));
    assert_eq!(store.alarm(&object).await.unwrap(), Some(99));
    assert_eq!(store.running().await.unwrap(), vec![]);
    let outbox = store.outbox(10).await.unwrap();
    let item = OutboxItem { id: outbox[0].id, payload: "{\"a\":1}".into(), attempts: 0 };
    assert_eq!(outbox, vec![item]);
    store.outbox_failed(outbox[0].id).await.unwrap();
    assert_eq!(store.outbox(10).await.unwrap()[0].attempts, 1);
    store.outbox_done(outbox[0].id).await.unwrap();
    assert_eq!(store.outbox(10).await.unwrap(), vec![]);

    store.start(&name, &settings(), 3000, None).await.unwrap();
    store.stop(&object, &stop(2, 4000), Some("x"), None).await.unwrap();
    let stops = store.stops(&object, 0).await.unwrap();
    let seen: Vec<_> =
        stops.iter().map(|s| (s.generation, s.started_at, s.stopped_at, s.exit_code)).collect();
    assert_eq!(seen, vec![(2, 3000, 4000, None), (1, 1000, 2000, Some(7))]);
    assert_eq!(store.stops(&object, 2001).await.unwrap().len(), 1);
    let record = store.load(&object).await.unwrap().unwrap().record.unwrap();
    assert_eq!((record.exit_code, record.starts), (Some(None), 2));
    assert!(store.outbox(1).await.unwrap()[0].id > outbox[0].id);
}

#[tokio::test]
async fn a_destroyed_sandbox_leaves_a_tombstone_and_its_stops() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    assert!(!store.begin_destroy(&object, 1).await.unwrap());
    store.finish_destroy(&object, None).await.unwrap();
    store.create(&name, &settings(), &vars(&[("SECRET", "x")]), 500, None).await.unwrap();
    store.start(&name, &settings(), 1000, Some(1)).await.unwrap();
    let e = execution("e1", 1, 1100);
    store.exec_ended(&object, &ended(&e, 0)).await.unwrap();

    assert!(store.begin_destroy(&object, 2000).await.unwrap());
    assert!(store.begin_destroy(&object, 2001).await.unwrap());
    assert_eq!(store.destroying().await.unwrap().len(), 1);
    assert!(store.load(&object).await.unwrap().unwrap().destroying);
    let start = store.start(&name, &settings(), 2002, None).await;
    assert!(matches!(start, Err(Error::Destroying)));
    let update = store.update(&object, &settings(), &vars(&[]), None).await;
    assert!(matches!(update, Err(Error::Destroying)));

    let last = StopRecord { cause: Cause::Destroyed, reason: "stopped".into(), ..stop(1, 2100) };
    store.finish_destroy(&object, Some((&last, Some("gone")))).await.unwrap();
    assert_eq!(store.load(&object).await.unwrap(), None);
    assert!(store.known(&object).await.unwrap());
    assert_eq!(store.destroying().await.unwrap(), vec![]);
    assert_eq!(store.running().await.unwrap(), vec![]);
    assert_eq!(store.directory(&owner("ada")).await.unwrap(), vec![]);
    assert_eq!(store.executions(&object, 10).await.unwrap(), vec![]);
    assert_eq!(store.alarm(&object).await.unwrap(), None);
    assert_eq!(store.stops(&object, 0).await.unwrap().len(), 1);
    assert_eq!(store.outbox(10).await.unwrap()[0].payload, "gone");

    // Late news of what has gone change nothing.
    store.touch(&object, 9999);
    store.exec_ended(&object, &ended(&e, 0)).await.unwrap();
    store.set_alarm(&object, Some(1)).await.unwrap();
    assert_eq!(store.alarm(&object).await.unwrap(), None);
    assert!(!store.begin_destroy(&object, 3).await.unwrap());

    let (made, row) = store.create(&name, &settings(), &vars(&[]), 3000, None).await.unwrap();
    assert!(made);
    assert_eq!((row.created_at, row.generation, &row.record), (3000, 1, &None));
    store.exec_ended(&object, &ended(&e, 0)).await.unwrap();
    assert_eq!(store.executions(&object, 10).await.unwrap(), vec![]);
    let row = store.start(&name, &settings(), 4000, None).await.unwrap();
    assert_eq!((row.generation, row.record.unwrap().starts), (2, 1));
    assert!(!store.stop(&object, &stop(1, 5000), None, None).await.unwrap());
}

#[tokio::test]
async fn a_running_record_never_outlives_its_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for (id, expires) in [("one", false), ("two", true)] {
        let name = name("ada", id);
        let object = name.object_id();
        store.start(&name, &settings(), 1000, None).await.unwrap();
        let wrong = stop(7, 1500);
        if expires {
            store.expire(&object, Some((&wrong, Some("no"))), 2000).await.unwrap();
        } else {
            store.finish_destroy(&object, Some((&wrong, Some("no")))).await.unwrap();
        }
        let stops = store.stops(&object, 0).await.unwrap();
        assert_eq!((stops.len(), stops[0].generation), (1, 1));
        assert_eq!(store.running().await.unwrap(), vec![]);
    }
    assert_eq!(store.outbox(10).await.unwrap(), vec![]);
}

#[tokio::test]
async fn an_expired_sandbox_keeps_its_entry_and_first_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.create(&name, &settings(), &vars(&[("SECRET", "x")]), 500, Some(9)).await.unwrap();
    store.start(&name, &settings(), 1000, Some(9)).await.unwrap();
    store.exec_ended(&object, &ended(&execution("e1", 1, 1100), 0)).await.unwrap();
    let last = StopRecord { cause: Cause::Expired, reason: "expired".into(), ..stop(1, 2000) };
    store.expire(&object, Some((&last, Some("late"))), 2000).await.unwrap();
    let row = store.load(&object).await.unwrap().unwrap();
    assert_eq!((row.expired, row.created_at, &row.env_vars), (true, 500, &vars(&[])));
    assert_eq!(row.record.unwrap().cause, Some(Cause::Expired));
    assert_eq!(store.alarm(&object).await.unwrap(), None);
    assert_eq!(store.executions(&object, 10).await.unwrap(), vec![]);
    assert_eq!(store.directory(&owner("ada")).await.unwrap().len(), 1);
    let row = store.start(&name, &settings(), 3000, None).await.unwrap();
    assert_eq!((row.expired, row.created_at, row.generation), (false, 500, 2));
}

#[tokio::test]
async fn touches_and_started_commands_travel_with_the_next_write_of_their_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.start(&name, &settings(), 1000, None).await.unwrap();
    store.touch(&object, 1500);
    store.touch(&object, 1200);
    let e = execution("e1", 1, 1100);
    store.exec_started(&object, &e);
    store.exec_started(&object, &execution("e2", 1, 1101));
    assert!(store.stop(&object, &stop(1, 2000), None, None).await.unwrap());
    let row = store.load(&object).await.unwrap().unwrap();
    assert_eq!((row.last_activity, row.record.unwrap().last_activity), (1500, 1500));
    let open = store.open_executions().await.unwrap();
    assert_eq!(
        open.iter().map(|(o, e)| (*o, e.id.as_str())).collect::<Vec<_>>(),
        vec![(object, "e1"), (object, "e2")]
    );

    // After the stop the record stays; the sandbox's own activity goes on.
    store.touch(&object, 3000);
    store.exec_ended(&object, &ended(&e, 3)).await.unwrap();
    let row = store.load(&object).await.unwrap().unwrap();
    assert_eq!((row.last_activity, row.record.unwrap().last_activity), (3000, 1500));
    let unknown = types::Execution { status: ExecStatus::Unknown, exit_code: None, ..e.clone() };
    store.exec_ended(&object, &unknown).await.unwrap();
    store.exec_started(&object, &e);
    store.set_alarm(&object, None).await.unwrap();
    let all = store.executions(&object, 10).await.unwrap();
    assert_eq!(
        all.iter().map(|e| (e.id.as_str(), e.exit_code)).collect::<Vec<_>>(),
        vec![("e2", None), ("e1", Some(3))]
    );
    assert_eq!(all[1], ended(&e, 3));
}

#[tokio::test]
async fn touches_are_written_without_any_other_write_and_at_close() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.create(&name, &settings(), &vars(&[]), 1, None).await.unwrap();
    store.touch(&object, 70);
    let written = async {
        while store.load(&object).await.unwrap().unwrap().last_activity != 70 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), written).await.expect("is written");
    store.touch(&object, 80);
    store.close().await;
    let row = open(dir.path()).load(&object).await.unwrap().unwrap();
    assert_eq!(row.last_activity, 80);
}

#[tokio::test]
async fn only_the_latest_thousand_commands_are_kept_and_running_ones_always() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "notes");
    let object = name.object_id();
    store.start(&name, &settings(), 0, None).await.unwrap();
    store.exec_started(&object, &execution("long", 1, 0));
    let mut writes = tokio::task::JoinSet::new();
    for i in 1..=1500 {
        let store = store.clone();
        writes.spawn(async move {
            let e = ended(&execution(&format!("e{i}"), 1, i), 0);
            store.exec_ended(&object, &e).await.unwrap();
        });
    }
    writes.join_all().await;
    let all = store.executions(&object, u32::MAX).await.unwrap();
    assert_eq!((all.len(), all[0].id.as_str(), all[999].id.as_str()), (1000, "e1500", "e501"));
    assert_eq!(store.open_executions().await.unwrap().len(), 1);
}

#[tokio::test]
async fn alarms_are_read_in_order_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut all = Vec::new();
    for i in 0..20 {
        let name = name("ada", &format!("s{i}"));
        let at = i / 5;
        store.create(&name, &settings(), &vars(&[]), i, Some(at)).await.unwrap();
        all.push((at, name.object_id()));
    }
    store.set_alarm(&all[3].1, None).await.unwrap();
    store.set_alarm(&name("ada", "nobody").object_id(), Some(1)).await.unwrap();
    all.remove(3);
    all.sort();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = store.alarms(after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.1, last.0));
        seen.extend(page.iter().map(|(o, at)| (*at, *o)));
    }
    assert_eq!(seen, all);
}

#[tokio::test]
async fn the_sweep_takes_what_is_old_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let gone = name("ada", "gone");
    let here = name("ada", "here");
    for name in [&gone, &here] {
        let object = name.object_id();
        store.start(name, &settings(), 0, None).await.unwrap();
        store.exec_ended(&object, &ended(&execution("old", 1, 10), 0)).await.unwrap();
        store.exec_ended(&object, &execution("open", 1, 10)).await.unwrap();
        store.exec_ended(&object, &ended(&execution("new", 1, 200), 0)).await.unwrap();
        store.stop(&object, &stop(1, 50), None, None).await.unwrap();
        store.start(name, &settings(), 60, None).await.unwrap();
        store.stop(&object, &stop(2, 150), None, None).await.unwrap();
    }
    store.begin_destroy(&gone.object_id(), 60).await.unwrap();
    store.finish_destroy(&gone.object_id(), None).await.unwrap();
    assert_eq!(store.sweep(100, 100, 100, 100).await.unwrap(), 3);
    assert_eq!(store.stops(&gone.object_id(), 0).await.unwrap().len(), 1);
    assert_eq!(store.stops(&here.object_id(), 0).await.unwrap().len(), 1);
    assert!(store.known(&gone.object_id()).await.unwrap());
    let left = store.executions(&here.object_id(), 10).await.unwrap();
    assert_eq!(left.iter().map(|e| e.id.as_str()).collect::<Vec<_>>(), vec!["new", "open"]);
    assert_eq!(store.sweep(i64::MAX, 100, 0, 1).await.unwrap(), 2);
    assert_eq!(store.sweep(i64::MAX, 100, 0, 1).await.unwrap(), 1);
    assert!(!store.known(&gone.object_id()).await.unwrap());
    assert!(store.load(&here.object_id()).await.unwrap().is_some());
}

#[tokio::test]
async fn facts_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.meta("boot").await.unwrap(), None);
    store.set_meta("boot", "a").await.unwrap();
    store.set_meta("boot", "b\0\u{1F600}").await.unwrap();
    assert_eq!(store.meta("boot").await.unwrap().as_deref(), Some("b\0\u{1F600}"));
}

#[tokio::test]
async fn names_that_differ_by_case_are_two() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for id in ["Notes", "notes", "NOTES"] {
        assert!(store.create(&name("ada", id), &settings(), &vars(&[]), 1, None).await.unwrap().0);
    }
    store.create(&name("Ada", "notes"), &settings(), &vars(&[]), 1, None).await.unwrap();
    let entries = store.directory(&owner("ada")).await.unwrap();
    let ids: Vec<_> = entries.iter().map(|e| e.session.as_str()).collect();
    assert_eq!(ids, vec!["NOTES", "Notes", "notes"]);
    assert_eq!(store.directory(&owner("Ada")).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_end_of_a_command_is_activity_of_its_own_instance() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let name = name("ada", "busy");
    let object = name.object_id();
    store.start(&name, &settings(), 10, None).await.unwrap();
    let end = ended(&execution("a", 1, 20), 0);
    store.exec_ended(&object, &end).await.unwrap();
    let row = store.load(&object).await.unwrap().unwrap();
    assert_eq!(Some(row.last_activity), end.ended_at);
    assert_eq!(Some(row.record.unwrap().last_activity), end.ended_at);
    // One that ends after its instance changes nothing, also while a later one runs.
    store.stop(&object, &stop(1, 50), None, None).await.unwrap();
    store.exec_ended(&object, &ended(&execution("b", 1, 900), 0)).await.unwrap();
    assert_eq!(store.load(&object).await.unwrap().unwrap().last_activity, row.last_activity);
    store.start(&name, &settings(), 60, None).await.unwrap();
    store.exec_ended(&object, &ended(&execution("c", 1, 900), 0)).await.unwrap();
    assert_eq!(store.load(&object).await.unwrap().unwrap().last_activity, 60);
}
