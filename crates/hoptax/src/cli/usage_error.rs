//! Adds advice to the errors of clap. These errors occur if the command line cannot be parsed. The advice
//! says what the user can type instead.

use super::exit::Exit;
use super::paint;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use std::io;
use std::process::ExitCode;

/// Prints clap's message. Ends the process with exit code 0 for `--help` and `--version`, and returns exit
/// code 2 for errors.
pub(super) fn report(error: &Error, program: Command) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    let typed: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
    if let Some(text) = moved(error, &program, &typed) {
        eprintln!("{text}");
        return Exit::BadInput.into();
    }
    eprint!("{}", text(error, program, &typed, paint::is_wanted(&io::stderr())));
    Exit::BadInput.into()
}

/// Commands of earlier versions, and what they are called now.
const MOVED: [(&str, &str); 6] = [
    ("bandwidth", "hosts bandwidth"),
    ("completions", "generate completions"),
    ("conform", "lint --answers"),
    ("man", "generate man"),
    ("reference", "generate reference"),
    ("schema", "generate schema"),
];

/// The line to print if the user typed a command of an earlier version.
fn moved(error: &Error, program: &Command, typed: &[String]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let (_, now) = MOVED.iter().find(|(old, _)| old == unknown)?;
    // Only the first word can be an old command. For example, `hoptax generate conform` never existed.
    let is_first = verb(program, typed).1 == "hoptax";
    is_first.then(|| format!("error: `hoptax {unknown}` is now `hoptax {now}`"))
}

/// clap's message, in which our help replaces the last line ("For more information, try '--help'").
fn text(error: &Error, mut program: Command, typed: &[String], is_coloured: bool) -> String {
    program.build();
    let (verb, name) = verb(&program, typed);
    let styled = error.render();
    let message = if is_coloured { styled.ansi().to_string() } else { styled.to_string() };
    let message = message.split("For more information, try").next().unwrap_or_default();
    let foreign = one_hyphen(verb, typed)
        .or_else(|| key_of_plan(error, verb))
        .or_else(|| elsewhere(error, verb, typed));
    let message = without_tips(message, foreign.is_some());
    let advice = foreign.or_else(|| advice(error, verb, &name));
    match (advice, error.kind()) {
        (Some(commands), ErrorKind::InvalidSubcommand) => format!("{message}\n\nhelp: {commands}\n"),
        (Some(advice), _) => {
            format!("{message}\n\nhelp: {advice}; `{name} --help` lists all options\n")
        }
        (None, _) => format!("{message}\n\nhelp: `{name} --help` lists all options\n"),
    }
}

/// The last verb that the user typed, such as `list` in `hoptax history list`, and the full name of this
/// verb.
fn verb<'p>(program: &'p Command, typed: &[String]) -> (&'p Command, String) {
    let mut verb = program;
    let mut name = "hoptax".to_owned();
    for word in typed {
        if let Some(found) = verb.find_subcommand(word).filter(|found| found.get_name() != "help") {
            verb = found;
            name = format!("{name} {word}");
        }
    }
    (verb, name)
}

/// Says what the user can type instead.
fn advice(error: &Error, verb: &Command, name: &str) -> Option<String> {
    match error.kind() {
        ErrorKind::InvalidSubcommand | ErrorKind::MissingSubcommand => Some(commands(verb, name)),
        ErrorKind::MissingRequiredArgument => missing(error, verb, name),
        ErrorKind::ArgumentConflict => Some(match error.get(ContextKind::PriorArg) == argument(error) {
            true => "give it only once".to_owned(),
            false => "leave one of them out".to_owned(),
        }),
        ErrorKind::TooManyValues => Some("leave out the value".to_owned()),
        ErrorKind::InvalidUtf8 => Some("type the arguments as UTF-8".to_owned()),
        ErrorKind::InvalidValue
        | ErrorKind::ValueValidation
        | ErrorKind::TooFewValues
        | ErrorKind::WrongNumberOfValues
        | ErrorKind::NoEquals => {
            let ContextValue::String(typed) = argument(error)? else { return None };
            let arg = verb.get_arguments().find(|arg| arg.to_string() == *typed)?;
            Some(format!("for example, {}", example(arg)?))
        }
        _ => None,
    }
}

