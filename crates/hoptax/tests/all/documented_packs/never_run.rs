//! Gateways for language models that nobody has run.

use super::{Case, NEVER_RUN, list, pack, rendering};
use hoptax_plan::Profile;

/// Renderings in both profiles, with one upstream instance and with two.
fn cases(name: &str) -> Vec<Case> {
    let profiles = [Profile::Stock, Profile::Equalised];
    let all = profiles.into_iter().flat_map(|profile| [(profile, 1), (profile, 2)]);
    all.map(|(profile, upstreams)| rendering(name, profile, false, upstreams, vec![])).collect()
}

#[test]
fn their_packs_say_that_nobody_has_run_them() {
    for name in NEVER_RUN {
        assert!(pack(name).manifest().last_run_for_real.is_none(), "{name}");
        assert!(pack(name).llm().is_some(), "{name}");
        let readme = pack(name).template("README.md").expect("a README");
        assert!(readme.contains("never run."), "{name}");
    }
}

/// Bifrost: `transports/config.schema.json` and `examples/configs/loadtest/config.json`.
#[test]
fn bifrost_asks_one_provider_at_one_address() {
    for case in cases("bifrost") {
        let file = case.json("config.json");
        case.keys(&file, &["config_store", "providers"], &["logs_store", "client"]);
        let provider = &file["providers"]["openai"];
        case.keys(provider, &["keys", "network_config"], &["concurrency_and_buffer_size"]);
        assert_eq!(provider["network_config"]["base_url"], "http://127.0.0.1:20003", "{}", case.what);
    }
}

/// TensorZero: `docs/gateway/configuration-reference.mdx`. A model's providers are tried in their order.
#[test]
fn tensorzero_asks_one_provider_at_one_address() {
    for case in cases("tensorzero") {
        let text = case.text("tensorzero.toml");
        for line in [
            "bind_address = \"127.0.0.1:20001\"",
            "routing = [\"upstream\"]",
            "api_base = \"http://127.0.0.1:20003/v1\"",
        ] {
            assert!(text.lines().any(|one| one == line), "{}: {line}", case.what);
        }
    }
}

/// agentgateway: `crates/agentgateway/src/types/local_tests/llm_virtual_model_config.yaml`.
#[test]
fn agentgateway_balances_with_a_virtual_model() {
    for case in cases("agentgateway") {
        let file = case.yaml("config.yaml");
        let llm = &file["llm"];
        case.keys(llm, &["port", "models"], &["virtualModels"]);
        let addresses = list(&llm["models"]).iter().filter_map(|model| model["params"]["baseUrl"].as_str());
        let expected = (20_003..).take(case.upstreams).map(|port| format!("http://127.0.0.1:{port}/v1"));
        assert!(addresses.eq(expected), "{}: {llm}", case.what);
        let targets = list(&llm["virtualModels"][0]["routing"]["weighted"]["targets"]);
        assert_eq!(targets.len(), if case.upstreams > 1 { case.upstreams } else { 0 }, "{}", case.what);
    }
}
