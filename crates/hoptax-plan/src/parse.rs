//! From a file to a plan.

use super::error::{Fault, PlanErrors, Sources};
use super::raw::{Placed, RawBudget};
use super::{Budget, PackInfo, Plan, Targets, de, meaning, node};
use hoptax_record::bounded;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// What a plan is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// CPUs of this machine.
    pub cpus: u32,
    /// Gateway packs that can be named.
    pub known: Vec<PackInfo>,
    /// Where relative paths in the plan start.
    pub directory: PathBuf,
}

/// Reads a document of another kind as plans are read: every mistake with its line, column and a caret.
///
/// # Errors
/// With everything that is wrong in it.
pub fn read_as<T: DeserializeOwned>(file_name: &str, text: &str) -> Result<T, PlanErrors> {
    let outcome = match node::read(text, 0, 0) {
        Ok(root) => de::from_node(&root),
        Err(fault) => Err(vec![fault]),
    };
    outcome.map_err(|faults| Sources { file: file_name, text, sets: &[] }.errors(faults))
}

/// Understands a plan.
///
/// `file_name` is how the file is called in messages; `sets` are `key.path=value` arguments laid over what it says.
///
/// # Errors
/// Every mistake that was found, each with its place and how to mend it.
pub fn parse(file_name: &str, text: &str, sets: &[String], context: &Context) -> Result<Plan, PlanErrors> {
    let sources = Sources { file: file_name, text, sets };
    let mut root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    let faults = node::apply_sets(&mut root, sets);
    if !faults.is_empty() {
        return Err(sources.errors(faults));
    }
    let raw = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    let stem = Path::new(file_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    meaning::understand(raw, stem, context, &sources).map_err(|faults| sources.errors(faults))
}

/// Understands a list of targets, or a single one: what stands below `target` in a plan.
///
/// # Errors
/// Every mistake that was found, each with its place and how to mend it.
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
            format!("`{}` is no part of a target", key.text),
            "this file is the list itself, as it stands below `target` in a plan: - { method: GET, path: / }",
        );
        return Err(sources.errors(vec![fault]));
    }
    if !matches!(&root.value, node::Value::Mapping(_))
        && !matches!(&root.value, node::Value::Sequence(items) if !items.is_empty())
    {
        let found = format!("there are no targets here, but {}", root.describe());
        let help = "write a list of them: - { method: GET, path: / }";
        return Err(sources.errors(vec![Fault::new(root.place, found, help)]));
    }
    let raw = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    meaning::understand_targets(raw, context, &sources).map_err(|faults| sources.errors(faults))
}

/// What a list of budgets is checked against.
#[derive(Debug, Clone, Copy)]
pub struct BudgetContext<'a> {
    /// The plan of the run that is judged.
    pub plan: &'a Plan,
    /// Whether there is a baseline run that changes can be relative to.
    pub baseline: bool,
}

/// Understands a list of budgets: what stands below `budget` in a plan.
///
/// # Errors
/// Every mistake that was found, each with its place and how to mend it.
pub fn parse_budget(
    file_name: &str,
    text: &str,
    context: &BudgetContext<'_>,
) -> Result<Vec<Budget>, PlanErrors> {
    let sources = Sources { file: file_name, text, sets: &[] };
    let root = node::read(text, 0, 0).map_err(|fault| sources.errors(vec![fault]))?;
    if !matches!(&root.value, node::Value::Sequence(items) if !items.is_empty()) {
        let found = format!("there is no list of budgets here, but {}", root.describe());
        let help = "this file is the list itself, as it stands below `budget` in a plan: \
                    - { metric: added_p99, max: 1ms }";
        return Err(sources.errors(vec![Fault::new(root.place, found, help)]));
    }
    let raw: Vec<Placed<RawBudget>> = de::from_node(&root).map_err(|faults| sources.errors(faults))?;
    meaning::understand_budget(raw, context, &sources).map_err(|faults| sources.errors(faults))
}

/// Why no plan, and no list of targets or budgets, came of a file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the {what} {}: {source}{}", path.display(), hint(what, source))]
    Unreadable {
        /// What it was to hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It is not text.
    #[error("the {what} {} is not UTF-8 text: byte {offset} belongs to no character; save it as UTF-8", path.display())]
    NotText {
        /// What it was to hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// First byte that is wrong.
        offset: usize,
    },
    /// It has mistakes.
    #[error(transparent)]
    Mistakes(#[from] PlanErrors),
}

fn hint(what: &str, error: &std::io::Error) -> &'static str {
    match (error.kind(), what) {
        (std::io::ErrorKind::NotFound, PLAN) => "; `hoptax init` writes one to start from",
        (std::io::ErrorKind::NotFound, _) => "; is the path right?",
        (std::io::ErrorKind::IsADirectory, _) => "; name a file",
        _ => "",
    }
}

const PLAN: &str = "plan";
const TARGETS: &str = "targets";
const BUDGET: &str = "budget";

/// The text of the file at `path`, which is to hold `what`, and where relative paths in it start.
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

/// Reads and understands the plan at `path`; relative paths in it start at its directory.
///
/// # Errors
/// If the file cannot be read, is not text, or has mistakes.
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

/// Reads and understands the list of targets at `path`; relative paths in it start at its directory.
///
/// # Errors
/// If the file cannot be read, is not text, or has mistakes.
pub fn load_targets(path: &Path) -> Result<Targets, LoadError> {
    let (text, directory) = read(path, TARGETS)?;
    // Targets name neither CPUs nor packs.
    let context = Context { cpus: 0, known: Vec::new(), directory };
    Ok(parse_targets(&path.display().to_string(), &text, &context)?)
}

/// Reads and understands the list of budgets at `path`.
///
/// # Errors
/// If the file cannot be read, is not text, or has mistakes.
pub fn load_budget(path: &Path, context: &BudgetContext<'_>) -> Result<Vec<Budget>, LoadError> {
    let (text, _) = read(path, BUDGET)?;
    Ok(parse_budget(&path.display().to_string(), &text, context)?)
}

/// The commented plan that `hoptax init` writes.
pub const TEMPLATE: &str = include_str!("init.yaml");
