//! The report as one page that needs nothing else: no network, no script, its charts inside.

use super::capacity;
use super::charts::{self, ChartError, Width};
use super::figures;
use super::format::{Scale, bytes, grouped, number};
use super::model::{Belief, Model};
use super::quiet;
use super::table::{self, Cell};
use super::terminal::stage_name;
use crate::analysis::causes;
use crate::analysis::stats::{Estimate, Statistic};
use crate::analysis::{BudgetResult, Case, Latency, Load, Outcome, TargetFigures};
use minijinja::{Environment, HtmlEscape, Value, context};

/// Why the page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// The template does not fit the model: a fault of hoptax.
    #[error("the report's template is at fault: {0:#}")]
    Template(#[from] minijinja::Error),
    /// A chart could not be drawn: a fault of hoptax.
    #[error(transparent)]
    Chart(#[from] ChartError),
}

/// Escapes a text, and sets what stands between backticks as code.
fn code(text: &str) -> Value {
    let mut page = String::new();
    for (index, part) in text.split('`').enumerate() {
        let escaped = HtmlEscape(part);
        page.push_str(&if index % 2 == 1 { format!("<code>{escaped}</code>") } else { escaped.to_string() });
    }
    Value::from_safe_string(page)
}

const TEMPLATE: &str = include_str!("../../assets/report/report.html");
const STYLE: &str = include_str!("../../assets/report/report.css");

/// The page.
///
/// # Errors
/// Only by a fault of hoptax itself.
pub fn html(model: &Model) -> Result<String, HtmlError> {
    let mut environment = Environment::new();
    environment.add_filter("code", code);
    environment.add_template("report.html", TEMPLATE)?;
    environment.add_template("capacity.html", capacity::TEMPLATE)?;
    let (belief, verdict) = match model.belief() {
        _ if !model.measured_anything() => ("void", "Nothing was measured."),
        Belief::Believable => ("believable", "Believable: no finding is graver than a note."),
        Belief::Warnings => ("warnings", "To be read with its warnings."),
        Belief::Void => ("void", "Void: a finding says not to believe it."),
    };
    let loads: Vec<Value> = model.loads().map(|load| of_load(model, load)).collect::<Result<_, _>>()?;
    let page = environment.get_template("report.html")?.render(context! {
        style => STYLE,
        model,
        belief,
        verdict,
        trials => model.trials_in_words(),
        loads,
        quiet => quiet::line(model),
        prices => super::prices::html(model),
        settings => model.settings().into_iter().map(|(labels, one)| context! { labels => labels.join(", "), one })
            .collect::<Vec<_>>(),
        gateways => model.told_by_itself().map(|one| context! {
            sentence => &one.sentence,
            colour => charts::css(charts::colour(model, &one.gateway)),
        }).collect::<Vec<_>>(),
        findings => model.findings_by_rule().into_iter().map(|(finding, others)| context! { finding, others })
            .collect::<Vec<_>>(),
        failures => model.failures().into_iter().map(|(label, failure)| context! {
            label,
            stage => stage_name(failure.stage),
            message => &failure.message,
            detail => &failure.detail,
        }).collect::<Vec<_>>(),
        budget => model.budget.iter().map(of_budget).collect::<Vec<_>>(),
        searches => capacity::html(model)?,
        memory => bytes(model.environment.memory_bytes as f64),
        doubts => model.host.doubts(),
        command => command_line(&model.command),
        events => super::events::html(model),
        path => super::path::html(model),
    })?;
    Ok(page)
}

fn of_load(model: &Model, load: &Load) -> Result<Value, HtmlError> {
    let both = |chart: fn(&Model, &Load, Width) -> Result<Option<String>, ChartError>| {
        let wide = chart(model, load, Width::Wide)?.unwrap_or_default();
        let narrow = chart(model, load, Width::Narrow)?.unwrap_or_default();
        Ok::<_, ChartError>(wide + &narrow)
    };
    let floor = model.noise_floor.by_load.get(load.index).and_then(|floor| floor.added_p50);
    Ok(context! {
        label => capital(&load.label),
        is_open => load.is_open(),
        floor => floor.map(|floor| Scale::of_us(floor).value(floor)),
        tax => both(charts::tax)?,
        latency => both(charts::latency)?,
        throughput => both(charts::throughput)?,
        cpu => both(charts::cpu)?,
        mix => model.at(load).any(|case| !case.targets.is_empty()),
        failed => model.at(load).any(|case| !of_failures(case).is_empty()),
        rows => model.at(load).map(|case| of_case(model, case)).collect::<Vec<_>>(),
    })
}

fn of_case(model: &Model, case: &Case) -> Value {
    let cells = |cells: &[Cell]| cells.iter().map(of_cell).collect::<Vec<_>>();
    let tax = case.tax.as_ref();
    let main = table::row(case).map(|row| {
        let mut row = row.to_vec();
        row.insert(1, table::ratio(tax.and_then(|tax| tax.throughput_ratio.as_ref())));
        cells(&row)
    });
    let percentiles = case.response_time.as_ref().map(|latency| {
        let row = Statistic::ALL.map(|one| table::time(latency.get(one)));
        cells(&row)
    });
    let quiet = quiet::row(case).map(|row| {
        let mut row = row.to_vec();
        row.insert(1, quiet::ratio(case));
        cells(&row)
    });
    context! {
        quiet,
        gateway => &case.gateway,
        colour => charts::css(charts::colour(model, &case.gateway)),
        failed => case.failed.is_some(),
        trials => case.trials,
        failed_trials => case.failed_trials.len(),
        main,
        percentiles,
        targets => case.targets.iter().map(of_target).collect::<Vec<_>>(),
        failures => of_failures(case),
        added => tax.map(|tax| cells(&[&tax.added_p50, &tax.added_p90, &tax.added_p95, &tax.added_p99]
            .map(|one| table::added(one.as_ref())))),
        counts => case.counts.as_ref().map(of_counts),
        work => of_work(case),
        connects => of_connects(case),
    }
}

fn of_target(target: &TargetFigures) -> Value {
    let (_, row) = table::target_row(target);
    context! {
        name => &target.name,
        share => Scale::percent().value(target.share),
        cells => row[1..5].iter().map(of_cell).collect::<Vec<_>>(),
        counts => [target.scheduled, target.completed, target.ok, target.failed]
            .map(|count| grouped(count as f64)),
    }
}

/// Why requests failed and which checks answers did not pass, each with how often.
fn of_failures(case: &Case) -> Vec<(String, String)> {
    let Some(counts) = &case.counts else { return Vec::new() };
    let causes = counts.causes.iter().map(|(cause, count)| (causes::words(*cause).to_string(), *count));
    let checks = counts.failed_checks.iter().map(|(check, count)| (format!("check failed: {check}"), *count));
    causes.chain(checks).map(|(why, count)| (why, grouped(count as f64))).collect()
}

/// Connects and TLS handshakes at the median and p99, handshakes and those resumed; a dash where there were none.
fn of_connects(case: &Case) -> Vec<String> {
    let time = |estimate: Option<&Estimate>| table::time(estimate).value;
    let latency = |latency: Option<&Latency>, statistic| time(latency.and_then(|one| one.get(statistic)));
    let connections = case.connections.as_ref();
    let tls = case.tls.as_ref();
    let handshake = tls.map(|tls| &tls.handshake);
    vec![
        connections.map_or("–".into(), |one| grouped(one.opened as f64)),
        latency(case.connect.as_ref(), Statistic::P50),
        latency(case.connect.as_ref(), Statistic::P99),
        latency(case.first_byte.as_ref(), Statistic::P50),
        latency(case.first_byte.as_ref(), Statistic::P99),
        tls.map_or("–".into(), |tls| grouped(tls.tally.handshakes as f64)),
        tls.map_or("–".into(), |tls| grouped(tls.tally.resumed as f64)),
        latency(handshake, Statistic::P50),
        latency(handshake, Statistic::P99),
    ]
}

fn of_cell(cell: &Cell) -> Value {
    context! { value => &cell.value, interval => &cell.interval, distinguishable => cell.distinguishable }
}

fn of_counts(counts: &hoptax_load::record::Counts) -> Vec<String> {
    [
        counts.scheduled,
        counts.completed,
        counts.ok,
        counts.timeouts,
        counts.connect_errors + counts.resets + counts.bad_responses,
        counts.unsent,
        counts.in_flight,
    ]
    .map(|count| grouped(count as f64))
    .to_vec()
}

/// Upstream requests and connections per request, bytes per response, generator's use, PSS.
fn of_work(case: &Case) -> Vec<String> {
    let or_dash = |told: Option<String>| told.unwrap_or_else(|| "–".into());
    let ledger = case.ledger.as_ref();
    let share = |value: f64| Scale::percent().value(value);
    vec![
        or_dash(ledger.and_then(|one| one.requests_per_request).map(|value| format!("{value:.4}"))),
        or_dash(ledger.and_then(|one| one.connections_per_request).map(|value| format!("{value:.4}"))),
        or_dash(ledger.map(|one| {
            let versions = one.http_version.iter();
            versions.map(|(version, _)| version.as_str()).collect::<Vec<_>>().join(", ")
        })),
        or_dash(case.bytes.as_ref().and_then(|one| one.per_response).map(number)),
        or_dash(case.cpu.as_ref().and_then(|one| one.generator_utilisation).map(share)),
        or_dash(case.memory.as_ref().and_then(|one| one.gateway_pss_bytes_max).map(|pss| bytes(pss as f64))),
    ]
}

fn of_budget(result: &BudgetResult) -> Value {
    context! {
        case => &result.case,
        metric => result.metric.name(),
        limit => figures::limit(result),
        measured => figures::measured(result),
        outcome => match result.outcome {
            Outcome::Kept => "kept",
            Outcome::Breached => "breached",
            Outcome::Unmeasured => "not measured",
        },
    }
}

/// The command line, quoted where a shell would need it.
fn command_line(words: &[String]) -> String {
    let plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_./=:,@%+".contains(c))
    };
    let quoted = words.iter().map(|word| match plain(word) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::fixture::{Run, sample, via};

    #[test]
    fn loads_nothing_and_needs_no_script() {
        let page = html(&sample().model()).expect("drawn");
        for foreign in ["src=", "<link", "<script", "@import", "url(", "http://", "https://", "xmlns"] {
            assert!(!page.contains(foreign), "the page holds `{foreign}`");
        }
        for part in
            ["nginx adds", "envoy was not measured", "keepalive 256", "hoptax run made-up.yaml", "<svg "]
        {
            assert!(page.contains(part), "the page lacks `{part}`");
        }
        assert!(!page.contains("NaN") && page.len() < 2 << 20, "{} bytes", page.len());
    }

    #[test]
    fn targets_causes_checks_and_handshakes_are_shown() {
        let mut run = Run::mix(&[("read", 1), ("<b>", 1)]);
        let trial = via("nginx", 0).target("read", 500, 100).target("<b>", 500, 4000).errors(7);
        run.push(trial.failed_check("status 503", 3).tls(30, 10, 900));
        let page = html(&run.model()).expect("drawn");
        for part in [
            "nginx · read",
            "nginx · &lt;b&gt;",
            "were reset before the answer",
            "check failed: status 503",
            "900 µs",
        ] {
            assert!(page.contains(part), "the page lacks `{part}`");
        }
        assert!(!page.contains("<b>"));
    }

    #[test]
    fn what_comes_from_outside_cannot_become_markup() {
        let mut run = Run::steady(3, 100, &[("<script>alert(1)</script>", 150)]);
        run.record.plan_text = "# </pre><script>".into();
        run.record.plan.name = "<img onerror=x>".into();
        run.record.command.push("<b>".into());
        let page = html(&run.model()).expect("drawn");
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains("<b>"));
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_run_that_measured_nothing_has_a_page() {
        let mut run = Run::closed(1);
        run.contender("nginx", None);
        assert!(html(&run.model()).expect("drawn").contains("Nothing was measured."));
        run.push(via("nginx", 0).nothing_completed());
        assert!(!html(&run.model()).expect("drawn").contains("NaN"));
    }

    #[test]
    fn twelve_cases_of_five_long_trials_stay_below_two_megabytes() {
        let gateways: Vec<String> = (0..11).map(|index| format!("gateway-{index}")).collect();
        let labels: Vec<(&str, u64)> = gateways.iter().map(|label| (label.as_str(), 150)).collect();
        let mut run = Run::steady(5, 100, &labels);
        for record in &mut run.trials {
            let load = record.load_record.as_mut().expect("measured");
            load.windows = load.windows.iter().cycle().take(600).cloned().collect();
            load.measured_ns = 60_000_000_000;
        }
        let page = html(&run.model()).expect("drawn");
        assert!(page.len() < 2 << 20, "{} bytes", page.len());
    }

    #[test]
    fn backticks_become_code_and_nothing_becomes_markup() {
        assert_eq!(code("set `a<b` & go").to_string(), "set <code>a&lt;b</code> &amp; go");
    }

    #[test]
    fn commands_can_be_pasted() {
        let words = ["hoptax", "run", "my plan.yaml", "--set", "a=b", "it's"].map(String::from);
        assert_eq!(command_line(&words), r"hoptax run 'my plan.yaml' --set a=b 'it'\''s'");
    }
}
