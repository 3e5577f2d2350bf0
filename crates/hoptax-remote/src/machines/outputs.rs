//! Outputs of a Terraform configuration: `terraform output -json`. All functions are pure.

use anyhow::{anyhow, bail, ensure};
use hoptax_plan::{Host, HostKind, Terraform, TerraformReach};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The outputs, by name.
#[derive(Debug, Default)]
pub(super) struct Outputs(BTreeMap<String, Value>);

#[derive(Deserialize)]
struct Output {
    value: Value,
}

/// The outputs that a host needs.
pub(super) fn names(terraform: &Terraform) -> impl Iterator<Item = &str> {
    let (TerraformReach::Ssh(reach) | TerraformReach::Command(reach)) = &terraform.reach;
    [Some(reach), terraform.address.as_ref()].into_iter().flatten().map(String::as_str)
}

impl Outputs {
    /// Parses the text that `terraform output -json` has printed. Fails if the text has another form.
    pub(super) fn read(text: &str) -> serde_json::Result<Self> {
        let outputs: BTreeMap<String, Output> = serde_json::from_str(text)?;
        Ok(Self(outputs.into_iter().map(|(name, output)| (name, output.value)).collect()))
    }

    /// The names in `needed` that have no value.
    pub(super) fn missing<'a>(&self, needed: &[&'a str]) -> Vec<&'a str> {
        let has_none = |name: &str| match self.0.get(name) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(values)) => values.is_empty(),
            Some(_) => false,
        };
        let mut missing: Vec<&str> = needed.iter().copied().filter(|name| has_none(name)).collect();
        missing.dedup();
        missing
    }

    /// Which outputs there are, for errors.
    pub(super) fn described(&self) -> String {
        match self.0.is_empty() {
            true => "It has no outputs: the configuration was not applied, or has none".to_owned(),
            false => format!("It has {}", self.0.keys().cloned().collect::<Vec<_>>().join(", ")),
        }
    }

    /// The host, with its machines from the outputs. Fails if an output has another form.
    pub(super) fn host(&self, host: &Host, terraform: &Terraform) -> anyhow::Result<Host> {
        let kind = match &terraform.reach {
            TerraformReach::Ssh(output) => {
                let user = terraform.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
                let names = self.texts(output)?;
                for name in &names {
                    let is_name =
                        |letter: char| letter.is_ascii_alphanumeric() || "._-@:/[]%".contains(letter);
                    ensure!(
                        !name.starts_with('-') && name.chars().all(is_name),
                        "the output `{output}` is `{}`, which is not a name for ssh",
                        name.escape_debug()
                    );
                }
                HostKind::Ssh(names.into_iter().map(|name| format!("{user}{name}")).collect())
            }
            TerraformReach::Command(output) => {
                let words = match self.0.get(output) {
                    Some(Value::String(text)) if text.contains(['"', '\'', '\\', '$']) => bail!(
                        "the output `{output}` is `{text}`. Write it as a list of words, because hoptax \
                        starts it without a shell"
                    ),
                    Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
                    _ => self.texts(output)?,
                };
                ensure!(!words.is_empty(), "the output `{output}` is empty");
                HostKind::Command(words)
            }
        };
        let address = terraform.address.as_ref().map(|output| self.address(output)).transpose()?;
        let machines = kind.machines();
        ensure!(
            address.is_none() || machines == 1,
            "it is {machines} machines, which do not have the same address. Remove `address`; generators do \
            not need one"
        );
        Ok(Host { kind, address: address.or(host.address), ..host.clone() })
    }

    /// A text, or a list of texts.
    fn texts(&self, output: &str) -> anyhow::Result<Vec<String>> {
        let wrong = || anyhow!("the output `{output}` must be a text or a list of texts");
        match self.0.get(output) {
            Some(Value::String(text)) => Ok(vec![text.clone()]),
            Some(Value::Array(values)) => {
                values.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
            }
            _ => Err(wrong()),
        }
    }

    fn address(&self, output: &str) -> anyhow::Result<IpAddr> {
        let texts = self.texts(output)?;
        let [text] = texts.as_slice() else { bail!("the output `{output}` has several addresses") };
        text.parse().map_err(|_| {
            anyhow!("the output `{output}` is `{}`, which is not an IP address", text.escape_debug())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
        "edge": { "sensitive": false, "type": "string", "value": "198.51.100.7" },
        "private": { "sensitive": false, "type": "string", "value": "10.0.0.7" },
        "clients": { "sensitive": false, "type": ["tuple", ["string", "string"]], "value": ["a", "b"] },
        "text": { "sensitive": false, "type": "string", "value": "ip netns exec app" },
        "words": { "sensitive": false, "type": "x", "value": ["ip", "netns", "exec", "my app"] },
        "quoted": { "sensitive": false, "type": "string", "value": "sh -c 'a'" },
        "option": { "sensitive": false, "type": "string", "value": "-oProxyCommand=id" },
        "number": { "sensitive": false, "type": "number", "value": 7 },
        "nothing": { "sensitive": false, "type": "string", "value": null }
    }"#;

    fn terraform(reach: TerraformReach, address: Option<&str>) -> Terraform {
        Terraform {
            dir: "infra".into(),
            reach,
            address: address.map(str::to_owned),
            user: None,
            apply: false,
            destroy: false,
            program: None,
        }
    }

    fn host(terraform: &Terraform) -> Result<(HostKind, Option<IpAddr>), String> {
        let kind = HostKind::Terraform(terraform.clone());
        let host = Host { name: "edge".into(), kind, address: None, hoptax: Some("/h".into()) };
        let outputs = Outputs::read(TEXT).expect("outputs");
        let host = outputs.host(&host, terraform).map_err(|error| error.to_string())?;
        assert_eq!((host.name.as_str(), host.hoptax.as_deref()), ("edge", Some("/h")));
        Ok((host.kind, host.address))
    }

    #[test]
    fn outputs_become_hosts() {
        let ssh = |output: &str| TerraformReach::Ssh(output.to_owned());
        let command = |output: &str| TerraformReach::Command(output.to_owned());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let address: IpAddr = "10.0.0.7".parse().expect("an address");
        for (terraform, expected) in [
            (
                terraform(ssh("edge"), Some("private")),
                (HostKind::Ssh(words(&["198.51.100.7"])), Some(address)),
            ),
            (
                Terraform { user: Some("ubuntu".into()), ..terraform(ssh("clients"), None) },
                (HostKind::Ssh(words(&["ubuntu@a", "ubuntu@b"])), None),
            ),
            (
                terraform(command("text"), None),
                (HostKind::Command(words(&["ip", "netns", "exec", "app"])), None),
            ),
            (
                terraform(command("words"), None),
                (HostKind::Command(words(&["ip", "netns", "exec", "my app"])), None),
            ),
        ] {
            assert_eq!(host(&terraform), Ok(expected), "{terraform:?}");
        }
        let told = [
            terraform(ssh("number"), None),
            terraform(ssh("option"), None),
            terraform(ssh("clients"), Some("private")),
            terraform(ssh("edge"), Some("clients")),
            terraform(ssh("edge"), Some("text")),
            terraform(command("quoted"), None),
        ]
        .map(|terraform| host(&terraform).expect_err("refused"));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn missing_outputs_are_named() {
        let outputs = Outputs::read(TEXT).expect("outputs");
        assert_eq!(outputs.missing(&["edge", "none", "nothing"]), ["none", "nothing"]);
        let empty = Outputs::read("{}").expect("outputs");
        assert_eq!(empty.missing(&["edge"]), ["edge"]);
        insta::assert_snapshot!([outputs.described(), empty.described()].join("\n"));
        assert!(Outputs::read("Warning: No outputs found").is_err());
    }
}
