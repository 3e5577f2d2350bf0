"""Estimates with intervals, and comparisons that know noise.

`estimate < "100us"` is a `Verdict`. It passes if the whole interval lies below the bound. It fails if the whole
interval lies at or beyond it. Otherwise it is inconclusive, and using it as a condition raises `Inconclusive`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

from . import quantity
from .errors import HoptaxError
from .quantity import Bound, Quantity

if TYPE_CHECKING:
    from .result import Result

PASS, FAIL, INCONCLUSIVE = "pass", "fail", "inconclusive"

# A hint to measure more than this many times as many rounds would not help anybody.
_MOST_TIMES_LONGER = 100

# Functions that are called with every verdict that is used as a condition. The pytest plugin records them.
observers: list[Callable[[Verdict], None]] = []


class Inconclusive(HoptaxError):
    """A comparison was used as a condition, but the measurement cannot decide it. It is neither true nor false."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


@dataclass(frozen=True)
class Verdict:
    """Result of a comparison: `pass`, `fail` or `inconclusive`.

    `&`, `|` and `~` combine verdicts: `a & b` fails if one of them fails, also if the other one is inconclusive.
    Python's `and`, `or` and `not` need a condition, so they raise `Inconclusive` for an inconclusive verdict.
    """

    outcome: str
    claim: str
    reason: str
    estimates: tuple[Estimate, ...] = field(default=(), repr=False, compare=False)

    @property
    def passed(self) -> bool:
        return self.outcome == PASS

    @property
    def failed(self) -> bool:
        return self.outcome == FAIL

    @property
    def inconclusive(self) -> bool:
        return self.outcome == INCONCLUSIVE

    def __bool__(self) -> bool:
        __tracebackhide__ = True
        for observer in observers:
            observer(self)
        if self.inconclusive:
            raise Inconclusive(self)
        return self.passed

    def __and__(self, other: Verdict) -> Verdict:
        return self._combined(other, "and", (FAIL, INCONCLUSIVE, PASS))

    def __or__(self, other: Verdict) -> Verdict:
        return self._combined(other, "or", (PASS, INCONCLUSIVE, FAIL))

    def __invert__(self) -> Verdict:
        outcome = {PASS: FAIL, FAIL: PASS}.get(self.outcome, INCONCLUSIVE)
        return Verdict(outcome, f"not ({self.claim})", self.reason, self.estimates)

    def _combined(self, other: Verdict, word: str, order: tuple[str, str, str]) -> Verdict:
        """The first outcome in `order` that one of the parts has, with the reasons of the parts that have it."""
        if not isinstance(other, Verdict):
            return NotImplemented
        outcome = min(self.outcome, other.outcome, key=order.index)
        reasons = [part.reason for part in (self, other) if part.outcome == outcome]
        claim = f"({self.claim}) {word} ({other.claim})"
        return Verdict(outcome, claim, "; ".join(reasons), self.estimates + other.estimates)

    def __str__(self) -> str:
        return f"{self.outcome}: {self.claim}: {self.reason}"


@dataclass(frozen=True)
class Interval:
    """A 95 % interval. An end that is not known is infinite."""

    low: float
    high: float
    unit: str

    @property
    def width(self) -> float:
        return self.high - self.low

    @property
    def half_width(self) -> float:
        return self.width / 2

    def __contains__(self, bound: Bound) -> bool:
        return self.low <= quantity.value_in(bound, self.unit) <= self.high

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        divisor, suffix = quantity.scale(max(abs(self.low), abs(self.high)), self.unit)
        return _ends(self.low, self.high, divisor) + suffix


def _ends(low: float, high: float, divisor: float) -> str:
    between = " to " if low < 0 else "–"
    return f"{quantity.digits(low / divisor)}{between}{quantity.digits(high / divisor)}"


