//! The proof of each feature must succeed on a real nginx that has the feature. The proof must fail on an
//! nginx that only claims to have the feature.

use crate::support::PATIENCE;
use crate::world::{exe, pack_gateway, running_plan, started};
use hoptax_format::spec::TargetSpec;
use hoptax_lab::Driver as _;
use hoptax_lab::features::Change;
use hoptax_lab::packs::PackSet;
use hoptax_lab::packs::manifest::Refusal;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::verify::{self, Requests, proofs};
use hoptax_plan::{Feature, Upstream};
use hoptax_record::Failure;
use std::path::Path;
use std::sync::LazyLock;

/// The packs of [`feature_packs`], loaded once.
static FEATURE_PACKS: LazyLock<PackSet> =
    LazyLock::new(|| PackSet::load(Some(&feature_packs())).expect("the packs are right"));

pub(crate) fn feature_packs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/feature-packs")
}

fn features(words: &[&str]) -> Vec<Feature> {
    words.iter().map(|word| word.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// Starts `pack` with these features in front of two instances. Returns the result of the verification and
/// the result of the proofs.
fn outcome(pack: &str, words: &[&str]) -> (Result<(), Failure>, Result<(), Failure>) {
    outcome_with(pack, words, |_| {})
}

/// Like [`outcome`], but `alter` first changes what the gateway's pack says.
fn outcome_with(
    pack: &str,
    words: &[&str],
    alter: impl FnOnce(&mut Change),
) -> (Result<(), Failure>, Result<(), Failure>) {
    outcome_of(&feature_packs(), pack, words, alter)
}

/// Like [`outcome_with`], with a pack of the folder `packs`.
fn outcome_of(
    packs: &Path,
    pack: &str,
    words: &[&str],
    alter: impl FnOnce(&mut Change),
) -> (Result<(), Failure>, Result<(), Failure>) {
    let mut plan = running_plan(vec![pack_gateway("proved", pack, 1, &features(words))]);
    let Upstream::BuiltIn(upstream) = &mut plan.upstream else { panic!("it is built in") };
    upstream.instances = 2;
    let packs = match packs == feature_packs() {
        true => FEATURE_PACKS.clone(),
        false => PackSet::load(Some(packs)).expect("the packs are right"),
    };
    let run = tempfile::tempdir().expect("a directory");
    let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
    let upstream = started(driver.start_upstream());
    let service = started(driver.start_gateway(&plan.gateways[0], &upstream.0.endpoints()));
    let mut change = service.0.facts().change.clone();
    alter(&mut change);
    let headers = vec![("host".to_owned(), "echo.com".to_owned())];
    let requests = Requests::from(TargetSpec::only("GET", "/some/path", headers, vec![]));
    let (direct, via) = (upstream.0.addresses(), service.0.addresses()[0]);
    (
        verify::verify(direct[0], via, &requests, &change, PATIENCE),
        proofs::prove(direct, via, &requests, &change, PATIENCE),
    )
}

/// nginx answers 401 to requests without a key and with a wrong key.
#[test]
fn a_pack_can_name_other_refusals() {
    needs!("nginx");
    let refusal = |without, wrong, passes_anonymous| Refusal {
        without,
        wrong,
        passes_anonymous,
        reason: "a test".to_owned(),
    };
    let proved = |refusal: Refusal| {
        let alter = |change: &mut Change| drop(change.refusals.insert("key-auth".to_owned(), refusal));
        outcome_with("nginx-full", &["key-auth"], alter).1
    };
    assert_eq!(proved(refusal(Some(401), Some(401), false)), Ok(()));
    assert_eq!(proved(refusal(None, None, true)), Ok(()), "a request without a key is refused");
    let passes = |instead: &str| {
        let packs = tempfile::tempdir().expect("a directory");
        let folder = packs.path().join("nginx-full");
        std::fs::create_dir(&folder).expect("made");
        for file in std::fs::read_dir(feature_packs().join("nginx-full")).expect("there").flatten() {
            let text = std::fs::read_to_string(file.path()).expect("readable");
            let text = text.replace("if ($known_key = 0) {", instead);
            std::fs::write(folder.join(file.file_name()), text).expect("written");
        }
        let alter = |change: &mut Change| {
            drop(change.refusals.insert("key-auth".to_owned(), refusal(None, None, true)));
        };
        outcome_of(packs.path(), "nginx-full", &["key-auth"], alter).1
    };
    // Refuses wrong keys only.
    let wrong = "set $refused $known_key$http_x_api_key; if ($refused ~ ^0.) {";
    assert_eq!(passes(wrong), Ok(()), "a request without a key reaches the upstream");
    for status in ["200", "500"] {
        let itself = format!("if ($http_x_api_key = '') {{ return {status}; }} {wrong}");
        let failure = passes(&itself).expect_err("it neither passes the request on nor refuses it");
        let expected = format!("answers {status} without a credential");
        assert!(failure.message.contains(&expected), "{failure:?}");
    }
    for (other, expected) in [
        (refusal(Some(400), None, false), "without `x-api-key`, but should answer 400"),
        (refusal(None, Some(403), false), "with a wrong key, but should answer 403"),
    ] {
        let failure = proved(other).expect_err(expected);
        assert!(failure.message.contains(expected), "{failure:?}");
    }
}

/// A run in `features` proves each feature of the pack `nginx` alone.
#[test]
fn features_are_proved_together_and_with_other_values() {
    needs!("nginx");
    for words in [
        &["tls", "mtls"][..],
        &["proxy-protocol=v1"],
        &["proxy-protocol", "tls", "ip-allow"],
        &["routes=1:first"],
        &["routes=50:last"],
        &["key-auth", "consumers=20"],
        &["basic-auth", "consumers=3"],
        &["round-robin=1"],
        &["rate-limit=20/s"],
        &["token-review", "key-auth"],
        &[
            "key-auth",
            "basic-auth",
            "rate-limit",
            "access-log",
            "tls",
            "mtls",
            "proxy-protocol",
            "upstream-tls",
            "header-rewrite",
            "path-rewrite",
            "cors",
            "gzip",
            "request-id",
            "routes=10:middle",
            "consumers=4",
            "round-robin",
        ],
    ] {
        let (same, proved) = outcome("nginx-full", words);
        assert_eq!(same, Ok(()), "{words:?}: as direct");
        assert_eq!(proved, Ok(()), "{words:?}");
    }
}

#[test]
fn claimed_features_without_effect_are_refused_by_name() {
    needs!("nginx");
    for (words, reported) in [
        (&["key-auth"][..], "`x-api-key`, but should answer 401"),
        (&["basic-auth"], "`authorization`, but should answer 401"),
        (&["jwt-hs256"], "`authorization`, but should answer 401"),
        (&["jwt-rs256"], "`authorization`, but should answer 401"),
        (&["tls"], "over TLS"),
        (&["tls", "mtls"], "over TLS"),
        (&["proxy-protocol"], "should let through"),
        (&["upstream-tls"], "should let through"),
        (&["header-rewrite"], "`x-hoptax-answered: by-gateway`"),
        (&["path-rewrite"], "`/public/.hoptax/echo`"),
        (&["cors"], "is None for https://app.example"),
        (&["gzip"], "compress"),
        (&["request-id"], "`x-request-id`"),
        (&["ip-allow"], "127.0.0.2, but should answer 403"),
        (&["routes=9:first"], "should answer 404"),
        (&["key-auth", "consumers=3"], "should answer 401"),
        (&["round-robin"], "only instance 1 "),
        (&["rate-limit=20/s"], " 429"),
        (&["token-review"], "should answer 401"),
    ] {
        let (_, proved) = outcome("nginx-deaf", words);
        let (named, failure) = (words[0], proved.expect_err(reported));
        let begins = format!("feature `{named}` is not on: ");
        assert!(failure.message.starts_with(&begins), "{words:?}: {failure:?}");
        assert!(failure.message.contains(reported), "{words:?}: {failure:?}");
    }
}
