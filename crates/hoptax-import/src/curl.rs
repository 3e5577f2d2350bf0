//! curl command lines, as browsers copy them ("Copy as cURL (bash)") and as people write them into pages.

use crate::input::ImportError;
use crate::mix::Mix;
use crate::seen::{Seen, announce_chunks, url_parts};
use crate::shell_words::commands;

/// Options with a value that do not change the request that hoptax sends.
const IGNORED_WITH_VALUE: [&str; 22] = [
    "-o",
    "--output",
    "-w",
    "--write-out",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "--retry-delay",
    "--resolve",
    "--connect-to",
    "--cacert",
    "-E",
    "--cert",
    "--key",
    "-D",
    "--dump-header",
    "-c",
    "--cookie-jar",
    "--interface",
    "--max-redirs",
    "--limit-rate",
];

/// Reads all commands into the mix. A body is copied, because the user has typed it.
pub(crate) fn read(
    name: &str,
    text: &str,
    mix: &mut Mix,
    notes: &mut Vec<String>,
) -> Result<(), ImportError> {
    let at = |line: usize, what: &str| ImportError::new(format!("{name}, line {line}: {what}"));
    let all = commands(text).map_err(|(line, what)| at(line, what))?;
    if text.contains("^\"") && text.contains("curl ") {
        return Err(ImportError::new(format!(
            "{name} has commands for Windows' cmd. Copy them again as \"cURL (bash)\""
        )));
    }
    let mut secrets = Vec::new();
    for (line, words) in &all {
        let words = if words[0] == "$" { &words[1..] } else { words };
        match words.split_first() {
            Some((program, words)) if program == "curl" || program.ends_with("/curl") => {
                for seen in Command::read(words, &mut secrets)
                    .and_then(Command::requests)
                    .map_err(|what| at(*line, &what))?
                {
                    mix.add(seen);
                }
            }
            Some((program, _)) => notes
                .push(format!("{name}, line {line}: `{program}` is not curl, so the command was left out")),
            None => {}
        }
    }
    for name in secrets {
        if !mix.left_out.contains(&name) {
            mix.left_out.push(name);
        }
    }
    Ok(())
}

/// A command whose options are known.
#[derive(Default)]
struct Command {
    urls: Vec<String>,
    method: Option<String>,
    headers: Vec<(String, String)>,
    data: Vec<String>,
    is_json: bool,
    get: bool,
    head: bool,
    compressed: bool,
}

impl Command {
    fn read(words: &[String], secrets: &mut Vec<String>) -> Result<Self, String> {
        let mut command = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (option, joined) = split(word);
            let mut value = || match &joined {
                Some(value) => Ok(value.clone()),
                None => words.next().cloned().ok_or_else(|| format!("`{option}` has no value")),
            };
            match option.as_str() {
                "-X" | "--request" => command.method = Some(value()?),
                "-H" | "--header" => command.header(&value()?)?,
                "-A" | "--user-agent" => command.headers.push(("user-agent".into(), value()?)),
                "-e" | "--referer" => command.headers.push(("referer".into(), value()?)),
                "-r" | "--range" => command.headers.push(("range".into(), format!("bytes={}", value()?))),
                "-b" | "--cookie" => {
                    value()?;
                    secrets.push("cookie".into());
                }
                "-u" | "--user" | "--oauth2-bearer" => {
                    value()?;
                    secrets.push("authorization".into());
                }
                "-d" | "--data" | "--data-ascii" | "--data-binary" | "--data-raw" => {
                    let data = value()?;
                    if data.starts_with('@') && option != "--data-raw" {
                        return Err(format!(
                            "`{option} {data}` reads a file. Use `body: {{ file: … }}` in the targets instead"
                        ));
                    }
                    // curl removes line breaks from data that it does not send as binary.
                    let is_text = matches!(option.as_str(), "-d" | "--data" | "--data-ascii");
                    command.data.push(if is_text { data.replace(['\r', '\n'], "") } else { data });
                }
                "--data-urlencode" => command.data.push(url_encoded(&value()?)),
                "--json" => {
                    command.is_json = true;
                    command.data.push(value()?);
                }
                "--url" => command.urls.push(value()?),
                "-F" | "--form" | "--form-string" | "-T" | "--upload-file" => {
                    return Err(format!(
                        "`{option}` sends a file or a form in parts, which is not supported"
                    ));
                }
                "-G" | "--get" => command.get = true,
                "-I" | "--head" => command.head = true,
                "--compressed" => command.compressed = true,
                option if IGNORED_WITH_VALUE.contains(&option) => {
                    value()?;
                }
                // All others, such as -s, -k, -L or --http2, are switches.
                option if option.starts_with('-') && option.len() > 1 => {}
                url => command.urls.push(url.to_owned()),
            }
        }
        Ok(command)
    }

    fn header(&mut self, typed: &str) -> Result<(), String> {
        // `Name;` is an empty header, `Name:` removes one of curl's own.
        if let Some(name) = typed.strip_suffix(';').filter(|name| !name.contains(':')) {
            self.headers.push((name.to_owned(), String::new()));
            return Ok(());
        }
        let (name, value) = typed.split_once(':').ok_or_else(|| format!("`-H {typed}` has no `:`"))?;
        if !value.trim().is_empty() {
            self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(())
    }

    fn requests(mut self) -> Result<Vec<Seen>, String> {
        if self.urls.is_empty() {
            return Err("the command has no URL".to_owned());
        }
        let has = |headers: &[(String, String)], name: &str| {
            headers.iter().any(|(typed, _)| typed.eq_ignore_ascii_case(name))
        };
        let data = (!self.data.is_empty()).then(|| self.data.join(if self.is_json { "" } else { "&" }));
        let body = data.clone().filter(|_| !self.get);
        if body.is_some() && !has(&self.headers, "content-type") {
            let kind = if self.is_json { "application/json" } else { "application/x-www-form-urlencoded" };
            self.headers.push(("content-type".into(), kind.into()));
        }
        if self.is_json && !has(&self.headers, "accept") {
            self.headers.push(("accept".into(), "application/json".into()));
        }
        if self.compressed && !has(&self.headers, "accept-encoding") {
            self.headers.push(("accept-encoding".into(), "deflate, gzip, br, zstd".into()));
        }
        let default = if self.head {
            "HEAD"
        } else if body.is_some() {
            "POST"
        } else {
            "GET"
        };
        let method = self.method.clone().unwrap_or_else(|| default.to_owned());
        let typed_host = self
            .headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"))
            .map(|(_, value)| value.clone());
        let one = |url: &String| {
            let whole = if url.contains("://") { url.clone() } else { format!("http://{url}") };
            let (host, mut target) =
                url_parts(&whole).ok_or_else(|| format!("`{url}` is not an http or https URL"))?;
            if let Some(data) = data.as_ref().filter(|_| self.get) {
                target = format!("{target}{}{data}", if target.contains('?') { '&' } else { '?' });
            }
            Ok(Seen {
                method: method.clone(),
                target,
                host: Some(typed_host.clone().unwrap_or_else(|| host.to_owned())),
                request_bytes: body.as_ref().map(|body| body.len() as u64),
                is_chunked: announce_chunks(&self.headers),
                headers: self.headers.clone(),
                body: body.clone(),
                ..Seen::default()
            })
        };
        self.urls.iter().map(one).collect()
    }
}

