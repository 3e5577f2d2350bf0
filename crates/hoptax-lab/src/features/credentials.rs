//! Keys, passwords, tokens and certificates for one run.

use super::names::{SERVER_NAME, TOKEN_ISSUER};
use crate::login::Login;
use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD, engine::general_purpose::URL_SAFE_NO_PAD};
use hoptax_format::spec::TlsSpec;
use hoptax_host::logs::{Finder, REDACTED};
use hoptax_plan::{Feature, JwtAlgorithm};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _, LineEnding};
use rsa::traits::PublicKeyParts as _;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};

/// Bits of the RSA key that signs RS256 tokens.
const RSA_BITS: usize = 2048;

/// Minimum length of a secret that is redacted. A shorter secret could match a part of an ordinary word.
const SHORTEST_SECRET: usize = 12;

/// Expiry of tokens: the year 2100.
const TOKEN_EXPIRES: u64 = 4_102_444_800;

/// A consumer that gateways accept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumer {
    /// Name, such as `consumer-00001`.
    pub name: String,
    /// Key for `key-auth`.
    pub key: String,
    /// Password for `basic-auth`.
    pub password: String,
    /// Token for `jwt-hs256`.
    pub token_hs256: String,
    /// Token for `jwt-rs256`; empty unless a feature needs it.
    pub token_rs256: String,
}

/// A certificate chain and its private key, PEM.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key, PKCS #8.
    pub key: String,
}

/// All secrets of one run. They can be sent to another host, but must never be written to a file that is
/// kept.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The consumers; at least one.
    pub consumers: Vec<Consumer>,
    /// Secret that signs HS256 tokens, as hexadecimal digits. The digits themselves are the key. They are not
    /// decoded.
    pub jwt_secret: String,
    /// Key that signs RS256 tokens; absent unless a feature needs it.
    pub jwt_rsa: Option<RsaKey>,
    /// Certificate of the authority that signed all other certificates, PEM.
    pub authority: String,
    /// Certificate of gateways and of the upstream.
    pub server: Identity,
    /// Certificate of the generator, for gateways that request one.
    pub client: Identity,
    /// TLS settings for an upstream that already runs; absent if that upstream uses no TLS, or if the
    /// upstream is built in.
    pub upstream: Option<TlsSpec>,
    /// Further secrets, which come from files that the plan names.
    pub given: Vec<String>,
}

/// An RSA key for tokens.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RsaKey {
    /// Private key, PEM, PKCS #8.
    pub private_pem: String,
    /// Public key, PEM.
    pub public_pem: String,
    /// Modulus, base64url.
    pub modulus: String,
    /// Exponent, base64url.
    pub exponent: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("consumers", &self.consumers.len()).finish_non_exhaustive()
    }
}