/// clap's message without its tip to write an option as a value after `--`, and without any tip if we have a
/// better one.
fn without_tips(message: &str, has_better: bool) -> String {
    let is_tip = |line: &&str| line.contains("tip:") && (has_better || line.contains("as a value"));
    let kept: Vec<&str> = message.lines().filter(|line| !is_tip(line)).collect();
    kept.join("\n").replace("\n\n\n", "\n\n").trim_end().to_owned()
}

/// Options of other load generators, and what to write for them in `hoptax load`. `{}` is the value.
const ELSEWHERE: [(&str, &str); 26] = [
    ("-D", "h2load's `-D {}` is `-d {}s` here"),
    ("-R", "`-R {}` is `-r {}/s` here"),
    ("-T", "ab's `-T {}` is `-H 'content-type: {}'` here"),
    ("-a", "hey's `-a {}` is an `authorization` header here: `-H 'authorization: Basic …'`"),
    ("-m", "hey's `-m {0}` is `-X {0}` here. h2load's is `--http 2 --streams {0}`"),
    ("-p", "ab's `-p {}` is `-X POST -b @{}` here"),
    ("-q", "oha's `-q {0}` is `-r {0}/s` here. hey's `-q` is a rate per connection: multiply it by `-c`"),
    ("-qps", "`-qps {}` is `-r {}/s` here"),
    ("-s", "wrk's scripts are templates here, such as `-H 'x-id: {{uuid}}'`, or `--targets FILE`"),
    ("-u", "`-u {}` is `-c {}` here"),
    ("-z", "`-z {}` is `-d {}` here"),
    ("--clients", "`--clients {}` is `-c {}` here"),
    ("--disable-keepalive", "`--disable-keepalive` is `--no-keepalive` here"),
    ("-disable-keepalive", "`-disable-keepalive` is `--no-keepalive` here"),
    ("-keepalive", "`-keepalive=false` is `--no-keepalive` here; the default keeps connections"),
    ("--h1", "leave out `--h1`: HTTP/1.1 is the default"),
    ("--http2", "`--http2` is `--http 2` here"),
    ("--iterations", "`--iterations {}` is `-n {}` here"),
    ("--latency", "leave out `--latency`: hoptax always prints percentiles"),
    ("--no-connection-reuse", "`--no-connection-reuse` is `--no-keepalive` here"),
    ("--qps", "`--qps {}` is `-r {}/s` here"),
    ("--rps", "h2load's `--rps` is a rate per connection: multiply it by `-c`, and write `-r 1000/s`"),
    ("--script", "wrk's scripts are templates here, such as `-H 'x-id: {{uuid}}'`, or `--targets FILE`"),
    ("--threads", "`--threads {}` is `-t {}` here"),
    ("--users", "`--users {}` is `-c {}` here"),
    ("--vus", "k6's `--vus {}` is `-c {}` here"),
];

/// What to write instead of an option that another load generator has.
fn elsewhere(error: &Error, verb: &Command, typed: &[String]) -> Option<String> {
    if verb.get_name() != "load" {
        return None;
    }
    let known = |name: &str| ELSEWHERE.iter().find(|(option, _)| *option == name);
    // clap reads a word such as `-disable-keepalive` as `-d` with a value, so its error names another option.
    let is_word = |word: &&str| word.len() > 2 && !word.starts_with("--");
    let words = typed.iter().map(|word| word.split('=').next().unwrap_or_default());
    let (at, (option, advice)) =
        match words.enumerate().find_map(|(at, word)| Some((at, known(Some(word).filter(is_word)?)?))) {
            Some(found) => found,
            None => {
                let Some(ContextValue::String(unknown)) = argument(error) else { return None };
                let is_unknown = error.kind() == ErrorKind::UnknownArgument;
                let at = typed.iter().position(|word| is_unknown && word.starts_with(unknown.as_str()))?;
                (at, known(unknown)?)
            }
        };
    let attached = typed[at][option.len()..].trim_start_matches('=');
    let next = typed.get(at + 1).filter(|next| !next.starts_with('-') && !next.contains("://"));
    let value = if attached.is_empty() { next.map_or("…", String::as_str) } else { attached };
    Some(advice.replace("{{", "\u{1}").replace("{0}", value).replace("{}", value).replace('\u{1}', "{{"))
}

