//! `hoptax render`.

use super::exit::{BadInput, Exit};
use super::plan_source::PlanSource;
use hoptax_lab::packs::PackSet;
use hoptax_lab::process::ProcessDriver;
use hoptax_lab::render::Rendered;
use hoptax_plan::GatewayKind;
use std::path::Path;

/// Print the configuration that a run would write for one gateway
///
/// Ports and directories are placeholders: in a run the kernel chooses the ports.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    source: PlanSource,
    /// Label of the gateway in the plan; without a `label` it is the name of the pack
    #[arg(long, value_name = "LABEL")]
    gateway: String,
}

impl Args {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let (plan, _) = self.source.load()?;
        let label = &self.gateway;
        let Some(gateway) = plan.gateways.iter().find(|gateway| gateway.label == *label) else {
            let labels: Vec<_> = plan.gateways.iter().map(|gateway| gateway.label.as_str()).collect();
            let known = match &labels[..] {
                [] => "it has no gateways".to_owned(),
                labels => format!("its gateways are {}", labels.join(", ")),
            };
            return Err(BadInput(format!("the plan has no gateway `{label}`; {known}")).into());
        };
        let GatewayKind::Pack { .. } = &gateway.kind else {
            return Err(BadInput(format!(
                "`{label}` has no configuration, because it is not started from a pack; \
                    choose a gateway that is"
            ))
            .into());
        };
        let packs = PackSet::load(self.source.packs.as_deref()).map_err(BadInput::from)?;
        let mut driver = ProcessDriver::new(&plan, packs, Path::new("results/RUN"))?;
        if let Some(address) = plan.host(&plan.roles.gateway).and_then(|host| host.address) {
            driver = driver.with_address(address);
        }
        let rendered = driver.preview(gateway).map_err(BadInput::from)?;
        print!("{}", text(&rendered));
        Ok(Exit::Success)
    }
}

/// The text to print: each file under a heading, the start command, and the settings that differ from the
/// defaults.
fn text(rendered: &Rendered) -> String {
    let mut text = String::new();
    for file in &rendered.files {
        text += &format!("==> {} (digest {})\n{}", file.name, file.digest, file.text);
        if !file.text.ends_with('\n') {
            text.push('\n');
        }
        text.push('\n');
    }
    text += &format!("==> command\n{}\n", rendered.start.join(" "));
    for (name, value) in &rendered.environment {
        text += &format!("{name}={value}\n");
    }
    text += "\n==> settings that differ from the gateway's defaults\n";
    for setting in &rendered.settings {
        text += &format!("{}\n    {}\n", setting.setting, setting.reason);
    }
    if rendered.settings.is_empty() {
        text += "none\n";
    }
    text
}
