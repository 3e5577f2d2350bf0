//! Tables of the changes between successive versions of a gateway. The page also draws a figure of each
//! version.

use crate::model::Model;
use crate::sections::gateway_pairs::{self, Row, headings};
use crate::words::layout::{MARK, Table};
use crate::words::text::inline;
use hoptax_analysis::{GatewayPair, Versions};
use hoptax_plan::Metric;

/// Title of the section.
pub(crate) const TITLE: &str = "Versions";

/// Explains the intervals.
fn note() -> String {
    format!(
        "Each row: a version minus the version before it, in the same rounds. {MARK}: not distinguishable. \
         Intervals account for the number of versions."
    )
}

/// The changes of one gateway at one load point.
struct VersionTable<'m> {
    versions: &'m Versions,
    rows: Vec<Row>,
}

impl<'m> VersionTable<'m> {
    /// The tables of a run. A gateway has no table if at most one of its versions was measured.
    fn all(model: &'m Model) -> Vec<Self> {
        let metric = model.latency_metric();
        let table = |versions: &'m Versions| Self { versions, rows: rows(&versions.changes, metric) };
        model.versions.iter().map(table).filter(|table| !table.rows.is_empty()).collect()
    }

    /// The title with the load point: `Versions of nginx: closed loop, 32 connections`.
    fn title(&self) -> String {
        format!("{TITLE} of {}: {}", self.versions.name, self.versions.load.label)
    }
}

/// `metric` is the metric of the answer.
fn rows(changes: &[GatewayPair], metric: Metric) -> Vec<Row> {
    let same_versions =
        changes.chunk_by(|one, other| (&one.first, &one.second) == (&other.first, &other.second));
    let row = |changes: &[GatewayPair]| {
        let of = |metric: Metric| changes.iter().find(|one| one.metric == metric);
        let added = of(metric)?;
        Some(Row::new([&added.second, &added.first], added, of(Metric::CpuUsPerRequest)))
    };
    same_versions.filter_map(row).collect()
}

/// The tables for a terminal. All have the same note.
pub(crate) fn tables(model: &Model) -> Vec<Table> {
    let heads = ("versions", headings(model));
    let table = |one: &VersionTable<'_>| gateway_pairs::table(one.title(), heads, &one.rows, note());
    VersionTable::all(model).iter().map(table).collect()
}

/// The tables as Markdown, with the note below. Empty if there are none.
pub(crate) fn markdown(model: &Model) -> String {
    let table = |one: &VersionTable<'_>| {
        let rows = gateway_pairs::markdown_rows("versions", headings(model), &one.rows);
        format!("{}\n\n{rows}\n", inline(&one.title()))
    };
    let text: String = VersionTable::all(model).iter().map(table).collect();
    if text.is_empty() { text } else { format!("{text}{}\n", note()) }
}

/// The values that the page's template needs. `None` if there are no tables.
pub(crate) fn html(model: &Model) -> Option<minijinja::Value> {
    use minijinja::context;
    let table = |table: &VersionTable<'_>| {
        context! { title => table.title(), load => table.versions.load.index, rows => &table.rows }
    };
    let tables: Vec<minijinja::Value> = VersionTable::all(model).iter().map(table).collect();
    (!tables.is_empty())
        .then(|| context! { title => TITLE, note => note(), headings => headings(model), tables })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{Reported as _, fits};
    use crate::{html, markdown, terminal};
    use hoptax_analysis::fixture::{Run, features, via};
    use hoptax_plan::{GatewayKind, GitBuild, PackDriver, ProgramSource, ProgramVersion};

    fn run() -> Run {
        let mut run = Run::closed(8);
        let versions = [("v1", 150), ("v2", 151), ("main", 190)];
        let gateway = |name: &str| {
            let mut gateway = features::gateway(&format!("proxy-{name}"), &[]);
            let GatewayKind::Pack { driver, .. } = &mut gateway.kind else { panic!("a pack") };
            let git = GitBuild {
                repository: "/src/proxy".into(),
                reference: name.into(),
                commit: Some(format!("{name}00112233445566778899")),
                build: "make".into(),
                binary: "bin/proxy".into(),
            };
            let source = ProgramSource::Git(git);
            *driver = PackDriver::Version(ProgramVersion { name: name.into(), source });
            gateway
        };
        run.record.plan.gateways = versions.iter().map(|(name, _)| gateway(name)).collect();
        for round in 0..10 {
            run.direct(round, 100, 100);
            for (index, (name, us)) in versions.iter().enumerate() {
                let jitter = u64::from((round + index as u32) % 3) * 2;
                run.push(via(&format!("proxy-{name}"), round).all_at_us(us + jitter));
            }
        }
        run
    }

    #[test]
    fn every_format_shows_the_changes() {
        let model = run().model();
        let page = html(&model).expect("a page");
        assert!(
            page.contains(r#"data-each="version""#) && page.contains("proxy-main against proxy-v2"),
            "{page}"
        );
        for text in [terminal(&model, 100, false), markdown(&model)] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let words = "Versions of nginx: closed loop, 8 connections|proxy-main against proxy-v2|\
                         proxy-v2 against proxy-v1|slower|a version minus the version before it";
            for words in words.split('|') {
                assert!(text.contains(words), "`{words}` is missing:\n{text}");
            }
        }
        fits(&terminal(&model, 80, false), 80);
    }
}
