//! Runs a job of a workflow as GitHub does: its shell steps, the steps of our own actions, and stand-ins for
//! the actions of others. It knows only the expressions that our files contain, and panics on any other.

use crate::support::{Json, Scratch};
use crate::workflows::{parsed, root};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) type Context = BTreeMap<String, String>;

/// One machine of GitHub, and the artifacts of all jobs.
pub(super) struct Runner {
    pub(super) scratch: Scratch,
    /// Values of expressions: `github.event.pull_request.number` and the like.
    pub(super) context: Context,
    /// Environment variables of all steps.
    pub(super) environment: Context,
    /// What the steps of the last job printed.
    pub(super) printed: String,
    jobs: usize,
}

/// State of a job, or of a composite action within one.
struct Scope {
    context: Context,
    action: Option<PathBuf>,
    failed: bool,
}

impl Runner {
    pub(super) fn new(context: &[(&str, &str)]) -> Self {
        let context = context.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let mut runner = Self {
            scratch: Scratch::new(),
            context,
            environment: Context::new(),
            printed: String::new(),
            jobs: 0,
        };
        for folder in ["bin", "artifacts"] {
            std::fs::create_dir(runner.path(folder)).expect("made");
        }
        let path = std::env::var("PATH").expect("a path");
        for (name, value) in [
            ("PATH", format!("{}:{path}", runner.path("bin").display())),
            ("HOME", runner.path("").display().to_string()),
            ("GITHUB_REPOSITORY", runner.context["github.repository"].clone()),
            ("GITHUB_SERVER_URL", "https://github.com".to_owned()),
            ("GITHUB_RUN_ID", "99".to_owned()),
        ] {
            runner.environment.insert(name.to_owned(), value);
        }
        runner
    }

    pub(super) fn path(&self, place: &str) -> PathBuf {
        self.scratch.path().join(place)
    }

    /// A program on the PATH of all steps.
    pub(super) fn program(&self, name: &str, text: &str) {
        let path = self.path("bin").join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
    }

    fn folder(&self, kind: &str) -> PathBuf {
        self.path(&format!("{kind}-{}", self.jobs))
    }

    /// Runs a job on a new machine. Returns whether it succeeded, or `None` if its condition does not hold.
    pub(super) fn job(&mut self, job: &Json) -> Option<bool> {
        let mut scope = Scope { context: self.context.clone(), action: None, failed: false };
        if job["if"].as_str().is_some_and(|condition| !holds(condition, &scope)) {
            return None;
        }
        self.jobs += 1;
        self.printed.clear();
        for kind in ["work", "temp"] {
            std::fs::create_dir(self.folder(kind)).expect("made");
        }
        scope.context.insert("runner.temp".to_owned(), self.folder("temp").display().to_string());
        self.steps(&job["steps"], &mut scope);
        Some(!scope.failed)
    }

    fn steps(&mut self, steps: &Json, scope: &mut Scope) {
        for step in steps.as_array().expect("steps") {
            if holds(step["if"].as_str().unwrap_or("success()"), scope) {
                self.step(step, scope);
            }
        }
    }

    fn step(&mut self, step: &Json, scope: &mut Scope) {
        let with = |key: &str| substituted(step["with"][key].as_str().unwrap_or_default(), &scope.context);
        match step["uses"].as_str().map(|used| used.split('@').next().expect("a name")) {
            None => self.shell(step, scope),
            Some("actions/checkout") => {
                let branch = if with("ref").is_empty() { "pr" } else { "main" };
                copy(&self.path(branch), &self.folder("work").join(with("path")));
            }
            Some("actions/upload-artifact") => {
                let artifact = self.path("artifacts").join(with("name"));
                let _ = std::fs::remove_dir_all(&artifact);
                copy(Path::new(&with("path")), &artifact);
            }
            Some("actions/download-artifact") => {
                let artifact = self.path("artifacts").join(with("pattern"));
                if artifact.exists() {
                    copy(&artifact, Path::new(&with("path")));
                }
            }
            Some(name) => {
                let place =
                    name.strip_prefix("hoptax/hoptax").unwrap_or_else(|| panic!("unknown action {name}"));
                self.action(&root().join(place.trim_start_matches('/')), step, scope);
            }
        }
    }

