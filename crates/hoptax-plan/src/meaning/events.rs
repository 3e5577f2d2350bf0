//! Events: what happens while trials are measured, and whether those it is meant for can do it.

use super::reader::Reader;
use crate::error::Place;
use crate::event::USUAL_DOWN;
use crate::raw::{Placed, RawAction, RawEvent};
use crate::units::show_duration;
use crate::{Action, Ask, Event, Feature, Gateway, GatewayKind, LoadPoint, Upstream};
use std::time::Duration;

/// Longer, and it is a run without that instance.
const LONGEST_DOWN: Duration = Duration::from_secs(600);

/// Understands them, in the order in which they happen.
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
            "events and a search for a capacity cannot be in one plan",
            "what happens meanwhile would decide which rate is held; make two plans of it",
        );
    }
    let mut events: Vec<Event> =
        typed.into_iter().map(|typed| one(reader, typed, upstream, gateways, load)).collect();
    events.sort_by_key(|event| event.at);
    events
}

fn one(
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
                "nothing is measured at {}: the shortest trial takes {}",
                show_duration(at),
                show_duration(short)
            ),
            "let it happen earlier, or make the load's `duration` longer",
        );
    }
    let action = match typed.action.value {
        RawAction::Reload => Action::Reload,
        RawAction::RestartGateway => Action::RestartGateway,
        RawAction::ChangeRoute => Action::ChangeRoute {
            route: typed.route.as_ref().map_or(Ask::Last, |route| place_of(reader, route)),
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
            reader.fault(place, format!("`{key}` belongs to `{of}`"), format!("leave out `{key}`"));
        }
    }
    let only = typed.gateway.and_then(|label| known(reader, label, gateways));
    let event = Event { at, action, gateway: only };
    let meant = gateways.iter().filter(|gateway| event.concerns(Some(&gateway.label)));
    for gateway in meant {
        can(reader, typed.action.place, action, gateway);
    }
    if gateways.is_empty() && !action.is_upstream() {
        let message = format!("`{}` is for gateways, and there is none", action.name());
        reader.fault(typed.action.place, message, "add a gateway, or leave the event out");
    }
    event
}

fn place_of(reader: &mut Reader<'_>, typed: &Placed<crate::raw::AskText>) -> Ask {
    match typed.value.0.as_str() {
        "first" => Ask::First,
        "middle" => Ask::Middle,
        "last" => Ask::Last,
        other => {
            reader.fault(
                typed.place,
                format!("there is no place `{other}` among routes"),
                "write first, middle or last",
            );
            Ask::Last
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
            format!("away for {}", show_duration(down)),
            format!("write {} or less", show_duration(LONGEST_DOWN)),
        );
    }
    match upstream {
        Upstream::BuiltIn(built_in) if instance < built_in.instances => {}
        Upstream::BuiltIn(built_in) => {
            let message = format!("the upstream has no instance {instance}");
            let there = match built_in.instances {
                1 => "it has one, 0".to_owned(),
                several => format!("it has {several}, 0 to {}", several - 1),
            };
            reader.fault(typed.instance.as_ref().map_or(place, |typed| typed.place), message, there);
        }
        Upstream::Running(_) => reader.fault(
            place,
            "an upstream that already runs cannot be restarted",
            "leave the event out, or leave out `url` to start the built-in upstream",
        ),
    }
    Action::RestartUpstream { instance, down }
}

fn known(reader: &mut Reader<'_>, label: Placed<String>, gateways: &[Gateway]) -> Option<String> {
    if !gateways.iter().any(|gateway| gateway.label == label.value) {
        let labels: Vec<_> = gateways.iter().map(|gateway| gateway.label.as_str()).collect();
        let help = match crate::units::nearest(&label.value, labels.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("gateways are {}", labels.join(", ")),
        };
        reader.fault(label.place, format!("no gateway is labelled `{}`", label.value), help);
    }
    Some(label.value)
}

/// Refuses what a gateway cannot do: a report whose gateways met different events compares nothing.
fn can(reader: &mut Reader<'_>, place: Place, action: Action, gateway: &Gateway) {
    const ELSEWHERE: &str = "leave the event out, or name with `gateway` the one that it is meant for";
    let label = &gateway.label;
    let pack = match &gateway.kind {
        GatewayKind::Pack { pack, .. } => reader.context.known.iter().find(|known| known.name == *pack),
        _ if action.is_upstream() => return,
        _ => {
            let message = format!(
                "`{label}` is not started from a pack, so nothing says how to do `{}`",
                action.name()
            );
            reader.fault(place, message, ELSEWHERE);
            return;
        }
    };
    if let Some(pack) = pack.filter(|pack| action.reloads() && !pack.reloads) {
        let message = match pack.unsupported.get("reload") {
            Some(reason) => format!("the pack `{}` cannot reload: {reason}", pack.name),
            None => format!("the pack `{}` does not say how to reload", pack.name),
        };
        reader.fault(place, message, ELSEWHERE);
    }
    let has_routes = gateway.features().iter().any(|feature| matches!(feature, Feature::Routes { .. }));
    if matches!(action, Action::ChangeRoute { .. }) && !has_routes {
        reader.fault(
            place,
            format!("`{label}` has no routes to change"),
            format!("give it some: {{ name: {label}, features: [{{ routes: 100 }}] }}"),
        );
    }
}