/// The option with two hyphens, if the user typed it with one, as programs written in Go print it: `-rate
/// 1000/s`.
fn one_hyphen(verb: &Command, typed: &[String]) -> Option<String> {
    let long = |word: &String| {
        let name = word.strip_prefix('-')?.split('=').next()?;
        let is_long = |arg: &Arg| arg.get_long() == Some(name);
        (name.len() > 1 && verb.get_arguments().any(is_long)).then(|| name.to_owned())
    };
    let name = typed.iter().find_map(long)?;
    Some(format!("write `--{name}`, with two hyphens"))
}

/// How to set a key of the plan, if the user typed it as an option: `run plan.yaml --time 20s`.
fn key_of_plan(error: &Error, verb: &Command) -> Option<String> {
    let Some(ContextValue::String(unknown)) = argument(error) else { return None };
    let sets = verb.get_arguments().any(|arg| arg.get_long() == Some("set"));
    let key = unknown.strip_prefix("--")?.replace('-', "_");
    let is_key = hoptax_plan::schema()["properties"].get(&key).is_some();
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    (sets && is_key && is_unknown).then(|| format!("`{key}` is a key of the plan: --set {key}=…"))
}

fn argument(error: &Error) -> Option<&ContextValue> {
    error.get(ContextKind::InvalidArg)
}

fn commands(verb: &Command, name: &str) -> String {
    let shown = verb.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name);
    let shown: Vec<&str> = shown.filter(|name| *name != "help").collect();
    let explains = if name == "hoptax" { "hoptax help".to_owned() } else { format!("{name} --help") };
    format!("the commands are {}; `{explains}` says what each does", shown.join(", "))
}

/// Example values for the missing options. If an argument is missing too, the result is an example of the
/// whole command.
fn missing(error: &Error, verb: &Command, name: &str) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = argument(error) else { return None };
    if missing.iter().all(|typed| typed.starts_with("--")) {
        let args = missing.iter().map(|typed| verb.get_arguments().find(|arg| arg.to_string() == *typed));
        let examples = args.map(|arg| arg.and_then(example)).collect::<Option<Vec<String>>>()?;
        return Some(format!("add {}", examples.join(" ")));
    }
    let (_, words) = COMMANDS.iter().find(|(command, _)| format!("hoptax {command}") == name)?;
    Some(format!("for example, {name} {words}"))
}

const RUN: &str = "results/20260101T000000Z-quickstart";

/// Example arguments for each verb that requires arguments.
const COMMANDS: [(&str, &str); 20] = [
    ("run", "plan.yaml"),
    ("load", "http://127.0.0.1:8080/"),
    ("profile", "plan.yaml"),
    ("report", RUN),
    ("compare", "results/20260101T000000Z-before results/20260102T000000Z-after"),
    ("gate", RUN),
    ("history show", "20260101T000000Z-quickstart"),
    ("history tag", "20260101T000000Z-quickstart baseline"),
    ("history note", "20260101T000000Z-quickstart 'new kernel'"),
    ("history trend", "quickstart --gateway nginx"),
    ("history delete", "20260101T000000Z-quickstart --yes"),
    ("bisect", "plan.yaml --good v1.4 --bad main"),
    ("builds rm", "3f2c1d0a"),
    ("check", "plan.yaml"),
    ("hosts", "plan.yaml"),
    ("hosts down", "plan.yaml"),
    ("import", "access.log"),
    ("render", "plan.yaml --gateway nginx"),
    ("hop", "l7 --upstream 127.0.0.1:8080"),
    ("generate completions", "bash"),
];