impl Credentials {
    /// Creates the credentials that `features` need. `features` contains the features of all gateways of a
    /// run.
    ///
    /// # Errors
    /// If the system provides no random numbers, or a key cannot be created.
    pub fn make<'a>(features: impl IntoIterator<Item = &'a Feature>) -> anyhow::Result<Self> {
        Self::make_for(features, &[])
    }

    /// Like [`Self::make`]. The certificates are also valid for `addresses`, because some gateways verify the
    /// address of their upstream.
    ///
    /// # Errors
    /// If the system provides no random numbers, or a key cannot be created.
    pub fn make_for<'a>(
        features: impl IntoIterator<Item = &'a Feature>,
        addresses: &[IpAddr],
    ) -> anyhow::Result<Self> {
        let (mut count, mut rsa) = (1, false);
        for feature in features {
            match feature {
                Feature::Consumers { count: wanted } => count = count.max(*wanted),
                Feature::Jwt(JwtAlgorithm::Rs256) => rsa = true,
                _ => {}
            }
        }
        let jwt_rsa = if rsa { Some(RsaKey::make()?) } else { None };
        let jwt_secret = random_hex(32)?;
        let signer = jwt_rsa.as_ref().map(RsaKey::signer).transpose()?;
        let consumers = (0..count)
            .map(|index| {
                let name = format!("consumer-{:05}", index + 1);
                Ok(Consumer {
                    token_hs256: token(&name, "HS256", |text| Ok(hmac(&jwt_secret, text)))?,
                    token_rs256: match &signer {
                        Some(signer) => token(&name, "RS256", |text| sign(signer, text))?,
                        None => String::new(),
                    },
                    key: random_hex(16)?,
                    password: random_hex(12)?,
                    name,
                })
            })
            .collect::<anyhow::Result<_>>()?;
        let (authority, server, client) = certificates(addresses)?;
        Ok(Self {
            consumers,
            jwt_secret,
            jwt_rsa,
            authority,
            server,
            client,
            upstream: None,
            given: Vec::new(),
        })
    }

    /// Adds the TLS settings and the token for an upstream that already runs. This upstream accepts only this
    /// token, so the token replaces the HS256 token of every consumer.
    #[must_use]
    pub fn with(mut self, login: &Login) -> Self {
        if let Some(token) = &login.token {
            for consumer in &mut self.consumers {
                consumer.token_hs256.clone_from(token);
            }
        }
        self.upstream.clone_from(&login.tls);
        self.given.extend(login.secrets().map(str::to_owned));
        self
    }

    /// The part that a client needs to prove that features are on: the consumers. It contains no private key.
    #[must_use]
    pub fn of_clients(&self) -> Self {
        Self { consumers: self.consumers.clone(), authority: self.authority.clone(), ..Self::default() }
    }

    /// Credentials for a number of consumers. All values are constant placeholders.
    pub fn placeholders(consumers: usize) -> Self {
        let identity =
            |who: &str| Identity { certificate: format!("{who} certificate"), key: format!("{who} key") };
        let consumer = |index: usize| Consumer {
            name: format!("consumer-{:05}", index + 1),
            key: format!("key-of-consumer-{:05}", index + 1),
            password: format!("password-{:05}", index + 1),
            token_hs256: format!("token.of.consumer-{:05}", index + 1),
            token_rs256: format!("token.of.consumer-{:05}", index + 1),
        };
        Self {
            consumers: (0..consumers.max(1)).map(consumer).collect(),
            jwt_secret: "secret-that-signs-tokens".into(),
            jwt_rsa: Some(RsaKey {
                private_pem: "private key".into(),
                public_pem: "-----BEGIN PUBLIC KEY-----\npublic\n-----END PUBLIC KEY-----\n".into(),
                modulus: "modulus".into(),
                exponent: "AQAB".into(),
            }),
            authority: "authority".into(),
            server: identity("server"),
            client: identity("client"),
            upstream: None,
            given: Vec::new(),
        }
    }

    /// `text` with all secrets replaced.
    pub fn redact(&self, text: &str) -> String {
        let clean = Finder::new(&self.secrets()).without(text.as_bytes());
        let redacted = String::from_utf8_lossy(&clean);
        super::passwords::redact_bcrypt(&redacted, REDACTED).into_owned()
    }

    /// Every secret, in every format that gateways use for it.
    pub fn secrets(&self) -> Vec<String> {
        let mut all = vec![
            self.jwt_secret.clone(),
            STANDARD.encode(&self.jwt_secret),
            URL_SAFE_NO_PAD.encode(&self.jwt_secret),
        ];
        for one in &self.consumers {
            all.extend([
                one.token_hs256.clone(),
                one.token_rs256.clone(),
                STANDARD.encode(format!("{}:{}", one.name, one.password)),
                sha1_base64(&one.password),
                one.key.clone(),
                one.password.clone(),
            ]);
        }
        let keys = [
            Some(&self.server.key),
            Some(&self.client.key),
            self.jwt_rsa.as_ref().map(|rsa| &rsa.private_pem),
        ];
        for key in keys.into_iter().flatten() {
            // Each line of a key counts as a secret, because some formats indent the lines.
            all.extend(key.lines().filter(|line| !line.starts_with("-----")).map(str::to_owned));
        }
        all.extend(self.given.iter().cloned());
        all.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // Put the longest secrets first, because a secret may contain a shorter secret.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        all
    }
}

