//! Passwords as bcrypt hashes, which some gateways require.

use std::borrow::Cow;

/// The lowest cost that bcrypt allows: 2^4 rounds. One hash with this cost takes as long as hundreds of
/// proxied requests. With a higher cost, the result would show only the cost of bcrypt.
const COST: u32 = 4;

/// Length of the part of a hash that follows version and cost: 22 characters of salt and 31 characters of
/// digest.
const LETTERS: usize = 22 + 31;

/// Hashes `password` with bcrypt. The salt is derived from the password, which is random and used in one run
/// only. So the same password always gives the same hash, and a configuration that is rendered twice gives
/// identical files.
///
/// # Errors
/// If the password is too long or contains a zero byte.
pub fn bcrypt(password: &str) -> Result<String, bcrypt::BcryptError> {
    let drawn = ring::digest::digest(&ring::digest::SHA256, password.as_bytes());
    let mut salt = [0; 16];
    salt.copy_from_slice(&drawn.as_ref()[..16]);
    Ok(bcrypt::hash_with_salt(password, COST, salt)?.format_for_version(bcrypt::Version::TwoB))
}

/// `text` with all hashes of [`bcrypt`] replaced. Hashes are recognized by their form, because hashing all
/// passwords again would take seconds.
pub(super) fn redact_bcrypt<'a>(text: &'a str, instead: &str) -> Cow<'a, str> {
    let begin = format!("$2b${COST:02}$");
    if !text.contains(&begin) {
        return Cow::Borrowed(text);
    }
    let is_letter = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '/');
    let mut parts = text.split(&begin);
    let mut redacted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let letters = part.chars().take_while(is_letter).take(LETTERS).count();
        redacted.push_str(if letters == LETTERS { instead } else { &begin });
        redacted.push_str(if letters == LETTERS { &part[letters..] } else { part });
    }
    Cow::Owned(redacted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_verify_and_are_the_same_each_time() {
        let hash = bcrypt("of one run").expect("hashed");
        assert_eq!(hash.len(), "$2b$04$".len() + LETTERS);
        assert_eq!(bcrypt("of one run").ok(), Some(hash.clone()));
        assert_eq!(bcrypt::verify("of one run", &hash).ok(), Some(true));
        assert_eq!(bcrypt::verify("of another", &hash).ok(), Some(false));
        assert_ne!(bcrypt("of another").ok(), Some(hash));
    }

    #[test]
    fn only_whole_hashes_are_redacted() {
        let (one, two) = (bcrypt("one").expect("hashed"), bcrypt("two").expect("hashed"));
        let text = format!("a {one}\nb \"{two}\" end");
        assert_eq!(redact_bcrypt(&text, "[secret]"), "a [secret]\nb \"[secret]\" end");
        for harmless in ["nothing here", "$2b$04$short and no hash", "ends with $2b$04$"] {
            assert_eq!(redact_bcrypt(harmless, "[secret]"), harmless);
        }
    }
}
