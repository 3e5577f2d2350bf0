//! Fills the JSON documents from the report model. Each topic has its own file.

mod budgets;
mod capacity;
mod cases;
mod comparison;
mod figures;
mod hosts;
mod load;
mod pairs;
mod prices;
mod profiles;
mod taxes;

pub(super) use budgets::gate;
pub(super) use cases::path;
pub use comparison::comparison;
pub use figures::estimate;
pub(super) use figures::{latency, throughput};
pub use hosts::leg;
pub(super) use load::load;
pub(super) use prices::figures as prices;
pub(super) use taxes::tax;

use super::model::Model;
use hoptax_plan::Profile;
use hoptax_record::report::{ProfileDifference, Report};

/// Version of the JSON report's format.
const SCHEMA: u32 = 1;

fn differences(model: &Model) -> Vec<ProfileDifference> {
    model.profiles.differences.iter().map(|one| profiles::difference(model, one)).collect()
}

/// The JSON report.
pub fn report(model: &Model) -> Report {
    Report {
        schema: SCHEMA,
        name: model.name.clone(),
        interrupted: model.interrupted,
        hoptax: model.hoptax.clone(),
        started: model.started.clone(),
        ended: model.ended.clone(),
        seed: model.seed,
        command: model.command.clone(),
        plan_text: model.plan_text.clone(),
        rounds: model.rounds,
        stopped: model.stopped,
        target: model.target.clone(),
        profile: match model.profile {
            Profile::Stock => "stock",
            Profile::Equalised => "equalised",
        },
        trials_planned: model.trials_planned,
        trials_recorded: model.trials_recorded,
        environment: model.environment.clone(),
        host: model.host.clone(),
        hosts: hosts::hosts(model),
        contenders: model.contenders.clone(),
        answer: model.answer.clone(),
        summary: model.summary.clone(),
        prices: self::prices::list(&model.prices),
        pairs: model.pairs.iter().map(pairs::pair).collect(),
        versions: model.versions.iter().map(pairs::versions).collect(),
        warm_ups: model.warm_ups.clone(),
        cpu_placements: model.placements.clone(),
        starts: model.starts.clone(),
        profiles: model.profiles.cases.iter().map(profiles::profile).collect(),
        profile_differences: differences(model),
        noise_floor: taxes::noise_floors(&model.noise_floor),
        cases: model.cases.iter().map(cases::case).collect(),
        capacity: model.capacity.iter().map(capacity::capacity).collect(),
        findings: model.findings.clone(),
        budget: model.budget.iter().map(budgets::budget).collect(),
        replacements: model.replacements.clone(),
        notes: model.notes.clone(),
    }
}
