//! Opens and creates the SQLite file of the index, and replaces the file when it is unusable.
//!
//! Everything in the index was read from the run directories. Therefore hoptax can replace an unusable index
//! without losing data. If hoptax cannot write the file, it keeps the index in memory.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the index file in the history's directory.
pub(super) const FILE: &str = ".hoptax-history.sqlite";
/// Version of the tables and of the analysis that fills them.
const VERSION: i32 = 6;
/// How long to wait while another process locks the index.
const PATIENCE: Duration = Duration::from_secs(15);

/// `mark` changes when the run's files change, and `noted` changes when the run's notes change. `tries` is
/// the number of remaining attempts to analyse the run.
const TABLES: &str = "
CREATE TABLE about (hoptax TEXT NOT NULL);
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    mark TEXT NOT NULL,
    noted TEXT NOT NULL,
    sorted INTEGER NOT NULL,
    until INTEGER,
    state TEXT NOT NULL,
    problem TEXT,
    name TEXT NOT NULL,
    started INTEGER,
    took REAL,
    hoptax TEXT NOT NULL,
    contenders TEXT NOT NULL,
    loads TEXT NOT NULL,
    trials INTEGER NOT NULL,
    planned INTEGER NOT NULL,
    starts INTEGER NOT NULL,
    basis TEXT NOT NULL,
    words TEXT NOT NULL,
    tags TEXT NOT NULL,
    note TEXT NOT NULL,
    note_words TEXT NOT NULL,
    notes_problem TEXT,
    tries INTEGER NOT NULL,
    verdict TEXT,
    over_budget INTEGER,
    answer TEXT
);
CREATE INDEX runs_by_time ON runs (sorted DESC, id DESC);
CREATE INDEX runs_pending ON runs (sorted DESC) WHERE tries > 0;
CREATE TABLE series (
    series INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    gateway TEXT NOT NULL,
    load TEXT NOT NULL,
    UNIQUE (name, gateway, load)
);
CREATE TABLE figures (
    series INTEGER NOT NULL,
    run INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    figures TEXT NOT NULL,
    PRIMARY KEY (series, run)
) WITHOUT ROWID;
CREATE INDEX figures_by_run ON figures (run);
CREATE TABLE scatter (
    run INTEGER PRIMARY KEY,
    sample TEXT NOT NULL
);
";

/// What to do about an SQLite error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Report the error, because another process locks the index.
    Wait,
    /// Use an index in memory, because the file cannot be written.
    Memory,
    /// Replace the index, because its content is unusable.
    Recreate,
}

impl Remedy {
    pub(super) fn of(error: &Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Wait,
            Some(
                ErrorCode::ReadOnly
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
                | ErrorCode::PermissionDenied,
            ) => Self::Memory,
            _ => Self::Recreate,
        }
    }
}

/// Opens the index of the directory `root`. Creates the index if there is none, and replaces it if it is
/// unusable. Fails if another process locks the index for too long.
pub(super) fn open(root: &Path) -> Result<Connection, Error> {
    let path = root.join(FILE);
    match on_disk(&path) {
        Err(error) => cured(&path, &error),
        opened => opened,
    }
}

/// Creates an empty index to replace the index that failed with `error`. Fails if another process locks the
/// index. The returned error is then `error` itself.
pub(super) fn in_place_of(root: &Path, error: Error) -> Result<Connection, Error> {
    match Remedy::of(&error) {
        Remedy::Wait => Err(error),
        _ => cured(&root.join(FILE), &error),
    }
}

fn cured(path: &Path, error: &Error) -> Result<Connection, Error> {
    match Remedy::of(error) {
        Remedy::Wait => on_disk(path),
        Remedy::Memory => in_memory(),
        Remedy::Recreate => recreated(path).or_else(|_| in_memory()),
    }
}

fn on_disk(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    if connection.is_readonly("main")? {
        return in_memory();
    }
    // Do not use a write-ahead log. With such a log, SQLite could not empty a damaged index while another
    // process has the index open. Writes are short, so readers can wait for the writer.
    connection.query_row("PRAGMA journal_mode = TRUNCATE", [], |_| Ok(()))?;
    connection.execute_batch("PRAGMA synchronous = NORMAL")?;
    prepare(&mut connection)?;
    Ok(connection)
}

fn in_memory() -> Result<Connection, Error> {
    let mut connection = Connection::open_in_memory()?;
    prepare(&mut connection)?;
    Ok(connection)
}

/// True if SQLite finds no damage in the index, and the file of the index still exists.
pub(super) fn is_sound(index: &Connection) -> bool {
    let result = index.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
    result.is_ok_and(|result| result == "ok") && index.path().is_some_and(|path| Path::new(path).exists())
}

/// Creates an empty index for the directory `root`, in place of any existing index. Fails if another process
/// locks the existing index for too long.
pub(super) fn empty(root: &Path) -> Result<Connection, Error> {
    recreated(&root.join(FILE)).or_else(|error| match Remedy::of(&error) {
        Remedy::Wait => Err(error),
        _ => in_memory(),
    })
}

/// Replaces the file with an empty index.
fn recreated(path: &Path) -> Result<Connection, Error> {
    if let Err(error) = emptied(path) {
        if Remedy::of(&error) == Remedy::Wait {
            return Err(error);
        }
        // SQLite cannot open or empty the file, so delete it.
        for ending in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(ending);
            let _ = fs::remove_file(PathBuf::from(name));
        }
    }
    on_disk(path)
}

/// Empties the file with SQLite, so that other processes see an empty index and not a missing file.
fn emptied(path: &Path) -> Result<(), Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    connection.execute_batch("VACUUM")?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    Ok(())
}

/// Creates the tables if they do not exist. Replaces tables of another version of hoptax, because that
/// version may have read the runs or computed the figures differently.
fn prepare(connection: &mut Connection) -> Result<(), Error> {
    if is_ours(connection)? {
        return Ok(());
    }
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables meanwhile.
    if !is_ours(&change)? {
        for table in tables(&change)? {
            change.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
        }
        change.execute_batch(TABLES)?;
        change.execute("INSERT INTO about (hoptax) VALUES (?1)", [env!("CARGO_PKG_VERSION")])?;
        change.pragma_update(None, "user_version", VERSION)?;
    }
    change.commit()
}

fn is_ours(connection: &Connection) -> Result<bool, Error> {
    let version: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != VERSION {
        return Ok(false);
    }
    let hoptax: String = connection.query_row("SELECT hoptax FROM about", [], |row| row.get(0))?;
    Ok(hoptax == env!("CARGO_PKG_VERSION"))
}

fn tables(connection: &Connection) -> Result<Vec<String>, Error> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}
