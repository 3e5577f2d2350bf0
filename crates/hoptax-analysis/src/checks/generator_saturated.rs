//! `generator-saturated`: the load generator may have been the limit.

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, about, evidence, percent};
use crate::Case;
use crate::thresholds::{BUSY, LATE};
use hoptax_record::report::{GeneratorFigures, Latency};

const CODE: &str = "generator-saturated";

/// Says what a limit of direct means for figures of a closed loop. It holds for every kind of limit.
pub(super) const LIMIT_OF_DIRECT: &str = "A throughput ratio then compares a gateway with this limit: with \
     more head-room, direct would be faster, and the ratio would be lower";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning; a note in closed loops (which always reach some limit) for direct and for cases \
                   that do not concern the answer; a note if a delay changes only percentiles above the \
                   median"
            .into(),
        when: format!(
            "a generator's busiest worker was on a CPU for more than {} of a trial, or in an open loop the \
             p99 of its send lag is above {} of the p50 of its response time",
            percent(BUSY),
            percent(LATE)
        ),
        seen: "The generator's limit then looks like the gateway's. One published limit of a server was \
               measured while wrk used 100 % of its CPU and the server 50 %.",
        advice: "Give the generator its own CPUs (`cpus:` in the plan) or its own machine. For response \
                 times, use an open loop at a rate well below the generator's limit.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    subject.measured().filter_map(|(case, _)| busy(case).or_else(|| late(subject, case))).collect()
}

/// The part of a load that one generator sends, or the whole load if there is only one.
struct Sent<'c> {
    /// Name of the generator's host; absent if there is only one.
    generator: Option<&'c str>,
    /// Largest share of a trial that a worker spent on a CPU.
    utilisation: Option<f64>,
    send_lag: Option<&'c Latency>,
    response_time: Option<&'c Latency>,
}

impl<'c> Sent<'c> {
    fn all(case: &'c Case) -> Vec<Self> {
        if case.generators.is_empty() {
            return vec![Self {
                generator: None,
                utilisation: case.cpu.as_ref().and_then(|cpu| cpu.generator_utilisation),
                send_lag: case.send_lag.as_ref(),
                response_time: case.response_time.as_ref(),
            }];
        }
        let one = |one: &'c GeneratorFigures| Self {
            generator: Some(&one.name),
            utilisation: Some(one.utilisation),
            send_lag: Some(&one.send_lag),
            response_time: Some(&one.response_time),
        };
        case.generators.iter().map(one).collect()
    }

    /// p99 of the send lag and p50 of the response time, µs.
    fn lag_and_median(&self) -> Option<(f64, f64)> {
        Some((self.send_lag?.p99?.estimate, self.response_time?.p50?.estimate))
    }

    /// Names the busiest worker.
    fn busiest_worker(&self) -> String {
        match self.generator {
            Some(host) => format!("The busiest worker of the generator on {host}"),
            None => "The generator's busiest worker".to_owned(),
        }
    }
}

/// Adds the generator to the evidence, if there are several.
fn with_generator(mut finding: Finding, sent: &Sent<'_>) -> Finding {
    finding.evidence.extend(sent.generator.map(|host| ("generator", host.into())));
    finding
}

fn busy(case: &Case) -> Option<Finding> {
    let all = Sent::all(case).into_iter().filter_map(|sent| Some((sent.utilisation?, sent)));
    let (utilisation, sent) =
        all.max_by(|(one, _), (other, _)| one.total_cmp(other)).filter(|(share, _)| *share > BUSY)?;
    let (severity, consequence) = match (case.is_direct(), case.load.is_open()) {
        // A closed loop always reaches some limit.
        (true, false) => (Severity::Note, LIMIT_OF_DIRECT),
        (true, true) => {
            (Severity::Warning, "Direct may be faster than measured, and the tax of gateways may be larger")
        }
        (false, _) => (Severity::Warning, "The gateway may be able to handle more load"),
    };
    let finding = Finding {
        evidence: evidence([("generator_utilisation", utilisation.into()), ("limit", BUSY.into())]),
        message: format!(
            "{} was on a CPU for {} of a trial, so the generator may have been the limit. \
             {consequence}.",
            sent.busiest_worker(),
            percent(utilisation)
        ),
        ..about(CODE, severity, &case.case)
    };
    Some(with_generator(finding, &sent))
}

/// True if the median send lag of a gateway is about the same as direct's, so that it cancels in the tax at
/// the median. The two may differ by a share of the tax, or by the noise floor. After an idle time, a virtual
/// machine often takes as long to wake up as a request takes. This delay is the same for direct.
fn cancels(subject: &Subject<'_>, case: &Case) -> Option<bool> {
    let usual = |case: &Case| Some(case.send_lag.as_ref()?.p50?.estimate);
    let (direct, _) = subject.direct(case.load.index)?;
    if case.is_direct() {
        return Some(true);
    }
    let tax = case.tax.as_ref()?.added_p50.as_ref()?.estimate.estimate;
    let floor = subject.noise_floor.iter().find(|floor| floor.load.index == case.load.index)?.added_p50;
    Some((usual(case)? - usual(direct)?).abs() <= (LATE * tax.abs()).max(floor.unwrap_or(0.0)))
}

/// Share of a send lag from which on a wait explains it.
const EXPLAINS: f64 = 0.5;

/// True if requests were late because they waited for a connection or a stream, which is not the generator's
/// delay. Known only for HTTP/2.
fn is_wait(case: &Case) -> Option<bool> {
    let wait = case.wait.as_ref()?;
    let p99 = |latency: &Latency| latency.p99.as_ref().map_or(0.0, |p99| p99.estimate);
    let lag = p99(case.send_lag.as_ref()?);
    Some(p99(&wait.connection).max(p99(&wait.stream)) >= EXPLAINS * lag)
}

