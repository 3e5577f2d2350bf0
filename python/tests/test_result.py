import json
import sys

import pytest
from kept import NAMES
from test_pages import GUIDE, blocks

import hoptax
from hoptax import Ambiguous, HoptaxError, NotMeasured, Result, UnknownName

FINDING = {
    "code": "upstream-bound", "severity": "void", "case": None, "concerns": {"figures": "all", "answer": True},
    "evidence": {}, "message": "The upstream is the limit.", "advice": "Use a faster one.",
}


@pytest.fixture
def loops(report):
    return Result(report("loops"))


@pytest.mark.parametrize("name", NAMES)
def test_figures_of_kept_runs_are_those_of_the_json_report(name, report):
    document = report(name)
    result = Result(document)
    assert len(result.cases) == len(document["cases"]) and repr(result).startswith(f"<result of {document['name']}")
    for case, kept in zip(result.cases, document["cases"]):
        tax = kept["tax"] or {}
        expected = {name: tax[name] for name in tax if tax[name]}
        expected.update({name: each for name, each in (kept["response_time"] or {}).items() if isinstance(each, dict)})
        if kept["throughput"]:
            expected["throughput"] = kept["throughput"]
        if kept["first_byte"] and kept["first_byte"]["p50"]:
            expected["first_byte_p50"] = kept["first_byte"]["p50"]
        found = {name: (each.value, each.low, each.high, each.trials) for name, each in case.metrics.items()}
        members = ("estimate", "low", "high", "trials")
        assert found == {name: tuple(each[member] for member in members) for name, each in expected.items()}
        assert result[case.gateway].at(index=case.load.index).name == case.name
    assert [finding.code for finding in result.findings] == [finding["code"] for finding in document["findings"]]
    assert len(result.rows()) == sum(len(case.metrics) for case in result.cases)


def test_kept_runs_are_there():
    assert len(NAMES) >= 11


def test_a_gateway_is_asked_for_its_metrics(report):
    gateway = Result(report("schema-1"))["nginx"]
    tax = report("schema-1")["cases"][1]["tax"]
    assert gateway.added_p50.value == tax["added_p50"]["estimate"]
    assert gateway.added_p50.distinguishable is tax["added_p50"]["distinguishable"]
    assert (gateway.p999.unit, gateway.throughput.unit, gateway.throughput_ratio.unit) == ("us", "requests/s", "ratio")
    names = (
        "added_p90", "added_p95", "added_p99", "cpu_us_per_request", "extra_upstream_requests", "p50", "p90", "p95", "p99"
    )
    assert [getattr(gateway, name).metric for name in names] == list(names)


def test_several_load_points_need_a_choice(loops):
    with pytest.raises(Ambiguous, match=r"3 load points; choose one with .at\(…\): 0: closed loop, 2 connections; 1: open"):
        _ = loops["nginx"].added_p50
    chosen = loops["nginx"].at(loop="open", connections=4)
    assert chosen.load.label == "open loop, 500/s, poisson, 4 connections"
    assert loops["nginx"].at("closed loop, 2 connections").load.index == 0
    assert loops["nginx"].at(hoptax.open_loop("500/s", 4)).name == chosen.name
    assert loops["nginx"].at(hoptax.closed_loop(2)).load.loop == "closed"
    assert loops["nginx"].at(hoptax.closed_loop(2, http=1.1)).load.streams == 1
    with pytest.raises(UnknownName):
        loops["nginx"].at(hoptax.closed_loop(2, http=2, streams=8))
    with pytest.raises(Ambiguous):
        loops["nginx"].at(loop="open", rate="500/s")
    with pytest.raises(UnknownName, match="no load point with {'rate': '9/s'}; the load points are 0: closed"):
        loops["nginx"].at(rate="9/s")
    with pytest.raises(TypeError, match="no 'threads'; choose by index, label, loop"):
        loops["nginx"].at(threads=2)


