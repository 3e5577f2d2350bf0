//! Reads events during trials, and checks that the gateways support these events.

use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawAction, RawEvent};
use crate::units::show_duration;
use crate::{Action, Event, Feature, Gateway, GatewayKind, LoadPoint, RoutePosition, Upstream};
use std::time::Duration;

/// Default downtime of a restarted upstream instance.
const USUAL_DOWN: Duration = Duration::from_millis(200);

const LONGEST_DOWN: Duration = Duration::from_secs(600);

/// Checks and converts the events, and sorts them by time.
pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<RawEvent>>,
    upstream: &Upstream,
    gateways: &[Gateway],
    load: &[LoadPoint],
) -> Vec<Event> {
    if let (Some(first), true) = (typed.first(), load.iter().any(|point| point.search.is_some())) {
        reader.fault(
            first.place,
            "a plan cannot have both events and a search for capacity",
            "write two plans; an event would change the rate that the search finds",
        );
    }
    let mut events: Vec<Event> =
        typed.into_iter().map(|typed| read_one(reader, typed, upstream, gateways, load)).collect();
    events.sort_by_key(|event| event.at);
    events
}

fn read_one(
    reader: &mut Reader<'_>,
    Placed { place, value: typed }: Placed<RawEvent>,
    upstream: &Upstream,
    gateways: &[Gateway],
    load: &[LoadPoint],
) -> Event {
    let at_place = typed.at.place;
    let at = reader.time(Some(typed.at.clone()), Duration::ZERO);
    if let Some(short) = load.iter().map(|point| point.duration).min().filter(|duration| at >= *duration) {
        reader.fault(
            at_place,
            format!(
                "{} is not within the shortest trial, which takes {}",
                show_duration(at),
                show_duration(short)
            ),
            "choose an earlier time, or raise the load's `duration`",
        );
    }
    let action = match typed.action.value {
        RawAction::Reload => Action::Reload,
        RawAction::RestartGateway => Action::RestartGateway,
        RawAction::Scrape => Action::Scrape,
        RawAction::ChangeRoute => Action::ChangeRoute {
            route: typed.route.as_ref().map_or(RoutePosition::Last, |route| position(reader, route)),
        },
        RawAction::RestartUpstream => restart_upstream(reader, place, &typed, upstream),
    };
    let belongs = [
        ("route", typed.route.map(|key| key.place), "change-route"),
        ("instance", typed.instance.map(|key| key.place), "restart-upstream"),
        ("down", typed.down.map(|key| key.place), "restart-upstream"),
    ];
    for (key, place, of) in belongs {
        if let Some(place) = place.filter(|_| action.name() != of) {
            reader.fault(place, format!("`{key}` is only for `{of}`"), format!("remove `{key}`"));
        }
    }
    let only = typed.gateway.and_then(|label| check_label(reader, label, gateways));
    let event = Event { at, action, gateway: only };
    let meant = gateways.iter().filter(|gateway| event.concerns(Some(&gateway.label)));
    for gateway in meant {
        check_supported(reader, typed.action.place, action, gateway);
    }
    if gateways.is_empty() && !action.is_upstream() {
        let message = format!("`{}` needs a gateway, but the plan has none", action.name());
        reader.fault(typed.action.place, message, "add a gateway, or remove the event");
    }
    event
}

fn position(reader: &mut Reader<'_>, typed: &Placed<crate::raw::AskText>) -> RoutePosition {
    match typed.value.0.as_str() {
        "first" => RoutePosition::First,
        "middle" => RoutePosition::Middle,
        "last" => RoutePosition::Last,
        other => {
            reader.fault(
                typed.place,
                format!("unknown position `{other}` of a route"),
                "write first, middle or last",
            );
            RoutePosition::Last
        }
    }
}

fn restart_upstream(reader: &mut Reader<'_>, place: Place, typed: &RawEvent, upstream: &Upstream) -> Action {
    let instance = typed.instance.as_ref().map_or(0, |instance| instance.value);
    let down = match &typed.down {
        None => USUAL_DOWN,
        Some(down) => reader.unit(down, crate::units::duration).unwrap_or(USUAL_DOWN),
    };
    if let Some(typed) = typed.down.as_ref().filter(|_| down > LONGEST_DOWN) {
        reader.fault(
            typed.place,
            format!("`down` is too long: {}", show_duration(down)),
            format!("write {} or less", show_duration(LONGEST_DOWN)),
        );
    }
    match upstream {
        Upstream::BuiltIn(built_in) if instance < built_in.instances => {}
        Upstream::BuiltIn(built_in) => {
            let message = format!("the upstream has no instance {instance}");
            let there = match built_in.instances {
                0 | 1 => "use 0, the only instance".to_owned(),
                several => format!("use 0 to {}", several - 1),
            };
            reader.fault(typed.instance.as_ref().map_or(place, |typed| typed.place), message, there);
        }
        Upstream::Running(_) => reader.fault(
            place,
            "hoptax cannot restart an upstream that it did not start",
            "remove the event, or remove `url` to start the built-in upstream",
        ),
    }
    Action::RestartUpstream { instance, down }
}

fn check_label(reader: &mut Reader<'_>, label: Placed<String>, gateways: &[Gateway]) -> Option<String> {
    if !gateways.iter().any(|gateway| gateway.label == label.value) {
        let labels: Vec<_> = gateways.iter().map(|gateway| gateway.label.as_str()).collect();
        let help = match crate::units::nearest(&label.value, labels.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("use one of: {}", labels.join(", ")),
        };
        reader.fault(label.place, format!("no gateway has the label `{}`", label.value), help);
    }
    Some(label.value)
}

/// Refuses an event that a gateway does not support. Gateways are comparable only if all have the same
/// events.
fn check_supported(reader: &mut Reader<'_>, place: Place, action: Action, gateway: &Gateway) {
    const ELSEWHERE: &str = "remove the event, or limit it to one gateway with `gateway: LABEL`";
    let label = &gateway.label;
    let pack = match &gateway.kind {
        GatewayKind::Pack { pack, .. } => reader.context.known.iter().find(|known| known.name == *pack),
        _ if action.is_upstream() => return,
        _ => {
            let message = format!(
                "`{label}` does not support `{}`, because it is not started from a pack",
                action.name()
            );
            reader.fault(place, message, ELSEWHERE);
            return;
        }
    };
    if let Some(pack) = pack.filter(|pack| action.reloads() && !pack.reloads) {
        let message = match pack.unsupported.get("reload") {
            Some(reason) => format!("the pack `{}` cannot reload: {reason}", pack.name),
            None => format!("the pack `{}` has no `reload`", pack.name),
        };
        reader.fault(place, message, ELSEWHERE);
    }
    if let Some(pack) = pack.filter(|pack| action == Action::Scrape && !pack.has_metrics) {
        reader.fault(place, format!("the pack `{}` has no `metrics` to read", pack.name), ELSEWHERE);
    }
    let has_routes = gateway.features().iter().any(|feature| matches!(feature, Feature::Routes { .. }));
    if matches!(action, Action::ChangeRoute { .. }) && !has_routes {
        reader.fault(
            place,
            format!("`{label}` has no routes to change"),
            format!("add the feature: {{ name: {label}, features: [{{ routes: 100 }}] }}"),
        );
    }
}
