//! The table of runs in the index.

use super::columns::{json, parsed, unusable};
use super::figures::Analysed;
use super::read::{self, Row};
use super::scan::Found;
use super::{Entry, Listing, Query, State};
use rusqlite::types::Value;
use rusqlite::{
    Connection, Error, OptionalExtension as _, Transaction, named_params, params, params_from_iter,
};
use std::collections::HashMap;

/// Number of runs per page if the query does not set a limit.
const PAGE: u32 = 100;
/// Maximum number of attempts to analyse a run.
const TRIES: i64 = 3;
/// The index contains this text as the problem of a run while the last attempt to analyse the run is in
/// progress. The text remains if this attempt never finishes.
const GIVEN_UP: &str = "its analysis was started three times and never finished; \
    `hoptax history rebuild` tries again";
const ENTRY: &str = "id, state, problem, name, started, took, hoptax, contenders, loads, trials, planned, \
    starts, verdict, over_budget, answer, tags, note, notes_problem";

/// The data in the index that shows whether a directory must be read again.
pub(super) struct Known {
    pub(super) run: i64,
    pub(super) mark: String,
    pub(super) noted: String,
    pub(super) until: Option<i64>,
}

/// Every directory in the index.
pub(super) fn known(index: &Connection) -> Result<HashMap<String, Known>, Error> {
    let mut rows = index.prepare_cached("SELECT id, run, mark, noted, until FROM runs")?;
    let of_row = |row: &rusqlite::Row<'_>| {
        let known = Known { run: row.get(1)?, mark: row.get(2)?, noted: row.get(3)?, until: row.get(4)? };
        Ok((row.get(0)?, known))
    };
    rows.query_map([], of_row)?.collect()
}

/// Inserts or replaces a run, and marks it for analysis.
pub(super) fn put(change: &Transaction<'_>, found: &Found, row: &Row) -> Result<(), Error> {
    let entry = &row.entry;
    for table in ["figures", "scatter"] {
        let old = format!("DELETE FROM {table} WHERE run = (SELECT run FROM runs WHERE id = ?1)");
        change.prepare_cached(&old)?.execute([&entry.id])?;
    }
    let sql = "INSERT INTO runs
        (id, mark, noted, sorted, until, state, problem, name, started, took, hoptax, contenders, loads, trials, planned,
         starts, basis, words, tags, note, note_words, notes_problem, tries)
        VALUES (:id, :mark, :noted, :sorted, :until, :state, :problem, :name, :started, :took, :hoptax, :contenders, :loads,
         :trials, :planned, :starts, :basis, :words, :tags, :note, :note_words, :notes_problem, :tries)
        ON CONFLICT (id) DO UPDATE SET
         mark = excluded.mark, noted = excluded.noted, sorted = excluded.sorted, until = excluded.until,
         state = excluded.state, problem = excluded.problem, name = excluded.name, started = excluded.started,
         took = excluded.took, hoptax = excluded.hoptax, contenders = excluded.contenders, loads = excluded.loads,
         trials = excluded.trials, planned = excluded.planned, starts = excluded.starts, basis = excluded.basis,
         words = excluded.words, tags = excluded.tags, note = excluded.note, note_words = excluded.note_words,
         notes_problem = excluded.notes_problem, tries = excluded.tries, verdict = NULL, over_budget = NULL, answer = NULL";
    change.prepare_cached(sql)?.execute(named_params! {
        ":id": entry.id,
        ":mark": found.mark(),
        ":noted": found.notes.to_string(),
        ":sorted": row.sorted,
        ":until": row.until,
        ":state": entry.state.name(),
        ":problem": entry.problem,
        ":name": entry.name,
        ":started": entry.started_unix,
        ":took": entry.took_s,
        ":hoptax": entry.hoptax,
        ":contenders": json(&entry.contenders),
        ":loads": json(&entry.loads),
        ":trials": entry.trials,
        ":planned": entry.trials_planned,
        ":starts": entry.starts,
        ":basis": json(&row.basis),
        ":words": words(entry),
        ":tags": json(&entry.tags),
        ":note": entry.note,
        ":note_words": note_words(entry),
        ":notes_problem": row.notes_problem,
        ":tries": if row.pending { TRIES } else { 0 },
    })?;
    Ok(())
}