impl Consumer {
    /// The consumer's line in a password file. The hash is SHA-1, because every gateway supports it and it
    /// costs every gateway about the same CPU time.
    pub fn htpasswd(&self) -> String {
        format!("{}:{{SHA}}{}", self.name, sha1_base64(&self.password))
    }
}

impl RsaKey {
    fn make() -> anyhow::Result<Self> {
        let key =
            rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, RSA_BITS).context("creating an RSA key")?;
        let public = key.to_public_key();
        Ok(Self {
            private_pem: key.to_pkcs8_pem(LineEnding::LF).context("writing an RSA key")?.to_string(),
            public_pem: public.to_public_key_pem(LineEnding::LF).context("writing an RSA key")?,
            modulus: URL_SAFE_NO_PAD.encode(public.n().to_bytes_be()),
            exponent: URL_SAFE_NO_PAD.encode(public.e().to_bytes_be()),
        })
    }

    fn signer(&self) -> anyhow::Result<ring::signature::RsaKeyPair> {
        let body: String = self.private_pem.lines().filter(|line| !line.starts_with("-----")).collect();
        let der = STANDARD.decode(body).context("reading an RSA key")?;
        ring::signature::RsaKeyPair::from_pkcs8(&der)
            .map_err(|error| anyhow::anyhow!("an RSA key was refused: {error}"))
    }
}

