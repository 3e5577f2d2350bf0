//! Headless Chromium, controlled through its debugging pipe.

use crate::load::KilledOnDrop;
use crate::support::{PATIENCE, wait_until};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tempfile::TempDir;

/// Possible names of the Chromium program. Distributions use different names.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const FLAGS: &str = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync --remote-debugging-pipe";

/// A browser with one page. It is closed when dropped.
pub(crate) struct Browser {
    _child: KilledOnDrop,
    to: File,
    from: Receiver<Value>,
    session: Option<String>,
    last: u64,
    events: Vec<Value>,
    home: TempDir,
}

impl Browser {
    /// Starts a browser with an empty page of this width, in light or dark mode.
    pub(crate) fn start(width: u32, dark: bool) -> Self {
        let home = TempDir::new().expect("a directory");
        let pipes = ["in", "out"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args(&pipes).status().expect("coreutils");
        assert!(made.success(), "cannot make pipes");
        let program = NAMES.iter().find(|name| installed(name)).unwrap_or_else(|| {
            panic!("no Chromium is installed: `scripts/setup.sh test` installs it (package chromium)")
        });
        // The browser uses descriptors 3 and 4 for debugging. A shell can open these descriptors for it.
        let child = Command::new("sh")
            .args(["-c", r#"in=$1 out=$2; shift 2; exec "$@" 3<"$in" 4>"$out""#, "sh"])
            .args(&pipes)
            .arg(program)
            .args(FLAGS.split(' '))
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            // The browser's temporary files are in its home directory, so that both are deleted together.
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        let to = OpenOptions::new().write(true).open(&pipes[0]).expect("the browser reads");
        let from = listen(File::open(&pipes[1]).expect("the browser writes"));
        let mut browser =
            Self { _child: KilledOnDrop(child), to, from, session: None, last: 0, events: Vec::new(), home };
        browser.open(width, dark);
        browser
    }

    fn open(&mut self, width: u32, dark: bool) {
        let target = self.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            self.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({}));
        }
        self.emulate(width, dark);
    }

    /// Shows the next pages at this width, in light or dark mode.
    pub(crate) fn emulate(&mut self, width: u32, dark: bool) {
        self.resize(width);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    pub(crate) fn resize(&mut self, width: u32) {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }

    /// Opens a file and waits until its script has run.
    pub(crate) fn show(&mut self, file: &Path) {
        self.visit(&format!("file://{}", file.display()));
    }

    /// Opens an address and waits until its script has run.
    pub(crate) fn visit(&mut self, address: &str) {
        let reported = self.call("Page.navigate", json!({ "url": address }));
        assert!(reported.get("errorText").is_none(), "{address}: {reported}");
        self.until("document.documentElement?.dataset.ready !== undefined");
    }

    pub(crate) fn picture(&mut self, file: &Path) {
        let reported = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let text = reported["data"].as_str().expect("a picture");
        let bytes = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64");
        std::fs::write(file, bytes).expect("written");
    }

    /// Evaluates an expression in the page. If the result is a promise, waits for its value.
    pub(crate) fn ask(&mut self, expression: &str) -> Value {
        self.evaluate(expression).unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    fn evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true });
        let answer = self.answer("Runtime.evaluate", asked)?;
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true. During navigation, evaluation fails and is retried.
    pub(crate) fn until(&mut self, expression: &str) {
        wait_until(expression, PATIENCE, || self.evaluate(expression) == Ok(true.into()));
    }

    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key }));
        }
    }

    pub(crate) fn point_at(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
    }

    /// Presses and releases the left mouse button.
    pub(crate) fn click_at(&mut self, x: f64, y: f64) {
        self.point_at(x - 1.0, y);
        self.point_at(x, y);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Allows the page to save files. Returns the directory for these files.
    pub(crate) fn downloads(&mut self) -> PathBuf {
        let place = self.home.path().join("saved");
        std::fs::create_dir_all(&place).expect("a directory");
        let session = self.session.take();
        self.call("Browser.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": &place }));
        self.session = session;
        place
    }

    /// Allows the page to write to the clipboard, and the test to read the clipboard.
    pub(super) fn allow_clipboard(&mut self) {
        let session = self.session.take();
        let permissions = json!({ "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"] });
        self.call("Browser.grantPermissions", permissions);
        self.session = session;
        self.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
    }

    /// Leaves the page, and forgets what it logged and requested.
    pub(crate) fn leave(&mut self) {
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.until("location.href === 'about:blank'");
        self.events.clear();
    }

    /// Errors that the page logged, and uncaught exceptions.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let wrong = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] == "error",
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.events.iter().filter(wrong).map(|event| event["params"].to_string()).collect()
    }

    /// Addresses that the page requested, except its own file and embedded data.
    pub(crate) fn requests(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        let addresses = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        let own =
            |url: &&str| ["file:", "data:", "blob:", "about:"].iter().any(|scheme| url.starts_with(scheme));
        addresses.filter(|url| !own(url)).map(str::to_owned).collect()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.answer(method, parameters).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn answer(&mut self, method: &str, parameters: Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes).expect("the browser lives");
        loop {
            let reported =
                self.from.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no answer to {method}"));
            if reported["id"] == self.last {
                return match reported.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(reported["result"].clone()),
                };
            }
            self.events.push(reported);
        }
    }
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|place| place.join(program).is_file())
}

/// Reads messages from the browser. Each message ends with a zero byte.
fn listen(from: File) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(from).split(0) {
            let Ok(message) = message else { return };
            if let Ok(message) = serde_json::from_slice(&message)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    receiver
}
