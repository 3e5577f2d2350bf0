//! Driver `docker`: a gateway in a container, on the host's network.
//!
//! `docker run` stays in the foreground under a guard, like any other gateway, and forwards the stop signal.
//! But the container is a child of the Docker engine, so it survives if `docker run` is killed. Therefore the
//! guard always runs `docker rm --force` at the end, however hoptax ended. If the guard was killed, hoptax
//! removes the container. If both were killed at the same moment, the next run that uses containers finds the
//! container by its label and removes it.
//!
//! The gateway's directories are mounted at the same paths as on the host, and the gateway uses the host's
//! ports. So both drivers use the same configuration.

use super::packs::Pack;
use hoptax_host::programs::{output_of, output_within, search_path};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Label of hoptax's containers. Its value is the process id of the hoptax that created the container.
const LABEL: &str = "hoptax.pid";

/// Time limit for a query to the engine.
const ANSWER_BOUND: Duration = Duration::from_secs(20);

/// Time limit for a version command. This time includes creating and removing a container.
const VERSION_BOUND: Duration = Duration::from_secs(60);

/// A gateway's program in an image that is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    docker: PathBuf,
    /// The image's name in the plan or the pack.
    pub image: String,
    /// The digest of the image's configuration, which identifies the image.
    pub id: String,
    /// The gateway's program in the image.
    pub program: String,
}

/// Parameters of a container.
#[derive(Debug)]
pub struct Run<'a> {
    /// Name of the container.
    pub name: &'a str,
    /// Directories of the host, mounted at the same paths in the container; the first is the working
    /// directory.
    pub directories: &'a [&'a Path],
    /// CPUs that the container may use; empty means all.
    pub cpus: &'a [u32],
    /// Descriptor limit of each process.
    pub descriptors: u64,
    /// Environment variables.
    pub environment: &'a BTreeMap<String, String>,
    /// Command and arguments; never empty.
    pub command: &'a [String],
}

impl Container {
    /// Finds the image on this machine. `image` overrides the image of `pack`.
    ///
    /// # Errors
    /// If docker is not installed, its engine does not answer, or the image is missing. The message says what
    /// to do.
    pub fn find(pack: &Pack, image: Option<&str>) -> Result<Self, String> {
        let name = pack.name();
        let Some(start) = &pack.manifest().docker else {
            return Err(format!(
                "the pack `{name}` does not describe how to start it in a container: it has no key `docker`"
            ));
        };
        let image = image.unwrap_or(&start.image);
        let docker = search_path().into_iter().map(|directory| directory.join("docker"));
        let docker = docker.into_iter().find(|path| path.is_file()).ok_or_else(|| {
            format!(
                "`driver: docker` needs docker, but `docker` is not on PATH. Install it, or \
                            start {name} as a process"
            )
        })?;
        let mut asks = Command::new(&docker);
        asks.args(["image", "inspect", "--format", "{{.Id}}", image]).stdin(Stdio::null());
        let asked = output_within(&mut asks, ANSWER).map_err(|error| {
            let help = "Check that `docker info` works";
            format!("cannot run {} image inspect: {error}. {help}", docker.display())
        })?;
        if asked.status.success() {
            let id = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
            let program = start.program.as_ref().unwrap_or(&pack.manifest().binary).clone();
            return Ok(Self { docker, image: image.to_owned(), id, program });
        }
        let message = String::from_utf8_lossy(&asked.stderr).trim().to_owned();
        if message.to_ascii_lowercase().contains("no such image") {
            return Err(format!(
                "the image {image} is not on this machine. Get it with: {}",
                how_to_get(pack, image)
            ));
        }
        Err(format!(
            "docker does not answer ({message}). Start its engine, and check that `docker info` works"
        ))
    }

    /// The container for `image`, or for the image of `pack`, even if the image is not on this machine. Used
    /// to show a configuration.
    pub fn preview(pack: &Pack, image: Option<&str>) -> Self {
        let start = pack.manifest().docker.as_ref();
        let program = start.and_then(|start| start.program.as_ref()).unwrap_or(&pack.manifest().binary);
        let image = image.or_else(|| Some(start?.image.as_str())).unwrap_or_default();
        Self {
            docker: "docker".into(),
            image: image.to_owned(),
            id: "unknown".into(),
            program: program.clone(),
        }
    }

    /// The program's version. `None` if the program does not start, takes too long, or prints something that
    /// `pattern` does not match.
    pub fn version(&self, command: &[String], pattern: &str) -> Option<String> {
        let (program, arguments) = command.split_first()?;
        let name = new_name("version");
        let mut words = self.words(&["run", "--rm", "--pull", "never", "--network", "none", "--name", &name]);
        words.extend(["--entrypoint", program, &self.image].map(str::to_owned));
        words.extend(arguments.iter().cloned());
        let said = output_of(&words, VERSION_BOUND);
        if said.is_none() {
            hoptax_host::guard::finish(&self.remove(&name));
        }
        let pattern = regex_lite::Regex::new(pattern).ok()?;
        Some(pattern.captures(&said?)?.get(1)?.as_str().to_owned())
    }

