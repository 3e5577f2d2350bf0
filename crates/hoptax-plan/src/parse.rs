//! Entry points of this crate. They read and check plans, lists of targets and lists of budgets.

use super::error::{Fault, PlanErrors, Sources};
use super::fixing::Fixing;
use super::node::Node;
use super::raw::{Placed, RawBudget, RawPlan};
use super::{Answer, Budget, PackInfo, Plan, Targets, de, meaning, node};
use hoptax_record::bounded;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Facts that a plan is checked against: this machine, the packs, and the plan's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// Number of CPUs of this machine.
    pub cpus: u32,
    /// Gateway packs that a plan can name.
    pub known: Vec<PackInfo>,
    /// Directory that relative paths in the plan refer to.
    pub directory: PathBuf,
}

/// Reads another kind of YAML document, such as a pack's manifest. Errors show line, column and caret, like
/// the errors in plans.
///
/// # Errors
/// All errors found in the document.
pub fn read_as<T: DeserializeOwned>(file_name: &str, text: &str) -> Result<T, PlanErrors> {
    let outcome = match node::read(text, 0, 0) {
        Ok(root) => de::from_node(&root),
        Err(fault) => Err(vec![fault]),
    };
    outcome.map_err(|faults| Sources { file: file_name, text, sets: &[] }.errors(faults))
}

/// Parses and checks a plan.
///
/// `file_name` is shown in messages. `sets` are arguments of the form `key.path=value`, which override values
/// of the file.
///
/// # Errors
/// All errors, each with its place and how to fix it.
pub fn parse(file_name: &str, text: &str, sets: &[String], context: &Context) -> Result<Plan, PlanErrors> {
    let sources = Sources { file: file_name, text, sets };
    let mut root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    let mut faults = node::apply_sets(&mut root, sets);
    let stem = Path::new(file_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let understand = |raw| meaning::understand(raw, stem, context, &sources);
    let first = match de::from_node(&root) {
        Ok(raw) => match understand(raw) {
            Ok(plan) if faults.is_empty() => return Ok(plan),
            Ok(_) => Vec::new(),
            Err(more) => more,
        },
        // The other parts of the plan may have mistakes too. The user should see all mistakes at once.
        Err(unread) => all_mistakes(root, unread, understand),
    };
    faults.extend(first);
    Err(sources.errors(faults))
}

/// Maximum number of times that a plan is read again after parts with mistakes were fixed.
const MOST_TURNS: u32 = 100;

/// All mistakes of a plan that cannot be read: those in `unread`, and those in the other parts of the plan.
fn all_mistakes(
    root: Node,
    unread: Vec<Fault>,
    understand: impl FnOnce(RawPlan) -> Result<Plan, Vec<Fault>>,
) -> Vec<Fault> {
    let (mut fixing, mut faults, mut unread) = (Fixing::new(root), Vec::new(), unread);
    // Each turn fixes parts with mistakes, and reads the plan again.
    for _ in 0..MOST_TURNS {
        let is_checkable = unread.iter().all(|fault| fixing.fix(fault));
        faults.append(&mut unread);
        if !is_checkable {
            return faults;
        }
        match de::from_node(&fixing.root) {
            Ok(raw) => {
                let more = understand(raw).err().unwrap_or_default();
                faults.extend(more.into_iter().filter(|fault| fixing.is_independent(fault)));
                return faults;
            }
            Err(more) => {
                let (new, followed): (Vec<Fault>, Vec<Fault>) =
                    more.into_iter().partition(|fault| fixing.is_new(fault));
                if !followed.iter().all(|fault| fixing.fix(fault)) {
                    faults.extend(new);
                    return faults;
                }
                unread = new;
            }
        }
    }
    faults
}

/// Parses and checks a list of targets, or a single target, in the syntax of `target` in a plan.
///
/// # Errors
/// All errors, each with its place and how to fix it.
pub fn parse_targets(file_name: &str, text: &str, context: &Context) -> Result<Targets, PlanErrors> {
    let sources = Sources { file: file_name, text, sets: &[] };
    let root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    let whole = match &root.value {
        node::Value::Mapping(keys) => keys
            .iter()
            .find(|(key, _)| ["target", "targets", "gateways", "load"].contains(&key.text.as_str())),
        _ => None,
    };
    if let Some((key, _)) = whole {
        let fault = Fault::new(
            key.place,
            format!("a target has no key `{}`", key.text),
            "this file must contain only the value of `target`, for example `- { method: GET, path: / }`",
        );
        return Err(sources.errors(vec![fault]));
    }
    if !matches!(&root.value, node::Value::Mapping(_))
        && !matches!(&root.value, node::Value::Sequence(items) if !items.is_empty())
    {
        let found = format!("expected a list of targets, found {}", root.describe());
        let help = "write the value of `target`, as in a plan, for example `- { method: GET, path: / }`";
        return Err(sources.errors(vec![Fault::new(root.place, found, help)]));
    }
    let raw = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    meaning::understand_targets(raw, context, &sources).map_err(|faults| sources.errors(faults))
}

/// Parses and checks one answer of the built-in upstream, in the syntax of `answers` in a plan.
///
/// # Errors
/// All errors, each with its place and how to fix it.
pub fn parse_answer(text: &str) -> Result<Answer, PlanErrors> {
    let sources = Sources { file: "--answer", text, sets: &[] };
    let root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    let raw = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    let nothing = Context { cpus: 0, known: Vec::new(), directory: PathBuf::new() };
    meaning::understand_answer(raw, &nothing, &sources).map_err(|faults| sources.errors(faults))
}

/// The run that budgets are checked against.
#[derive(Debug, Clone, Copy)]
pub struct BudgetContext<'a> {
    /// The plan of that run.
    pub plan: &'a Plan,
    /// Whether there is a baseline run to compare with.
    pub baseline: bool,
}

