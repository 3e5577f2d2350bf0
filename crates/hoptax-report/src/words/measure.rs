//! Names the measures of the answer: the time added to requests, to messages of streams or to the first
//! content.

use hoptax_plan::Metric;
use serde::Serialize;

/// A measure in words, for charts.
#[derive(Debug, Serialize)]
pub(crate) struct Measure {
    pub(crate) metric: Metric,
    /// A short name for a button: `p50`, `events`, `first content`.
    pub(crate) name: String,
    /// The label of the axis: `added age of events at the median`.
    pub(crate) axis: String,
}

impl Measure {
    /// `message` is the word for one message.
    pub(crate) fn new(metric: Metric, message: &str) -> Self {
        let messages = format!("{message}s");
        let (name, added) = match metric {
            Metric::AddedFirstMessageP50 => ("first content", "time to the first content".to_owned()),
            Metric::AddedMessageP50 => (&*messages, format!("response time of {messages}")),
            Metric::AddedAgeP50 => (&*messages, format!("age of {messages}")),
            _ => ("p50", "response time".to_owned()),
        };
        Self { metric, name: name.to_owned(), axis: format!("added {added} at the median") }
    }
}
