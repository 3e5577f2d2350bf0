//! Pods of Kubernetes that hoptax creates for a run, and removes after it.
//!
//! The objects are removed by a process of their own, which also notices the death of hoptax ([`Remover`]).
//! If the whole machine dies, the cluster removes them after `at_most` (`objects.rs`). `hoptax hosts down`
//! finds what remains by its labels.

use super::cluster::{Cluster, Remover};
use super::objects::{self, CONTAINER, Objects, Origin};
use super::pods::{self, Pod, State};
use super::setup::Setup;
use anyhow::{Context as _, anyhow, bail, ensure};
use hoptax_format::random;
use hoptax_plan::{Host, HostKind, Pods, Workload};
use procfs::process::Process;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// Time limit for an answer of the cluster.
const ANSWER: Duration = Duration::from_secs(60);
/// Time for pods to become ready. The cluster may first start nodes, and pull the image.
const READY: Duration = Duration::from_secs(10 * 60);
/// Time for which a pod may be stuck, because a second attempt to pull an image may succeed.
const STUCK: Duration = Duration::from_secs(30);
/// Interval at which hoptax asks for the state of the pods.
const POLL: Duration = Duration::from_secs(1);

/// Creates the pods of all hosts of a plan that need pods, and waits until they are ready. Adds a [`Remover`]
/// for them to `removers` before it creates anything. Returns the hosts, each with its pods.
pub(super) fn up(setup: &Setup<'_>, removers: &mut Vec<Remover>) -> anyhow::Result<Vec<Host>> {
    let hosts = workloads(&setup.plan.hosts);
    if hosts.is_empty() {
        return Ok(Vec::new());
    }
    let run = format!("{:08x}", random::from_system() as u32);
    let origin = origin();
    let directory = super::command::directory(setup.home)?;
    let clusters = clusters(&hosts);
    for cluster in &clusters {
        // Check first that the context and the cluster exist. If not, the error says so, and there is nothing
        // to remove.
        cluster.list(&objects::of_run(&run)).output(None, ANSWER)?;
    }
    for (index, cluster) in clusters.iter().enumerate() {
        let removes = cluster.remove(&objects::of_run(&run));
        removers.push(Remover::start(removes, directory.join(format!("kubernetes-{run}-{index}.log")))?);
    }
    for (host, workload) in &hosts {
        let objects = Objects {
            plan: setup.plan,
            host: &host.name,
            workload,
            hoptax: host.hoptax.as_deref(),
            run: &run,
            origin: &origin,
        };
        create(&objects).with_context(|| format!("host {}", host.name))?;
        (setup.progress)(&format!("host {}: created {}", host.name, objects.name()));
    }
    let ready = |(host, workload): &(&Host, &Workload)| {
        await_pods(setup, host, workload, &run).with_context(|| format!("host {}", host.name))
    };
    hosts.iter().map(ready).collect()
}

/// Removes what [`up`] has created.
///
/// # Errors
/// The errors of all clusters.
pub(super) fn end(removers: &mut Vec<Remover>) -> Vec<anyhow::Error> {
    removers.drain(..).filter_map(|remover| remover.remove().err()).collect()
}

/// Removes objects that earlier runs of this plan have left, if this user started them on this machine.
/// Returns a list of what was removed. Fails if the cluster cannot be asked, a run is still in progress, or
/// somebody else has started a run.
pub(super) fn down(setup: &Setup<'_>) -> anyhow::Result<Vec<String>> {
    let origin = origin();
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for cluster in clusters(&workloads(&setup.plan.hosts)) {
        let text = cluster.list(&objects::of_plan(&setup.plan.name)).output(None, ANSWER)?;
        for (run, leftover) in leftovers(&text)? {
            let removes = cluster.remove(&objects::of_run(&run));
            let by_hand = format!("To remove its objects: {}", removes.shown());
            if leftover.origin.from != origin.from {
                kept.push(format!("{} has started run {run}. {by_hand}", leftover.origin.from));
            } else if is_alive(&leftover.origin.process) {
                kept.push(format!(
                    "run {run} is in progress (process {}). Stop it first",
                    leftover.origin.process
                ));
            } else {
                removes.output(None, READY)?;
                gone.push(leftover.names.join(", "));
            }
        }
    }
    if kept.is_empty() { Ok(gone) } else { Err(anyhow!("{}", kept.join("\n"))) }
}

