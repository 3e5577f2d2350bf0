//! Conversions of load points, searches, events and budgets.

use super::kept;
use super::shared::to_disk_all;
use crate::{Action, Budget, Event, Figure, LoadPoint, LoadSelector, Objective, RoutePosition, Search, Term};

impl From<&LoadPoint> for kept::LoadPoint {
    fn from(point: &LoadPoint) -> Self {
        Self {
            shape: point.shape.clone(),
            connections: point.connections,
            duration: point.duration,
            requests: point.requests,
            requests_per_connection: point.requests_per_connection,
            retry: point.retry,
            http: point.http,
            from: point.from.clone(),
            search: point.search.as_ref().map(kept::Search::from),
            left_out: point.left_out.clone(),
        }
    }
}

impl From<kept::LoadPoint> for LoadPoint {
    fn from(point: kept::LoadPoint) -> Self {
        Self {
            shape: point.shape,
            connections: point.connections,
            duration: point.duration,
            requests: point.requests,
            requests_per_connection: point.requests_per_connection,
            retry: point.retry,
            http: point.http,
            from: point.from,
            search: point.search.map(Search::from),
            left_out: point.left_out,
        }
    }
}

impl From<&Search> for kept::Search {
    fn from(search: &Search) -> Self {
        let Search { ref objectives, from, to, precision, confirm } = *search;
        Self { objectives: to_disk_all(objectives), from, to, precision, confirm }
    }
}

impl From<kept::Search> for Search {
    fn from(search: kept::Search) -> Self {
        let kept::Search { objectives, from, to, precision, confirm } = search;
        let objectives = objectives.into_iter().map(Objective::from).collect();
        Self { objectives, from, to, precision, confirm }
    }
}

impl From<&Objective> for kept::Objective {
    fn from(objective: &Objective) -> Self {
        Self { text: objective.text.clone(), terms: to_disk_all(&objective.terms) }
    }
}

impl From<kept::Objective> for Objective {
    fn from(objective: kept::Objective) -> Self {
        Self { text: objective.text, terms: objective.terms.into_iter().map(Term::from).collect() }
    }
}

impl From<&Term> for kept::Term {
    fn from(term: &Term) -> Self {
        match *term {
            Term::Time { of, below } => {
                let of = match of {
                    Figure::Percentile(share) => kept::Figure::Percentile(share),
                    Figure::Mean => kept::Figure::Mean,
                    Figure::Max => kept::Figure::Max,
                };
                Self::Time { of, below }
            }
            Term::Errors { below } => Self::Errors { below },
            Term::Throughput { least } => Self::Throughput { least },
        }
    }
}

impl From<kept::Term> for Term {
    fn from(term: kept::Term) -> Self {
        match term {
            kept::Term::Time { of, below } => {
                let of = match of {
                    kept::Figure::Percentile(share) => Figure::Percentile(share),
                    kept::Figure::Mean => Figure::Mean,
                    kept::Figure::Max => Figure::Max,
                };
                Self::Time { of, below }
            }
            kept::Term::Errors { below } => Self::Errors { below },
            kept::Term::Throughput { least } => Self::Throughput { least },
        }
    }
}

impl From<&Event> for kept::Event {
    fn from(event: &Event) -> Self {
        Self { at: event.at, action: event.action.into(), gateway: event.gateway.clone() }
    }
}

impl From<kept::Event> for Event {
    fn from(event: kept::Event) -> Self {
        Self { at: event.at, action: event.action.into(), gateway: event.gateway }
    }
}

impl From<Action> for kept::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Reload => Self::Reload,
            Action::ChangeRoute { route } => Self::ChangeRoute {
                route: match route {
                    RoutePosition::First => kept::Route::First,
                    RoutePosition::Middle => kept::Route::Middle,
                    RoutePosition::Last => kept::Route::Last,
                },
            },
            Action::RestartUpstream { instance, down } => Self::RestartUpstream { instance, down },
            Action::RestartGateway => Self::RestartGateway,
            Action::Scrape => Self::Scrape,
        }
    }
}

impl From<kept::Action> for Action {
    fn from(action: kept::Action) -> Self {
        match action {
            kept::Action::Reload => Self::Reload,
            kept::Action::ChangeRoute { route } => Self::ChangeRoute {
                route: match route {
                    kept::Route::First => RoutePosition::First,
                    kept::Route::Middle => RoutePosition::Middle,
                    kept::Route::Last => RoutePosition::Last,
                },
            },
            kept::Action::RestartUpstream { instance, down } => Self::RestartUpstream { instance, down },
            kept::Action::RestartGateway => Self::RestartGateway,
            kept::Action::Scrape => Self::Scrape,
        }
    }
}

impl From<&Budget> for kept::Budget {
    fn from(budget: &Budget) -> Self {
        let LoadSelector { open, connections, rate } = budget.load;
        Self {
            gateway: budget.gateway.clone(),
            metric: budget.metric,
            load: kept::LoadSelector { open, connections, rate },
            against: budget.against.clone(),
            max: budget.max,
            min: budget.min,
            max_change: budget.max_change,
            min_change: budget.min_change,
        }
    }
}

impl From<kept::Budget> for Budget {
    fn from(budget: kept::Budget) -> Self {
        let kept::LoadSelector { open, connections, rate } = budget.load;
        Self {
            metric: budget.metric,
            gateway: budget.gateway,
            load: LoadSelector { open, connections, rate },
            against: budget.against,
            max: budget.max,
            min: budget.min,
            max_change: budget.max_change,
            min_change: budget.min_change,
        }
    }
}
