//! No list reads a whole table, and none sorts: the plans of the very statements that run.

use super::{checkpoints, contexts, executions, lists, outbox, sweep, tokens};
use crate::{ListFilter, migrations};
use rusqlite::Connection;
use types::State;

fn steps(c: &Connection, sql: &str) -> Vec<String> {
    let mut statement = c.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let mut rows = statement.raw_query();
    let mut steps = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        steps.push(row.get(3).unwrap());
    }
    steps
}

fn statements() -> Vec<(String, &'static str)> {
    let page = |state| lists::page_sql(&ListFilter { prefix: Some("a".into()), state });
    vec![
        (lists::DIRECTORY.into(), "COVERING INDEX sandboxes_directory (owner=?)"),
        (page(None), "INDEX sandboxes_directory (owner=? AND (created_at,id)>(?,?))"),
        (page(Some(State::Running)), "sandboxes_by_state (owner=? AND state=? AND (created_at,id)"),
        (page(Some(State::Stopped)), "sandboxes_by_state (owner=? AND state=? AND (created_at,id)"),
        (lists::rows_sql(lists::RUNNING), "INDEX sandboxes_running (state=?)"),
        (lists::rows_sql(lists::DESTROYING), "INDEX sandboxes_destroying (destroying_at>?)"),
        (lists::STOPS.into(), "INDEX stops_once (object=?)"),
        (lists::ALARMS.into(), "COVERING INDEX sandboxes_alarms ((alarm_at,object)>(?,?))"),
        (executions::select(executions::LATEST), "INDEX executions_latest (object=?)"),
        (executions::select(executions::OPEN), "INDEX executions_open (status=?)"),
        (contexts::select(contexts::LIST), "INDEX contexts_of_object (object=?)"),
        (checkpoints::select(checkpoints::LIST), "INDEX checkpoints_of_context (context=?)"),
        (sweep::STOPS.into(), "INDEX stops_by_age (stopped_at<?)"),
        (
            sweep::TOMBSTONES.into(),
            "INDEX sandboxes_tombstones (destroyed_at>? AND destroyed_at<?)",
        ),
        (sweep::EXECUTIONS.into(), "INDEX executions_by_age (started_at<?)"),
        (tokens::select(tokens::ONE), "INDEX sqlite_autoindex_tokens_2 (digest=?)"),
        (tokens::select(tokens::PAGE), "INTEGER PRIMARY KEY (rowid>?)"),
        (tokens::REVOKED.into(), "INDEX tokens_revoked (revoked_at<?)"),
        (tokens::EXPIRED.into(), "INDEX tokens_expiring (expires_at<?)"),
    ]
}

#[test]
fn every_list_walks_its_index() {
    let mut c = Connection::open_in_memory().unwrap();
    migrations::run(&mut c, 0).unwrap();
    for (sql, wanted) in statements() {
        let steps = steps(&c, &sql);
        assert!(steps.iter().any(|s| s.contains(wanted)), "{sql}\n{steps:#?}");
        for step in &steps {
            assert!(!step.contains("SCAN"), "{sql}\n{steps:#?}");
            assert!(!step.contains("TEMP B-TREE"), "{sql}\n{steps:#?}");
        }
    }
    // The queue is walked from its head; its key is its order.
    assert_eq!(steps(&c, outbox::OLDEST), vec!["SCAN outbox"]);
}