    /// A composite action of this repository.
    fn action(&mut self, folder: &Path, step: &Json, scope: &mut Scope) {
        let action = parsed(&folder.join("action.yml"));
        let mut inner =
            Scope { context: scope.context.clone(), action: Some(folder.to_owned()), failed: false };
        let given = step["with"].as_object();
        for key in given.into_iter().flat_map(|given| given.keys()) {
            assert!(!action["inputs"][key].is_null(), "{folder:?} has no input {key}");
        }
        for (name, input) in action["inputs"].as_object().expect("inputs") {
            let value = step["with"][name].as_str().or(input["default"].as_str());
            let value = value.unwrap_or_else(|| panic!("{folder:?} needs the input {name}"));
            inner.context.insert(format!("inputs.{name}"), substituted(value, &scope.context));
        }
        self.steps(&action["runs"]["steps"], &mut inner);
        scope.failed |= inner.failed;
    }

    fn shell(&mut self, step: &Json, scope: &mut Scope) {
        let script = self.folder("temp").join("step.sh");
        std::fs::write(&script, step["run"].as_str().expect("a script")).expect("written");
        let files = ["GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"]
            .map(|name| (name, self.folder("temp").join(name)));
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
        command.current_dir(self.folder("work")).env_clear().envs(&self.environment);
        command.env("RUNNER_TEMP", self.folder("temp"));
        command.envs(scope.action.iter().map(|folder| ("GITHUB_ACTION_PATH", folder)));
        for (name, file) in &files {
            std::fs::File::options().create(true).append(true).open(file).expect("made");
            command.env(name, file);
        }
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command.env(name, substituted(value.as_str().expect("text"), &scope.context));
        }
        let output = command.output().expect("bash");
        self.printed += &String::from_utf8_lossy(&output.stdout);
        self.printed += &String::from_utf8_lossy(&output.stderr);
        scope.failed |= !output.status.success();
        let read = |place: usize| std::fs::read_to_string(&files[place].1).expect("readable");
        for (key, value) in read(0).lines().filter_map(|line| line.split_once('=')) {
            let id = step["id"].as_str().expect("a step with outputs has an id");
            scope.context.insert(format!("steps.{id}.outputs.{key}"), value.to_owned());
        }
        for folder in read(1).lines() {
            let path = format!("{folder}:{}", self.environment["PATH"]);
            self.environment.insert("PATH".to_owned(), path);
        }
        std::fs::remove_file(&files[0].1).and_then(|()| std::fs::remove_file(&files[1].1)).expect("removed");
    }
}

/// The text with the values of its expressions.
fn substituted(text: &str, context: &Context) -> String {
    let mut parts = text.split("${{ ");
    let mut whole = parts.next().expect("a first part").to_owned();
    for part in parts {
        let (expression, rest) = part.split_once(" }}").unwrap_or_else(|| panic!("{text}"));
        whole += &value(expression, context);
        whole += rest;
    }
    whole
}

/// The value of a name or of a quoted text. Outputs that a step has not written are empty.
fn value(expression: &str, context: &Context) -> String {
    if let Some(text) = expression.strip_prefix('\'') {
        return text.strip_suffix('\'').expect("a closed text").to_owned();
    }
    let found = context.get(expression).cloned();
    found.unwrap_or_else(|| {
        assert!(expression.starts_with("steps."), "unknown expression {expression}");
        String::new()
    })
}

fn holds(condition: &str, scope: &Scope) -> bool {
    let terms: Vec<&str> = condition.split(" && ").collect();
    let always = terms.contains(&"always()");
    (always || !scope.failed)
        && terms.iter().all(|term| match term.split_once(" == ") {
            Some((left, right)) => value(left, &scope.context) == value(right, &scope.context),
            None => match term.split_once(" != ") {
                Some((left, right)) => value(left, &scope.context) != value(right, &scope.context),
                None => ["always()", "success()"].contains(term) || panic!("unknown condition {term}"),
            },
        })
}

/// Copies a folder and all below it.
pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("made");
    for entry in std::fs::read_dir(from).unwrap_or_else(|error| panic!("{from:?}: {error}")).flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(from, to).expect("copied");
        }
    }
}