/// Objects of one run.
struct Leftover {
    origin: Origin,
    names: Vec<String>,
}

/// The objects by run, from `kubectl get`.
fn leftovers(text: &str) -> anyhow::Result<BTreeMap<String, Leftover>> {
    let list: Value = serde_json::from_str(text).context("kubectl printed no list of objects")?;
    let mut runs: BTreeMap<String, Leftover> = BTreeMap::new();
    for object in list["items"].as_array().into_iter().flatten() {
        let Some(run) = objects::run_of(object) else { continue };
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let from = text(&metadata["annotations"][objects::FROM]);
        let process = text(&metadata["annotations"][objects::PROCESS]);
        let new = || Leftover { origin: Origin { from, process }, names: Vec::new() };
        let leftover = runs.entry(run.to_owned()).or_insert_with(new);
        leftover.names.push(format!("{} {}", text(&object["kind"]).to_lowercase(), text(&metadata["name"])));
    }
    Ok(runs)
}

/// The hosts whose pods hoptax creates.
fn workloads(hosts: &[Host]) -> Vec<(&Host, &Workload)> {
    let mut found = Vec::new();
    for host in hosts {
        if let HostKind::Workload(workload) = &host.kind {
            found.push((host, workload));
        }
    }
    found
}

/// The namespaces of these hosts, each once.
fn clusters(hosts: &[(&Host, &Workload)]) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    for (_, workload) in hosts {
        let cluster = Cluster::of(workload);
        if !clusters.contains(&cluster) {
            clusters.push(cluster);
        }
    }
    clusters
}

fn create(objects: &Objects<'_>) -> anyhow::Result<()> {
    let create = Cluster::of(objects.workload).kubectl(&["create", "--filename=-", "--output=json"]);
    let first = create.output(Some(objects.first().to_string()), ANSWER)?;
    let first: Value = serde_json::from_str(&first).context("kubectl printed no object")?;
    let uid = first["metadata"]["uid"].as_str().context("kubectl printed an object without a uid")?;
    if let Some(second) = objects.second(uid) {
        create.output(Some(second.to_string()), ANSWER)?;
    }
    Ok(())
}

/// Waits until all pods of a host are ready.
fn await_pods(setup: &Setup<'_>, host: &Host, workload: &Workload, run: &str) -> anyhow::Result<Host> {
    let cluster = Cluster::of(workload);
    let selector = format!("--selector={}", objects::of_host(run, &host.name));
    let list = cluster.kubectl(&["get", "pods", &selector, "--output=json"]);
    let needed = host.kind.machines();
    let began = Instant::now();
    let mut stuck: Option<Instant> = None;
    let mut reported = String::new();
    loop {
        ensure!(!setup.interrupted.load(Ordering::Relaxed), "interrupted while its pods started");
        let pods = pods::read(&list.output(None, ANSWER)?).context("kubectl printed no list of pods")?;
        if pods.len() == needed && pods.iter().all(|pod| pod.state == State::Ready) {
            return reachable(host, workload, pods);
        }
        let describe = cluster.kubectl(&["describe", "pods", &selector]).shown();
        let look = format!(
            "Run `{describe}`. To watch the pods, run `kubectl get pods --watch` in another terminal"
        );
        stuck = stuck.filter(|_| pods.iter().any(|pod| matches!(pod.state, State::Stuck(_))));
        for pod in &pods {
            match &pod.state {
                State::Failed(why) => bail!("pod {}: {why}", pod.name),
                State::Stuck(why) if stuck.get_or_insert_with(Instant::now).elapsed() > STUCK => {
                    bail!("pod {}: {why}", pod.name)
                }
                _ => {}
            }
        }
        let status = status(&pods, needed);
        if began.elapsed() > READY {
            let limit = humantime::format_duration(READY);
            let events = events(&cluster, run);
            bail!("{status} after {limit}.{events} {look}");
        }
        if status != reported {
            (setup.progress)(&format!("host {}: {status}", host.name));
            reported = status;
        }
        thread::sleep(POLL);
    }
}