def test_unknown_names_are_explained(loops):
    with pytest.raises(UnknownName) as raised:
        _ = loops["ngnix"]
    assert str(raised.value) == "the run has no gateway 'ngnix'; it has direct, hop-l7, nginx, kong"
    with pytest.raises(KeyError):
        _ = loops["ngnix"]
    with pytest.raises(UnknownName, match="a case has no metric 'p98'; the metrics are added_age_p50"):
        loops["nginx"].at(index=0).metric("p98")


def test_a_missing_figure_says_why(loops):
    with pytest.raises(NotMeasured, match=r"kong, .* has no added_p50: kong is not installed.*stage: missing"):
        _ = loops["kong"].at(index=0).added_p50
    with pytest.raises(NotMeasured, match="direct is the baseline"):
        _ = loops.direct.at(index=0).added_p50
    with pytest.raises(NotMeasured, match="error_share needs the run directory"):
        _ = loops["nginx"].at(index=0).error_share
    with pytest.raises(NotMeasured, match="the run measured no start of nginx"):
        _ = loops["nginx"].ready
    with pytest.raises(NotMeasured, match="searched no capacity"):
        _ = loops["nginx"].capacity
    with pytest.raises(NotMeasured, match="has no price: it needs a gateway with features"):
        _ = loops["nginx"].at(index=0).price


def test_two_gateways_are_compared_by_their_pair(report):
    document = report("delays")
    delayed, spinning = Result(document)["delayed"], Result(document)["spinning"]
    pairs = {pair["metric"]: pair for pair in document["pairs"]}
    assert (pairs["added_p50"]["first"], pairs["added_p50"]["second"]) == ("delayed", "spinning")

    def outcome(difference, verdict):
        pairs["added_p50"]["difference"]["estimate"] = difference
        pairs["added_p50"]["verdict"] = verdict
        result = Result(document)
        one, other = result["delayed"].added_p50, result["spinning"].added_p50
        medians = result["delayed"].p50 < result["spinning"].p50
        return (one < other).outcome, (other < one).outcome, (one > other).outcome, medians.outcome

    # The difference is second − first.
    assert outcome(50.0, "distinguishable") == ("pass", "fail", "fail", "pass")
    assert outcome(-50.0, "distinguishable") == ("fail", "pass", "pass", "fail")
    assert outcome(50.0, "not distinguishable") == ("inconclusive",) * 4
    # Figures of two different results have no pair.
    assert "intervals" in (delayed.added_p50 < spinning.added_p50).reason


@pytest.mark.parametrize(
    ("figures", "case", "void"),
    [
        ("all", None, {"p50", "p99", "added_p99", "throughput"}),
        ("all", "nginx, closed loop, 2 connections", {"p50", "p99", "added_p99", "throughput"}),
        ("all", "hop-l7, closed loop, 2 connections", set()),
        ("tails", None, {"p99", "added_p99"}),
        ("path-split", None, set()),
    ],
)
def test_void_findings_concern_some_figures(report, figures, case, void):
    document = report("loops")
    document["findings"] = [{**FINDING, "case": case, "concerns": {"figures": figures, "answer": True}}]
    for accept_void in (False, True):
        nginx = Result(document, accept_void=accept_void)["nginx"].at(index=0)
        found = {name for name in ("p50", "p99", "added_p99", "throughput") if nginx.metric(name).void}
        assert found == (set() if accept_void else void)
    document["findings"][0]["severity"] = "warning"
    assert not Result(document)["nginx"].at(index=0).p50.void


def test_findings_of_a_case(report):
    document = report("loops")
    document["findings"] = [FINDING, {**FINDING, "case": "nginx, closed loop, 2 connections", "severity": "note"}]
    result = Result(document)
    assert [finding.severity for finding in result["nginx"].at(index=0).findings] == ["note"]
    assert [str(finding) for finding in result.void] == ["void upstream-bound: The upstream is the limit. Use a faster one."]


