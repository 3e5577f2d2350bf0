//! Secrets: a run must not store or print any secret. No secret may remain after a run.

use crate::proofs::feature_packs;
use crate::support::{PATIENCE, Scratch, hoptax, wait_until};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A copy of the pack `nginx-full`. The gateway also copies its own directory to a place where the test can
/// read it.
fn copying_pack(scratch: &Scratch) -> PathBuf {
    let packs = scratch.path().join("packs");
    let pack = packs.join("nginx-full");
    std::fs::create_dir_all(&pack).expect("made");
    for file in std::fs::read_dir(feature_packs().join("nginx-full")).expect("there").flatten() {
        std::fs::copy(file.path(), pack.join(file.file_name())).expect("copied");
    }
    let manifest = pack.join("gateway.yaml");
    let text = std::fs::read_to_string(&manifest).expect("there");
    let copy = scratch.path().join("copy");
    let command =
        format!("cp -r '{{{{ dir }}}}' {0}.part && mv {0}.part {0} && exec \"$0\" \"$@\"", copy.display());
    let start = "start: [\"{{ binary }}\"";
    assert!(text.contains(start));
    let text = text.replace(start, &format!("start: [sh, -c, {command:?}, \"{{{{ binary }}}}\""));
    std::fs::write(manifest, text).expect("written");
    packs
}

fn start(scratch: &Scratch, duration: &str) -> Child {
    let packs = copying_pack(scratch);
    let temporary = scratch.path().join("tmp");
    std::fs::create_dir_all(&temporary).expect("made");
    std::fs::create_dir_all(scratch.path().join("out")).expect("made");
    let plan = scratch.file(
        "plan.yaml",
        &format!(
            "name: secrets
gateways:
  - {{ name: nginx-full, features: [key-auth, basic-auth, tls, mtls, upstream-tls, access-log, {{ consumers: 3 }}] }}
load: [{{ loop: closed, connections: 2, duration: {duration} }}]
trials: 1
warmup: 0s
"
        ),
    );
    hoptax()
        .arg("run")
        .arg(plan)
        .args(["--accept-void", "--packs"])
        .arg(packs)
        .arg("--out")
        .arg(scratch.path().join("out"))
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hoptax runs")
}

