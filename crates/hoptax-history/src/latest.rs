//! The last complete run of each case, for monitoring.

use super::columns::parsed;
use super::figures::Figure;
use super::{Contender, HistoryError, Store};
use hoptax_plan::Metric;
use rusqlite::{Connection, Error};
use std::collections::BTreeMap;

/// The figures of one case from the last complete run that measured the case.
#[derive(Debug, Clone, PartialEq)]
pub struct Latest {
    /// The plan's name.
    pub name: String,
    /// `direct` or the gateway's label.
    pub gateway: String,
    /// The load point in words.
    pub load: String,
    /// Id of the run.
    pub id: String,
    /// Start of the run, Unix seconds.
    pub started_unix: i64,
    /// Verdict of the run.
    pub verdict: String,
    /// Version of the gateway; absent if unknown.
    pub version: Option<String>,
    figures: BTreeMap<String, Figure>,
}

impl Latest {
    /// The metric's estimate and its interval, in the unit that JSON reports use. `None` if the run did not
    /// measure the metric, or if only a bound is known.
    pub fn figure(&self, metric: Metric) -> Option<(f64, Option<(f64, f64)>)> {
        let figure = self.figures.get(metric.name()).filter(|figure| figure.bound.is_none())?;
        Some((figure.estimate, figure.interval))
    }
}

impl Store {
    /// The latest figures of every case, that is, of every combination of plan, gateway and load point.
    ///
    /// # Errors
    /// If another process locks the index for too long.
    pub fn latest(&self) -> Result<Vec<Latest>, HistoryError> {
        self.attempt(|index| Ok(latest(index)?))
    }
}

fn latest(index: &Connection) -> Result<Vec<Latest>, Error> {
    // Because of `max(started)`, SQLite takes the other columns from the row that has this maximum.
    let sql = "SELECT series.name, gateway, load, id, max(started) AS started, verdict, contenders, figures
        FROM series JOIN figures USING (series) JOIN runs USING (run) WHERE state = 'whole'
        GROUP BY series ORDER BY series.name, gateway <> 'direct', gateway, load";
    let mut rows = index.prepare_cached(sql)?;
    let mut rows = rows.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let gateway: String = row.get("gateway")?;
        let contenders: Vec<Contender> = parsed(row, "contenders")?;
        all.push(Latest {
            name: row.get(0)?,
            load: row.get("load")?,
            id: row.get("id")?,
            started_unix: row.get::<_, Option<i64>>("started")?.unwrap_or_default(),
            verdict: row.get::<_, Option<String>>("verdict")?.unwrap_or_default(),
            version: contenders.into_iter().find(|one| one.label == gateway).and_then(|one| one.version),
            figures: parsed(row, "figures")?,
            gateway,
        });
    }
    Ok(all)
}
