//! Proofs that authentication is on: keys, passwords, tokens, token reviews.

use super::scene::{Proof, Request, Scene, is, not_on, parsed};
use crate::features::{KEY_HEADER, credential};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hoptax_plan::Feature;

/// Number of requests that the proof sends to find out whether reviews are cached.
const REVIEWED: u64 = 3;

/// Status for a refused request, unless the gateway's pack names another one.
const REFUSED: u16 = 401;

/// The gateway must refuse requests without a credential and requests with a wrong credential. If its pack
/// says that it passes on requests without a credential, the upstream must receive such a request, unless the
/// gateway refuses it.
pub(super) fn prove(scene: &Scene<'_>, feature: Feature) -> Proof {
    let header = header(feature);
    let good = scene.request("echo");
    let refusal = scene.change.refusals.get(feature.name());
    if refusal.is_some_and(|refusal| refusal.passes_anonymous) {
        passes_or_refuses(scene, feature, &good.clone().without(header))?;
    } else {
        let status = refusal.and_then(|refusal| refusal.without).unwrap_or(REFUSED);
        let how = format!("without `{header}`");
        scene.must_refuse(feature, &good.clone().without(header), status, &how)?;
    }
    let status = refusal.and_then(|refusal| refusal.wrong).unwrap_or(REFUSED);
    let (wrong, what) = wrong(scene, feature);
    scene.must_refuse(feature, &good.with(header, &wrong), status, &format!("with a wrong {what}"))
}

/// Proves that a request without a credential reaches the upstream, or that the gateway refuses it.
fn passes_or_refuses(scene: &Scene<'_>, feature: Feature, request: &Request) -> Proof {
    let answer = scene.answer(request).map_err(|error| {
        not_on(feature, &format!("it gives no answer without a credential: {error:#}"), &[])
    })?;
    let refuses = (400..500).contains(&answer.status);
    let passes = answer.status < 400 && (!scene.echoes || parsed(&answer).is_some());
    let what =
        format!("it answers {} without a credential, but should pass it on or refuse it", answer.status);
    is(feature, refuses || passes, &what, &[("this request", &answer)])
}

/// The first, the middle and the last consumer must be accepted.
pub(super) fn prove_consumers(scene: &Scene<'_>, feature: Feature, count: u32) -> Proof {
    let count = count as usize;
    for index in [0, count / 2, count - 1] {
        let request = scene.as_consumer(scene.request("echo"), index);
        scene.must_accept(feature, &request).map_err(|mut failure| {
            failure.message += &format!(" (consumer {} of {count})", index + 1);
            failure
        })?;
    }
    Ok(())
}

/// Without a cache, the upstream must review the token of each request. With a cache, the number of reviews
/// must be smaller than the number of requests. A wrong token must be rejected.
pub(super) fn prove_review(scene: &Scene<'_>, feature: Feature, cache_s: u32) -> Proof {
    prove(scene, feature)?;
    if !scene.echoes {
        return Ok(());
    }
    let before = reviews(scene, feature)?;
    for _ in 0..REVIEWED {
        scene.must_accept(feature, &scene.request("echo"))?;
    }
    let after = reviews(scene, feature)?;
    let grew = after - before;
    if cache_s == 0 {
        let what = format!("{REVIEWED} requests caused only {grew} token reviews at the upstream");
        is(feature, grew >= REVIEWED, &what, &[])
    } else {
        let what = format!(
            "{REVIEWED} requests with a reviewed token caused {grew} more token reviews: nothing is cached"
        );
        is(feature, grew < REVIEWED, &what, &[])?;
        is(feature, after > 0, "the upstream received no token review", &[])
    }
}

/// Number of token reviews that the upstream has received so far.
fn reviews(scene: &Scene<'_>, feature: Feature) -> Result<u64, hoptax_record::Failure> {
    let answer = scene.direct(&scene.upstreams[0], "echo");
    let echo = answer.as_ref().ok().and_then(parsed);
    echo.map(|echo| echo.number("token_reviews"))
        .ok_or_else(|| not_on(feature, "the upstream did not report its count of token reviews", &[]))
}

fn header(feature: Feature) -> &'static str {
    if feature == Feature::KeyAuth { KEY_HEADER } else { "authorization" }
}

fn wrong(scene: &Scene<'_>, feature: Feature) -> (String, &'static str) {
    let first = &scene.made.consumers[0];
    match feature {
        Feature::KeyAuth => (first.key.chars().map(other_digit).collect(), "key"),
        Feature::BasicAuth => {
            let password: String = first.password.chars().map(other_digit).collect();
            (format!("Basic {}", STANDARD.encode(format!("{}:{password}", first.name))), "password")
        }
        _ => {
            let token = credential(feature, first).map(|(_, value)| value).unwrap_or_default();
            (with_bad_signature(&token), "signature")
        }
    }
}

fn other_digit(digit: char) -> char {
    if digit == '0' { '1' } else { '0' }
}

/// A token with the same claims and a wrong signature. The first character of the signature is changed,
/// because decoders ignore some bits of the last character.
fn with_bad_signature(token: &str) -> String {
    let (text, signature) = token.rsplit_once('.').unwrap_or((token, ""));
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    format!("{text}.{first}{}", signature.get(1..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_credentials_differ_from_valid_ones_in_one_part() {
        assert_eq!(with_bad_signature("a.b.Axyz"), "a.b.Bxyz");
        assert_eq!(with_bad_signature("a.b.xyz"), "a.b.Ayz");
        let key = "0123abcd";
        let other: String = key.chars().map(other_digit).collect();
        assert!(other.len() == key.len() && key.chars().zip(other.chars()).all(|(a, b)| a != b));
    }
}