/// An example of an option or argument with its value, such as `--duration 10s`.
fn example(arg: &Arg) -> Option<String> {
    let value = value(arg)?;
    Some(match arg.get_long() {
        Some(long) if arg.is_require_equals_set() => format!("--{long}={value}"),
        Some(long) => format!("--{long} {value}"),
        None => value,
    })
}

/// A value that the argument accepts.
fn value(arg: &Arg) -> Option<String> {
    if let Some(possible) = arg.get_possible_values().first() {
        return Some(possible.get_name().to_owned());
    }
    let by_option = match arg.get_long() {
        Some("arrivals") => Some("poisson"),
        Some("body-kind") => Some("text"),
        Some("chart") => Some("tax"),
        Some("events") => Some("20,100ms"),
        Some("expect-grpc") => Some("ok"),
        Some("fault-deadline") => Some("drop"),
        Some("grpc-compression") => Some("gzip"),
        Some("grpc-kind") => Some("both-ways"),
        Some("grpc-status") => Some("not-found"),
        Some("llm-model") => Some("gpt-4o-mini"),
        Some("messages") => Some("20"),
        Some("websocket") => Some("/feed=fan-out,endless,100ms"),
        Some("websocket-kind") => Some("push"),
        Some("grpc-stream") => Some("/echo.Echo/Chat=both-ways"),
        Some("server-name") => Some("api.example.org"),
        Some("gateway") => Some("nginx"),
        Some("alpn") => Some("http/1.1"),
        Some("tls") => Some("1.2,1.3"),
        _ => None,
    };
    let name = arg.get_value_names().and_then(|names| names.first()).map(clap::builder::Str::as_str);
    let by_name = || VALUES.iter().find(|(known, _)| Some(*known) == name).map(|(_, value)| *value);
    let default = || arg.get_default_values().first().map(|default| default.to_string_lossy().into_owned());
    by_option.or_else(by_name).map(str::to_owned).or_else(default)
}

/// Example values. The first text is the placeholder that the help shows for the value, such as `DIR`.
const VALUES: [(&str, &str); 55] = [
    ("A", "results/20260101T000000Z-before"),
    ("B", "results/20260102T000000Z-after"),
    ("ADDRESS", "127.0.0.1"),
    ("ADDRESS,…", "127.0.0.2,127.0.0.3"),
    ("ADDRESS:PORT", "127.0.0.1:7300"),
    ("AFTER", "200ms"),
    ("API", "openai"),
    ("API,…", "openai,anthropic"),
    ("ANSWER", "'{ path: \"/users/*\", status: 404, body: 20B }'"),
    ("CASE", "nginx"),
    ("CPUS", "2-3"),
    ("DELAY", "2ms"),
    ("DIR", "results"),
    ("FILE", "file.txt"),
    ("FACTOR", "2"),
    ("FILE|-", "spec.json"),
    ("FORMAT", "combined"),
    ("GATEWAY", "nginx"),
    ("HOST", "shop.example"),
    ("HOST:PORT", "127.0.0.1:8080"),
    ("ID", "20260101T000000Z-quickstart"),
    ("KEY", "hoptax"),
    ("KEY=VALUE", "trials=3"),
    ("KIND[,SHARE[,AT]]", "cut,10%,5"),
    ("LABEL", "nginx"),
    ("LABEL,…", "nginx,envoy"),
    ("LIMIT=TIME,…", "first_content=300ms,token_time=50ms"),
    ("LOAD", "1"),
    ("METHOD", "POST"),
    ("METRIC", "added_p99"),
    ("METRIC=RATE", "throughput=900/s"),
    ("METRIC=TIME", "p99=20ms"),
    ("N", "4"),
    ("NAME", "nginx"),
    ("NAME: VALUE", "'x-id: 1'"),
    ("NAME[: VALUE]", "'content-type: text/plain'"),
    ("PACK", "nginx"),
    ("PATH", "file.txt"),
    ("PLAN", "plan.yaml"),
    ("PORT", "8080"),
    ("PORT,…", "8080,8081"),
    ("RATE", "1000/s"),
    ("REF", "main"),
    ("SERVICE/METHOD", "echo.Echo/Say"),
    ("SHARE", "1%"),
    ("SIZE", "64KiB"),
    ("SIZE[-SIZE]", "1KiB-64KiB"),
    ("STATUS", "200"),
    ("STATUS,…", "200,204"),
    ("TAG", "baseline"),
    ("TIME", "10s"),
    ("TOKENS,TIME", "'5 tokens,2s'"),
    ("URL", "http://127.0.0.1:8080/"),
    ("VERSION", "1.1"),
    ("X,Y", "main,pr"),
];

