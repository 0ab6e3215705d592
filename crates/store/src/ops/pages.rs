//! Pages of sandboxes: one statement each, which walks the index that has their order. The index
//! is named in it, so that no statistics and no filter lead another way.

use super::labels;
use super::rows::{json, parse, state};
use crate::Result;
use crate::cursor::Place;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params_from_iter};
use types::{ListFilter, Owner, SandboxSummary, Sort, Span, State};

/// Greater than every name, which is ASCII.
const LAST: &str = "\u{10ffff}";

/// A statement in the making.
struct Query {
    text: String,
    values: Vec<Value>,
}

impl Query {
    fn push(&mut self, text: &str) -> &mut Self {
        self.text += text;
        self
    }

    fn value(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        let number = self.values.len();
        self.push(&format!("?{number}"))
    }
}

/// What a list walks: an index (or the table of labels), and the columns of its order.
struct Walk {
    from: &'static str,
    time: Option<&'static str>,
    name: &'static str,
}

fn walk(owner: Option<&Owner>, filter: &ListFilter) -> Walk {
    use Sort::{Active, ActiveDown, Created, CreatedDown, Name, NameDown};
    let (from, time, name) = match (filter.sort, owner) {
        (Name | NameDown, _) => ("sandboxes s INDEXED BY sandboxes_by_name", None, "s.name"),
        (Created | CreatedDown, Some(_)) if !filter.labels.is_empty() => {
            ("labels d CROSS JOIN sandboxes s ON s.key = d.sandbox", Some("d.created_at"), "d.id")
        }
        (Created | CreatedDown, Some(_)) if filter.state.is_some() => {
            ("sandboxes s INDEXED BY sandboxes_by_state", Some("s.created_at"), "s.id")
        }
        (Created | CreatedDown, Some(_)) => {
            ("sandboxes s INDEXED BY sandboxes_directory", Some("s.created_at"), "s.id")
        }
        (Created | CreatedDown, None) => {
            ("sandboxes s INDEXED BY sandboxes_all_created", Some("s.created_at"), "s.name")
        }
        (Active | ActiveDown, Some(_)) => {
            ("sandboxes s INDEXED BY sandboxes_by_activity", Some("s.last_activity"), "s.id")
        }
        (Active | ActiveDown, None) => {
            ("sandboxes s INDEXED BY sandboxes_all_activity", Some("s.last_activity"), "s.name")
        }
    };
    Walk { from, time, name }
}

/// The statement of a page behind `place`, and its values.
pub(crate) fn sql(
    owner: Option<&Owner>,
    filter: &ListFilter,
    limit: u32,
    place: Option<&Place>,
) -> (String, Vec<Value>) {
    let walk = walk(owner, filter);
    let mut query = Query { text: String::new(), values: Vec::new() };
    query.push(&format!(
        "SELECT s.id, s.owner, s.created_at, s.state, s.last_activity, s.image, s.reason, {}
         FROM {} WHERE s.destroyed_at IS NULL",
        labels::OF_SANDBOX,
        walk.from
    ));
    let mut required = filter.labels.iter();
    match owner {
        Some(owner) if walk.from.starts_with("labels") => {
            query.push(" AND d.owner = ").value(owner.as_str().to_owned());
            if let Some((name, value)) = required.next() {
                query.push(" AND d.name = ").value(name.clone());
                query.push(" AND d.value = ").value(value.clone());
            }
        }
        Some(owner) if walk.time.is_some() => {
            query.push(" AND s.owner = ").value(owner.as_str().to_owned());
        }
        _ => {}
    }
    match filter.state {
        // The words stand in the text, so that the partial index is seen to fit.
        Some(State::Running) => query.push(" AND s.state = 'running' AND s.state IS NOT NULL"),
        Some(State::Stopped) => query.push(" AND s.state = 'stopped' AND s.state IS NOT NULL"),
        None => &mut query,
    };
    for (name, value) in required {
        query.push(" AND EXISTS (SELECT 1 FROM labels x WHERE x.sandbox = s.key AND x.name = ");
        query.value(name.clone()).push(" AND x.value = ").value(value.clone()).push(")");
    }
    bounds(&mut query, &walk, owner, filter, place);
    let down = if filter.sort.descends() { " DESC" } else { "" };
    query.push(" ORDER BY ");
    if let Some(time) = walk.time {
        query.push(time).push(down).push(", ");
    }
    query.push(walk.name).push(down).push(" LIMIT ").value(i64::from(limit));
    (query.text, query.values)
}

