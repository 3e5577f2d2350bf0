//! Prices of features.

use super::figures::difference;
use super::load::load;
use crate::prices;
use hoptax_analysis as analysis;
use hoptax_record::report::{Beyond, Price, PriceList, Prices};

pub(super) fn list(one: &prices::PriceList) -> PriceList {
    PriceList {
        definition: prices::DEFINITION,
        expected_by_chance: one.expected_by_chance,
        sentences: one.sentences.clone(),
        rows: one.rows.iter().map(price).collect(),
    }
}

fn price(one: &analysis::Price) -> Price {
    Price {
        gateway: one.gateway.clone(),
        bare: one.bare.clone(),
        features: one.features.iter().map(ToString::to_string).collect(),
        load: load(&one.load),
        prices: figures(&one.prices),
        beyond: one
            .beyond
            .as_ref()
            .map(|beyond| Beyond { alone: beyond.alone.clone(), prices: figures(&beyond.prices) }),
    }
}

pub(crate) fn figures(one: &analysis::Prices) -> Prices {
    Prices {
        added_p50: one.added_p50.map(difference),
        added_p99: one.added_p99.map(difference),
        cpu_us_per_request: one.cpu_us_per_request.map(difference),
        throughput_ratio: one.throughput_ratio.map(difference),
        memory_rss_bytes: one.memory_rss_bytes.map(difference),
    }
}
