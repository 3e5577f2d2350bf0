//! `hoptax upstream --llm`.

use crate::cli::exit::BadInput;
use hoptax_format::llm::Api;
use hoptax_plan::{Delay, LlmFailure, UpstreamLlm, llm, units};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(super) struct LlmArgs {
    /// Play a language model with these APIs: openai, responses, anthropic [default without a value: all]
    #[arg(long, value_name = "API,…", num_args = 0..=1, value_delimiter = ',', value_parser = llm::api)]
    llm: Option<Vec<Api>>,
    /// Time from the head of a response until its first token: a delay as in --delay [default: 0s]
    #[arg(long, value_name = "DELAY", requires = "llm", value_parser = units::delay)]
    llm_first_token: Option<Delay>,
    /// Time between two writes [default: 0s, all tokens are due at once]
    #[arg(long, value_name = "TIME", requires = "llm", value_parser = units::duration)]
    llm_gap: Option<Duration>,
    /// Number of tokens of a response; requests can ask for fewer [default: 20]
    #[arg(long, value_name = "N", requires = "llm")]
    llm_tokens: Option<u32>,
    /// Text of each token, such as 64B; a plain number is bytes [default: 40B]
    #[arg(long, value_name = "SIZE", requires = "llm", value_parser = units::bytes)]
    llm_token_bytes: Option<u32>,
    /// Number of tokens that are sent in one write [default: 1]
    #[arg(long, value_name = "N", requires = "llm")]
    llm_per_write: Option<u32>,
    /// Number of writes that each token is sent in [default: 1]
    #[arg(long, value_name = "N", requires = "llm")]
    llm_split: Option<u32>,
    /// End lines of events with CRLF
    #[arg(long, requires = "llm")]
    llm_crlf: bool,
    /// Add the headers that providers send, such as x-request-id and limits of rates
    #[arg(long, requires = "llm")]
    llm_provider_headers: bool,
    /// Number of tokens that responses claim to have [default: the true number]
    #[arg(long, value_name = "N", requires = "llm")]
    llm_usage: Option<u64>,
    /// Send a comment, or a ping of Anthropic, whenever nothing was sent for this time [default: never]
    #[arg(long, value_name = "TIME", requires = "llm", value_parser = units::duration)]
    llm_heartbeat: Option<Duration>,
    /// Let responses fail: rate-limit, server-error, overloaded, error-event, cut or silence; the share of
    /// responses; the number of tokens before it, as in cut,10%,5; can be repeated
    #[arg(long, value_name = "KIND[,SHARE[,AT]]", requires = "llm", value_parser = llm::failure)]
    llm_failure: Vec<LlmFailure>,
}

impl LlmArgs {
    /// The model. `None` without `--llm`.
    ///
    /// # Errors
    /// If the upstream cannot play it.
    pub(super) fn model(&self) -> Result<Option<UpstreamLlm>, BadInput> {
        let Some(apis) = &self.llm else { return Ok(None) };
        let usual = UpstreamLlm::default();
        let model = UpstreamLlm {
            apis: if apis.is_empty() { usual.apis } else { apis.clone() },
            first_token: self.llm_first_token.clone().unwrap_or(usual.first_token),
            gap: self.llm_gap.unwrap_or(usual.gap),
            tokens: self.llm_tokens.unwrap_or(usual.tokens),
            bytes_per_token: self.llm_token_bytes.unwrap_or(usual.bytes_per_token),
            per_write: self.llm_per_write.unwrap_or(usual.per_write),
            split: self.llm_split.unwrap_or(usual.split),
            crlf: self.llm_crlf,
            headers_of_provider: self.llm_provider_headers,
            usage: self.llm_usage,
            heartbeat: self.llm_heartbeat,
            failures: self.llm_failure.clone(),
        };
        llm::check(&model).map_err(|(key, error)| {
            let option = match key {
                "bytes_per_token" => "token-bytes".to_owned(),
                "failures" => "failure".to_owned(),
                _ => key.replace('_', "-"),
            };
            BadInput(format!("--llm-{option}: {error}"))
        })?;
        for failure in &model.failures {
            let checked = llm::check_failure(failure, model.tokens);
            checked.map_err(|error| BadInput(format!("--llm-failure: {error}")))?;
        }
        Ok(Some(model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hoptax_plan::LlmFailureKind;

    #[derive(Debug, clap::Parser)]
    struct Upstream {
        #[command(flatten)]
        args: LlmArgs,
    }

    #[test]
    fn models_are_read() {
        use clap::Parser as _;
        let read = |typed: &str| {
            let words = std::iter::once("upstream").chain(typed.split_whitespace());
            let read = Upstream::try_parse_from(words).map_err(|error| error.to_string())?;
            read.args.model().map_err(|BadInput(error)| error)
        };
        assert_eq!(read(""), Ok(None));
        let usual = UpstreamLlm::default();
        assert_eq!(read("--llm"), Ok(Some(usual.clone())));
        let long = UpstreamLlm { bytes_per_token: 1024, ..usual.clone() };
        assert_eq!(read("--llm --llm-token-bytes 1KiB"), Ok(Some(long)));
        let typed = "--llm openai,anthropic --llm-first-token 50ms --llm-gap 10ms --llm-tokens 7 \
                     --llm-token-bytes 64 --llm-split 3 --llm-crlf --llm-usage 1234567 --llm-heartbeat 5s \
                     --llm-provider-headers --llm-failure rate-limit,10% --llm-failure cut,0.5,5";
        let expected = UpstreamLlm {
            apis: vec![Api::OpenAi, Api::Anthropic],
            first_token: Delay::Fixed(Duration::from_millis(50)),
            gap: Duration::from_millis(10),
            tokens: 7,
            bytes_per_token: 64,
            split: 3,
            crlf: true,
            headers_of_provider: true,
            usage: Some(1_234_567),
            heartbeat: Some(Duration::from_secs(5)),
            failures: vec![
                LlmFailure { kind: LlmFailureKind::RateLimit, share: 0.1, at: 0 },
                LlmFailure { kind: LlmFailureKind::Cut, share: 0.5, at: 5 },
            ],
            ..usual
        };
        assert_eq!(read(typed), Ok(Some(expected)));
        let told = [
            "--llm gemini",
            "--llm --llm-tokens 0",
            "--llm --llm-token-bytes 34",
            "--llm --llm-failure cut,1,20",
            "--llm --llm-failure cut --llm-failure cut",
            "--llm-tokens 5",
        ]
        .map(|typed| format!("{typed}\n=> {}\n", read(typed).expect_err("wrong").trim_end()))
        .concat();
        insta::assert_snapshot!(told);
    }
}
