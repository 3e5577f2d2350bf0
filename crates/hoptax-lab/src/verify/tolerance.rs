//! Undoes the changes that features make in responses, so that any remaining difference from direct is an
//! error.

use super::{Answer, translation};
use crate::features::{REQUEST_ID_HEADER, RESPONSE_REMOVED, RESPONSE_SET};
use hoptax_plan::Feature;
use std::io::Read as _;

/// Maximum number of bytes of a decompressed body. The bodies of compared responses are far smaller.
const LARGEST: u64 = 1 << 30;

/// The gateway's response without the changes that `features` make.
///
/// # Errors
/// If a change cannot be undone: the body is declared as gzip but is not valid gzip, or the answer is not in
/// the form that a translated call needs.
pub(super) fn as_if_without(
    features: &[Feature],
    direct: &Answer,
    mut gateway: Answer,
) -> Result<Answer, String> {
    for feature in features {
        match feature {
            Feature::Gzip => compression(direct, &mut gateway)?,
            Feature::GrpcWeb => translation::from_web(direct, &mut gateway)?,
            Feature::GrpcJson => translation::from_json(direct, &mut gateway)?,
            Feature::Cors => vary(direct, &mut gateway, "origin"),
            Feature::RequestId => as_direct(direct, &mut gateway, REQUEST_ID_HEADER),
            Feature::HeaderRewrite => {
                as_direct(direct, &mut gateway, RESPONSE_SET.0);
                as_direct(direct, &mut gateway, RESPONSE_REMOVED);
            }
            _ => {}
        }
    }
    Ok(gateway)
}

/// If direct has the header `name`, copies its value to the gateway's response.
fn as_direct(direct: &Answer, gateway: &mut Answer, name: &str) {
    if let Some(value) = direct.headers.get(name) {
        gateway.headers.insert(name.to_owned(), value.clone());
    }
}

fn compression(direct: &Answer, gateway: &mut Answer) -> Result<(), String> {
    let encoded = gateway.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip");
    if !encoded || direct.headers.contains_key("content-encoding") {
        return Ok(());
    }
    gateway.body = unpacked(&gateway.body).map_err(|error| format!("its body is not valid gzip: {error}"))?;
    gateway.headers.remove("content-encoding");
    only_encoded(direct, gateway);
    Ok(())
}

/// Decodes both bodies, unless they are equal. Either side may have compressed its body, or both.
///
/// # Errors
/// If a body cannot be decoded.
pub(super) fn decode(direct: &mut Answer, gateway: &mut Answer) -> Result<(), String> {
    const NAME: &str = "content-encoding";
    if direct.body == gateway.body && direct.headers.get(NAME) == gateway.headers.get(NAME) {
        return Ok(());
    }
    let encoded = [&*direct, &*gateway].map(|answer| answer.headers.contains_key(NAME));
    for (whose, answer) in [("direct's", &mut *direct), ("its", &mut *gateway)] {
        let Some(encoding) = answer.headers.remove(NAME) else { continue };
        let body = answer.body.as_slice();
        if body.is_empty() {
            // The response to HEAD.
            continue;
        }
        let decoded = match encoding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => unpacked(body),
            "deflate" => plain(flate2::read::ZlibDecoder::new(body)),
            "identity" => continue,
            _ => {
                return Err(format!(
                    "{whose} body is encoded as `{encoding}`, which hoptax cannot decode; write \
                     accept-encoding: gzip among the target's headers"
                ));
            }
        };
        answer.body = decoded.map_err(|error| format!("{whose} body is not valid {encoding}: {error}"))?;
    }
    match encoded {
        [false, true] => only_encoded(direct, gateway),
        [true, false] => only_encoded(gateway, direct),
        // Two compressors produce different bytes from the same body, so the validators differ.
        _ => as_direct(direct, gateway, "etag"),
    }
    Ok(())
}

/// Undoes what compression changes in the headers of `gateway`.
fn only_encoded(direct: &Answer, gateway: &mut Answer) {
    vary(direct, gateway, "accept-encoding");
    // Compression changes the bytes of the body. So the gateway may weaken or remove a strong validator, and
    // may remove `accept-ranges` (RFC 9110 §8.8.1).
    let weakened = match (direct.headers.get("etag"), gateway.headers.get("etag")) {
        (Some(strong), Some(weak)) => weak.strip_prefix("W/").is_some_and(|rest| rest == strong),
        (_, None) => true,
        _ => false,
    };
    if weakened {
        as_direct(direct, gateway, "etag");
    }
    if !gateway.headers.contains_key("accept-ranges") {
        as_direct(direct, gateway, "accept-ranges");
    }
}

