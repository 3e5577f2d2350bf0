//! Conversions of upstreams and targets.

use super::kept;
use crate::{Answer, BuiltInUpstream, Delay, Target, Upstream};

impl From<&Upstream> for kept::Upstream {
    fn from(upstream: &Upstream) -> Self {
        match upstream {
            Upstream::BuiltIn(ours) => Self::BuiltIn(kept::BuiltInUpstream {
                instances: ours.instances,
                status: ours.status,
                headers: ours.headers.clone(),
                body: ours.body.clone(),
                delay: (&ours.delay).into(),
                failures: ours.failures,
                port: ours.port,
                listen: ours.listen.clone(),
                answers: ours.answers.iter().map(Into::into).collect(),
            }),
            Upstream::Running(running) => Self::Running(running.clone()),
        }
    }
}

impl From<kept::Upstream> for Upstream {
    fn from(upstream: kept::Upstream) -> Self {
        match upstream {
            kept::Upstream::BuiltIn(ours) => Self::BuiltIn(BuiltInUpstream {
                instances: ours.instances,
                status: ours.status,
                headers: ours.headers,
                body: ours.body,
                delay: ours.delay.into(),
                failures: ours.failures,
                port: ours.port,
                listen: ours.listen,
                answers: ours.answers.into_iter().map(Into::into).collect(),
            }),
            kept::Upstream::Running(running) => Self::Running(running),
        }
    }
}

impl From<&Answer> for kept::Answer {
    fn from(answer: &Answer) -> Self {
        let Answer { method, path, weight, status, sizes, delay } = answer.clone();
        Self { method, path, weight, status, sizes, delay: (&delay).into() }
    }
}

impl From<kept::Answer> for Answer {
    fn from(answer: kept::Answer) -> Self {
        let kept::Answer { method, path, weight, status, sizes, delay } = answer;
        Self { method, path, weight, status, sizes, delay: delay.into() }
    }
}

impl From<&Delay> for kept::Delay {
    fn from(delay: &Delay) -> Self {
        match delay {
            Delay::Fixed(delay) => Self::Fixed(*delay),
            Delay::Uniform { from, to } => Self::Uniform { from: *from, to: *to },
            Delay::Exponential { mean } => Self::Exponential { mean: *mean },
            Delay::Choice(choices) => Self::Choice(choices.clone()),
        }
    }
}

impl From<kept::Delay> for Delay {
    fn from(delay: kept::Delay) -> Self {
        match delay {
            kept::Delay::Fixed(delay) => Self::Fixed(delay),
            kept::Delay::Uniform { from, to } => Self::Uniform { from, to },
            kept::Delay::Exponential { mean } => Self::Exponential { mean },
            kept::Delay::Choice(choices) => Self::Choice(choices),
        }
    }
}

impl From<&Target> for kept::Target {
    fn from(target: &Target) -> Self {
        let Target {
            name,
            weight,
            method,
            path,
            headers,
            body,
            body_is_template,
            chunked,
            checks,
            varies,
            ignore_headers,
            rate_limit,
        } = target.clone();
        Self {
            name,
            weight,
            method,
            path,
            headers,
            body,
            body_is_template,
            chunked,
            checks,
            varies,
            ignore_headers,
            rate_limit,
        }
    }
}

impl From<kept::Target> for Target {
    fn from(target: kept::Target) -> Self {
        let kept::Target {
            name,
            weight,
            method,
            path,
            headers,
            body,
            body_is_template,
            chunked,
            checks,
            varies,
            ignore_headers,
            rate_limit,
        } = target;
        Self {
            name,
            weight,
            method,
            path,
            headers,
            body,
            body_is_template,
            chunked,
            checks,
            varies,
            ignore_headers,
            rate_limit,
        }
    }
}
