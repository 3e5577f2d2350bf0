//! The gateways.

use super::upstream::origin;
use super::{Reader, features, hop_delay};
use crate::plan::de::one_of;
use crate::plan::raw::{Placed, RawGateway, Short};
use crate::plan::units::nearest;
use crate::plan::{Gateway, GatewayKind, HopKind, PackInfo, Upstream, variant_name};
use crate::record::DIRECT;

/// Name of a gateway that already runs.
const EXTERNAL: &str = "external";

/// More than any gateway profits from.
const MOST_WORKERS: u32 = 1024;

pub(super) fn read(
    reader: &mut Reader<'_>,
    typed: Vec<Placed<Short<RawGateway>>>,
    upstream: &Upstream,
) -> Vec<Gateway> {
    let mut gateways: Vec<Gateway> = Vec::new();
    for Placed { place, value } in typed {
        let typed = match value {
            Short::Full(typed) => typed,
            Short::Word(name) => RawGateway {
                name: Placed { place, value: name },
                label: None,
                workers: None,
                variant: None,
                features: None,
                url: None,
                pid: None,
                delay: None,
            },
        };
        let label = label(reader, &typed, &gateways);
        let kind = kind(reader, &typed, upstream);
        let kind = hop_delay::read(reader, &typed, kind);
        let gateway = Gateway { label, kind };
        let matrix = typed.features.as_ref().and_then(features::matrix);
        match matrix {
            None => gateways.push(gateway),
            Some(which) => {
                let (place, matrix) =
                    (typed.name.place, features::expand(reader, &typed, &gateway, which, upstream));
                for one in matrix {
                    if gateways.iter().any(|earlier| earlier.label == one.label) && one.label != gateway.label
                    {
                        let message = format!("two gateways are labelled `{}`", one.label);
                        reader.fault(place, message, "give this one a `label` of its own");
                    }
                    gateways.push(one);
                }
            }
        }
    }
    gateways
}

fn label(reader: &mut Reader<'_>, typed: &RawGateway, earlier: &[Gateway]) -> String {
    if let Some(label) = &typed.label {
        reader.check_file_name(label, "label");
    }
    let label = typed.label.as_ref().unwrap_or(&typed.name);
    if label.value == DIRECT {
        reader.fault(
            label.place,
            "`direct` is the baseline, which is always measured",
            if typed.label.is_some() { "choose another label" } else { "leave this entry out" },
        );
    } else if earlier.iter().any(|gateway| gateway.label == label.value) {
        reader.fault(
            label.place,
            format!("two gateways are labelled `{}`", label.value),
            format!(
                "give each its own, as in {{ name: {}, label: {}-2 }}",
                typed.name.value, typed.name.value
            ),
        );
    }
    label.value.clone()
}

fn kind(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) -> GatewayKind {
    let name = &typed.name;
    if name.value == EXTERNAL {
        return external(reader, typed);
    }
    if let Some(key) = typed.url.as_ref().map(|_| "url").or(typed.pid.as_ref().map(|_| "pid")) {
        reader.fault(
            name.place,
            format!("`{key}` belongs to a gateway that already runs, and hoptax starts `{}`", name.value),
            format!("leave out `{key}`, or write name: external, label: {}", name.value),
        );
    }
    if let ("hop-l4" | "hop-l7", Some(variant)) = (name.value.as_str(), &typed.variant) {
        reader.fault(variant.place, format!("`{}` has no variants", name.value), "leave out `variant`");
    }
    match name.value.as_str() {
        "hop-l4" => hop(reader, typed, HopKind::L4),
        "hop-l7" => hop(reader, typed, HopKind::L7),
        _ => pack(reader, typed, upstream),
    }
}

fn hop(reader: &mut Reader<'_>, typed: &RawGateway, kind: HopKind) -> GatewayKind {
    let name = &typed.name.value;
    if let Some(workers) = typed.workers.as_ref().filter(|workers| workers.value != 1) {
        reader.fault(workers.place, format!("`{name}` always has one worker"), "leave out `workers`");
    }
    if let Some(place) = features::first_place(typed) {
        reader.fault(place, format!("`{name}` has no features"), "leave out `features`");
    }
    GatewayKind::Hop(kind)
}

