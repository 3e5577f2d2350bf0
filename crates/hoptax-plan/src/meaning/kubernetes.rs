//! Reads pods: running ones, pods that hoptax creates, and pods that it watches.

use super::reader::Reader;
use crate::de::one_of;
use crate::error::Place;
use crate::raw::{Ordered, Placed, RawKubernetes, RawToleration, RawWatchedPods, RawWorkload, Sweep, Text};
use crate::{HostKind, Pods, Toleration, WatchedPods, Workload, WorkloadKind, check_image, units};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most pods of a Job. A larger number is probably a typing error.
const MOST_PODS: u32 = 1000;

/// How long created pods may exist.
const AT_MOST: Duration = Duration::from_secs(6 * 60 * 60);

/// Least time that created pods may exist. Pulling an image and starting takes minutes.
const LEAST: Duration = Duration::from_secs(60);

/// The effects of taints.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Prefix of labels and annotations that hoptax sets.
const OURS: &str = "hoptax.io/";

/// Reads the pods of the host `host`. If they are wrong, records an error and returns `None`.
pub(super) fn host(reader: &mut Reader<'_>, host: &str, typed: &Placed<RawKubernetes>) -> Option<HostKind> {
    let before = reader.faults.len();
    let RawKubernetes { pod, container, job, deployment, namespace, context } = &typed.value;
    let namespace = namespace.as_ref().map(|name| object_name(reader, name, "namespace"));
    let context = context.as_ref().map(|name| context_name(reader, name));
    let keys = [
        ("pod", pod.as_ref().map(|pods| first_place(pods, typed.place))),
        ("job", job.as_ref().map(|typed| typed.place)),
        ("deployment", deployment.as_ref().map(|typed| typed.place)),
    ];
    let keys: Vec<_> = keys.into_iter().filter_map(|(key, place)| Some((key, place?))).collect();
    if let [(first, _), (second, place), ..] = keys.as_slice() {
        let message = format!("the host `{host}` has both {first} and {second}");
        reader.fault(*place, message, format!("remove `{second}`, or move it to a host of its own"));
        return None;
    }
    if let (Some(container), None) = (container, pod) {
        let help = "remove it; the container of created pods is called hoptax";
        reader.fault(container.place, "`container` is only for a running pod", help);
    }
    let kind = match typed.value {
        RawKubernetes { pod: Some(ref pods), .. } => {
            let pods = pod_names(reader, pods);
            let container = container.as_ref().map(|name| object_name(reader, name, "container"));
            HostKind::Kubernetes(Pods { pods, container, namespace, context })
        }
        RawKubernetes { job: Some(ref job), .. } => {
            if let Some(service) = &job.value.service {
                let help = "remove it, or write `deployment` instead of `job`";
                reader.fault(service.place, "only a deployment has a Service", help);
            }
            let parallelism = reader.count(job.value.parallelism.as_ref(), "parallelism", 1, MOST_PODS);
            let kind = WorkloadKind::Job { parallelism };
            HostKind::Workload(Workload { namespace, context, ..workload(reader, &job.value, kind) })
        }
        RawKubernetes { deployment: Some(ref deployment), .. } => {
            if let Some(parallelism) = &deployment.value.parallelism {
                let help = "remove it, or write `job` instead of `deployment`";
                reader.fault(parallelism.place, "a deployment has one pod", help);
            }
            let service = deployment.value.service.as_ref().map(|name| service_name(reader, name));
            let kind = WorkloadKind::Deployment { service };
            HostKind::Workload(Workload { namespace, context, ..workload(reader, &deployment.value, kind) })
        }
        RawKubernetes { pod: None, job: None, deployment: None, .. } => {
            let message = format!("`kubernetes` of the host `{host}` names no pods");
            let help = "add pod: NAME for a running pod, or job: { image: … } or deployment: { image: … } \
                        for pods that hoptax creates";
            reader.fault(typed.place, message, help);
            return None;
        }
    };
    (reader.faults.len() == before).then_some(kind)
}

