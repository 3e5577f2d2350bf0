import math
import operator

import pytest

from hoptax import Estimate, Inconclusive, Interval, Verdict
from hoptax import estimate as estimates


def figure(value=72.0, low=66.0, high=78.0, unit="us", **more):
    return Estimate(value, low, high, unit, more.pop("trials", 20), metric="added_p50", gateway="nginx", **more)


LESS, AT_MOST, MORE, AT_LEAST = operator.lt, operator.le, operator.gt, operator.ge


@pytest.mark.parametrize(
    ("compare", "bound", "outcome"),
    [
        (LESS, "100us", "pass"), (LESS, "50us", "fail"), (LESS, "70us", "inconclusive"), (LESS, "72us", "inconclusive"),
        (MORE, "50us", "pass"), (MORE, "100us", "fail"), (MORE, "70us", "inconclusive"),
        # At the ends of the interval.
        (LESS, "78us", "inconclusive"), (AT_MOST, "78us", "pass"), (LESS, "66us", "fail"),
        (AT_MOST, "66us", "inconclusive"), (MORE, "66us", "inconclusive"), (AT_LEAST, "66us", "pass"),
        (MORE, "78us", "fail"), (AT_LEAST, "78us", "inconclusive"),
    ],
)
def test_a_comparison_looks_at_the_whole_interval(compare, bound, outcome):
    assert compare(figure(), bound).outcome == outcome


def test_an_exact_figure_is_always_decided():
    zero = figure(0.0, 0.0, 0.0, "per request")
    outcomes = [verdict.outcome for verdict in (zero <= 0, zero < 0, zero >= 0, zero > 0, zero < 0.1)]
    assert outcomes == ["pass", "fail", "pass", "fail", "pass"]


def test_verdicts_as_conditions():
    assert figure() < "100us"
    assert not figure() < "50us"
    with pytest.raises(Inconclusive) as raised:
        bool(figure() < "70us")
    assert raised.value.verdict.inconclusive
    with pytest.raises(Inconclusive):
        _ = not figure() < "70us"


def test_a_bound_can_be_on_the_left_or_on_both_sides():
    assert "50us" < figure() < "100us"
    assert ("100us" < figure()).failed
    with pytest.raises(Inconclusive):
        bool("70us" < figure() < "100us")


PASS, FAIL, INCONCLUSIVE = (figure() < bound for bound in ("100us", "50us", "70us"))


@pytest.mark.parametrize(
    ("one", "other", "both", "either"),
    [
        (PASS, PASS, "pass", "pass"), (PASS, FAIL, "fail", "pass"), (FAIL, FAIL, "fail", "fail"),
        (PASS, INCONCLUSIVE, "inconclusive", "pass"), (FAIL, INCONCLUSIVE, "fail", "inconclusive"),
        (INCONCLUSIVE, INCONCLUSIVE, "inconclusive", "inconclusive"),
    ],
)
def test_verdicts_are_combined(one, other, both, either):
    for first, second in ((one, other), (other, one)):
        assert ((first & second).outcome, (first | second).outcome) == (both, either)


def test_verdicts_are_negated():
    assert [(~verdict).outcome for verdict in (PASS, FAIL, INCONCLUSIVE)] == ["fail", "pass", "inconclusive"]
    with pytest.raises(TypeError):
        _ = PASS & True


def test_a_combined_verdict_gives_the_deciding_reason():
    assert "no value in the interval" in (PASS & FAIL).reason and "whole" not in (PASS & FAIL).reason


def test_words_of_a_verdict():
    assert str(figure(load="32 connections") < "100us") == (
        "pass: added_p50 of nginx (32 connections): 72 µs (66–78) < 100 µs: the whole interval fulfils it"
    )


@pytest.mark.parametrize(
    ("bound", "hint"),
    [
        # The upper end is 6 above the value. An interval a third as wide needs nine times as many rounds.
        ("74us", "about 181 rounds instead of 20 would decide it"),
        ("69us", "about 81 rounds instead of 20"),
        ("78us", "about 21 rounds instead of 20"),
        ("72us", "measure longer"),
        ("72.1us", "the value is too close to the bound"),
    ],
)
def test_an_inconclusive_verdict_says_how_many_rounds_decide_it(bound, hint):
    assert hint in (figure() < bound).reason


def test_without_an_interval_nothing_is_decided():
    verdict = figure(low=None, high=None) < "1s"
    assert verdict.inconclusive and "added_p50 has no interval" in verdict.reason
    assert figure(low=None, high=None).interval is None


def test_a_void_figure_decides_nothing():
    verdict = figure(void=("upstream-bound",)) < "1s"
    assert verdict.inconclusive and "void because of upstream-bound" in verdict.reason
    assert (figure(void=("upstream-bound",)) < figure(200.0, 190.0, 210.0)).inconclusive


def test_an_interval_can_be_open():
    least = figure(500.0, 400.0, math.inf, "requests/s", bound="at least")
    assert (least > "300/s").passed and (least < "300/s").failed and (least < "1000/s").inconclusive
    assert str(least) == "at least 500/s (400–∞)"
    assert "; measure longer" in (least < "1000/s").reason


def test_estimates_without_a_pair_are_compared_by_their_intervals():
    other = figure(100.0, 90.0, 110.0)
    assert (figure() < other).passed and (other < figure()).failed
    assert (figure() < figure(77.0, 70.0, 84.0)).inconclusive
    with pytest.raises(ValueError, match=r"cannot compare .* \(us\) with .* \(bytes\)"):
        _ = figure() < figure(unit="bytes")


def test_an_estimate_equals_no_number_and_is_no_condition():
    assert figure() == figure() and figure() != figure(73.0) and figure() is not None
    assert len({figure(), figure()}) == 1
    with pytest.raises(TypeError, match="use < or >"):
        _ = figure() == "72us"
    with pytest.raises(TypeError, match="is not a condition"):
        bool(figure())


def test_words_of_estimates_and_intervals():
    assert repr(figure()) == "<added_p50 of nginx: 72 µs (66–78)>"
    assert str(figure(167.0, -32.4, 365.0)) == "167 µs (−32.4 to 365)"
    assert str(figure(2_600.0, 1_900.0, 3_300.0)) == "2.6 ms (1.9–3.3)"
    assert str(figure(low=None, high=None)) == "72 µs (no interval)"
    assert f"{figure():.1f} {figure()}" == "72.0 72 µs (66–78)" and float(figure()) == 72.0
    assert str(Interval(0.7, 0.9, "ratio")) == "70–90 %"


def test_intervals():
    interval = figure().interval
    assert (interval.width, interval.half_width) == (12.0, 6.0)
    assert "70us" in interval and "80us" not in interval and "66us" in interval
    assert interval.overlaps(Interval(78.0, 90.0, "us")) and not interval.overlaps(Interval(79.0, 90.0, "us"))


def test_observers_see_verdicts_that_are_used(monkeypatch):
    seen = []
    monkeypatch.setattr(estimates, "observers", [seen.append])
    unused = figure() < "1s"
    assert not seen
    assert unused and seen == [unused]
    assert isinstance(unused, Verdict)
