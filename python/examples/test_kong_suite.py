"""The workloads of Kong's performance test framework as tests, for the gateways that are installed.

    pytest python/examples/test_kong_suite.py --junitxml kong-suite.xml

plans/kong-suite.yaml is the same suite as a plan; its head says what differs from the framework. Everything is measured
in one run of interleaved rounds, so that changes of the machine affect all gateways alike. The bounds are examples: set
them to your own needs.
"""

import pytest

import hoptax

GATEWAYS = ["nginx", "haproxy", "envoy"]
SCENARIOS = {
    "one-route": [],
    "10x10-routes": [{"routes": 100}],
    "key-auth": [{"routes": 100}, {"consumers": 100}],
    "500x4-routes": [{"routes": 2000}],
}
CLOSED, OPEN = hoptax.closed_loop(100), hoptax.open_loop("1000/s", 100)
EACH_GATEWAY = pytest.mark.parametrize("name", GATEWAYS)
EACH_FEATURE = pytest.mark.parametrize("scenario", [name for name, features in SCENARIOS.items() if features])


@pytest.fixture(scope="module")
def installed(lab):
    found = [name for name in GATEWAYS if lab.installed(name)]
    if not found:
        pytest.skip(f"none of {', '.join(GATEWAYS)} is installed")
    return found


@pytest.fixture(scope="module")
def result(lab, upstream, installed):
    gateways = [
        lab.gateway(name, label=f"{name}.{scenario}", features=features or None)
        for name in installed
        for scenario, features in SCENARIOS.items()
    ]
    return lab.measure(*gateways, upstream=upstream(body="1KiB"), load=[CLOSED, OPEN], time="15m")


@pytest.fixture
def results_of(result, installed):
    """Results of one gateway with one scenario."""

    def of(name, scenario):
        if name not in installed:
            pytest.skip(f"{name} is not installed")
        return result[f"{name}.{scenario}"]

    return of


@EACH_GATEWAY
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_added_latency(results_of, name, scenario):
    assert results_of(name, scenario).at(OPEN).added_p50 < "1ms"


@EACH_GATEWAY
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_fails_under_full_load(results_of, name, scenario):
    assert results_of(name, scenario).at(CLOSED).error_share < "1%"


@EACH_GATEWAY
@EACH_FEATURE
def test_cpu_of_features(results_of, name, scenario):
    """A gateway that searches its routes one by one needs more CPU time for each request."""
    assert results_of(name, scenario).at(OPEN).price.cpu_us_per_request < "50us"


@EACH_GATEWAY
@EACH_FEATURE
def test_throughput_with_features(results_of, name, scenario):
    assert results_of(name, scenario).at(CLOSED).price.throughput_ratio > "70%"


@pytest.fixture(scope="module")
def changes(lab, upstream, installed):
    """The configuration is read again every 3 s. In Kong's framework, a PATCH rebuilds the balancer."""
    gateways = [lab.gateway(name, features=[{"routes": 100}]) for name in installed]
    events = [{"at": f"{second}s", "do": "reload"} for second in (3, 6, 9)]
    load = hoptax.open_loop("1000/s", 100, duration="12s")
    return lab.measure(*gateways, upstream=upstream(instances=2), load=load, events=events, trials=5, warmup="1s")


@EACH_GATEWAY
def test_clients_notice_no_reload(changes, installed, name):
    if name not in installed:
        pytest.skip(f"{name} is not installed")
    assert changes[name].error_share < "1%"


@pytest.fixture(scope="module")
def scrapes(lab, upstream, installed):
    """Monitoring reads each gateway's metrics once in 10 s, as in Kong's framework."""
    routes = SCENARIOS["500x4-routes"]
    gateways = [lab.gateway(name, label=f"{name}.scraped", features=routes) for name in installed]
    events = [{"at": "5s", "do": "scrape"}]
    load = hoptax.open_loop("1000/s", 100, duration="10s")
    return lab.measure(*gateways, upstream=upstream(body="1KiB"), load=load, events=events, trials=5, warmup="1s")


@EACH_GATEWAY
def test_clients_notice_no_scrape(scrapes, installed, name):
    if name not in installed:
        pytest.skip(f"{name} is not installed")
    assert scrapes[f"{name}.scraped"].error_share < "1%"
