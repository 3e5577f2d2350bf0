//! The report as an HTML page in a single file. The file contains all data, charts and scripts, so the page
//! needs no network.
//!
//! Sentences, verdict and tables are in the page itself. The script adds charts and controls. If scripts are
//! disabled, the page still shows a chart of the tax. The page's security policy forbids all network
//! requests. It also forbids all scripts except the scripts of this page.

use crate::assets::{CHARTS, STYLE};
use crate::charts::{self, ChartError, Width};
use crate::formats::page::Page;
use crate::model::{Belief, Model};
use crate::sections::{belief, capacity, found_in, precision, quiet};
use crate::words::figures;
use crate::words::format::{Scale, bytes, grouped, number};
use crate::words::table;
use crate::words::text::{capital, same_holds_for, stage_name};
use base64::Engine as _;
use hoptax_analysis::{BudgetResult, Case, Finding, Latency, Load, Outcome, TargetFigures, causes, headline};
use hoptax_format::spec::Retry;
use hoptax_record::dir::RenderedFile;
use hoptax_stats::{Estimate, Statistic};
use minijinja::{Environment, HtmlEscape, Value, context};

/// The reason why the page could not be generated.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// The template does not match the model. This is a bug of hoptax.
    #[error("cannot fill the report's template, which is a bug of hoptax: {0:#}")]
    Template(#[from] minijinja::Error),
    /// A chart could not be drawn. This is a bug of hoptax.
    #[error(transparent)]
    Chart(#[from] ChartError),
}

/// Escapes a text for HTML, and formats text between backticks as code.
fn code(text: &str) -> Value {
    let mut page = String::new();
    for (index, part) in text.split('`').enumerate() {
        let escaped = HtmlEscape(part);
        page.push_str(&if index % 2 == 1 { format!("<code>{escaped}</code>") } else { escaped.to_string() });
    }
    Value::from_safe_string(page)
}

const TEMPLATE: &str = include_str!("../../assets/report/report.html");
/// A script that marks the page before anything is drawn, so that elements that need scripts become visible.
const BEGIN: &str = "document.documentElement.classList.add(\"js\");";
/// The script of the page. All its files share one scope.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("../../assets/report/numbers.js"),
    include_str!("../../assets/report/looks.js"),
    include_str!("../../assets/report/state.js"),
    include_str!("../../assets/report/whiskers.js"),
    include_str!("../../assets/report/charts.js"),
    include_str!("../../assets/report/lines.js"),
    include_str!("../../assets/report/overtime.js"),
    include_str!("../../assets/report/flames.js"),
    include_str!("../../assets/report/tables.js"),
    include_str!("../../assets/report/figures.js"),
    include_str!("../../assets/report/main.js"),
    "})();\n",
);