def test_prices_of_features(report):
    result = Result(report("prices"))
    row = report("prices")["prices"]["rows"][0]
    price = result[row["gateway"]].at(index=row["load"]["index"]).price
    assert (price.bare, price.features) == (row["bare"], row["features"])
    assert price.cpu_us_per_request.value == row["cpu_us_per_request"]["estimate"]
    assert price.metric("memory_rss_bytes").unit == "bytes"
    with pytest.raises(UnknownName, match="a price has no 'p50'"):
        _ = price.p50
    document = report("prices")
    bare = result[row["bare"]].at(index=row["load"]["index"]).name
    document["findings"] = [{**FINDING, "case": bare}]
    assert Result(document)[row["gateway"]].at(index=row["load"]["index"]).price.added_p50.void == ("upstream-bound",)


def test_capacities(report):
    document = report("capacity")
    nginx = Result(document)["nginx"]
    kept = next(each for each in document["capacity"] if each["gateway"] == "nginx")
    assert nginx.capacity.rate.value == kept["rate"]["estimate"] and nginx.capacity.rate.unit == "requests/s"
    kept.update(at_least=True)
    assert Result(document)["nginx"].capacity.rate.high == float("inf")
    kept.update(at_least=False, rate=None, below=100.0)
    below = Result(document)["nginx"].capacity.rate
    assert str(below) == "less than 100/s (0–100)" and (below > "200/s").failed
    kept.update(below=None)
    with pytest.raises(NotMeasured, match="has no rate"):
        _ = Result(document)["nginx"].capacity.rate
    with pytest.raises(NotMeasured, match="the run measures only capacities"):
        _ = nginx.p50


def started(**figures):
    median = {"estimate": 5.0, "low": 4.0, "high": 6.0, "more_than": None, "starts": 20}
    return {
        "contender": "nginx", "kind": "start", "measured": 40, "failed": 0, "failure": None, "wrong_answers": 0,
        "listening_ms": median, "ready_ms": {**median, **figures.get("ready", {})}, "requests": {"first_us": median},
        "load": {"settled_s": {**median, **figures.get("settled", {})}},
    }


def test_starts_are_times_in_microseconds(report):
    document = report("loops")
    document["starts"] = [started()]
    nginx = Result(document)["nginx"]
    found = [nginx.metric(name).value for name in ("listening", "ready", "first_request", "settled")]
    assert found == [5_000.0, 5_000.0, 5.0, 5_000_000.0]
    assert (nginx.ready < "7ms").passed and nginx.start().ready.trials == 20
    with pytest.raises(NotMeasured, match="no reload of nginx"):
        nginx.start("reload")
    with pytest.raises(UnknownName, match="a start has no metric 'p50'"):
        nginx.start().metric("p50")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"high": None, "more_than": 9.0}, "5 s (4–∞)"),
        ({"estimate": None, "high": None, "more_than": 9.0}, "more than 9 s (4–∞)"),
        ({"estimate": None, "low": None, "high": None, "more_than": 9.0}, "more than 9 s (9–∞)"),
        ({"low": None, "high": None, "starts": 5}, "5 s (no interval)"),
    ],
)
def test_starts_that_never_settled_have_an_open_interval(report, members, words):
    document = report("loops")
    document["starts"] = [started(settled=members)]
    assert str(Result(document)["nginx"].start().settled) == words


def test_budgets(report):
    outcomes = {budget.outcome for budget in Result(report("loops")).budgets}
    assert {"kept", "exceeded"} <= outcomes
    assert all(budget.measured is None or budget.measured.metric for budget in Result(report("loops")).budgets)


def test_rows_are_a_table(loops, monkeypatch):
    row = next(row for row in loops.rows() if (row["gateway"], row["metric"]) == ("nginx", "added_p50"))
    assert list(row) == [
        "gateway", "load", "loop", "connections", "rate", "metric", "unit", "estimate", "low", "high", "trials",
        "distinguishable",
    ]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HoptaxError, match="pip install pandas"):
        loops.frame()


