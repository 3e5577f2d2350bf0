//! Help texts of options that several verbs share, so that an option has the same help in all verbs.

pub(super) const PLAN: &str = "Plan, a YAML file; `hoptax init` writes one to start from";
pub(super) const SET: &str =
    "Override a key of the plan, such as trials=1 or load.0.duration=2s; can be repeated";
pub(super) const PACKS: &str =
    "Also use the gateway packs in this directory; they replace built-in packs of the same name";
pub(super) const JSON: &str = "Print JSON instead of text";
pub(super) const FORMAT: &str = "Output format";
pub(super) const OUTPUT: &str = "Write to this file instead of standard output";
pub(super) const RUN_DIR: &str =
    "Run: the path of its directory; a plan's name, or `latest`, for the newest run in results";
pub(super) const RESULTS_DIR: &str = "Directory that contains the run directories [default: results]";
pub(super) const ROOT: &str =
    "Directory that contains the run directories, if not given as an argument [default: results]";
pub(super) const RUN_ID: &str =
    "Run: the name or the path of its directory; a plan's name, or `latest`, for the newest run";
pub(super) const OUT: &str = "Directory in which `hoptax run` creates the run directory";
pub(super) const ACCEPT_VOID: &str = "Do not exit with status 4 because of `void` findings";
pub(super) const INCONCLUSIVE: &str =
    "What to do if a budget is inconclusive, because the interval of its figure contains the limit";
pub(super) const TOKEN_FILE: &str = "File with the token that clients must send: one line of at least 16 \
    characters [default: a random token]";
pub(super) const NO_LIVE: &str = "Do not show the live view on the terminal";
pub(super) const CPUS: &str =
    "CPUs to pin the threads to, in this order, such as 2-3 or 0,2 [default: not pinned]";
pub(super) const COMPARE_ANYWAY: &str = "Compare even if the runs measured different things";
