//! `few-quiet-windows`: the hypervisor disturbed more than half of a trial.

use super::{Concerns, Figures, Finding, Rule, Severity, Subject, about, evidence, percent};

const CODE: &str = "few-quiet-windows";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "note".into(),
        when: "the hypervisor disturbed more than half of the 100 ms windows of a trial".into(),
        seen: "Figures of quiet windows leave out such a trial.",
        advice: "Measure longer, at another time, or on a dedicated machine.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let disturbed = |case: &crate::Case| {
        let quiet = case.quiet.as_ref().filter(|quiet| quiet.trials_left_out > 0)?;
        let rest = match quiet.trials {
            0 => "no trial remains for quiet figures".to_string(),
            1 => "quiet figures rest on only one trial".to_string(),
            trials => format!("quiet figures rest on only {trials} trials"),
        };
        Some(Finding {
            concerns: Concerns::only(Figures::QuietWindows),
            evidence: evidence([
                ("trials", case.trials.into()),
                ("trials_left_out", quiet.trials_left_out.into()),
                ("windows", quiet.windows.into()),
                ("share_left_out", quiet.share_left_out.into()),
            ]),
            message: format!(
                "In {} of {} trials the hypervisor disturbed more than half of the windows, so {rest}. {} \
                 of all windows are left out.",
                quiet.trials_left_out,
                case.trials,
                percent(quiet.share_left_out)
            ),
            advice: "Measure more rounds, at another time, or on a dedicated machine.".into(),
            ..about(CODE, Severity::Note, &case.case)
        })
    };
    subject.measured().filter_map(|(case, _)| disturbed(case)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;

    /// Three rounds of ten windows. In the gateway's second trial, the hypervisor takes 10 ms of CPU time in
    /// each of the first `stolen` windows.
    fn run(stolen: usize) -> Run {
        let mut run = Run::closed(1);
        for round in 0..3 {
            let trial = |who: &str| via(who, round).stolen_ms(&[0; 10]);
            run.push(trial("direct").first()).push(trial("direct").last());
            let taken: Vec<u64> = (0..10).map(|window| if window < stolen { 10 } else { 0 }).collect();
            let taken = if round == 1 { taken } else { vec![0; 10] };
            run.push(via("nginx", round).stolen_ms(&taken));
        }
        run
    }

    #[test]
    fn raised_if_less_than_half_of_a_trial_is_quiet() {
        // The hypervisor takes time in five windows. The window after these five is left out too.
        let findings = raised(&run(5), CODE);
        let evidence = &findings[0].evidence;
        assert_eq!((&evidence["trials"], &evidence["trials_left_out"]), (&3.into(), &1.into()));
        assert_eq!(evidence["share_left_out"], 0.2);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_half_is_quiet_or_nothing_is_known() {
        assert_eq!(raised(&run(4), CODE), []);
        let run = Run::closed(1).with([via("nginx", 0).host(0.9, 0.0)]);
        assert_eq!(raised(&run, CODE), []);
    }
}