/// Generates the report as an HTML page.
///
/// # Errors
/// Only if hoptax has a bug.
pub fn html(model: &Model) -> Result<String, HtmlError> {
    let mut environment = Environment::new();
    environment.add_filter("code", code);
    environment.add_template("report.html", TEMPLATE)?;
    environment.add_template("capacity.html", capacity::TEMPLATE)?;
    let (belief, verdict, because) = judged(model);
    let data = Page::new(model);
    let loads: Vec<Value> = model.loads().map(|load| of_load(model, load)).collect::<Result<_, _>>()?;
    let page = environment.get_template("report.html")?.render(context! {
        style => STYLE,
        model => &model.report,
        policy => policy(&[BEGIN, CHARTS, SCRIPT]),
        begin => BEGIN,
        library => CHARTS,
        script => SCRIPT,
        data => data.json(),
        sweeps => data.has_sweeps(),
        fallback => fallback(model)?,
        belief,
        verdict,
        because,
        question => model.question(),
        starts => crate::sections::starts::html(model),
        about_starts => crate::sections::starts::NOTE,
        chart_of_starts => charts::Chart::Starts.title(),
        message => model.message,
        chart_of_messages => (model.measures().len() > 1).then(|| charts::Chart::TaxMessage.title_of(model)),
        trials => model.trials_in_words(),
        loads,
        quiet => quiet::line(model),
        origin_of_shares => model.origin_of_shares(),
        busier => crate::sections::busier::line(model),
        waking => crate::sections::waking::line(model),
        pairs => crate::sections::gateway_pairs::html(model),
        versions => crate::sections::versions::html(model),
        prices => crate::prices::html(&model.prices),
        profiles => crate::profiles::html(model),
        about_profiles => crate::profiles::NOTE,
        slow => crate::slow::html(model),
        about_slow => crate::slow::NOTE,
        settings => model.settings().into_iter().map(|(labels, one)| context! { labels => labels.join(", "), one })
            .collect::<Vec<_>>(),
        over => budgets(model, |outcome| matches!(outcome, Outcome::Exceeded | Outcome::Unmeasured)),
        undecided => budgets(model, |outcome| outcome == Outcome::Inconclusive),
        variants => model.prices.sentences.iter().map(|one| context! {
            gateway => &one.gateway,
            words => one.in_full(),
            colour => charts::css(charts::colour(model, &one.gateway)),
        }).collect::<Vec<_>>(),
        gateways => model.summaries_outside_prices().into_iter().map(|(one, others)| context! {
            gateway => &one.gateway,
            // The name is removed from the sentence, because the template shows it separately.
            sentence => one.sentence.strip_prefix(&one.gateway).unwrap_or(&one.sentence),
            details => if others.is_empty() { one.details.join(" ") } else { same_holds_for(&others) },
            colour => charts::css(charts::colour(model, &one.gateway)),
        }).collect::<Vec<_>>(),
        findings => model.findings_by_rule().into_iter().map(|(finding, others)| context! {
            finding,
            cases => found_in::groups(model, finding.case.as_deref(), &others).iter()
                .map(|group| context! { contenders => group.contenders(), loads => group.loads() })
                .collect::<Vec<_>>(),
            count => others.len() + 1,
            evidence => evidence(finding),
        })
            .collect::<Vec<_>>(),
        failures => model.failures().into_iter().map(|group| context! {
            label => group.label,
            stage => stage_name(group.failure.stage),
            message => &group.failure.message,
            detail => &group.failure.detail,
            others => same_holds_for(&group.others),
        }).collect::<Vec<_>>(),
        budget => model.budget.iter().map(of_budget).collect::<Vec<_>>(),
        searches => capacity::html(model),
        idle => model.cpus_in_words(),
        memory => bytes(model.environment.memory_bytes as f64),
        doubts => crate::sections::host::doubts(&model.host),
        hosts => crate::sections::hosts::html(model),
        rendered => rendered(model),
        command => command_line(&model.command),
        events => crate::sections::events::html(model),
        path => crate::sections::path::html(model),
        http2 => crate::sections::http2::html(model),
        messages => crate::sections::messages::html(model)?,
        generators => crate::sections::generators::html(model),
    })?;
    Ok(page)
}

/// The verdict's CSS class, its name, and the reason for the verdict.
fn judged(model: &Model) -> (&'static str, String, String) {
    if !model.measured_anything() {
        return ("void", "Nothing was measured.".into(), String::new());
    }
    let verdict = model.belief();
    let class = match verdict {
        Belief::Believable => "believable",
        Belief::Warnings => "warnings",
        Belief::Void => "void",
    };
    let codes = belief::codes(model).join(", ");
    let others = belief::others(model);
    let because = match verdict {
        Belief::Believable if !others.is_empty() => "No warning concerns the answer.".into(),
        _ if codes.is_empty() => "There are no findings.".into(),
        Belief::Believable => format!("No finding is worse than a note: {codes}."),
        Belief::Warnings | Belief::Void => format!("Found: {codes}."),
    };
    (class, format!("{}.", verdict.name()), because + &others)
}

/// A content security policy that allows these scripts and forbids all requests.
fn policy(scripts: &[&str]) -> String {
    let digest = |script: &&str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
        format!("'sha256-{}'", base64::engine::general_purpose::STANDARD.encode(digest))
    };
    let digests: Vec<String> = scripts.iter().map(digest).collect();
    format!(
        "default-src 'none'; script-src {}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
        form-action 'none'",
        digests.join(" ")
    )
}

/// The charts for pages without scripts: the first charts at the load point of the latency headline, or
/// response times after starts.
fn fallback(model: &Model) -> Result<String, ChartError> {
    if model.measured_starts() {
        let wide = charts::after_starts(model, Width::Wide)?.unwrap_or_default();
        let narrow = charts::after_starts(model, Width::Narrow)?.unwrap_or_default();
        let heading = charts::Chart::Starts.title();
        return Ok(format!("<p><strong>{heading}</strong></p>{wide}{narrow}"));
    }
    let Some(load) = headline::for_latency(&mut model.loads()) else { return Ok(String::new()) };
    let mut text = String::new();
    for measure in model.measures() {
        let wide = charts::tax(model, load, &measure, Width::Wide)?.unwrap_or_default();
        let narrow = charts::tax(model, load, &measure, Width::Narrow)?.unwrap_or_default();
        let (heading, label) = (capital(&measure.axis), HtmlEscape(&load.label));
        text.push_str(&format!("<p><strong>{heading}, {label}</strong></p>{wide}{narrow}"));
    }
    Ok(text)
}