/// Reads the pods of a gateway that already runs.
pub(super) fn watched(reader: &mut Reader<'_>, typed: &RawWatchedPods) -> WatchedPods {
    let selector = typed.selector.value.trim().to_owned();
    if selector.is_empty() || selector.starts_with('-') || selector.contains(char::is_control) {
        let message = format!("`{}` does not select pods", selector.escape_debug());
        let help = "write labels as `kubectl get pods --selector` takes them, such as app=edge";
        reader.fault(typed.selector.place, message, help);
    }
    WatchedPods {
        selector,
        container: typed.container.as_ref().map(|name| object_name(reader, name, "container")),
        namespace: typed.namespace.as_ref().map(|name| object_name(reader, name, "namespace")),
        context: typed.context.as_ref().map(|name| context_name(reader, name)),
    }
}

fn first_place(pods: &Sweep<Text>, otherwise: Place) -> Place {
    pods.0.first().map_or(otherwise, |pod| pod.place)
}

fn pod_names(reader: &mut Reader<'_>, typed: &Sweep<Text>) -> Vec<String> {
    let mut names = Vec::new();
    for Placed { place, value: Text(name) } in &typed.0 {
        let name = object_name(reader, &Placed { place: *place, value: name.clone() }, "pod");
        if names.contains(&name) {
            reader.fault(*place, format!("`{name}` appears twice"), "remove one of the two");
        }
        names.push(name);
    }
    names
}

/// What the keys of created pods say, apart from namespace and context.
fn workload(reader: &mut Reader<'_>, typed: &RawWorkload, kind: WorkloadKind) -> Workload {
    if let Err(help) = check_image(&typed.image.value) {
        let message = format!("`{}` is not the name of an image", typed.image.value.escape_debug());
        reader.fault(typed.image.place, message, help);
    }
    let secrets = typed.pull_secrets.iter().flatten();
    let secrets = secrets.map(|name| Placed { place: name.place, value: name.value.0.clone() });
    let pull_secrets = secrets.map(|name| object_name(reader, &name, "secret")).collect();
    let at_most = match &typed.at_most {
        None => AT_MOST,
        Some(typed) => {
            let at_most = reader.unit(typed, units::duration).unwrap_or(AT_MOST);
            if at_most < LEAST {
                let help = "write a time that is longer than the run, such as 6h";
                reader.fault(typed.place, "`at_most` is less than 1m", help);
            }
            at_most
        }
    };
    Workload {
        kind,
        image: typed.image.value.clone(),
        pull: typed.pull,
        pull_secrets,
        requests: quantities(reader, typed.requests.as_ref()),
        limits: quantities(reader, typed.limits.as_ref()),
        node_selector: pairs(reader, typed.node_selector.as_ref(), Values::OfLabels),
        tolerations: typed.tolerations.iter().flatten().map(|one| toleration(reader, &one.value)).collect(),
        labels: own_pairs(reader, typed.labels.as_ref(), Values::OfLabels),
        annotations: own_pairs(reader, typed.annotations.as_ref(), Values::Any),
        at_most,
        namespace: None,
        context: None,
    }
}

fn quantities(reader: &mut Reader<'_>, typed: Option<&Ordered<Placed<Text>>>) -> BTreeMap<String, String> {
    for (_, quantity) in typed.into_iter().flat_map(|pairs| &pairs.0) {
        let text = &quantity.value.0;
        if !is_quantity(text) {
            let message = format!("`{}` is not a quantity of Kubernetes", text.escape_debug());
            reader.fault(quantity.place, message, "write a number with or without a unit: 2, 500m, 1Gi");
        }
    }
    pairs(reader, typed, Values::Any)
}

/// True for a number, such as 1 or 0.5, that a suffix such as `m`, `k` or `Gi` may follow.
fn is_quantity(text: &str) -> bool {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    const SUFFIXES: [&str; 16] =
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    number.parse::<f64>().is_ok() && SUFFIXES.contains(&suffix)
}

/// Which values a mapping may have.
#[derive(Clone, Copy)]
enum Values {
    /// Values of labels: short words.
    OfLabels,
    Any,
}

