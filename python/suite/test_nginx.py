"""Measures nginx with the real program, in less than a minute. The bounds are wide: the tests check the package and
the plugin, and a noisy machine must not matter."""

import pytest
from json_schema import DOCUMENT, faults

import hoptax

pytestmark = pytest.mark.hoptax_inconclusive("fail")

LOADS = [hoptax.closed_loop(8), hoptax.open_loop("300/s", 8)]
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
    assert nginx.trials >= 3
    assert "-1ms" < nginx.added_p50 < "20ms"
    assert nginx.p50 > "10us"
    assert nginx.throughput > "20/s"
    assert "1us" < nginx.cpu_us_per_request < "20ms"
    assert nginx.extra_upstream_requests < 0.5


@EACH_LOAD
def test_a_known_delay_is_found(result, load):
    assert "2ms" < result["delayed"].at(load).added_p50 < "40ms"


@EACH_LOAD
def test_a_comparison_can_fail(result, load):
    assert (result["delayed"].at(load).added_p50 < "500us").failed


def test_a_comparison_can_be_inconclusive(result):
    added = result["delayed"].at(LOADS[1]).added_p50
    with pytest.raises(hoptax.Inconclusive, match="the bound lies inside the interval"):
        bool(added < hoptax.Quantity(added.value, added.unit))


@EACH_LOAD
def test_gateways_are_compared_round_by_round(result, load):
    verdict = result["nginx"].at(load).added_p50 < result["delayed"].at(load).added_p50
    assert "round by round" in verdict.reason
    assert verdict


def test_builds_are_compared(result):
    comparison = result.compare("nginx", "copy")
    assert comparison.paired and comparison.verdict in ("better", "worse", "mixed", "not distinguishable")
    assert comparison.at(LOADS[0])["cpu_us_per_request"].change < "200%"


def test_the_gate_computes_shares_and_memory(result):
    nginx = result["nginx"].at(LOADS[0])
    assert nginx.error_share < "10%"
    assert "1MiB" < nginx.memory_rss_bytes < "1GiB"


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