/// Removes `name` from the gateway's header `vary`, unless direct's `vary` contains it as well.
fn vary(direct: &Answer, gateway: &mut Answer, name: &str) {
    let lists = |list: &str| list.split(',').any(|one| one.trim().eq_ignore_ascii_case(name));
    let there = direct.headers.get("vary");
    if there.is_some_and(|list| lists(list)) {
        return;
    }
    if let Some(list) = gateway.headers.get_mut("vary") {
        let rest: Vec<&str> =
            list.split(',').map(str::trim).filter(|one| !one.eq_ignore_ascii_case(name)).collect();
        *list = rest.join(", ");
        if list.is_empty() {
            gateway.headers.remove("vary");
        }
    }
}

pub(super) fn unpacked(body: &[u8]) -> std::io::Result<Vec<u8>> {
    plain(flate2::read::MultiGzDecoder::new(body))
}

fn plain(decoder: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(LARGEST).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::super::difference;
    use super::*;
    use std::io::Write as _;

    fn answer(headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Answer { status: 200, headers, body: body.to_vec() }
    }

    fn packed(body: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        encoder.write_all(body).expect("written");
        encoder.finish().expect("packed")
    }

    fn difference_of(features: &[Feature], direct: &Answer, gateway: Answer) -> Option<String> {
        as_if_without(features, direct, gateway).map_or_else(Some, |here| difference(direct, &here))
    }

    #[test]
    fn only_compression_is_undone() {
        let direct = answer(&[("etag", "\"x\""), ("vary", "cookie")], b"hello");
        let headers =
            [("content-encoding", "gzip"), ("etag", "W/\"x\""), ("vary", "cookie, Accept-Encoding")];
        let gateway = |body: &[u8]| answer(&headers, body);
        let gzip = [Feature::Gzip];
        assert_eq!(difference_of(&gzip, &direct, gateway(&packed(b"hello"))), None);
        assert!(difference_of(&[], &direct, gateway(&packed(b"hello"))).is_some(), "not asked for");
        let wrong = [packed(b"hallo"), b"hello".to_vec()]
            .map(|body| difference_of(&gzip, &direct, gateway(&body)).expect("another body, and no gzip"));
        insta::assert_snapshot!(wrong.join("\n"));
        let mut other = gateway(&packed(b"hello"));
        other.headers.insert("etag".into(), "W/\"y\"".into());
        assert!(difference_of(&gzip, &direct, other).expect("another etag").contains("etag"));
    }

    #[test]
    fn one_side_or_both_may_compress_if_the_request_accepts_it() {
        let plain = answer(&[("etag", "\"x\"")], b"hello");
        let zipped = answer(
            &[("etag", "W/\"x\""), ("content-encoding", "gzip"), ("vary", "Accept-Encoding")],
            &packed(b"hello"),
        );
        let other = answer(
            &[("etag", "\"y\""), ("content-encoding", "gzip"), ("vary", "Accept-Encoding")],
            &[packed(b"hel"), packed(b"lo")].concat(),
        );
        let decoded = |direct: &Answer, gateway: &Answer| {
            let (mut direct, mut gateway) = (direct.clone(), gateway.clone());
            decode(&mut direct, &mut gateway).map_or_else(Some, |()| difference(&direct, &gateway))
        };
        for (direct, gateway) in [(&plain, &zipped), (&zipped, &plain), (&zipped, &other), (&zipped, &zipped)]
        {
            assert_eq!(decoded(direct, gateway), None);
        }
        let wrong = answer(&[("content-encoding", "gzip")], &packed(b"hallo"));
        let brotli = answer(&[("content-encoding", "br")], b"?");
        let told = [decoded(&answer(&[], b"hello"), &wrong), decoded(&plain, &brotli)];
        insta::assert_snapshot!(told.map(|text| text.expect("it differs")).join("\n"));
    }

    #[test]
    fn each_feature_excuses_its_own_headers_alone() {
        let direct = answer(&[(RESPONSE_REMOVED, "by-upstream"), (REQUEST_ID_HEADER, "1")], b"");
        let without = |name: &str, value: Option<&str>| {
            let mut answer = direct.clone();
            answer.headers.remove(name);
            answer.headers.extend(value.map(|value| (name.to_owned(), value.to_owned())));
            answer
        };
        let removed = without(RESPONSE_REMOVED, None);
        assert_eq!(difference_of(&[Feature::HeaderRewrite], &direct, removed.clone()), None);
        assert!(difference_of(&[Feature::RequestId], &direct, removed).is_some());
        let renamed = without(REQUEST_ID_HEADER, Some("2"));
        assert_eq!(difference_of(&[Feature::RequestId], &direct, renamed.clone()), None);
        assert!(difference_of(&[Feature::HeaderRewrite], &direct, renamed).is_some());
        let mut varies = direct.clone();
        varies.headers.insert("vary".into(), "Origin".into());
        assert_eq!(difference_of(&[Feature::Cors], &direct, varies), None);
    }
}