fn rendered(model: &Model) -> Vec<Value> {
    let by_gateway = model.rendered.chunk_by(|one, other| one.gateway == other.gateway);
    by_gateway
        .map(|files| {
            let file = |file: &RenderedFile| {
                context! { name => &file.name, text => &file.text, left_out => file.left_out }
            };
            context! { label => &files[0].gateway, files => files.iter().map(file).collect::<Vec<_>>() }
        })
        .collect()
}

fn evidence(finding: &Finding) -> Vec<(String, String)> {
    let shown = |value: &serde_json::Value| match value {
        serde_json::Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    finding.evidence.iter().map(|(name, value)| (name.replace('_', " "), shown(value))).collect()
}

fn of_load(model: &Model, load: &Load) -> Result<Value, ChartError> {
    Ok(context! {
        index => load.index,
        label => capital(&load.label),
        mix => model.at(load).any(|case| !case.targets.is_empty()),
        failed => model.at(load).any(|case| !of_failures(case).is_empty()),
        retries => load.retry == Retry::IdleClose,
        rows => model.at(load).map(|case| of_case(model, case)).collect::<Vec<_>>(),
        precision => precision::html(model, load)?,
    })
}

fn of_case(model: &Model, case: &Case) -> Value {
    let tax = case.tax.as_ref();
    let main = table::row(case).map(|row| {
        let mut row = row.to_vec();
        row.insert(1, table::ratio(tax.and_then(|tax| tax.throughput_ratio.as_ref())));
        row
    });
    let latency = case.response_time.as_ref();
    let percentiles = latency.map(|latency| Statistic::ALL.map(|one| table::time(latency.get(one))));
    let quiet = quiet::row(case).map(|row| {
        let mut row = row.to_vec();
        row.insert(1, quiet::ratio(case));
        row
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
        added => tax.map(|tax| [&tax.added_p50, &tax.added_p90, &tax.added_p95, &tax.added_p99]
            .map(|one| table::added(one.as_ref()))),
        counts => case.counts.as_ref().map(|counts| of_counts(counts, case.load.retry)),
        work => of_work(case),
        connects => of_connects(case),
    }
}

fn of_target(target: &TargetFigures) -> Value {
    let (_, row) = table::target_row(target);
    context! {
        name => &target.name,
        share => Scale::percent().value(target.share),
        cells => &row[1..5],
        counts => [target.scheduled, target.completed, target.ok, target.failed]
            .map(|count| grouped(count as f64)),
    }
}

/// Causes of failed requests, then failed checks of responses. The second element is the number of requests.
fn of_failures(case: &Case) -> Vec<(String, String)> {
    let Some(counts) = &case.counts else { return Vec::new() };
    let causes = counts.causes.iter().map(|(cause, count)| (causes::words(*cause).to_string(), *count));
    let checks = counts.failed_checks.iter().map(|(check, count)| (format!("check failed: {check}"), *count));
    causes.chain(checks).map(|(why, count)| (why, grouped(count as f64))).collect()
}

/// Cells about connections and TLS. They contain the number of opened connections, the connect time (p50,
/// p99), the time to the first byte (p50, p99), the number of TLS handshakes, the number of resumed
/// handshakes, and the handshake time (p50, p99). If a figure is missing, its cell contains a dash.
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

/// Cells about outcomes. The number of retried requests has a cell only if the load point has retries.
fn of_counts(counts: &hoptax_format::record::Counts, retry: Retry) -> Vec<String> {
    let outcomes = [
        counts.scheduled,
        counts.completed,
        counts.ok,
        counts.timeouts,
        counts.connect_errors + counts.resets + counts.bad_responses,
        counts.unsent,
        counts.in_flight,
    ];
    let retried = (retry == Retry::IdleClose).then_some(counts.retried);
    outcomes.into_iter().chain(retried).map(|count| grouped(count as f64)).collect()
}

/// Cells about work: upstream requests per request, upstream connections per request, HTTP versions, bytes
/// per response, the generator's CPU share, and the gateway's memory (PSS).
fn of_work(case: &Case) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
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

/// Sentences about the budgets with the outcomes for which `is_meant` returns true.
fn budgets(model: &Model, is_meant: impl Fn(Outcome) -> bool) -> Vec<String> {
    model.budget.iter().filter(|result| is_meant(result.outcome)).map(figures::sentence).collect()
}

fn of_budget(result: &BudgetResult) -> Value {
    context! {
        case => &result.case,
        metric => result.metric.name(),
        limit => figures::limit(result),
        measured => figures::measured(result),
        outcome => result.outcome.words(),
        reason => figures::reason(result),
    }
}

/// The command line, with its words quoted for a shell.
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

/// The page's text for tests, without style, scripts and data.
#[cfg(test)]
pub(crate) fn words(model: &Model) -> String {
    let page = html(model).expect("drawn");
    let mut rest = &*page;
    let mut text = String::new();
    for (begin, end) in [("<style>", "</style>")].into_iter().chain([("<script", "</script>"); 4]) {
        let (before, after) = rest.split_once(begin).expect("an element");
        text.push_str(before);
        rest = after.split_once(end).expect("its end").1;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::*;

    #[test]
    fn is_complete_without_scripts_and_requests_nothing() {
        let page = html(&sample().model()).expect("drawn");
        let text = words(&sample().model());
        for foreign in
            ["src=", "<link", "<script", "@import", "url(", "http://", "https://", "xmlns", "style=\"width"]
        {
            assert!(!text.contains(foreign), "the page holds `{foreign}`");
        }
        let words = "<strong>nginx</strong> adds|<strong>envoy</strong> was not measured|keepalive 256|\
                     hoptax run made-up.yaml|<svg |<table>";
        for part in words.split('|') {
            assert!(text.contains(part), "the page lacks `{part}`");
        }
        assert!(!text.contains("NaN") && page.len() < 2 << 20, "{} bytes", page.len());
    }

    #[test]
    fn the_policy_allows_only_our_scripts() {
        let page = html(&sample().model()).expect("drawn");
        let policy = page.split_once("Content-Security-Policy\" content=\"").expect("a policy").1;
        let policy = policy.split_once('"').expect("its end").0.replace("&#x27;", "'").replace("&#x2f;", "/");
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 3, "{policy}");
        for (scripts, one) in page.split("<script>").skip(1).enumerate() {
            let script = one.split_once("</script>").expect("its end").0;
            let digest = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
            let digest = base64::engine::general_purpose::STANDARD.encode(digest);
            assert!(policy.contains(&digest), "script {scripts} would not run");
        }
        for script in [CHARTS, SCRIPT, BEGIN] {
            assert!(!script.contains("</script") && !script.contains("<!--"));
        }
    }

    #[test]
    fn rendered_files_are_in_the_page_escaped() {
        let mut model = sample().model();
        let file = |gateway: &str, text: &str, left_out| RenderedFile {
            gateway: gateway.into(),
            name: "a.conf".into(),
            text: text.into(),
            left_out,
        };
        model.rendered = vec![file("nginx", "</pre><b>", 0), file("haproxy", "listen", 7)];
        let page = html(&model).expect("drawn");
        assert!(page.contains("&lt;&#x2f;pre&gt;&lt;b&gt;") && page.contains("7 bytes more"), "not there");
        assert!(!page.contains("</pre><b>"));
    }

    #[test]
    fn targets_causes_checks_and_handshakes_are_shown() {
        let mut run = Run::mix(&[("read", 1), ("<b>", 1)]);
        let trial = via("nginx", 0).target("read", 500, 100).target("<b>", 500, 4000).errors(7);
        run.push(trial.failed_check("status 503", 3).tls(30, 10, 900));
        let page = words(&run.model());
        let words = "nginx · read|nginx · &lt;b&gt;|were reset before the answer|check failed: status 503|\
                     900 µs";
        for part in words.split('|') {
            assert!(page.contains(part), "the page lacks `{part}`");
        }
        assert!(!page.contains("<b>"));
    }

    #[test]
    fn requests_that_were_sent_again_have_a_column_if_the_load_has_retries() {
        for (retry, shown) in [(Retry::Off, false), (Retry::IdleClose, true)] {
            let mut run = Run::with_load(vec![hoptax_plan::LoadPoint { retry, ..closed_point(8, 1) }]);
            run.push(via("nginx", 0).retried(123));
            let page = words(&run.model());
            assert_eq!(page.contains("<th scope=\"col\">retried</th>"), shown, "{retry:?}");
            assert_eq!(page.contains("<td>123</td>"), shown, "{retry:?}");
        }
    }

    #[test]
    fn untrusted_text_cannot_become_markup() {
        let mut run = Run::steady(3, 100, &[("<script>alert(1)</script>", 150)]);
        run.record.plan_text = "# </pre><script>".into();
        run.record.plan.name = "<img onerror=x>".into();
        run.record.command.push("<b>".into());
        let page = words(&run.model());
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains("<b>"));
        assert!(page.contains("&lt;script&gt;"));
    }

    #[test]
    fn a_run_that_measured_nothing_has_a_page() {
        let mut run = Run::closed(1);
        run.contender("nginx", None);
        assert!(words(&run.model()).contains("Nothing was measured."));
        run.push(via("nginx", 0).nothing_completed());
        assert!(!words(&run.model()).contains("NaN"));
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
