//! No list reads a whole table, and none sorts: the plans of the very statements that run.

use super::{
    account, checkpoints, contexts, events, executions, lists, outbox, pages, quotas, sweep, tokens,
};
use crate::cursor::Place;
use crate::{EventFilter, migrations};
use rusqlite::Connection;
use types::{EventType, ListFilter, Owner, Sort, Span, State};

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
    let all = |owner: Option<&str>, sandbox: Option<&str>, types: &[EventType]| {
        let owner = owner.map(|o| o.parse().unwrap());
        let sandbox = sandbox.map(|s| s.parse().unwrap());
        events::page_sql(&EventFilter { owner, sandbox, types: types.to_vec() }).0
    };
    let (stopped, saved) = (EventType::SandboxStopped, EventType::ContextSnapshot);
    vec![
        (all(None, None, &[]), "INTEGER PRIMARY KEY (rowid>?)"),
        (all(None, None, &[saved, stopped]), "INTEGER PRIMARY KEY (rowid>?)"),
        (all(None, None, &[stopped]), "INDEX events_of_type (type=? AND id>?)"),
        (all(None, None, &[saved]), "INTEGER PRIMARY KEY (rowid>?)"),
        (all(Some("a"), None, &[]), "INDEX events_of_owner (owner=? AND id>?)"),
        (all(Some("a"), None, &[saved]), "INDEX events_of_owner (owner=? AND id>?)"),
        (
            all(Some("a"), None, &[stopped]),
            "INDEX events_of_owners_type (owner=? AND type=? AND id>?)",
        ),
        (
            all(Some("a"), Some("b"), &[]),
            "INDEX events_of_sandbox (owner=? AND sandbox=? AND id>?)",
        ),
        (
            all(Some("a"), Some("b"), &[stopped]),
            "INDEX events_of_sandbox (owner=? AND sandbox=? AND id>?)",
        ),
        (lists::DIRECTORY.into(), "COVERING INDEX sandboxes_directory (owner=?)"),
        (account::page_sql(None), "INDEX sandboxes_started (name>? AND name<?)"),
        (account::page_sql(Some(false)), "INDEX sandboxes_started (name>? AND name<?)"),
        (account::page_sql(Some(true)), "INDEX sandboxes_running (state=? AND name>? AND name<?)"),
        (lists::rows_sql(lists::RUNNING), "INDEX sandboxes_running (state=?)"),
        (lists::rows_sql(lists::DESTROYING), "INDEX sandboxes_destroying (destroying_at>?)"),
        (lists::STOPS.into(), "INDEX stops_once (object=?)"),
        (lists::ALARMS.into(), "COVERING INDEX sandboxes_alarms ((alarm_at,object)>(?,?))"),
        (executions::select(executions::LATEST), "INDEX executions_latest (object=?)"),
        (executions::select(executions::OPEN), "INDEX executions_open (status=?)"),
        (contexts::select(contexts::LIST), "INDEX contexts_of_object (object=?)"),
        (checkpoints::select(checkpoints::LIST), "INDEX checkpoints_of_context (context=?)"),
        (quotas::USAGE.into(), "SEARCH usage USING PRIMARY KEY (owner=?)"),
        (quotas::OWN.into(), "INDEX sqlite_autoindex_sandboxes_1 (object=?)"),
        (sweep::STOPS.into(), "INDEX stops_by_age (stopped_at<?)"),
        (
            sweep::TOMBSTONES.into(),
            "INDEX sandboxes_tombstones (destroyed_at>? AND destroyed_at<?)",
        ),
        (sweep::EXECUTIONS.into(), "INDEX executions_by_age (started_at<?)"),
        (tokens::select(tokens::ONE), "INDEX sqlite_autoindex_tokens_2 (digest=?)"),
        (tokens::select(tokens::PAGE), "INTEGER PRIMARY KEY (rowid>?)"),
        (tokens::count_sql(true), "COVERING INDEX tokens_kept (owner=?)"),
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
    // All are counted, and none is read.
    assert_eq!(
        steps(&c, lists::COUNT),
        ["SCAN sandboxes USING COVERING INDEX sandboxes_directory"]
    );
    assert_eq!(
        steps(&c, &tokens::count_sql(false)),
        ["SCAN tokens USING COVERING INDEX tokens_kept"]
    );
    // The queue is walked from its head; its key is its order.
    assert_eq!(steps(&c, outbox::OLDEST), vec!["SCAN outbox"]);
}