/// Parses and checks a list of budgets, in the syntax of `budget` in a plan.
///
/// # Errors
/// All errors, each with its place and how to fix it.
pub fn parse_budget(
    file_name: &str,
    text: &str,
    context: &BudgetContext<'_>,
) -> Result<Vec<Budget>, PlanErrors> {
    let sources = Sources { file: file_name, text, sets: &[] };
    let root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    if !matches!(&root.value, node::Value::Sequence(items) if !items.is_empty()) {
        let found = format!("expected a list of budgets, found {}", root.describe());
        let help = "write the value of `budget` in a plan: - { metric: added_p99, max: 1ms }";
        return Err(sources.errors(vec![Fault::new(root.place, found, help)]));
    }
    let raw: Vec<Placed<RawBudget>> = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    meaning::understand_budget(raw, context, &sources).map_err(|faults| sources.errors(faults))
}

/// Why a file could not be read as a plan, a list of targets or a list of budgets.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the {what} {}: {source}{}", path.display(), hint(what, source))]
    Unreadable {
        /// The kind of content that was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error that the system returned.
        source: std::io::Error,
    },
    /// The file is not text.
    #[error("the {what} {} is not UTF-8 text: invalid byte at offset {offset}; save the file as UTF-8", path.display())]
    NotText {
        /// The kind of content that was expected.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Offset of the first invalid byte.
        offset: usize,
    },
    /// The content has errors.
    #[error(transparent)]
    Mistakes(#[from] PlanErrors),
}

fn hint(what: &str, error: &std::io::Error) -> &'static str {
    match (error.kind(), what) {
        (std::io::ErrorKind::NotFound, PLAN) => "; check the path, or run `hoptax init` to write a new plan",
        (std::io::ErrorKind::NotFound, _) => "; check the path",
        (std::io::ErrorKind::IsADirectory, _) => "; give the path of a file",
        _ => "",
    }
}

const PLAN: &str = "plan";
const TARGETS: &str = "targets";
const BUDGET: &str = "budget";

/// Reads the file at `path`. Returns its text and its directory. Error messages call the content `what`.
fn read(path: &Path, what: &'static str) -> Result<(String, PathBuf), LoadError> {
    let bytes = bounded::read(path, bounded::PLAN).map_err(|source| LoadError::Unreadable {
        what,
        path: path.to_owned(),
        source,
    })?;
    let text = String::from_utf8(bytes).map_err(|error| LoadError::NotText {
        what,
        path: path.to_owned(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    Ok((text, path.parent().map(Path::to_owned).unwrap_or_default()))
}

/// Reads and checks the plan at `path`. Relative paths in the plan refer to the file's directory.
///
/// # Errors
/// If the file cannot be read, is not text, or has errors.
pub fn load(
    path: &Path,
    sets: &[String],
    cpus: u32,
    known: Vec<PackInfo>,
) -> Result<(Plan, String), LoadError> {
    let (text, directory) = read(path, PLAN)?;
    let plan = parse(&path.display().to_string(), &text, sets, &Context { cpus, known, directory })?;
    Ok((plan, text))
}

/// Reads and checks the list of targets at `path`. Relative paths in it refer to the file's directory.
///
/// # Errors
/// If the file cannot be read, is not text, or has errors.
pub fn load_targets(path: &Path) -> Result<Targets, LoadError> {
    let (text, directory) = read(path, TARGETS)?;
    // Targets do not depend on CPUs or packs.
    let context = Context { cpus: 0, known: Vec::new(), directory };
    Ok(parse_targets(&path.display().to_string(), &text, &context)?)
}

/// Reads and checks the list of budgets at `path`.
///
/// # Errors
/// If the file cannot be read, is not text, or has errors.
pub fn load_budget(path: &Path, context: &BudgetContext<'_>) -> Result<Vec<Budget>, LoadError> {
    let (text, _) = read(path, BUDGET)?;
    Ok(parse_budget(&path.display().to_string(), &text, context)?)
}

/// The commented plan that `hoptax init` writes.
pub const TEMPLATE: &str = include_str!("init.yaml");