    /// The command that runs a container in the foreground until it ends.
    pub fn run(&self, run: &Run<'_>) -> Vec<String> {
        let mut words = self.words(&["run", "--rm", "--init", "--pull", "never", "--network", "host"]);
        // hoptax already writes the gateway's output to files. A second copy in Docker's log would cost the
        // engine time.
        words.extend(["--log-driver", "none", "--name", run.name].map(str::to_owned));
        words.push(format!("--label={LABEL}={}", std::process::id()));
        words.push(format!("--ulimit=nofile={0}:{0}", run.descriptors));
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        words.push(format!("--user={user}:{group}"));
        if !run.cpus.is_empty() {
            let cpus: Vec<_> = run.cpus.iter().map(ToString::to_string).collect();
            words.push(format!("--cpuset-cpus={}", cpus.join(",")));
        }
        for directory in run.directories {
            words.push(format!("--mount=type=bind,source={0},target={0}", directory.display()));
        }
        words.push(format!("--workdir={}", run.directories[0].display()));
        words.extend(run.environment.iter().map(|(name, value)| format!("--env={name}={value}")));
        let (program, arguments) = run.command.split_first().expect("checked with the pack");
        words.extend([format!("--entrypoint={program}"), self.image.clone()]);
        words.extend(arguments.iter().cloned());
        words
    }

    /// The command that removes a container, running or not.
    pub fn remove(&self, name: &str) -> Vec<String> {
        self.words(&["rm", "--force", "--volumes", name])
    }

    /// Process id of the first process of a running container: docker's init, the ancestor of the gateway.
    pub fn process(&self, name: &str) -> Option<u32> {
        let words = self.words(&["inspect", "--format", "{{.State.Pid}}", name]);
        let pid = output_of(&words, ANSWER_BOUND)?.trim().parse().ok()?;
        // A remote engine reports a process id of its own machine, which may not exist here.
        let here = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok();
        (pid > 0 && here).then_some(pid)
    }

    /// Removes containers that remain because their hoptax and guard were killed at the same moment.
    pub fn remove_abandoned(&self) {
        let format = format!("{{{{.Names}}}} {{{{.Label \"{LABEL}\"}}}}");
        let filter = format!("label={LABEL}");
        let words = self.words(&["ps", "--all", "--filter", &filter, "--format", &format]);
        for line in output_of(&words, ANSWER_BOUND).unwrap_or_default().lines() {
            if let Some((name, pid)) = line.split_once(' ')
                && !Path::new("/proc").join(pid).exists()
            {
                hoptax_host::guard::finish(&self.remove(name));
            }
        }
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let docker = self.docker.to_string_lossy().into_owned();
        std::iter::once(docker).chain(words.iter().map(|word| (*word).to_owned())).collect()
    }
}

/// Explains how to get an image of a pack.
pub fn how_to_get(pack: &Pack, image: &str) -> String {
    let start = pack.manifest().docker.as_ref();
    match start.filter(|start| start.image == image).and_then(|start| start.dockerfile.as_ref()) {
        Some(file) => {
            format!("hoptax gateways {0} --write . && docker build -t {image} -f {0}/{file} {0}", pack.name())
        }
        None => format!("docker pull {image}"),
    }
}

/// Time limit for an answer of docker's engine.
const ANSWER: Duration = Duration::from_secs(30);

/// A unique container name that contains `what`.
pub fn new_name(what: &str) -> String {
    let drawn = hoptax_format::random::from_system();
    format!("hoptax-{what}-{drawn:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_uses_the_hosts_network_and_paths() {
        let container = Container {
            docker: "/usr/bin/docker".into(),
            image: "nginx:1.27".into(),
            id: "sha256:0".into(),
            program: "nginx".into(),
        };
        let environment = BTreeMap::from([("GOMAXPROCS".to_owned(), "2".to_owned())]);
        let words = container.run(&Run {
            name: "hoptax-front-1",
            directories: &[Path::new("/r/rendered/front"), Path::new("/r/logs/front")],
            cpus: &[1, 3],
            descriptors: 20_000,
            environment: &environment,
            command: &["nginx".into(), "-c".into(), "/r/rendered/front/nginx.conf".into()],
        });
        let line = words.join(" ");
        let words = "/usr/bin/docker run --rm --init --pull never --network host|--name hoptax-front-1|\
                     --ulimit=nofile=20000:20000|--cpuset-cpus=1,3|\
                     --mount=type=bind,source=/r/rendered/front,target=/r/rendered/front|\
                     --mount=type=bind,source=/r/logs/front,target=/r/logs/front|\
                     --workdir=/r/rendered/front|--env=GOMAXPROCS=2";
        for part in words.split('|') {
            assert!(line.contains(part), "`{part}` in {line}");
        }
        assert!(line.ends_with("--entrypoint=nginx nginx:1.27 -c /r/rendered/front/nginx.conf"), "{line}");
        assert_eq!(container.remove("x").join(" "), "/usr/bin/docker rm --force --volumes x");
    }

    #[test]
    fn container_names_are_unique_and_valid() {
        let (one, other) = (new_name("front"), new_name("front"));
        assert_ne!(one, other);
        assert!(one.starts_with("hoptax-front-") && one.len() == 29, "{one}");
    }
}
