//! What only the inside can provoke: jobs that panic, jobs that fail in the middle.

use super::*;
use crate::queue::Notes;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Options { dir: dir.path().into() }).unwrap();
    (dir, store)
}

#[tokio::test]
async fn a_job_that_fails_takes_nothing_else_of_its_batch_along() {
    let (_dir, store) = store();
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..300 {
        let store = store.clone();
        tasks.spawn(async move {
            let key = format!("k{i}");
            let work = move |c: &Connection| {
                outbox::set_meta(c, &key, "v")?;
                match i % 3 {
                    0 => Ok(i),
                    1 => Err(c.execute("INSERT INTO nowhere VALUES (1)", []).unwrap_err().into()),
                    _ => panic!("on purpose"),
                }
            };
            (i, store.write(None, false, work).await)
        });
    }
    for (i, result) in tasks.join_all().await {
        match i % 3 {
            0 => assert_eq!(result.unwrap(), i),
            1 => assert!(matches!(result, Err(Error::Sqlite(_)))),
            _ => assert!(matches!(&result, Err(Error::Panicked(p)) if p == "on purpose")),
        }
        let kept = store.meta(&format!("k{i}")).await.unwrap().is_some();
        assert_eq!(kept, i % 3 == 0, "{i}");
    }
}

#[tokio::test]
async fn a_failing_commit_is_the_answer_to_all_of_its_batch() {
    let (_dir, store) = store();
    // A deferred constraint fails at the commit and not before.
    let set_up = |c: &Connection| {
        c.execute_batch(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY);
             CREATE TABLE child (id REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);",
        )?;
        Ok(())
    };
    store.write(None, false, set_up).await.unwrap();
    // Holds the writer, so that what follows becomes one batch.
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (began, begun) = oneshot::channel();
    let began = std::sync::Mutex::new(Some(began));
    let hold = tokio::spawn({
        let store = store.clone();
        async move {
            let hold = move |_: &Connection| {
                let _ = began.lock().unwrap().take().map(|b| b.send(()));
                let _ = gate.lock().unwrap().recv();
                Ok(())
            };
            store.write(None, false, hold).await
        }
    });
    begun.await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for i in 0..20 {
        let store = store.clone();
        tasks.spawn(async move {
            let key = format!("k{i}");
            let work = move |c: &Connection| {
                outbox::set_meta(c, &key, "v")?;
                if i == 7 {
                    c.execute("INSERT INTO child VALUES (1)", [])?;
                }
                Ok(())
            };
            store.write(None, false, work).await
        });
    }
    while store.inner.places.available_permits() > PLACES - 21 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    go.send(()).unwrap();
    hold.await.unwrap().unwrap();
    for result in tasks.join_all().await {
        assert!(matches!(result, Err(Error::Sqlite(_))), "{result:?}");
    }
    for i in 0..20 {
        assert_eq!(store.meta(&format!("k{i}")).await.unwrap(), None);
    }
    store.set_meta("after", "v").await.unwrap();
}

#[tokio::test]
async fn the_queue_is_bounded_and_an_abandoned_caller_costs_no_place() {
    let (_dir, store) = store();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let hold = tokio::spawn({
        let store = store.clone();
        let work = move |_: &Connection| {
            let _ = gate.lock().unwrap().recv();
            Ok(())
        };
        async move { store.write(None, false, work).await }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..PLACES + 500 {
        let store = store.clone();
        tasks.spawn(async move { store.set_meta("a", "b").await });
    }
    while store.inner.places.available_permits() > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    tasks.abort_all();
    go.send(()).unwrap();
    hold.await.unwrap().unwrap();
    while store.inner.places.available_permits() < PLACES {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    store.set_meta("a", "c").await.unwrap();
}

#[tokio::test]
async fn notes_that_wait_are_bounded() {
    let (_dir, store) = store();
    let hold = store.inner.queue.clone();
    let object = "ab".repeat(32).parse().unwrap();
    let execution = |i: usize| Execution {
        id: format!("e{i}"),
        generation: 1,
        argv: Vec::new(),
        status: types::ExecStatus::Running,
        started_at: 0,
        ended_at: None,
        exit_code: None,
        signal: None,
        timed_out: false,
        oom_killed: false,
    };
    // All in one go, well within the wait; a flush in between only makes room.
    for i in 0..20_000 {
        store.exec_started(&object, &execution(i));
    }
    let notes = Notes { touched: Some(1), started: vec![execution(1)] };
    hold.put_back(vec![(object, notes)]);
    store.set_alarm(&object, None).await.unwrap();
    assert_eq!(store.open_executions().await.unwrap(), vec![]);
}