pub(super) fn put_notes(change: &Transaction<'_>, found: &Found) -> Result<(), Error> {
    let (notes, problem) = read::notes(found);
    let words = format!("{}\n{}", notes.tags.join("\n"), notes.note).to_lowercase();
    let sql =
        "UPDATE runs SET noted = ?2, tags = ?3, note = ?4, note_words = ?5, notes_problem = ?6 WHERE id = ?1";
    let noted = found.notes.to_string();
    let values = params![found.id, noted, json(&notes.tags), notes.note, words, problem];
    change.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn clear(change: &Transaction<'_>) -> Result<(), Error> {
    change.execute_batch("DELETE FROM figures; DELETE FROM series; DELETE FROM scatter; DELETE FROM runs")
}

pub(super) fn remove(change: &Transaction<'_>, run: i64) -> Result<(), Error> {
    for table in ["figures", "scatter", "runs"] {
        change.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?.execute([run])?;
    }
    Ok(())
}

/// Every id, newest first.
pub(super) fn ids(index: &Connection) -> Result<Vec<String>, Error> {
    let mut rows = index.prepare_cached("SELECT id FROM runs ORDER BY sorted DESC, id DESC")?;
    rows.query_map([], |row| row.get(0))?.collect()
}

pub(super) fn get(index: &Connection, id: &str) -> Result<Option<Entry>, Error> {
    let sql = format!("SELECT {ENTRY} FROM runs WHERE id = ?1");
    index.prepare_cached(&sql)?.query_row([id], entry).optional()
}

pub(super) fn list(index: &mut Connection, query: &Query) -> Result<Listing, Error> {
    // Use one transaction, so that the counts and the rows agree.
    let index = index.transaction()?;
    let (condition, mut values) = condition(query);
    let count = |sql: &str, values: &[Value]| -> Result<u32, Error> {
        index.prepare_cached(sql)?.query_row(params_from_iter(values), |row| row.get(0))
    };
    let total = count(&format!("SELECT count(*) FROM runs WHERE {condition}"), &values)?;
    let all = count("SELECT count(*) FROM runs", &[])?;
    let pending = count("SELECT count(*) FROM runs WHERE tries > 0", &[])?;
    let sql =
        format!("SELECT {ENTRY} FROM runs WHERE {condition} ORDER BY sorted DESC, id DESC LIMIT ? OFFSET ?");
    let limit = if query.limit == 0 { PAGE } else { query.limit };
    values.extend([Value::from(limit), Value::from(query.offset)]);
    let mut rows = index.prepare_cached(&sql)?;
    let runs = rows.query_map(params_from_iter(&values), entry)?.collect::<Result<_, _>>()?;
    Ok(Listing { total, all, pending, runs })
}

/// The SQL condition of a query, and its parameters.
fn condition(query: &Query) -> (String, Vec<Value>) {
    let mut parts = vec!["1".to_owned()];
    let mut values = Vec::new();
    for word in query.text.to_lowercase().split_whitespace() {
        parts.push("(instr(words, ?) > 0 OR instr(note_words, ?) > 0)".into());
        values.extend([Value::from(word.to_owned()), Value::from(word.to_owned())]);
    }
    if let Some(tag) = &query.tag {
        parts.push("EXISTS (SELECT 1 FROM json_each(tags) WHERE value = ?)".into());
        values.push(tag.clone().into());
    }
    if let Some(gateway) = &query.gateway {
        let is_so = "value ->> 'label' = ? OR value ->> 'kind' = ?";
        parts.push(format!("EXISTS (SELECT 1 FROM json_each(contenders) WHERE {is_so})"));
        values.extend([Value::from(gateway.clone()), Value::from(gateway.clone())]);
    }
    if let Some(state) = query.state {
        parts.push("state = ?".into());
        values.push(state.name().to_owned().into());
    }
    (parts.join(" AND "), values)
}

pub(super) fn tags(index: &Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT DISTINCT value FROM runs, json_each(tags) WHERE tags <> '[]' ORDER BY value";
    index.prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// An analysis in progress. `mark` is the mark of the run when the analysis began.
pub(super) struct Begun {
    run: i64,
    name: String,
    mark: String,
    problem: Option<String>,
}

/// The newest run that has to be analysed.
pub(super) fn next_pending(index: &Connection) -> Result<Option<String>, Error> {
    let sql = "SELECT id FROM runs WHERE tries > 0 ORDER BY sorted DESC LIMIT 1";
    index.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()
}

/// Records that an attempt to analyse a run begins. Returns `None` if the run is not pending.
pub(super) fn begin_analysis(index: &Connection, id: &str) -> Result<Option<Begun>, Error> {
    let sql = "SELECT run, name, mark, problem, tries FROM runs WHERE id = ?1 AND tries > 0";
    let of_row = |row: &rusqlite::Row<'_>| {
        let begun = Begun { run: row.get(0)?, name: row.get(1)?, mark: row.get(2)?, problem: row.get(3)? };
        Ok((begun, row.get::<_, i64>(4)?))
    };
    let Some((begun, tries)) = index.prepare_cached(sql)?.query_row([id], of_row).optional()? else {
        return Ok(None);
    };
    let problem = if tries == 1 { Some(GIVEN_UP) } else { begun.problem.as_deref() };
    let sql = "UPDATE runs SET tries = tries - 1, problem = ?3 WHERE run = ?1 AND mark = ?2 AND tries > 0";
    index.prepare_cached(sql)?.execute(params![begun.run, begun.mark, problem])?;
    Ok(Some(begun))
}

/// Stores the result of an analysis. Ignores the result if the run has changed meanwhile.
pub(super) fn end_analysis(
    index: &mut Connection,
    begun: &Begun,
    analysed: &Result<Analysed, String>,
) -> Result<(), Error> {
    let change = index.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let (verdict, over_budget, answer, found) = match analysed {
        Ok(one) => (one.verdict, Some(one.over_budget), one.answer.clone(), one.unreadable.first().cloned()),
        Err(problem) => (None, None, None, Some(problem.clone())),
    };
    let problems: Vec<String> =
        begun.problem.iter().filter(|known| **known != GIVEN_UP).cloned().chain(found).collect();
    let is_damaged = analysed.as_ref().map_or(true, |one| !one.unreadable.is_empty());
    let sql = "UPDATE runs SET tries = 0, verdict = ?3, answer = ?4, problem = ?5,
        state = CASE WHEN ?6 AND state = 'whole' THEN 'damaged' ELSE state END, over_budget = ?7
        WHERE run = ?1 AND mark = ?2";
    let problem = (!problems.is_empty()).then(|| problems.join("; "));
    let values = params![begun.run, begun.mark, verdict, answer, problem, is_damaged, over_budget];
    if change.prepare_cached(sql)?.execute(values)? == 0 {
        return Ok(());
    }
    change.prepare_cached("DELETE FROM figures WHERE run = ?1")?.execute([begun.run])?;
    if let Ok(analysed) = analysed {
        super::trend::put(&change, begun.run, &begun.name, &analysed.cases)?;
    }
    change.commit()
}

fn entry(row: &rusqlite::Row<'_>) -> Result<Entry, Error> {
    let state: String = row.get("state")?;
    let problems = [row.get::<_, Option<String>>("problem")?, row.get("notes_problem")?];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    Ok(Entry {
        id: row.get("id")?,
        state: State::ALL.into_iter().find(|known| known.name() == state).ok_or_else(|| unusable(&state))?,
        problem: (!problems.is_empty()).then(|| problems.join("; ")),
        name: row.get("name")?,
        started_unix: row.get("started")?,
        took_s: row.get("took")?,
        hoptax: row.get("hoptax")?,
        contenders: parsed(row, "contenders")?,
        loads: parsed(row, "loads")?,
        trials: row.get("trials")?,
        trials_planned: row.get("planned")?,
        starts: row.get("starts")?,
        verdict: row.get("verdict")?,
        over_budget: row.get("over_budget")?,
        answer: row.get("answer")?,
        tags: parsed(row, "tags")?,
        note: row.get("note")?,
    })
}

/// The text in which a search looks for words, in lower case. A line break separates two parts of the text,
/// so that no match can span both.
fn words(entry: &Entry) -> String {
    let contenders = entry.contenders.iter().flat_map(|one| {
        [Some(&one.label), Some(&one.kind), one.version.as_ref()].into_iter().flatten().map(String::as_str)
    });
    let parts = [&*entry.id, &*entry.name, &*entry.hoptax].into_iter().chain(contenders);
    parts.collect::<Vec<_>>().join("\n").to_lowercase()
}

fn note_words(entry: &Entry) -> String {
    format!("{}\n{}", entry.tags.join("\n"), entry.note).to_lowercase()
}
