//! Trends: stores figures in the index, reads the figures of a case over time, and finds what else changed
//! between runs.

use super::basis::{Basis, PLAN};
use super::changes::{find_changes, of_machine};
use super::columns::{json, parsed};
use super::figures::{CaseFigures, Figure};
use super::{CaseChange, Contender, Point, Trend, TrendChoice, TrendQuery};
use hoptax_plan::Metric;
use hoptax_record::DIRECT;
use rusqlite::{Connection, Error, OptionalExtension as _, Transaction, params};
use std::collections::BTreeMap;

/// Stores the figures of a run.
pub(super) fn put(
    change: &Transaction<'_>,
    run: i64,
    name: &str,
    cases: &[CaseFigures],
) -> Result<(), Error> {
    for case in cases {
        let known = "INSERT INTO series (name, gateway, load) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
        change.prepare_cached(known)?.execute([name, &case.gateway, &case.load])?;
        let metrics: Vec<&str> = case.figures.keys().map(String::as_str).collect();
        let sql = "INSERT OR REPLACE INTO figures (series, run, metrics, figures)
            SELECT series, ?4, ?5, ?6 FROM series WHERE name = ?1 AND gateway = ?2 AND load = ?3";
        let values = params![name, case.gateway, case.load, run, metrics.join(" "), json(&case.figures)];
        change.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// The cases that have trends, sorted by name, gateway and load point.
pub(super) fn choices(index: &Connection) -> Result<Vec<TrendChoice>, Error> {
    let sql = "SELECT name, gateway, load, metrics, count(*) FROM figures JOIN series USING (series)
        GROUP BY series, metrics ORDER BY name, gateway <> 'direct', gateway, load, series";
    let mut rows = index.prepare_cached(sql)?;
    let mut rows = rows.query([])?;
    let mut choices: Vec<TrendChoice> = Vec::new();
    while let Some(row) = rows.next()? {
        let names: String = row.get(3)?;
        let names: Vec<&str> = names.split(' ').collect();
        let new = TrendChoice {
            name: row.get(0)?,
            gateway: row.get(1)?,
            load: row.get(2)?,
            metrics: Metric::ALL.into_iter().filter(|metric| names.contains(&metric.name())).collect(),
            runs: row.get(4)?,
        };
        match choices.last_mut().filter(|last| same_case(last, &new)) {
            Some(last) => {
                last.runs += new.runs;
                let either = |metric: &Metric| last.metrics.contains(metric) || new.metrics.contains(metric);
                last.metrics = Metric::ALL.into_iter().filter(either).collect();
            }
            None => choices.push(new),
        }
    }
    Ok(choices)
}

fn same_case(a: &TrendChoice, b: &TrendChoice) -> bool {
    (&a.name, &a.gateway, &a.load) == (&b.name, &b.gateway, &b.load)
}

pub(super) fn trend(index: &Connection, query: &TrendQuery) -> Result<Trend, Error> {
    let case = CaseHistory::read(index, &query.name, &query.gateway, &query.load)?;
    Ok(case.trend(query.metric))
}

/// The changes of these metrics of a case.
pub(super) fn changes(
    index: &Connection,
    case: &TrendChoice,
    metrics: &[Metric],
) -> Result<Vec<CaseChange>, Error> {
    let history = CaseHistory::read(index, &case.name, &case.gateway, &case.load)?;
    let of_metric = |metric: &Metric| {
        let (metric, trend) = (*metric, history.trend(*metric));
        trend.changes.into_iter().map(move |change| CaseChange {
            name: case.name.clone(),
            gateway: case.gateway.clone(),
            load: case.load.clone(),
            metric,
            unit: metric.unit().into(),
            change,
        })
    };
    Ok(metrics.iter().flat_map(of_metric).collect())
}

/// The figures of a case in every run that measured it, and those of direct at the same load point.
struct CaseHistory {
    runs: Vec<MeasuredRun>,
    /// Absent if the case is direct.
    direct: Option<Vec<MeasuredRun>>,
}

impl CaseHistory {
    fn read(index: &Connection, name: &str, gateway: &str, load: &str) -> Result<Self, Error> {
        let direct = (gateway != DIRECT).then(|| measured_runs(index, name, DIRECT, load)).transpose()?;
        Ok(Self { runs: measured_runs(index, name, gateway, load)?, direct })
    }

    fn trend(&self, metric: Metric) -> Trend {
        let points = points_of(&self.runs, metric);
        let changes = match &self.direct {
            None => find_changes(metric, &points, &points),
            Some(direct) => {
                let of_direct = of_machine(metric).map(|metric| points_of(direct, metric));
                find_changes(metric, &points, &of_direct.unwrap_or_default())
            }
        };
        Trend { unit: metric.unit().into(), points, changes }
    }
}

/// The figures of a case in one run.
struct MeasuredRun {
    id: String,
    started_unix: i64,
    verdict: String,
    figures: BTreeMap<String, Figure>,
    setting: Setting,
}

/// The runs that measured a case, oldest first.
fn measured_runs(
    index: &Connection,
    name: &str,
    gateway: &str,
    load: &str,
) -> Result<Vec<MeasuredRun>, Error> {
    let sql = "SELECT series FROM series WHERE name = ?1 AND gateway = ?2 AND load = ?3";
    let series: Option<i64> =
        index.prepare_cached(sql)?.query_row([name, gateway, load], |row| row.get(0)).optional()?;
    let sql =
        "SELECT id, started, verdict, hoptax, contenders, basis, figures FROM figures JOIN runs USING (run)
        WHERE series = ?1 ORDER BY started, id";
    let mut rows = index.prepare_cached(sql)?;
    let of_row = |row: &rusqlite::Row<'_>| {
        Ok(MeasuredRun {
            id: row.get("id")?,
            started_unix: row.get::<_, Option<i64>>("started")?.unwrap_or_default(),
            verdict: row.get::<_, Option<String>>("verdict")?.unwrap_or_default(),
            figures: parsed(row, "figures")?,
            setting: Setting::of(row, gateway)?,
        })
    };
    rows.query_map([series], of_row)?.collect()
}

/// The points of the runs that measured the metric.
fn points_of(runs: &[MeasuredRun], metric: Metric) -> Vec<Point> {
    let mut points = Vec::new();
    let mut before: Option<&Setting> = None;
    for run in runs {
        let Some(figure) = run.figures.get(metric.name()) else { continue };
        let now = &run.setting;
        points.push(Point {
            id: run.id.clone(),
            started_unix: run.started_unix,
            estimate: figure.estimate,
            bound: figure.bound,
            interval: figure.interval,
            verdict: run.verdict.clone(),
            version: if now.gateway == DIRECT { Some(now.hoptax.clone()) } else { now.version.clone() },
            changed: before.map(|before| now.changed_from(before)).unwrap_or_default(),
        });
        before = Some(now);
    }
    points
}

/// Properties of one run that may explain why a gateway's figure changed.
struct Setting {
    gateway: String,
    hoptax: String,
    version: Option<String>,
    basis: Basis,
}

impl Setting {
    fn of(row: &rusqlite::Row<'_>, gateway: &str) -> Result<Self, Error> {
        let contenders: Vec<Contender> = parsed(row, "contenders")?;
        let version = contenders.into_iter().find(|one| one.label == gateway).and_then(|one| one.version);
        let (hoptax, basis) = (row.get("hoptax")?, parsed(row, "basis")?);
        Ok(Self { gateway: gateway.to_owned(), hoptax, version, basis })
    }

    /// Describes the differences from the previous run.
    fn changed_from(&self, before: &Self) -> Vec<String> {
        let mut changed = Vec::new();
        let mut compare = |what: &str, before: &str, now: &str| {
            if before != now {
                changed.push(format!("{what} {} → {}", known(before), known(now)));
            }
        };
        // The version of direct is the version of the upstream. A built-in upstream has the version of
        // hoptax, which the code below compares.
        let gateway = if self.gateway == DIRECT { "upstream" } else { &*self.gateway };
        let version = |one: &Self| {
            one.version.clone().filter(|version| gateway != "upstream" || *version != one.hoptax)
        };
        compare(gateway, &version(before).unwrap_or_default(), &version(self).unwrap_or_default());
        compare("hoptax", &before.hoptax, &self.hoptax);
        for (machine, now) in &self.basis.machines {
            // If there was no such machine, the plan differs too.
            let Some(before) = before.basis.machines.get(machine) else { continue };
            let of = if machine.is_empty() { String::new() } else { format!(" of {machine}") };
            compare(&format!("host{of}"), &before.host, &now.host);
            // If the host differs, list only the host, because another host usually has other properties too.
            if before.host == now.host {
                for (name, now) in &now.properties {
                    let before = before.properties.get(name).map_or("", String::as_str);
                    compare(&format!("{name}{of}"), before, now);
                }
            }
        }
        let of = |basis: &Basis| basis.gateways.get(&self.gateway).cloned();
        if of(&self.basis) != of(&before.basis) {
            changed.push(format!("{gateway} configuration"));
        }
        if self.basis.plan != before.basis.plan {
            changed.push(PLAN.into());
        }
        changed
    }
}

fn known(value: &str) -> &str {
    if value.is_empty() { "unknown" } else { value }
}