/// The number of pods that are ready, and what the first other pod waits for.
fn status(pods: &[Pod], needed: usize) -> String {
    let ready = pods.iter().filter(|pod| pod.state == State::Ready).count();
    let why = pods.iter().find_map(|pod| match &pod.state {
        State::Waits(why) | State::Stuck(why) if !why.is_empty() => Some(format!(" ({}: {why})", pod.name)),
        _ => None,
    });
    format!("{ready} of {needed} pods are ready{}", why.unwrap_or_default())
}

/// The warnings of the cluster about objects of a run. They say why there are no pods: for example, a quota
/// is exceeded.
fn events(cluster: &Cluster, run: &str) -> String {
    let list = cluster.kubectl(&["get", "events", "--field-selector=type=Warning", "--output=json"]);
    let list: Value =
        list.output(None, ANSWER).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let about = format!("hoptax-{run}-");
    let mut texts: Vec<&str> = Vec::new();
    for event in list["items"].as_array().into_iter().flatten() {
        let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
        if let Some(message) = event["message"].as_str().filter(|_| name.starts_with(&about))
            && !texts.contains(&message)
        {
            texts.push(message);
        }
    }
    texts.iter().map(|text| format!(" The cluster says: {text}.")).collect()
}

/// The host with pods that are ready.
fn reachable(host: &Host, workload: &Workload, pods: Vec<Pod>) -> anyhow::Result<Host> {
    let address = match pods.as_slice() {
        [pod] => Some(pod.address.with_context(|| format!("pod {} has no address", pod.name))?),
        _ => None,
    };
    let kind = HostKind::Kubernetes(Pods {
        pods: pods.into_iter().map(|pod| pod.name).collect(),
        container: Some(CONTAINER.to_owned()),
        namespace: workload.namespace.clone(),
        context: workload.context.clone(),
    });
    Ok(Host { kind, address: address.or(host.address), ..host.clone() })
}

/// This process.
fn origin() -> Origin {
    let name = |variable: &str| std::env::var(variable).ok().filter(|text| !text.is_empty());
    let user = name("USER").or_else(|| name("LOGNAME"));
    let user = user.unwrap_or_else(|| rustix::process::getuid().as_raw().to_string());
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let started = Process::myself().and_then(|process| process.stat()).map_or(0, |stat| stat.starttime);
    Origin { from: format!("{user}@{machine}"), process: format!("{} {started}", std::process::id()) }
}

/// Whether the process of an annotation still runs on this machine.
fn is_alive(process: &str) -> bool {
    let mut numbers = process.split(' ').map(|text| text.parse::<u64>().ok());
    let (Some(Some(pid)), Some(Some(started))) = (numbers.next(), numbers.next()) else { return false };
    let Ok(pid) = i32::try_from(pid) else { return false };
    let stat = Process::new(pid).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.starttime == started && stat.state != 'Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_are_grouped_by_run() {
        let object = |kind: &str, name: &str, run: &str| {
            serde_json::json!({
                "kind": kind,
                "metadata": {
                    "name": name,
                    "labels": { "hoptax.io/run": run },
                    "annotations": { "hoptax.io/from": "a@b", "hoptax.io/process": "7 9" },
                },
            })
        };
        let items = [object("Job", "x", "1"), object("Service", "y", "1"), object("Job", "z", "2")];
        let runs = leftovers(&serde_json::json!({ "items": items }).to_string()).expect("a list");
        let names: Vec<_> =
            runs.iter().map(|(run, left)| format!("{run}: {}", left.names.join(", "))).collect();
        assert_eq!(names, ["1: job x, service y", "2: job z"]);
        assert_eq!(runs["1"].origin, Origin { from: "a@b".into(), process: "7 9".into() });
    }

    #[test]
    fn this_process_runs_and_an_older_one_with_its_id_does_not() {
        let process = origin().process;
        assert!(is_alive(&process), "{process}");
        assert!(!is_alive(&format!("{} 1", std::process::id())));
        assert!(!is_alive("") && !is_alive("x y") && !is_alive("99999999999 1"));
    }

    #[test]
    fn the_status_says_what_pods_wait_for() {
        let pod = |name: &str, state| Pod { name: name.into(), index: 0, address: None, state };
        let pods = [pod("a", State::Ready), pod("b", State::Waits("no node".into()))];
        insta::assert_snapshot!([status(&pods, 3), status(&[], 1)].join("\n"));
    }
}
