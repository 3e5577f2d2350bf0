//! Cases.

use super::figures::{difference, estimate, latency, throughput};
use super::load::load;
use super::taxes::{tail, tax};
use hoptax_analysis as analysis;
use hoptax_record::report::{Case, Event, Generator, Path, Quiet, Stretch, Target, Tls};

pub(super) fn case(one: &analysis::Case) -> Case {
    Case {
        case: one.case.clone(),
        gateway: one.gateway.clone(),
        load: load(&one.load),
        trials: one.trials,
        failed: one.failed.clone(),
        failed_trials: one.failed_trials.clone(),
        set_aside: one.set_aside + one.moved,
        warming: one.warming,
        throughput: one.throughput.as_ref().map(throughput),
        response_time: one.response_time.as_ref().map(latency),
        service_time: one.service_time.as_ref().map(latency),
        send_lag: one.send_lag.as_ref().map(latency),
        first_byte: one.first_byte.as_ref().map(latency),
        connect: one.connect.as_ref().map(latency),
        tls: one.tls.as_ref().map(tls),
        targets: one.targets.iter().map(target).collect(),
        generators: one.generators.iter().map(generator).collect(),
        counts: one.counts.clone(),
        connections: one.connections.clone(),
        bytes: one.bytes.clone(),
        cpu: one.cpu.clone(),
        memory: one.memory.clone(),
        ledger: one.ledger.clone(),
        tax: one.tax.as_ref().map(tax),
        tail: one.tail.as_ref().map(tail),
        quiet: one.quiet.as_ref().map(quiet),
        path: one.path.as_ref().map(path),
        events: one.events.iter().map(event).collect(),
        findings: one.findings.clone(),
    }
}

fn tls(one: &analysis::Tls) -> Tls {
    Tls { tally: one.tally.clone(), handshake: latency(&one.handshake) }
}

fn target(one: &analysis::TargetFigures) -> Target {
    Target {
        name: one.name.clone(),
        share: one.share,
        scheduled: one.scheduled,
        completed: one.completed,
        ok: one.ok,
        failed: one.failed,
        response_time: latency(&one.response_time),
        service_time: latency(&one.service_time),
        added_p50: one.added_p50.map(difference),
        added_p99: one.added_p99.map(difference),
    }
}

fn generator(one: &analysis::GeneratorFigures) -> Generator {
    Generator {
        name: one.name.clone(),
        connections: one.connections,
        throughput: one.throughput.as_ref().map(throughput),
        response_time: latency(&one.response_time),
        send_lag: latency(&one.send_lag),
        utilisation: one.utilisation,
        added_p50: one.added_p50.map(difference),
    }
}

pub(crate) fn path(one: &analysis::Path) -> Path {
    Path {
        request_us_p50: one.request_us_p50.map(estimate),
        response_us_p50: one.response_us_p50.map(estimate),
        added_request_us_p50: one.added_request_us_p50.map(difference),
        added_response_us_p50: one.added_response_us_p50.map(difference),
        responses: one.responses,
    }
}

fn quiet(one: &analysis::QuietFigures) -> Quiet {
    Quiet {
        windows: one.windows,
        left_out: one.left_out,
        share_left_out: one.share_left_out,
        trials: one.trials,
        trials_left_out: one.trials_left_out,
        throughput: one.throughput.as_ref().map(throughput),
        response_time: one.response_time.as_ref().map(latency),
        cpu_us_per_request: one.cpu_us_per_request,
        tax: one.tax.as_ref().map(tax),
    }
}

fn event(one: &analysis::EventFigures) -> Event {
    Event {
        event: one.event.clone(),
        at_s: one.at_s,
        trials: one.trials,
        failed: one.failed.clone(),
        took_us: one.took_us.map(estimate),
        new_route_after_us: one.new_route_after_us.map(estimate),
        around: stretch(&one.around),
        quiet: stretch(&one.quiet),
    }
}

fn stretch(one: &analysis::Stretch) -> Stretch {
    Stretch {
        seconds: one.seconds,
        completed: one.completed,
        not_ok: one.not_ok,
        failed: one.failed,
        causes: one.causes.clone(),
        connections_opened: one.connections_opened,
        p99_us: one.p99_us.map(estimate),
        slowest_us: one.slowest_us.map(estimate),
    }
}