#[cfg(test)]
mod tests {
    use super::super::program;
    use super::*;

    /// The text that hoptax prints about a command line that cannot be parsed.
    fn printed(line: &str) -> String {
        let typed: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let words = std::iter::once("hoptax".to_owned()).chain(typed.iter().cloned());
        let error = program().try_get_matches_from(words).expect_err(line);
        moved(&error, &program(), &typed).unwrap_or_else(|| text(&error, program(), &typed, false))
    }

    #[test]
    fn every_error_says_what_to_type_instead() {
        let told = [
            "rum p.yaml",
            "frobnicate",
            "run",
            "load --duration",
            "load http://a/ --duration 5",
            "load http://a/ --frob",
            "load -R2000 http://a/",
            "load http://a/ -R 2000",
            "load -z 10s http://a/",
            "load -t2 -c16 -d3s --latency http://a/",
            "load -z 2s -q 10 http://a/",
            "load -q 10 http://a/",
            "load -qps 1000 http://a/",
            "load -qps=1000 http://a/",
            "load -D 2 http://a/",
            "load --vus=10 http://a/",
            "load -s post.lua http://a/",
            "load -p body.json http://a/",
            "load --disable-keepalive http://a/",
            "load -disable-keepalive http://a/",
            "load -rate 1000/s http://a/",
            "load -duration=2s http://a/",
            "run p.yaml --time 20s",
            "profile p.yaml --trials 2",
            "check p.yaml --access-log off",
            "load http://a/ --json --csv",
            "load http://a/ --json --json",
            "load http://a/ --json=yes",
            "compare a --format pdf",
            "report a --load 2",
            "run p --serve=nowhere",
            "history list --limit 0",
            "history show",
            "hop l7",
            "render",
            "generate conform",
        ]
        .map(|line| format!("$ hoptax {line}\n{}\n", printed(line)))
        .concat();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn commands_of_earlier_versions_name_the_new_ones() {
        let mut program = program();
        program.build();
        for (old, now) in MOVED {
            let line = format!("error: `hoptax {old}` is now `hoptax {now}`");
            assert_eq!(printed(old), line);
            assert_eq!(printed(&format!("{old} --some thing")), line);
            assert_eq!(printed(&format!("help {old}")), line);
            let mut command = now.split(' ').filter(|word| !word.starts_with("--"));
            let found = command.try_fold(&program, |at, word| at.find_subcommand(word));
            assert!(found.is_some(), "{now}");
        }
    }

    #[test]
    fn every_option_and_every_required_argument_has_an_example() {
        let mut program = program();
        program.build();
        let mut verbs: Vec<(String, &Command)> = vec![(String::new(), &program)];
        while let Some((name, verb)) = verbs.pop() {
            let shown = verb.get_arguments().filter(|arg| !arg.is_hide_set());
            for arg in shown.filter(|arg| arg.get_long().is_some() && arg.get_action().takes_values()) {
                let known = ["expect-body", "expect-body-equals", "body", "body-text", "load"];
                let is_free_text = arg.get_long().is_some_and(|long| known.contains(&long));
                assert!(is_free_text || example(arg).is_some(), "{name}: {arg}");
            }
            let requires = verb.get_arguments().any(|arg| arg.is_positional() && arg.is_required_set());
            let has_example = COMMANDS.iter().any(|(command, _)| name.trim() == *command);
            assert!(!requires || has_example, "{name}");
            let own = verb.get_subcommands().filter(|own| !own.is_hide_set() && own.get_name() != "help");
            verbs.extend(own.map(|own| (format!("{name} {}", own.get_name()), own)));
        }
    }
}
