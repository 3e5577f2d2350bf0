//! Tests loads that have stages.

use super::*;

#[test]
fn stages_run_in_sequence() {
    let server = Server::new(answer(OK, Duration::ZERO));
    // 100 requests are due while the rate rises, 100 at a constant rate, none in the pause, and 50 while the
    // rate falls.
    let part = 200 * MILLISECOND;
    let course = [(0.0, 1000.0, part), (500.0, 500.0, part), (0.0, 0.0, part), (500.0, 0.0, part)];
    retry_together(&[1, 3], |&workers| {
        let spec = LoadSpec {
            shape: staged(&course),
            workers,
            connections: 12,
            warmup_ns: part,
            duration_ns: 4 * part,
            ..spec(&[server.address])
        };
        let record = load(&spec);
        assert_eq!(record.counts.scheduled, 250);
        assert_eq!(record.counts.completed + record.counts.unsent, 250, "{:?}", record.counts);
        // The rate of the warm-up must be the mean rate of the first stage.
        seen((340..=350).contains(&record.lifetime.sent), || format!("{:?}", record.lifetime))
    });
    let idle_first =
        LoadSpec { shape: staged(&[(0.0, 0.0, part), (500.0, 500.0, part)]), ..spec(&[server.address]) };
    let record = load(&LoadSpec { warmup_ns: part, duration_ns: 2 * part, ..idle_first });
    assert_eq!((record.counts.scheduled, record.lifetime.sent), (100, record.counts.sent));
    assert_eq!((record.windows[0].sent, record.windows[1].sent), (0, 0), "nothing is sent in a pause");
}