/// Where the walk begins and ends, and what else is asked of each row.
fn bounds(
    query: &mut Query,
    walk: &Walk,
    owner: Option<&Owner>,
    filter: &ListFilter,
    place: Option<&Place>,
) {
    let prefix = filter.prefix.as_deref().unwrap_or_default();
    let by_activity = matches!(filter.sort, Sort::Active | Sort::ActiveDown);
    let (mut within, mut beside) = (Span::default(), Vec::new());
    if walk.time.is_some() {
        let (own, other) = if by_activity {
            (filter.active, ("s.created_at", filter.created))
        } else {
            (filter.created, ("s.last_activity", filter.active))
        };
        (within, beside) = (own, vec![other]);
    } else {
        beside.extend([("s.created_at", filter.created), ("s.last_activity", filter.active)]);
    }
    for (column, span) in beside {
        if let Some(after) = span.after {
            query.push(&format!(" AND {column} > ")).value(after);
        }
        if let Some(before) = span.before {
            query.push(&format!(" AND {column} < ")).value(before);
        }
    }
    let Some(time) = walk.time else {
        // Names from the first to the last that may be, the first included.
        let mut first = owner.map(|o| format!("{o}/{prefix}")).unwrap_or_default();
        let mut last = format!("{first}{LAST}");
        match place {
            Some(place) if filter.sort.descends() => last = last.min(place.name.clone()),
            Some(place) => first = first.max(format!("{}\0", place.name)),
            None => {}
        }
        query.push(" AND s.name >= ").value(first).push(" AND s.name < ").value(last);
        if owner.is_none() {
            starts(query, prefix);
        }
        return;
    };
    starts(query, prefix);
    let mut first = (within.after.unwrap_or(i64::MIN), String::new());
    if within.after.is_some() {
        LAST.clone_into(&mut first.1);
    }
    let mut last = (within.before.unwrap_or(i64::MAX), String::new());
    if within.before.is_none() {
        LAST.clone_into(&mut last.1);
    }
    match place {
        Some(place) if filter.sort.descends() => last = last.min((place.at, place.name.clone())),
        Some(place) => first = first.max((place.at, place.name.clone())),
        None => {}
    }
    for (sign, (at, name)) in [(">", first), ("<", last)] {
        query.push(&format!(" AND ({time}, {}) {sign} (", walk.name));
        query.value(at).push(", ").value(name).push(")");
    }
}

/// `substr` keeps the prefix from being taken for a range of an index.
fn starts(query: &mut Query, prefix: &str) {
    if !prefix.is_empty() {
        query.push(" AND substr(s.id, 1, ").value(prefix.chars().count() as i64);
        query.push(") = ").value(prefix.to_owned());
    }
}

/// At most `limit` rows behind `place`; of all owners where none is named.
pub(crate) fn page(
    c: &Connection,
    owner: Option<&Owner>,
    filter: &ListFilter,
    limit: u32,
    place: Option<&Place>,
) -> Result<Vec<SandboxSummary>> {
    let (sql, values) = sql(owner, filter, limit, place);
    let mut statement = c.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), summary)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn summary(row: &Row<'_>) -> rusqlite::Result<SandboxSummary> {
    let state = state(row, 3)?;
    Ok(SandboxSummary {
        id: parse(row, 0)?,
        owner: parse(row, 1)?,
        created_at: row.get(2)?,
        state,
        running: state == Some(State::Running),
        last_activity: row.get(4)?,
        image: row.get(5)?,
        reason: row.get(6)?,
        labels: json(row, 7)?,
    })
}

/// The place behind a row, in its list.
pub(crate) fn place(owner: Option<&Owner>, sort: Sort, row: &SandboxSummary) -> Place {
    let at = match sort {
        Sort::Created | Sort::CreatedDown => row.created_at,
        Sort::Active | Sort::ActiveDown => row.last_activity,
        Sort::Name | Sort::NameDown => 0,
    };
    let alone = owner.is_some() && !matches!(sort, Sort::Name | Sort::NameDown);
    let id = row.id.as_str();
    let name = if alone { id.to_owned() } else { format!("{}/{id}", row.owner) };
    Place { at, name }
}