fn random_hex(bytes: usize) -> anyhow::Result<String> {
    let mut drawn = vec![0; bytes];
    SystemRandom::new()
        .fill(&mut drawn)
        .map_err(|_| anyhow::anyhow!("the system provides no random numbers"))?;
    Ok(drawn.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Creates a JSON Web Token (RFC 7519) for `subject`.
fn token(
    subject: &str,
    algorithm: &str,
    sign: impl Fn(&str) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<String> {
    let header = format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"hoptax"}}"#);
    let claims = format!(r#"{{"iss":"{TOKEN_ISSUER}","sub":"{subject}","exp":{TOKEN_EXPIRES}}}"#);
    let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(&text)?);
    Ok(format!("{text}.{signature}"))
}

fn hmac(secret: &str, text: &str) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    ring::hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn sign(signer: &ring::signature::RsaKeyPair, text: &str) -> anyhow::Result<Vec<u8>> {
    let mut signature = vec![0; signer.public().modulus_len()];
    signer
        .sign(&ring::signature::RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| anyhow::anyhow!("cannot sign a token"))?;
    Ok(signature)
}

fn sha1_base64(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    STANDARD.encode(digest)
}

/// Creates an authority and two certificates that it signs: one for servers, one for the client. All keys are
/// ECDSA P-256. Both certificates are valid for 127.0.0.1 and for `addresses`.
fn certificates(addresses: &[IpAddr]) -> anyhow::Result<(String, Identity, Identity)> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "hoptax test authority");
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let authority = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let identity = |name: &str, purpose: ExtendedKeyUsagePurpose| -> anyhow::Result<Identity> {
        let mut params = CertificateParams::new(vec![name.to_owned(), "localhost".to_owned()])?;
        let addresses = std::iter::once(IpAddr::V4(Ipv4Addr::LOCALHOST)).chain(addresses.iter().copied());
        params.subject_alt_names.extend(addresses.map(SanType::IpAddress));
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Identity { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem() })
    };
    let server = identity(SERVER_NAME, ExtendedKeyUsagePurpose::ServerAuth)?;
    let client = identity("generator.hoptax.test", ExtendedKeyUsagePurpose::ClientAuth)?;
    Ok((authority, server, client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    #[test]
    fn certificates_are_valid_for_the_addresses_of_hosts() {
        let der = |pem: &str| {
            let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
            STANDARD.decode(text).expect("base64")
        };
        // RFC 5280, 4.2.1.6: an address is a name with tag 7, here of 4 bytes.
        let names = |identity: &Identity, last: [u8; 4]| {
            let name = [&[0x87, 4][..], &last].concat();
            der(&identity.certificate).windows(name.len()).any(|bytes| bytes == name)
        };
        let hosts = Credentials::make_for([], &[IpAddr::from([10, 0, 0, 3])]).expect("made");
        let here = Credentials::make([]).expect("made");
        for identity in [&hosts.server, &hosts.client] {
            assert!(names(identity, [127, 0, 0, 1]) && names(identity, [10, 0, 0, 3]));
        }
        assert!(names(&here.server, [127, 0, 0, 1]) && !names(&here.server, [10, 0, 0, 3]));
    }

    #[test]
    fn every_run_has_its_own_credentials() {
        let make = || Credentials::make(&[Feature::Consumers { count: 3 }]).expect("made");
        let (one, other) = (make(), make());
        assert_eq!(one.consumers.len(), 3);
        for secret in one.secrets() {
            assert!(!other.secrets().contains(&secret));
        }
    }

    #[test]
    fn clients_need_no_private_key() {
        let made = Credentials::make(&[Feature::Jwt(JwtAlgorithm::Rs256)]).expect("made");
        let client = made.of_clients();
        assert!(client.consumers == made.consumers, "all of them");
        let sent = serde_json::to_string(&client).expect("JSON");
        assert!(!sent.contains("PRIVATE KEY") && !sent.contains(&made.jwt_secret), "{sent}");
        let all = serde_json::to_string(&made).expect("JSON");
        assert!(serde_json::from_str::<Credentials>(&all).expect("read") == made, "all of it can travel");
    }

    #[test]
    fn tokens_verify_and_claim_who_they_are_for() {
        let made = Credentials::make(&[Feature::Jwt(JwtAlgorithm::Rs256)]).expect("made");
        let parts = |token: &str| {
            let (text, signature) = token.rsplit_once('.').expect("three parts");
            (text.to_owned(), URL_SAFE_NO_PAD.decode(signature).expect("base64url"))
        };
        let (text, signature) = parts(&made.consumers[0].token_hs256);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, made.jwt_secret.as_bytes());
        ring::hmac::verify(&key, text.as_bytes(), &signature).expect("HS256 verifies");
        let (text, signature) = parts(&made.consumers[0].token_rs256);
        let rsa = made.jwt_rsa.as_ref().expect("asked for");
        let signer = rsa.signer().expect("a key");
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, signer.public().as_ref())
            .verify(text.as_bytes(), &signature)
            .expect("RS256 verifies");
        let claims = URL_SAFE_NO_PAD.decode(text.split('.').nth(1).expect("claims")).expect("base64url");
        let claims: serde_json::Value = serde_json::from_slice(&claims).expect("JSON");
        assert_eq!(
            (claims["iss"].as_str(), claims["sub"].as_str()),
            (Some("hoptax"), Some("consumer-00001"))
        );
    }

    #[test]
    fn no_secret_remains_in_a_text() {
        let made = Credentials::make(&[Feature::Jwt(JwtAlgorithm::Rs256)]).expect("made");
        let who = &made.consumers[0];
        let text = format!(
            "key {} token {} and {} line {} pem {} basic {}",
            who.key,
            who.token_hs256,
            who.token_rs256,
            who.htpasswd(),
            made.server.key,
            STANDARD.encode(format!("{}:{}", who.name, who.password))
        );
        let redacted = made.redact(&text);
        assert!(made.secrets().iter().all(|secret| !redacted.contains(secret)), "{redacted}");
        assert!(redacted.contains(&who.name), "names stay: {redacted}");
        assert_eq!(made.redact("nothing here"), "nothing here");
    }
}