fn external(reader: &mut Reader<'_>, typed: &RawGateway) -> GatewayKind {
    if let Some(workers) = &typed.workers {
        reader.fault(
            workers.place,
            "hoptax does not start this gateway and cannot set its workers",
            "leave out `workers`",
        );
    }
    if let Some(place) = features::first_place(typed) {
        reader.fault(
            place,
            "hoptax does not start this gateway and cannot switch on features",
            "leave out `features`",
        );
    }
    if let Some(variant) = &typed.variant {
        reader.fault(
            variant.place,
            "hoptax does not start this gateway and cannot choose a variant",
            "leave out `variant`",
        );
    }
    if let Some(pid) = typed.pid.as_ref().filter(|pid| pid.value == 0) {
        reader.fault(pid.place, "no process has the pid 0", "leave out `pid` if it is not known");
    }
    let url = match &typed.url {
        Some(url) => origin(reader, url),
        None => {
            reader.fault(
                typed.name.place,
                "an external gateway needs a `url`",
                "write { name: external, label: mine, url: \"http://127.0.0.1:9000\" }",
            );
            String::new()
        }
    };
    GatewayKind::External { url, pid: typed.pid.as_ref().map(|pid| pid.value) }
}

fn pack(reader: &mut Reader<'_>, typed: &RawGateway, upstream: &Upstream) -> GatewayKind {
    let name = &typed.name;
    let known = reader.context.known.iter().find(|pack| pack.name == name.value).cloned();
    if known.is_none() && name.value != DIRECT {
        let help = unknown_help(&name.value, &reader.context.known);
        reader.fault(name.place, format!("unknown gateway `{}`", name.value), help);
    }
    let workers = reader.count(typed.workers.as_ref(), "workers", 1, MOST_WORKERS);
    let features = features::read(reader, typed, known.as_ref(), upstream);
    if known.as_ref().is_some_and(|known| known.intercepts) {
        refuse_what_cannot_be_intercepted(reader, name, upstream);
    }
    GatewayKind::Pack {
        pack: pack_name(reader, typed, known.as_ref()),
        workers,
        instances: features::instances(&features),
        features,
    }
}

/// The pack's name, with the variant that was asked for.
fn pack_name(reader: &mut Reader<'_>, typed: &RawGateway, known: Option<&PackInfo>) -> String {
    let name = &typed.name.value;
    let (Some(variant), Some(known)) = (&typed.variant, known) else { return name.clone() };
    let variants = || known.variants.iter().map(String::as_str);
    if known.variants.is_empty() {
        reader.fault(variant.place, format!("the pack `{name}` has no variants"), "leave out `variant`");
    } else if !variants().any(|one| one == variant.value) {
        let help = nearest(&variant.value, variants()).map_or_else(
            || format!("it has {}", one_of(&variants().collect::<Vec<_>>())),
            |near| format!("did you mean `{near}`?"),
        );
        reader.fault(variant.place, format!("the pack `{name}` has no variant `{}`", variant.value), help);
    }
    variant_name(name, &variant.value)
}

/// What a sidecar intercepts is one application, which has to be started in its namespace.
fn refuse_what_cannot_be_intercepted(reader: &mut Reader<'_>, name: &Placed<String>, upstream: &Upstream) {
    let (what, help) = match upstream {
        Upstream::Running { .. } => ("an upstream that already runs", "leave out `upstream.url`"),
        Upstream::BuiltIn(built_in) if built_in.instances > 1 => {
            ("several instances of the upstream", "write upstream: { instances: 1 }")
        }
        Upstream::BuiltIn(built_in) if built_in.port.is_some() => {
            ("an upstream at a port of your choice", "leave out `upstream.port`")
        }
        Upstream::BuiltIn(_) => return,
    };
    reader.fault(name.place, format!("`{}` cannot stand in front of {what}", name.value), help);
}

fn unknown_help(name: &str, known: &[PackInfo]) -> String {
    let names = || known.iter().map(|pack| pack.name.as_str()).chain(["hop-l4", "hop-l7", EXTERNAL]);
    nearest(name, names()).map_or_else(
        || format!("known here: {}; `--packs DIR` adds your own", names().collect::<Vec<_>>().join(", ")),
        |near| format!("did you mean `{near}`?"),
    )
}
