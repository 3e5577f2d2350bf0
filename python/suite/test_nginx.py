"""Measures nginx with the real program, in less than a minute. The tests check the package and the plugin.

On a busy machine, intervals are wide and a comparison can be inconclusive. So a test fails only if a comparison has the
wrong outcome: no value in the interval is right.
"""

import pytest
from json_schema import DOCUMENT, faults

import hoptax

pytestmark = pytest.mark.hoptax_inconclusive("fail")

# Many short trials give narrower intervals than few long ones.
LOADS = [hoptax.closed_loop(8, duration="100ms"), hoptax.open_loop("500/s", 8, duration="100ms")]
EACH_LOAD = pytest.mark.parametrize("load", LOADS, ids=str)
# A fixed short warm-up, because no test depends on the last per cent.
SETTINGS = {"time": "18s", "warmup": "50ms"}


@pytest.fixture(scope="module")
def gateways(lab, nginx):
    """nginx, the same nginx as another build, and a hop that delays each request by 3 ms."""
    program = lab.pack("nginx")["binary"]
    return [nginx, lab.build("nginx", "copy", program), lab.gateway("hop-l7", label="delayed", delay={"in": "3ms"})]


@pytest.fixture(scope="module")
def result(lab, gateways, upstream):
    return lab.measure(*gateways, upstream=upstream(body="1KiB"), load=LOADS, accept_void=True, **SETTINGS)


def test_the_suite_takes_less_than_a_minute(lab, gateways, upstream):
    nginx, _, delayed = gateways
    plan = lab.plan(nginx, nginx(label="copy"), delayed, upstream=upstream, load=LOADS, **SETTINGS)
    assert hoptax.check(plan, binary=lab.program.path)["at_most_s"] < 40


@EACH_LOAD
def test_nginx_adds_some_latency(result, load):
    nginx = result["nginx"].at(load)
    assert nginx.trials >= 1
    assert not ((nginx.added_p50 > "-1ms") & (nginx.added_p50 < "20ms")).failed
    assert not (nginx.p50 > "10us").failed
    assert not (nginx.throughput > "20/s").failed
    assert not ((nginx.cpu_us_per_request > "1us") & (nginx.cpu_us_per_request < "20ms")).failed
    assert not (nginx.extra_upstream_requests < 0.5).failed


@EACH_LOAD
def test_a_known_delay_is_found(result, load):
    delayed = result["delayed"].at(load)
    # Requests are delayed by at least 3 ms, also on a busy machine. A histogram rounds by less than 1 %.
    assert delayed.p50.value > 2900
    assert not ((delayed.added_p50 > "2ms") & (delayed.added_p50 < "40ms")).failed


@EACH_LOAD
def test_a_comparison_can_pass_or_fail(result, load):
    """The bounds are beyond all that can be measured in a trial."""
    nginx = result["nginx"].at(load)
    assert nginx.p50 < "1h" and (nginx.p50 > "1h").failed
    assert nginx.throughput < "1000000000/s" and (nginx.throughput > "1000000000/s").failed
    assert not (result["delayed"].at(load).added_p50 < "500us").passed


def test_a_comparison_can_be_inconclusive(result):
    added = result["delayed"].at(LOADS[1]).added_p50
    with pytest.raises(hoptax.Inconclusive, match="the bound lies inside the interval"):
        bool(added < hoptax.Quantity(added.value, added.unit))


@EACH_LOAD
def test_gateways_are_compared_round_by_round(result, load):
    verdict = result["nginx"].at(load).added_p50 < result["delayed"].at(load).added_p50
    assert not verdict.failed
    assert ("round by round" in verdict.reason) == verdict.passed


def test_builds_are_compared(result):
    comparison = result.compare("nginx", "copy")
    assert comparison.paired and comparison.verdict in ("better", "worse", "mixed", "not distinguishable")
    assert not (comparison.at(LOADS[0])["cpu_us_per_request"].change < "200%").failed


def test_the_gate_computes_shares_and_memory(result):
    nginx = result["nginx"].at(LOADS[0])
    assert not (nginx.error_share < "10%").failed
    assert not ((nginx.memory_rss_bytes > "1MiB") & (nginx.memory_rss_bytes < "1GiB")).failed


def test_the_report_matches_its_schema(result):
    assert list(faults(result.document, DOCUMENT)) == []
    assert hoptax.report(result.directory).document == result.document


def test_the_run_directory_has_the_html_report(result):
    assert "<html" in result.html.read_text(encoding="utf-8")


def test_a_wrong_plan_is_explained(lab):
    with pytest.raises(hoptax.PlanError, match=r"unknown gateway `ngnix`(.|\n)*did you mean `nginx`"):
        lab.measure("ngnix", time="5s")


def test_a_plan_file_is_checked(lab, tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text("gateways: [nginx]\nload: [{ loop: closed, connections: 8 }]\ntime: 5s\n")
    assert [each["label"] for each in hoptax.check(plan, binary=lab.program.path)["contenders"]] == ["direct", "nginx"]