def test_a_frame_has_the_rows(loops):
    pandas = pytest.importorskip("pandas")
    frame = loops.frame()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == len(loops.rows())
    chosen = frame[(frame.gateway == "nginx") & (frame.metric == "added_p50") & (frame["loop"] == "closed")]
    assert chosen.estimate.item() == loops["nginx"].at(index=0).added_p50.value


def test_a_frame_is_made_by_pandas(loops, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", type("pandas", (), {"DataFrame": list}))
    assert loops.frame() == loops.rows()


def test_other_documents_are_refused(tmp_path, report):
    for document in ({}, {"schema": 2, "cases": []}, {"schema": 1, "rows": []}):
        with pytest.raises(HoptaxError, match="not a JSON report of version 1"):
            Result(document)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report("loops")))
    assert Result.from_json(path).name == "loops"


def test_words_of_a_result(report):
    result = Result(report("loops"))
    assert "nginx is void at 500/s over 2 connections: host-noisy." in str(result)
    assert "hop-l7 adds 13.9 µs (12.9–14.9) at the median" in str(Result(report("hosts")))
    assert "results of nginx: closed loop, 2 connections" in repr(result["nginx"])


def test_versions_and_profiles_have_intervals(report, capsys):
    document = report("loops")
    load = document["cases"][0]["load"]
    change = {"estimate": 30.0, "low": 28.0, "high": 32.0, "p_value": 0.001, "rounds": 24}
    time = {"estimate": 40.0, "low": 38.0, "high": 42.0, "trials": 24}
    frame = {"frame": "deflate", "module": "libz.so.1", "kind": "native"}
    pair = {
        "load": load, "first": "a", "second": "b", "metric": "added_p50", "p_value": 0.01, "rounds": 20,
        "difference": {"estimate": 12.0, "low": 10.0, "high": 14.0}, "verdict": "distinguishable",
    }
    versions = [{"gateway": label, "name": name, "commit": None} for label, name in (("a", "1.26"), ("b", "1.27"))]
    document.update(
        versions=[{"load": load, "name": "nginx", "versions": versions, "changes": [pair]}],
        profiles=[
            {
                "gateway": "a", "load": load, "kind": "cpu", "us_per_request": whole, "frames": frames,
                "modules": [{"module": "libz.so.1.2", "own_us": time}],
            }
            for whole, frames in ((time, [{**frame, "own_us": time, "total_us": time}]), (None, []))
        ],
        profile_differences=[
            {
                "first": {"gateway": "a", "load": load}, "second": {"gateway": "b", "load": load}, "us_per_request": change,
                "frames": [{**frame, "own_us": change, "total_us": change, "distinguishable": True}], "modules": [],
            }
        ],
    )
    result = Result(document)
    [family] = result.versions
    assert [version.name for version in family.versions] == ["1.26", "1.27"] and family.name == "nginx"
    assert family.changes[0].difference < "15us" and family.changes[0].distinguishable
    profile, failed = result.profiles
    assert (str(profile.whole), failed.whole, profile.kind) == ("40 µs (38–42)", None, "cpu")
    assert profile.frame("deflate").own < "43us" and profile.module("libz.so").own > "37us"
    assert profile.frame("deflate").total.interval.half_width == 2.0
    with pytest.raises(UnknownName, match="has no function 'inflate'"):
        profile.frame("inflate")
    [difference] = result.profile_differences
    assert difference.gateway == "b − a" and difference.first[0] == "a"
    assert difference.whole < "33us" and difference.frame("deflate").own > "27us"
    [page] = [block for block in blocks(GUIDE) if "result.versions" in block]
    exec(page, {"result": result})
    assert capsys.readouterr().out == "30 µs (28–32)\n" and "# 30 µs (28–32)" in page
    plain = Result(report("loops"))
    assert (plain.versions, plain.profiles, plain.profile_differences) == ([], [], [])
