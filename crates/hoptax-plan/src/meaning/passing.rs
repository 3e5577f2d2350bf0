//! Refuses gateways that do not pass a target of the plan: WebSockets, server-sent events, or requests other
//! than those to language models.

use super::http;
use super::reader::Reader;
use crate::error::Place;
use crate::raw::{Placed, RawGateway, Short};
use crate::{LlmGateway, PackInfo, ProxyForm, Target};
use hoptax_format::llm::Api;
use hoptax_format::messages::Carrier;

/// A gateway that the plan names, and the errors for targets that it does not pass.
pub(super) struct Entry {
    place: Place,
    websocket: Option<Refusal>,
    sse: Option<Refusal>,
    /// The name of a gateway that passes only requests to language models, and which.
    llm: Option<(String, LlmGateway)>,
}

/// The error, and what to do.
type Refusal = (String, &'static str);

const REMOVE: &str = "remove this gateway";

/// The packs among the entries of `gateways`, and `hop-h2`. The tunnel of a forward proxy passes everything.
pub(super) fn entries(reader: &Reader<'_>, gateways: &[Placed<Short<RawGateway>>]) -> Vec<Entry> {
    let entry = |typed: &Placed<Short<RawGateway>>| {
        let (place, name) = match &typed.value {
            Short::Word(name) => (typed.place, name),
            Short::Full(gateway) => (gateway.name.place, &gateway.name.value),
        };
        if name == "hop-h2" {
            let message = "`hop-h2` does not pass WebSockets".to_owned();
            let websocket = Some((message, "use hop-l7 or hop-l4"));
            return Some(Entry { place, websocket, sse: None, llm: None });
        }
        let (known, variant) = match &typed.value {
            Short::Word(name) => (reader.context.known.iter().find(|pack| pack.name == *name)?, None),
            Short::Full(gateway) => {
                let known = http::known(reader, gateway)?;
                match http::form(Some(known), gateway) {
                    Some(ProxyForm::Connect) => return None,
                    Some(ProxyForm::Forward) => {
                        let message = format!("`{name}` passes WebSockets only through tunnels");
                        let websocket = Some((message, "use its variant `connect`"));
                        return Some(Entry { place, websocket, sse: sse(known), llm: None });
                    }
                    None => (known, gateway.variant.as_ref().map(|variant| variant.value.as_str())),
                }
            }
        };
        let llm = known.llm_of(variant).map(|llm| (known.name.clone(), llm.clone()));
        Some(Entry { place, websocket: websocket(known), sse: sse(known), llm })
    };
    gateways.iter().filter_map(entry).collect()
}

fn websocket(known: &PackInfo) -> Option<Refusal> {
    let name = &known.name;
    match known.unsupported.get("websocket") {
        Some(reason) => Some((format!("`{name}` does not pass WebSockets: {reason}"), REMOVE)),
        None if known.websocket => None,
        None => Some((
            format!("the pack `{name}` does not say that its gateway passes WebSockets"),
            "remove this gateway, or write `websocket: true` in its gateway.yaml",
        )),
    }
}

fn sse(known: &PackInfo) -> Option<Refusal> {
    let reason = known.unsupported.get("sse")?;
    Some((format!("`{}` does not pass server-sent events as they arrive: {reason}", known.name), REMOVE))
}

/// Refuses gateways that do not pass a target of the plan.
pub(super) fn check(reader: &mut Reader<'_>, entries: Vec<Entry>, targets: &[Target]) {
    let has = |carrier| targets.iter().any(|target| target.stream.is_some_and(|one| one.carrier == carrier));
    let (websockets, events) = (has(Carrier::WebSocket), has(Carrier::Events));
    for Entry { place, websocket, sse, llm } in entries {
        if let Some((name, llm)) = llm {
            // Its pack does not say whether it passes other requests.
            if let Some((message, help)) = llm_refusal(&name, &llm, targets) {
                reader.fault(place, message, help);
            }
            continue;
        }
        let refusals = [websocket.filter(|_| websockets), sse.filter(|_| events)];
        for (message, help) in refusals.into_iter().flatten() {
            reader.fault(place, message, help);
        }
    }
}

/// The error for the first target that a gateway for language models does not pass, and what to do.
fn llm_refusal(name: &str, llm: &LlmGateway, targets: &[Target]) -> Option<(String, String)> {
    targets.iter().find_map(|target| {
        let Some(request) = &target.llm else {
            let message = format!("`{name}` passes only requests to language models");
            return Some((message, "remove this gateway, or write `llm` for each target".to_owned()));
        };
        if !llm.apis.contains(&request.api) {
            let message = format!("`{name}` does not pass requests of the API `{}`", request.api.name());
            let apis: Vec<&str> = llm.apis.iter().copied().map(Api::name).collect();
            return Some((message, format!("remove this gateway, or use the API {}", apis.join(" or "))));
        }
        let model = llm.model.as_ref().filter(|model| **model != request.model)?;
        let message = format!("`{name}` passes no requests for the model `{}`", request.model);
        Some((message, format!("remove this gateway, or write `model: {model}`")))
    })
}