/// The secrets that the gateway received. They are read from the copy of its directory.
fn secrets(copy: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let reported = std::fs::read_to_string(copy.join("secrets.txt")).expect("present");
    for line in reported.lines().skip(1).filter(|line| !line.is_empty()) {
        all.insert(line.rsplit("{SHA}").next().expect("one").to_owned());
    }
    for key in ["tls/key.pem", "tls/bundle.pem"] {
        let pem = std::fs::read_to_string(copy.join(key)).expect("there");
        let private = pem.split("PRIVATE KEY-----").nth(1).expect("a key");
        all.extend(
            private.lines().filter(|line| line.len() > 10 && !line.starts_with('-')).map(str::to_owned),
        );
    }
    assert!(all.len() > 10, "three consumers and a key: {}", all.len());
    all
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("there").flatten() {
        match entry.file_type().expect("present").is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn holds(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

/// The pack logs the header `authorization`, so the log shows that the header was sent.
#[test]
fn a_header_value_from_a_file_is_sent_and_not_kept() {
    needs!("nginx");
    const TOKEN: &str = "a-token-of-0123456789.abcdef";
    let scratch = Scratch::new();
    scratch.file("token.txt", &format!("{TOKEN}\n"));
    let plan = scratch.file(
        "plan.yaml",
        "name: header\ngateways: [{ name: nginx-full, features: [access-log] }]\n\
         target: { headers: { host: a, authorization: { file: token.txt, prefix: 'Bearer ' } } }\n\
         load: [{ loop: closed, connections: 2, duration: 100ms }]\ntrials: 1\nwarmup: 0s\n",
    );
    let out = scratch.path().join("out");
    std::fs::create_dir(&out).expect("made");
    let mut command = hoptax();
    command.arg("run").arg(plan).args(["--accept-void", "--packs"]).arg(feature_packs());
    let output = command.arg("--out").arg(&out).output().expect("it runs");
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{reported}{}", String::from_utf8_lossy(&output.stdout));
    let log = files(&out).into_iter().find(|file| file.ends_with("access.log")).expect("it logs");
    let log = std::fs::read_to_string(log).expect("text");
    assert!(log.contains("\"Bearer [secret]\""), "{}", log.lines().next().unwrap_or_default());
    for file in files(&out) {
        assert!(!holds(&std::fs::read(&file).expect("readable"), TOKEN), "{}", file.display());
    }
    assert!(!holds(&output.stdout, TOKEN) && !holds(&output.stderr, TOKEN));
}

#[test]
fn a_run_keeps_and_prints_nothing_secret() {
    needs!("nginx");
    let scratch = Scratch::new();
    let output = start(&scratch, "300ms").wait_with_output().expect("it ends");
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{reported}{}", String::from_utf8_lossy(&output.stdout));

    let secrets = secrets(&scratch.path().join("copy"));
    let out = scratch.path().join("out");
    let directory = std::fs::read_dir(&out).expect("there").flatten().next().expect("a run").path();
    let mut texts = vec![("stdout".to_owned(), output.stdout), ("stderr".to_owned(), output.stderr)];
    for format in ["terminal", "markdown", "html", "json", "csv"] {
        let report =
            hoptax().arg("report").arg(&directory).args(["--format", format]).output().expect("it runs");
        texts.push((format!("report {format}"), [report.stdout, report.stderr].concat()));
    }
    for file in files(&out) {
        texts.push((file.display().to_string(), std::fs::read(file).expect("readable")));
    }
    for (name, bytes) in &texts {
        for secret in &secrets {
            assert!(!holds(bytes, secret), "{name} holds a secret");
        }
    }
    // Without redaction, the access log would contain all of these secrets.
    let log = texts.iter().find(|(name, _)| name.ends_with("access.log")).expect("an access log");
    assert!(holds(&log.1, "[secret]"), "{}", String::from_utf8_lossy(&log.1[..log.1.len().min(500)]));
    assert_eq!(files(&scratch.path().join("tmp")), Vec::<PathBuf>::new());
    assert_eq!(
        std::fs::read_dir(scratch.path().join("tmp")).expect("there").count(),
        0,
        "no directory either"
    );
}

#[test]
fn secret_files_are_private_and_nothing_remains_after_a_kill() {
    needs!("nginx");
    let scratch = Scratch::new();
    let mut run = start(&scratch, "60s");
    let copy = scratch.path().join("copy");
    wait_until("the gateway has begun to start", PATIENCE, || copy.join("secrets.txt").exists());
    let reported = std::fs::read_to_string(copy.join("secrets.txt")).expect("present");
    let private = PathBuf::from(reported.lines().next().expect("its directory"));
    let outer = private.parent().expect("it lies in one").to_owned();
    assert_eq!(outer.parent(), Some(&*scratch.path().join("tmp")));
    let mode = std::fs::metadata(&outer).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let upstream_arguments = Command::new("ps").args(["-eo", "args"]).output().expect("ps runs").stdout;
    let secrets = secrets(&copy);
    for secret in &secrets {
        assert!(!holds(&upstream_arguments, secret), "a process has a secret in its arguments");
    }
    let out = scratch.path().join("out");
    let logs = || files(&out).into_iter().filter(|file| file.ends_with("access.log"));
    let contains =
        |secret: &str| logs().any(|log| std::fs::read(log).is_ok_and(|bytes| holds(&bytes, secret)));
    wait_until("the gateway has logged what it was sent", PATIENCE, || {
        secrets.iter().any(|secret| contains(secret))
    });

    run.kill().expect("killed");
    run.wait().expect("reaped");

    wait_until("the guard removes what is secret", PATIENCE, || !outer.exists());
    assert_eq!(std::fs::read_dir(scratch.path().join("tmp")).expect("there").count(), 0);
    assert!(contains("[secret]"), "the log is kept");
    for file in files(&out) {
        // The guards of other services may still remove their files.
        let bytes = match std::fs::read(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.expect("readable"),
        };
        let kept = secrets.iter().find(|secret| holds(&bytes, secret));
        assert!(kept.is_none(), "{} holds a secret", file.display());
    }
}