/// Every combination of scope, order, filters and cursor, with what its walk must be.
fn lists() -> Vec<(String, String)> {
    let owner: Owner = "ada".parse().unwrap();
    let place = Place { at: 1, name: "ada/s".into() };
    let label = |n: &str| (n.to_owned(), "x".to_owned());
    let span = Span { after: Some(1), before: Some(9) };
    let mut all = Vec::new();
    for bits in 0..1u32 << 5 {
        let set = |bit: u32| bits >> bit & 1 == 1;
        for state in [None, Some(State::Running), Some(State::Stopped)] {
            for labels in [vec![], vec![label("a")], vec![label("a"), label("b"), label("c")]] {
                for sort in Sort::ALL {
                    let filter = ListFilter {
                        prefix: set(0).then(|| "s".to_owned()),
                        state,
                        labels: labels.clone(),
                        created: if set(1) { span } else { Span::default() },
                        active: if set(2) { span } else { Span::default() },
                        sort,
                    };
                    let owner = set(3).then_some(&owner);
                    let (sql, _) = pages::sql(owner, &filter, 100, set(4).then_some(&place));
                    all.push((sql, wanted(owner.is_some(), &filter).to_owned()));
                }
            }
        }
    }
    all
}

fn wanted(owned: bool, filter: &ListFilter) -> &'static str {
    let labelled = !filter.labels.is_empty();
    match (filter.sort, owned) {
        (Sort::Name | Sort::NameDown, _) => "INDEX sandboxes_by_name (name>? AND name<?)",
        (Sort::Created | Sort::CreatedDown, true) if labelled => {
            "SEARCH d USING PRIMARY KEY (owner=? AND name=? AND value=? AND (created_at,id)>(?,?) \
             AND (created_at,id)<(?,?))"
        }
        (Sort::Created | Sort::CreatedDown, true) if filter.state.is_some() => {
            "INDEX sandboxes_by_state (owner=? AND state=? AND (created_at,id)>(?,?) \
             AND (created_at,id)<(?,?))"
        }
        (Sort::Created | Sort::CreatedDown, true) => {
            "INDEX sandboxes_directory (owner=? AND (created_at,id)>(?,?) AND (created_at,id)<(?,?))"
        }
        (Sort::Created | Sort::CreatedDown, false) => {
            "INDEX sandboxes_all_created ((created_at,name)>(?,?) AND (created_at,name)<(?,?))"
        }
        (Sort::Active | Sort::ActiveDown, true) => {
            "INDEX sandboxes_by_activity (owner=? AND (last_activity,id)>(?,?) \
             AND (last_activity,id)<(?,?))"
        }
        (Sort::Active | Sort::ActiveDown, false) => {
            "INDEX sandboxes_all_activity ((last_activity,name)>(?,?) AND (last_activity,name)<(?,?))"
        }
    }
}

#[test]
fn every_page_walks_the_index_of_its_order() {
    let mut c = Connection::open_in_memory().unwrap();
    migrations::run(&mut c, 0).unwrap();
    for (sql, wanted) in lists() {
        let steps = steps(&c, &sql);
        assert!(steps[0].contains(&wanted), "{sql}\n{steps:#?}");
        for step in &steps {
            assert!(!step.contains("SCAN"), "{sql}\n{steps:#?}");
            assert!(!step.contains("TEMP B-TREE"), "{sql}\n{steps:#?}");
        }
    }
}
