//! `event-failed`: an event of the plan did not happen or did not finish.

use super::{Finding, Rule, Severity, Subject, about, evidence};

const CODE: &str = "event-failed";

pub(super) fn rule() -> Rule {
    Rule {
        code: CODE,
        severity: "warning".into(),
        when:
            "an event of the plan failed or was due after the end of the trial, or the route that it added \
               never answered"
                .into(),
        seen: "A failed event seems to cost nothing: a gateway that refuses a reload keeps its old \
               configuration.",
        advice: "Read the gateway's log in the run directory. Schedule the event earlier, or make the trials \
                 longer.",
    }
}

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let of_case = subject.measured().flat_map(|(case, trials)| {
        case.events.iter().filter(|event| !event.failed.is_empty()).map(move |event| {
            let failed = trials.len() as u64 - u64::from(event.trials);
            Finding {
                evidence: evidence([
                    ("event", event.event.clone().into()),
                    ("at_s", event.at_s.into()),
                    ("trials_failed", failed.into()),
                    ("trials", trials.len().into()),
                    ("reasons", serde_json::json!(event.failed)),
                ]),
                message: format!(
                    "{} at {} s failed or did not finish in {failed} of {} trials: {}.",
                    event.event,
                    event.at_s,
                    trials.len(),
                    event.failed.join("; ")
                ),
                ..about(CODE, Severity::Warning, &case.case)
            }
        })
    });
    of_case.collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::*;
    use super::*;
    use hoptax_record::EventRecord;
    use hoptax_record::plan::{Action, Event};
    use std::time::Duration;

    fn run(failed: Option<&str>) -> Run {
        let mut run = Run::closed(1);
        for round in 0..3 {
            let mut made = via("nginx", round);
            made.0.events.push(EventRecord {
                event: Event { at: Duration::from_millis(200), action: Action::Reload, gateway: None },
                at_ns: Some(200_000_000),
                done_ns: failed.is_none().then_some(201_000_000),
                failed: failed.filter(|_| round == 1).map(str::to_owned),
                new_route: None,
            });
            run.push(made);
        }
        run
    }

    #[test]
    fn raised_by_one_refused_reload() {
        let findings = raised(&run(Some("no such command")), CODE);
        assert_eq!(findings[0].evidence["trials_failed"], 1);
        insta::assert_snapshot!(texts(&findings));
    }

    #[test]
    fn not_raised_if_every_event_finished() {
        assert_eq!(raised(&run(None), CODE), []);
    }
}