/// Pairs for the pods themselves, where hoptax has labels of its own.
fn own_pairs(
    reader: &mut Reader<'_>,
    typed: Option<&Ordered<Placed<Text>>>,
    values: Values,
) -> BTreeMap<String, String> {
    for (key, _) in typed.into_iter().flat_map(|pairs| &pairs.0) {
        if key.value.starts_with(OURS) {
            let help = "give it another name";
            reader.fault(key.place, format!("hoptax itself sets keys that start with {OURS}"), help);
        }
    }
    pairs(reader, typed, values)
}

fn pairs(
    reader: &mut Reader<'_>,
    typed: Option<&Ordered<Placed<Text>>>,
    values: Values,
) -> BTreeMap<String, String> {
    let mut pairs = BTreeMap::new();
    for (key, Placed { place, value: Text(value) }) in typed.into_iter().flat_map(|pairs| &pairs.0) {
        if !is_qualified(&key.value) {
            let message = format!("`{}` is not a valid key in Kubernetes", key.value.escape_debug());
            let help =
                "use letters, digits, `.`, `_` and `-`, and a domain with a slash before it if there is one";
            reader.fault(key.place, message, help);
        }
        if matches!(values, Values::OfLabels) && !(value.is_empty() || is_label(value)) {
            let message = format!("`{}` is not the value of a label", value.escape_debug());
            let help = "use up to 63 letters, digits, `.`, `_` and `-`";
            reader.fault(*place, message, help);
        }
        pairs.insert(key.value.clone(), value.clone());
    }
    pairs
}

/// True for a name such as `app`, and for a name with a domain such as `node.kubernetes.io/instance-type`.
fn is_qualified(key: &str) -> bool {
    match key.split_once('/') {
        None => is_label(key),
        Some((domain, name)) => is_object_name(domain) && is_label(name),
    }
}

fn is_label(text: &str) -> bool {
    let at_ends = |letter: char| letter.is_ascii_alphanumeric();
    text.starts_with(at_ends)
        && text.ends_with(at_ends)
        && text.len() <= 63
        && text.chars().all(|letter| at_ends(letter) || "._-".contains(letter))
}

fn toleration(reader: &mut Reader<'_>, typed: &RawToleration) -> Toleration {
    if let Some(effect) = typed.effect.as_ref().filter(|effect| !EFFECTS.contains(&effect.value.as_str())) {
        let message = format!("`{}` is not an effect of a taint", effect.value.escape_debug());
        reader.fault(effect.place, message, format!("use {}", one_of(&EFFECTS)));
    }
    if let (Some(value), None) = (&typed.value, &typed.key) {
        reader.fault(value.place, "a toleration with a `value` needs a `key`", "add the key of the taint");
    }
    let text = |typed: &Option<Placed<String>>| typed.as_ref().map(|typed| typed.value.clone());
    Toleration { key: text(&typed.key), value: text(&typed.value), effect: text(&typed.effect) }
}

/// Checks the name of a Service, which is also a name for DNS.
fn service_name(reader: &mut Reader<'_>, name: &Placed<String>) -> String {
    let text = &name.value;
    let is_name = is_object_name(text)
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.len() <= 63
        && !text.contains('.');
    if !is_name {
        let message = format!("`{}` is not the name of a Service", text.escape_debug());
        let help = "use up to 63 lower-case letters, digits and `-`, starting with a letter";
        reader.fault(name.place, message, help);
    }
    text.clone()
}

fn context_name(reader: &mut Reader<'_>, name: &Placed<String>) -> String {
    if name.value.is_empty() || name.value.contains(char::is_control) {
        let message = format!("`{}` is not the name of a context", name.value.escape_debug());
        reader.fault(name.place, message, "write a name that `kubectl config get-contexts` prints");
    }
    name.value.clone()
}

/// Checks the name of an object of Kubernetes.
fn object_name(reader: &mut Reader<'_>, name: &Placed<String>, what: &str) -> String {
    if !is_object_name(&name.value) {
        let message = format!("`{}` is not the name of a {what}", name.value.escape_debug());
        reader.fault(name.place, message, "use only lower-case letters, digits, `-` and `.`");
    }
    name.value.clone()
}

fn is_object_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    text.starts_with(plain)
        && text.ends_with(plain)
        && text.len() <= 253
        && text.chars().all(|letter| plain(letter) || "-.".contains(letter))
}
