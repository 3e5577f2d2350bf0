//! Fills the JSON documents from the report model. Each topic has its own file.

mod budgets;
mod hosts;
mod profiles;

pub(super) use budgets::gate;
pub use hosts::leg;

use super::model::Model;
use super::prices::{self, PriceList};
use hoptax_plan::Profile;
use hoptax_record::report::{self as record, NoiseFloors, ProfileDifference, Report};

/// Version of the JSON report's format.
const SCHEMA: u32 = 1;

fn differences(model: &Model) -> Vec<ProfileDifference> {
    model.profiles.differences.iter().map(|one| profiles::difference(model, one)).collect()
}

fn price_list(one: &PriceList) -> record::PriceList {
    record::PriceList {
        definition: prices::DEFINITION,
        expected_by_chance: one.expected_by_chance,
        sentences: one.sentences.clone(),
        rows: one.rows.clone(),
    }
}

fn noise_floors(model: &Model) -> NoiseFloors {
    NoiseFloors {
        definition: "root mean square over rounds of (last direct − first direct)",
        by_load: model.noise_floor.clone(),
    }
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
        prices: price_list(&model.prices),
        pairs: model.pairs.clone(),
        versions: model.versions.clone(),
        warm_ups: model.warm_ups.clone(),
        scatter: model.shares.clone(),
        cpu_placements: model.placements.clone(),
        starts: model.starts.clone(),
        profiles: model.profiles.cases.iter().map(profiles::profile).collect(),
        profile_differences: differences(model),
        slow: model.slow.clone(),
        noise_floor: noise_floors(model),
        cases: model.cases.clone(),
        capacity: model.capacity.clone(),
        findings: model.findings.clone(),
        budget: model.budget.iter().map(budgets::budget).collect(),
        replacements: model.replacements.clone(),
        notes: model.notes.clone(),
    }
}
