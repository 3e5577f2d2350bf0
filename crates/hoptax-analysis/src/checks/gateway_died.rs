//! `gateway-died`: a gateway's process ended during the run.

use super::{Finding, Rule, Severity, Subject, about_run, evidence};
use hoptax_record::report::Load;
use hoptax_record::{Contender, DEATHS_IN_CASE, Death, DeathDuring};

const CODE: &str = "gateway-died";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when: "a gateway's process ended during the run, although hoptax had not stopped it".into(),
        seen: "hoptax starts it again, warms it up, and continues. After two deaths in a case, it leaves out \
               the rest.",
        advice: "Read the gateway's log in the run directory. If one case kills the gateway, look at its \
                 limits: memory, and open files (`ulimit -n`).",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let loads = Load::all(&subject.run.load);
    let dead = subject.run.contenders.iter().filter(|contender| !contender.deaths.is_empty());
    dead.map(|contender| finding(contender, &loads)).collect()
}

fn finding(contender: &Contender, loads: &[Load]) -> Finding {
    let deaths = &contender.deaths;
    let count = |during| deaths.iter().filter(|death| death.during == during).count();
    let in_cases: Vec<(&Load, usize)> = loads
        .iter()
        .map(|load| (load, deaths.iter().filter(|death| is_in(death, load)).count()))
        .filter(|(_, deaths)| *deaths > 0)
        .collect();
    let mut parts: Vec<String> = in_cases.iter().map(|(load, deaths)| in_case(load, *deaths)).collect();
    for (during, words) in [
        (DeathDuring::WarmUp, "while hoptax warmed it up"),
        (DeathDuring::Pause, "between two of its trials"),
    ] {
        let deaths = count(during);
        parts.extend((deaths > 0).then(|| format!("{} {words}", times(deaths))));
    }
    let is_up = deaths.iter().all(|death| death.started_again.is_some());
    let end = if is_up {
        "hoptax started it again each time."
    } else {
        "After the last time, it did not run again."
    };
    let last = &deaths[deaths.len() - 1].failure.message;
    Finding {
        evidence: evidence([
            ("gateway", contender.label.clone().into()),
            ("deaths", deaths.len().into()),
            ("cases", in_cases.iter().map(|(load, _)| load.label.clone()).collect::<Vec<_>>().into()),
            ("deaths_in_cases", in_cases.iter().map(|(_, deaths)| *deaths).collect::<Vec<_>>().into()),
            ("deaths_in_warm_ups", count(DeathDuring::WarmUp).into()),
            ("deaths_in_pauses", count(DeathDuring::Pause).into()),
            ("message", last.clone().into()),
        ]),
        message: format!("{} died: {}. {end} Its last end: {last}.", contender.label, parts.join("; ")),
        advice: "Read the gateway's log in the run directory. If one case kills it, look at its limits: \
                 memory, and open files (`ulimit -n`)."
            .into(),
        ..about_run(CODE, Severity::Warning)
    }
}

fn is_in(death: &Death, load: &Load) -> bool {
    death.during == DeathDuring::Trial && death.load.is_some_and(|index| index as usize == load.index)
}

fn in_case(load: &Load, deaths: usize) -> String {
    let left_out = if deaths < DEATHS_IN_CASE { "" } else { ", so hoptax left out the rest of this case" };
    format!("{} at {}{left_out}", times(deaths), load.label)
}

fn times(count: usize) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::Stage;

    fn death(during: DeathDuring, load: Option<u32>, started_again: Option<u32>) -> Death {
        Death { during, trial: 1, load, failure: failure(Stage::Trial, "exited with code 9"), started_again }
    }

    #[test]
    fn raised_once_for_each_gateway_that_died() {
        let mut run = Run::steady(3, 100, &[("nginx", 150), ("haproxy", 160)]);
        run.record.contenders[1].deaths = vec![
            death(DeathDuring::WarmUp, Some(0), Some(1)),
            death(DeathDuring::Trial, Some(0), Some(4)),
            death(DeathDuring::Trial, Some(0), Some(7)),
        ];
        let found = raised(&run, CODE);
        assert_eq!(found[0].evidence["gateway"], "nginx");
        assert_eq!(found[0].evidence["deaths"], 3);
        insta::assert_snapshot!(texts(&found));
    }

    #[test]
    fn a_gateway_that_was_not_started_again_is_named_so() {
        let mut run = Run::steady(3, 100, &[("nginx", 150)]);
        run.record.contenders[1].deaths = vec![death(DeathDuring::Pause, None, None)];
        insta::assert_snapshot!(raised(&run, CODE)[0].message);
    }
}