fn late(subject: &Subject<'_>, case: &Case) -> Option<Finding> {
    if !case.load.is_open() || is_wait(case) == Some(true) {
        return None;
    }
    let all = Sent::all(case).into_iter().filter_map(|sent| Some((sent.lag_and_median()?, sent)));
    let late = all.filter(|((lag, median), _)| *lag > LATE * median);
    let ((lag, median), sent) = late.max_by(|((one, _), _), ((other, _), _)| one.total_cmp(other))?;
    let cancels = cancels(subject, case).unwrap_or(false);
    let (severity, figures) =
        if cancels { (Severity::Note, Figures::Tails) } else { (Severity::Warning, Figures::All) };
    let cause = match cancels {
        true => {
            "The median delay is the same with and without a gateway, so the tax at the median does not \
            contain it"
        }
        false => "The median delay of direct is different, so the tax at the median contains the difference",
    };
    let one = sent.generator.map_or_else(|| "One".to_owned(), |host| format!("On {host}, one"));
    // If waits are known, they do not explain the delay.
    let (or_wait, more) = match case.wait {
        Some(_) => ("", ""),
        None => (", or requests wait for a free connection", " more connections,"),
    };
    let finding = Finding {
        concerns: Concerns::only(figures),
        evidence: evidence([
            ("send_lag_p99_us", lag.into()),
            ("response_time_p50_us", median.into()),
            ("limit", LATE.into()),
        ]),
        message: format!(
            "{one} request in a hundred was sent at least {lag:.0} µs late, and the median response time is \
             {median:.0} µs. Response times include this delay. The generator causes the \
             delay{or_wait}. {cause}."
        ),
        advice: format!(
            "Give the generator its own CPUs (`cpus:` in the plan),{more} or a lower rate. Service times do \
             not include the delay."
        ),
        ..about(CODE, severity, &case.case)
    };
    Some(with_generator(finding, &sent))
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::GeneratorTrial;

    #[test]
    fn raised_by_a_busy_worker_and_not_by_a_light_load() {
        let run = Run::closed(32).with([via("nginx", 0), via("nginx", 1).generator_busy(93)]);
        let findings = raised(&run, CODE);
        insta::assert_snapshot!(texts(&findings));
        assert_eq!(findings[0].evidence["generator_utilisation"], 0.93);
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        run.push(via("nginx", 0).all_at_us(200).send_lag_us(15).generator_busy(80));
        assert_eq!(raised(&run, CODE), [], "a light load");
    }

    #[test]
    fn raised_by_send_lag_in_an_open_loop_only() {
        for (load, expected) in [(open_point(1000.0, 8, 1), 1), (crate::fixture::closed_point(8, 1), 0)] {
            let run = Run::with_load(vec![load]).with([via("nginx", 0).all_at_us(200).send_lag_us(25)]);
            assert_eq!(raised(&run, CODE).len(), expected);
        }
    }

    #[test]
    fn waits_for_streams_are_not_the_generators() {
        for (connection_us, stream_us, expected) in [(0, 0, 1), (2, 3, 1), (0, 20, 0), (20, 0, 0)] {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
            let trial = via("nginx", 0).all_at_us(200).send_lag_us(25);
            run.push(trial.waits_us(connection_us, stream_us, 0));
            let findings = raised(&run, CODE);
            assert_eq!(findings.len(), expected, "{connection_us} {stream_us}");
            let said: String = findings.iter().map(|one| format!("{} {}", one.message, one.advice)).collect();
            assert!(!said.contains("free connection") && !said.contains("more connections"), "{said}");
        }
    }

    #[test]
    fn a_delay_that_direct_has_too_concerns_the_tails_only() {
        let tails = (Severity::Note, Figures::Tails);
        // The tax is 50 µs. In the last run, the two direct trials differ by 100 µs.
        for (last_direct, of_gateway, expected) in
            [(150, 40, tails), (150, 50, (Severity::Warning, Figures::All)), (250, 50, tails)]
        {
            let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
            run.push(via("direct", 0).first().all_at_us(150).send_lag_us(40));
            run.push(via("direct", 0).last().all_at_us(last_direct).send_lag_us(40));
            run.push(via("nginx", 0).all_at_us((150 + last_direct) / 2 + 50).send_lag_us(of_gateway));
            let findings = raised(&run, CODE);
            let of = |finding: &Finding| (finding.severity, finding.concerns.figures);
            assert_eq!(findings.iter().map(of).collect::<Vec<_>>(), [expected, tails], "{last_direct}");
        }
    }

    #[test]
    fn one_of_several_generators_is_named() {
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        let trial = || via("nginx", 0).generators_us(&[("a", 200), ("b", 200)]);
        let busy = |one: &mut GeneratorTrial| one.cpu.busiest_worker_ns = one.measured_ns / 100 * 91;
        run.push(trial().of_generator(1, busy));
        let found = raised(&run, CODE);
        assert_eq!(found[0].evidence["generator"], "b");
        assert_eq!(found[0].evidence["generator_utilisation"], 0.91);
        insta::assert_snapshot!(texts(&found));

        // The send lag is too long among the requests of `a` alone, but not among all requests.
        let mut run = Run::with_load(vec![open_point(1000.0, 8, 1)]);
        let lag = via("nginx", 0).send_lag_us(90).0.load_record.expect("made with one").histograms.send_lag;
        run.push(trial().of_generator(0, |one| one.send_lag = lag));
        let found = raised(&run, CODE);
        assert_eq!(found[0].evidence["generator"], "a", "{found:?}");
        insta::assert_snapshot!(texts(&found));
    }
}