/// Splits `-Xvalue` and groups such as `-sXvalue` or `-sX`: switches up to the first letter that takes a
/// value.
fn split(word: &str) -> (String, Option<String>) {
    const TAKE_A_VALUE: &str = "XHAebudrFToEDcwm";
    let group = word.strip_prefix('-').filter(|group| !group.starts_with('-'));
    let Some((at, letter)) =
        group.and_then(|group| group.char_indices().find(|(_, letter)| TAKE_A_VALUE.contains(*letter)))
    else {
        return (word.to_owned(), None);
    };
    let value = &word[1 + at + letter.len_utf8()..];
    (format!("-{letter}"), (!value.is_empty()).then(|| value.to_owned()))
}

/// `name=value` with the value percent-encoded.
fn url_encoded(typed: &str) -> String {
    let (name, value) = typed.split_once('=').map_or(("", typed), |(name, value)| (name, value));
    let encoded: String = value
        .bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect();
    if name.is_empty() { encoded } else { format!("{name}={encoded}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> Vec<Seen> {
        let mut secrets = Vec::new();
        let all = commands(text).expect("words").into_iter();
        all.flat_map(|(_, words)| {
            Command::read(&words[1..], &mut secrets).and_then(Command::requests).expect("a request")
        })
        .collect()
    }

    #[test]
    fn commands_of_browsers_and_people_are_understood() {
        let copied = "curl 'https://shop.test/cart?id=7' \\\n  -X 'PUT' \\\n  -H 'accept: */*' -H 'cookie: \
                      a=b' \\\n  --data-raw $'{\"a\":\\n1}' --compressed";
        let [seen] = requests(copied).try_into().expect("one");
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("PUT", "/cart?id=7"));
        assert_eq!(seen.host.as_deref(), Some("shop.test"));
        assert_eq!(seen.body.as_deref(), Some("{\"a\":\n1}"));
        let value = |name: &str| {
            seen.headers.iter().find(|(typed, _)| typed == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(value("accept"), Some("*/*"));
        assert_eq!(value("content-type"), Some("application/x-www-form-urlencoded"));
        for (text, method, target, body) in [
            ("curl a.test", "GET", "/", None),
            ("curl -sS -k -o /dev/null http://a.test/x", "GET", "/x", None),
            ("curl -sXDELETE a.test/x", "DELETE", "/x", None),
            ("curl -I a.test", "HEAD", "/", None),
            ("curl a.test -d a=1 -d b=2", "POST", "/", Some("a=1&b=2")),
            ("curl -G a.test/s?x=1 --data-urlencode 'q=a b'", "GET", "/s?x=1&q=a%20b", None),
            ("curl --json '{}' a.test", "POST", "/", Some("{}")),
        ] {
            let [seen] = requests(text).try_into().expect("one");
            let found = (seen.method.as_str(), seen.target.as_str(), seen.body.as_deref());
            assert_eq!(found, (method, target, body), "{text}");
        }
        assert_eq!(requests("curl a.test/1 a.test/2").len(), 2);
        assert!(
            requests("curl -H 'Transfer-Encoding: chunked' -d x a.test")[0].is_chunked && !seen.is_chunked
        );
    }

    #[test]
    fn what_cannot_be_imported_is_named() {
        let error = |text: &str| {
            let outcome = read("cmds", text, &mut Mix::new(false), &mut Vec::new());
            outcome.expect_err("refused").to_string()
        };
        let told = ["curl -F a=@b a.test", "\ncurl -s", "curl 'a", "curl -d @file a.test"].map(error);
        insta::assert_snapshot!(told.join("\n"));
        let mut mix = Mix::new(false);
        read("cmds", "curl a.test -b a=b -u me:pw -H 'X-Api-Key: k'", &mut mix, &mut Vec::new())
            .expect("read");
        assert_eq!(mix.left_out, ["x-api-key", "cookie", "authorization"]);
    }
}