@dataclass(frozen=True, eq=False, repr=False)
class Estimate:
    """A measured value with its 95 % interval.

    Times are in µs, throughput is in requests/s, memory in bytes; shares and ratios have no unit.
    """

    value: float
    low: Optional[float]
    high: Optional[float]
    unit: str
    trials: int = 0
    """Number of trials behind the value; for a tax, the number of rounds."""
    distinguishable: Optional[bool] = None
    """For a tax or a price: whether it can be told from noise."""
    metric: str = ""
    gateway: str = ""
    load: str = ""
    bound: str = ""
    """`more than` or `less than`, if the value is only a bound of the true value."""
    void: tuple[str, ...] = ()
    """Codes of the `void` findings about this figure. Comparisons with it are inconclusive."""
    load_index: Optional[int] = field(default=None, repr=False)
    result: Optional[Result] = field(default=None, repr=False)

    @property
    def interval(self) -> Optional[Interval]:
        """The interval; `None` with a single trial, and for a maximum."""
        if self.low is None or self.high is None:
            return None
        return Interval(self.low, self.high, self.unit)

    @property
    def name(self) -> str:
        """The metric, the gateway and the load point, in words."""
        words = f"{self.metric or 'estimate'} of {self.gateway}" if self.gateway else self.metric or "estimate"
        return f"{words} ({self.load})" if self.load else words

    def __str__(self) -> str:
        divisor, suffix = quantity.scale(self.value, self.unit)
        start = f"{self.bound} " if self.bound else ""
        value = f"{start}{quantity.digits(self.value / divisor)}{suffix}"
        if self.low is None or self.high is None:
            return f"{value} (no interval)"
        return f"{value} ({_ends(self.low, self.high, divisor)})"

    def __repr__(self) -> str:
        return f"<{self.name}: {self}>"

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __float__(self) -> float:
        return self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Estimate):
            return self._key() == other._key()
        if isinstance(other, (str, int, float, Quantity)):
            raise TypeError(f"cannot ask whether {self.name} equals {other!r}: an estimate has an interval; use < or >")
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.value, self.low, self.high, self.unit, self.trials, self.metric, self.gateway, self.load)

    def __lt__(self, other: Union[Bound, Estimate]) -> Verdict:
        return self._compared(other, "<")

    def __le__(self, other: Union[Bound, Estimate]) -> Verdict:
        return self._compared(other, "<=")

    def __gt__(self, other: Union[Bound, Estimate]) -> Verdict:
        return self._compared(other, ">")

    def __ge__(self, other: Union[Bound, Estimate]) -> Verdict:
        return self._compared(other, ">=")

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self.name} is not a condition; compare it, as in: figure < \"100us\"")

    def _compared(self, other: Union[Bound, Estimate], sign: str) -> Verdict:
        if isinstance(other, Estimate):
            return _against_estimate(self, other, sign)
        bound = quantity.value_in(other, self.unit, self.metric or "the figure")
        claim = f"{self.name}: {self} {sign} {quantity.show(bound, self.unit)}"
        doubt = _doubt(self)
        if doubt:
            return Verdict(INCONCLUSIVE, claim, doubt, (self,))
        assert self.low is not None and self.high is not None
        outcome, reason = _judge(self.low, self.high, bound, sign)
        if outcome == INCONCLUSIVE:
            reason += _hint(self, bound)
        return Verdict(outcome, claim, reason, (self,))


_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}


def _judge(low: float, high: float, bound: float, sign: str) -> tuple[str, str]:
    """Outcome and reason for an interval and a bound: every value in the interval must agree."""
    holds = {_SIGNS[sign](end, bound) for end in (low, high)}
    if holds == {True}:
        return PASS, "the whole interval fulfils it"
    if holds == {False}:
        return FAIL, "no value in the interval fulfils it"
    return INCONCLUSIVE, "the bound lies inside the interval"


def _doubt(estimate: Estimate) -> str:
    """Why the estimate cannot decide anything; empty if it can."""
    if estimate.void:
        return f"void because of {', '.join(estimate.void)} (`hoptax findings {estimate.void[0]}` explains it)"
    if estimate.interval is None:
        return f"{estimate.metric or 'the figure'} has no interval: it is from a single trial, or a maximum"
    return ""


def _hint(estimate: Estimate, bound: float) -> str:
    """How many rounds would decide the comparison: an interval narrows with the square root of the rounds."""
    distance = bound - estimate.value
    end = estimate.high if distance > 0 else estimate.low
    if not distance or end is None or math.isinf(end) or not estimate.trials:
        return "; measure longer"
    times = ((end - estimate.value) / distance) ** 2
    if times > _MOST_TIMES_LONGER:
        return "; the value is too close to the bound"
    return f"; about {math.floor(times * estimate.trials) + 1} rounds instead of {estimate.trials} would decide it"


def _against_estimate(first: Estimate, second: Estimate, sign: str) -> Verdict:
    """Compares two estimates. Two gateways of one run are compared by the report's paired difference, which is more
    precise than their intervals. Otherwise the intervals must lie apart."""
    if first.unit != second.unit:
        raise ValueError(f"cannot compare {first.name} ({first.unit}) with {second.name} ({second.unit})")
    claim = f"{first.name}: {first} {sign} {second.name}: {second}"
    both = (first, second)
    doubt = _doubt(first) or _doubt(second)
    if doubt:
        return Verdict(INCONCLUSIVE, claim, doubt, both)
    pair = first.result.pair(first, second) if first.result is not None and first.result is second.result else None
    if pair is not None:
        if not pair.distinguishable:
            return Verdict(INCONCLUSIVE, claim, f"{pair.words} are not distinguishable", both)
        holds = _SIGNS[sign](-pair.toward(second.gateway), 0.0)
        return Verdict(PASS if holds else FAIL, claim, f"{pair.words} differ, round by round", both)
    assert first.low is not None and first.high is not None and second.low is not None and second.high is not None
    holds_at = {_SIGNS[sign](one, other) for one in (first.low, first.high) for other in (second.low, second.high)}
    if len(holds_at) > 1:
        return Verdict(INCONCLUSIVE, claim, "the intervals overlap", both)
    return Verdict(PASS if holds_at == {True} else FAIL, claim, "the intervals lie apart", both)
