"""Results of a run: the JSON report as objects.

The names of members are those of the JSON report (docs/reference/json.md), except `p99.9`, which is `p999` here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import quantity
from .errors import Ambiguous, HoptaxError, NotMeasured, UnknownName
from .estimate import Estimate
from .metrics import (
    CONCERNED, GATED, MESSAGES, OTHER_NAMES, PAIRED, PERCENTILES, PRICES, STARTS, TAXES, UNITS, Metrics, StartMetrics,
)
from .plan import Load
from .profile import Profile, ProfileDifference, Version, Versions
from .quantity import RATE, SIZE, TIME

if TYPE_CHECKING:
    from .commands import Program
    from .comparison import Comparison

# The version of the JSON report that this package reads.
SCHEMA = 1

# Keys of a load point. Callers choose it with them.
OF_LOADS = ("loop", "connections", "rate", "http", "streams")


@dataclass(frozen=True)
class LoadPoint:
    """A load point of the run."""

    index: int
    label: str
    loop: str
    connections: int
    rate: Optional[float]
    """Requests per second; `None` in a closed loop."""
    http: str
    """The version of HTTP: `"1.0"`, `"1.1"` or `"2"`."""
    streams: int
    """Requests in flight on a connection."""
    document: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> LoadPoint:
        how = (document["loop"], document["connections"], document["rate"])
        version = (document.get("http", "1.1"), document.get("streams", 1))
        return cls(document["index"], document["label"], *how, *version, document)

    def matches(self, wanted: Mapping[str, Any]) -> bool:
        for key, value in wanted.items():
            if key == "rate":
                if self.rate is None or not math.isclose(self.rate, quantity.value_in(value, RATE, "rate")):
                    return False
            elif getattr(self, key) != (str(value) if key == "http" else value):
                return False
        return True

    def __str__(self) -> str:
        return self.label


def _pair(document: Mapping[str, Any]) -> Pair:
    load = LoadPoint.of(document["load"])
    found = document["difference"]
    difference = Estimate(
        found["estimate"], found["low"], found["high"], UNITS[document["metric"]], document["rounds"],
        metric=f"difference in {document['metric']}", gateway=f"{document['second']} − {document['first']}",
        load=load.label,
    )
    names = (document["first"], document["second"], document["metric"])
    return Pair(*names, load, difference, document["p_value"], document["verdict"] == "distinguishable")


def wanted_load(load: Union[Load, str, None], keys: Mapping[str, Any]) -> dict[str, Any]:
    """What a caller of `at` looks for."""
    allowed = ("index", "label", *OF_LOADS)
    unknown = [key for key in keys if key not in allowed]
    if unknown:
        raise TypeError(f"a load point has no {unknown[0]!r}; choose by {', '.join(allowed)}")
    wanted = {key: value for key, value in keys.items() if value is not None}
    if isinstance(load, str):
        wanted["label"] = load
    elif load is not None:
        wanted.update({key: load.keys[key] for key in OF_LOADS if key in load.keys})
    return wanted


@dataclass(frozen=True)
class Finding:
    """A reason to doubt a result."""

    code: str
    severity: str
    case: Optional[str]
    """The case; `None` if the finding is about the whole run."""
    figures: str
    message: str
    advice: str
    evidence: Mapping[str, Any] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.severity} {self.code}{f' ({self.case})' if self.case else ''}: {self.message} {self.advice}"


@dataclass(frozen=True)
class Pair:
    """Two gateways at one load point, compared round by round."""

    first: str
    second: str
    metric: str
    load: LoadPoint
    difference: Estimate
    """Second − first."""
    p_value: Optional[float]
    distinguishable: bool

    def toward(self, label: str) -> float:
        """Value of this gateway minus the value of the other one."""
        return self.difference.value if label == self.second else -self.difference.value

    @property
    def words(self) -> str:
        return f"{self.first} and {self.second}"


@dataclass(frozen=True)
class Budget:
    """Outcome of a budget of the plan for one case: `kept`, `exceeded`, `inconclusive` or `unmeasured`."""

    case: str
    gateway: str
    metric: str
    outcome: str
    measured: Optional[Estimate]
    reason: Optional[str]
    """Why it is inconclusive, and how long a run would decide it, or why it was not measured."""


class Case(Metrics):
    """One gateway, or direct, at one load point."""

    def __init__(self, result: Result, document: Mapping[str, Any]) -> None:
        self.result = result
        self.document = document
        self.name: str = document["case"]
        self.gateway: str = document["gateway"]
        self.load = LoadPoint.of(document["load"])
        self.trials: int = document["trials"]

    def __repr__(self) -> str:
        return f"<case {self.name}: {self.trials} trials>"

    @property
    def findings(self) -> list[Finding]:
        """Findings about this case."""
        return [finding for finding in self.result.findings if finding.case == self.name]

    @property
    def counts(self) -> Mapping[str, Any]:
        """Outcomes of requests, summed over trials; empty if nothing was measured."""
        return self.document["counts"] or {}

    @property
    def metrics(self) -> dict[str, Estimate]:
        """All metrics of this case in the JSON report."""
        found = {}
        for name in (*TAXES, *PERCENTILES, "first_byte_p50", *MESSAGES, "throughput"):
            try:
                found[name] = self.metric(name)
            except NotMeasured:
                pass
        return found

    @property
    def price(self) -> Price:
        """What this gateway's features cost: this gateway minus the same gateway without them."""
        for row in self.result.document["prices"]["rows"]:
            if row["gateway"] == self.gateway and row["load"]["index"] == self.load.index:
                return Price(self, row)
        raise NotMeasured(
            f"{self.name} has no price: it needs a gateway with features, and the same gateway without them in the plan"
        )

    def metric(self, name: str) -> Estimate:
        name = OTHER_NAMES.get(name, name)
        unit = UNITS.get(name)
        if unit is None or name in STARTS:
            names = ", ".join(sorted(set(UNITS) - set(STARTS)))
            raise UnknownName(f"a case has no metric {name!r}; the metrics are {names}")
        if name in GATED:
            found = self.result.gated(name).get(self.name)
        elif name in TAXES:
            found = (self.document["tax"] or {}).get(name)
        elif name == "throughput":
            found = self.document["throughput"]
        elif name == "first_byte_p50":
            found = (self.document["first_byte"] or {}).get("p50")
        elif name in MESSAGES:
            member, percentile = MESSAGES[name]
            found = self.document.get("message", {}).get(member, {}).get(percentile)
        else:
            found = (self.document["response_time"] or {}).get(name)
        if found is None:
            raise NotMeasured(f"{self.name} has no {name}: {self._why_not(name)}")
        return self.estimate(found, unit, name)

    def estimate(
        self, document: Mapping[str, Any], unit: str, name: str, findings_of: Optional[str] = None
    ) -> Estimate:
        """An estimate of the JSON report. A `void` finding about `findings_of` (default: the metric) makes it void."""
        return Estimate(
            document["estimate"], document["low"], document["high"], unit, document["trials"],
            document.get("distinguishable"), name, self.gateway, self.load.label,
            void=self.result.void_codes(self.name, findings_of or name), load_index=self.load.index, result=self.result,
        )

    def _why_not(self, name: str) -> str:
        failed = self.document["failed"]
        if failed:
            return f"{failed['message']} (stage: {failed['stage']})"
        if self.trials == 0:
            return "the run ended before its first trial"
        if self.gateway == "direct" and (name in TAXES or name in GATED):
            return "direct is the baseline, so it has no tax and no budget"
        return "it was not recorded"


class Price(Metrics):
    """What features cost at one load point: with them minus without them, in the same rounds."""

    def __init__(self, case: Case, document: Mapping[str, Any]) -> None:
        self.case = case
        self.document = document
        self.gateway: str = document["gateway"]
        self.bare: str = document["bare"]
        self.features: list[str] = list(document["features"])

    def __repr__(self) -> str:
        return f"<price of {', '.join(self.features)}: {self.gateway} against {self.bare} ({self.case.load})>"

    def metric(self, name: str) -> Estimate:
        if name not in PRICES:
            raise UnknownName(f"a price has no {name!r}; it has {', '.join(PRICES)}")
        if self.document[name] is None:
            raise NotMeasured(f"the price of {self.gateway} has no {name}: {self.gateway} or {self.bare} has none")
        estimate = self.case.estimate(self.document[name], PRICES[name], f"price in {name}", name)
        bare = self.case.result.void_codes(self.case.result[self.bare].at(index=self.case.load.index).name, name)
        # Without `result`, two prices are compared by their intervals, and not by the pair of their gateways.
        return Estimate(
            estimate.value, estimate.low, estimate.high, estimate.unit, estimate.trials, estimate.distinguishable,
            estimate.metric, estimate.gateway, estimate.load, void=tuple(dict.fromkeys(estimate.void + bare)),
        )


class Start(StartMetrics):
    """Starts or reloads of one gateway. Figures are medians over starts."""

    def __init__(self, result: Result, document: Mapping[str, Any]) -> None:
        self.result = result
        self.document = document
        self.gateway: str = document["contender"]
        self.kind: str = document["kind"]

    def __repr__(self) -> str:
        return f"<{self.kind} of {self.gateway}: {self.document['measured']} measured>"

    def metric(self, name: str) -> Estimate:
        if name not in STARTS:
            raise UnknownName(f"a start has no metric {name!r}; it has {', '.join(STARTS)}")
        path, factor = STARTS[name]
        found: Any = self.document
        for member in path:
            found = found[member] if found else None
        if found is None:
            why = self.document["failure"] or f"it does not exist for {self.kind}"
            raise NotMeasured(f"{self.kind} of {self.gateway} has no {name}: {why}")
        more_than = found["more_than"]
        low, high = found["low"], found["high"]
        if found["estimate"] is None or (more_than is not None and (low, high) != (None, None)):
            # An unknown end is only known to exceed `more_than`.
            low = more_than if low is None else low
            high = math.inf if high is None else high
        value = more_than if found["estimate"] is None else found["estimate"]
        return Estimate(
            value * factor, None if low is None else low * factor, None if high is None else high * factor, TIME,
            found["starts"], metric=name, gateway=self.gateway, load="" if self.kind == "start" else self.kind,
            bound="more than" if found["estimate"] is None else "",
            void=self.result.void_codes(f"{self.gateway}, {self.kind}", name),
        )


class Capacity:
    """The highest rate at which a gateway, or direct, meets an objective."""

    def __init__(self, result: Result, document: Mapping[str, Any]) -> None:
        self.result = result
        self.document = document
        self.gateway: str = document["gateway"]
        self.slo: str = document["slo"]
        self.limited_by: Optional[str] = document["limited_by"]

    def __repr__(self) -> str:
        return f"<capacity of {self.gateway} with {self.slo}>"

    @property
    def rate(self) -> Estimate:
        """The rate. Its upper end is infinite if something other than the gateway was the limit."""
        rate, below = self.document["rate"], self.document["below"]
        if rate is None and below is None:
            failed = self.document["failed"]
            raise NotMeasured(f"{self!r} has no rate: {failed['message'] if failed else 'the search did not end'}")
        load = LoadPoint.of(self.document["load"])
        where = {"metric": "capacity", "gateway": self.gateway, "load": self.slo, "load_index": load.index}
        void = self.result.void_codes(f"{self.gateway}, {load.label}", "throughput")
        if rate is None:
            return Estimate(below, 0.0, below, RATE, len(self.document["steps"]), bound="less than", void=void, **where)
        high = math.inf if self.document["at_least"] and rate["low"] is not None else rate["high"]
        if high is None and rate["low"] is not None:
            high = math.inf
        return Estimate(
            rate["estimate"], rate["low"], high, RATE, rate["trials"],
            bound="at least" if self.document["at_least"] else "", void=void, **where,
        )


class GatewayResult(Metrics, StartMetrics):
    """All results of one gateway, or of direct.

    With a single load point, its metrics are attributes here too. With several, choose one with `at`.
    """

    def __init__(self, result: Result, label: str, cases: list[Case]) -> None:
        self.result = result
        self.label = label
        self.cases = cases

    def __repr__(self) -> str:
        return f"<results of {self.label}: {', '.join(case.load.label for case in self.cases) or 'no cases'}>"

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def at(self, load: Union[Load, str, None] = None, **keys: Any) -> Case:
        """The case at a load point, given by a `Load`, its label, or some of loop, connections, rate, http, streams and index."""
        wanted = wanted_load(load, keys)
        found = [case for case in self.cases if case.load.matches(wanted)]
        if len(found) == 1:
            return found[0]
        points = "; ".join(f"{case.load.index}: {case.load.label}" for case in found or self.cases)
        if found:
            many = f"{self.label} was measured at {len(found)} load points"
            raise Ambiguous(f"{many}; choose one with .at(…): {points}")
        if not self.cases:
            raise NotMeasured(f"{self.label} has no cases: the run measures only {self.result.measures}")
        raise UnknownName(f"{self.label} has no load point with {wanted}; the load points are {points}")

    def metric(self, name: str) -> Estimate:
        if name in STARTS:
            return self.start().metric(name)
        return self.at().metric(name)

    @property
    def price(self) -> Price:
        """What this gateway's features cost, at the run's only load point."""
        return self.at().price

    def start(self, kind: str = "start") -> Start:
        """Starts (`start`), reloads (`reload`), or the same traffic to direct (`direct`)."""
        for start in self.result.starts:
            if (start.gateway, start.kind) == (self.label, kind):
                return start
        raise NotMeasured(f"the run measured no {kind} of {self.label}; `start` in the plan measures starts")

    @property
    def capacities(self) -> list[Capacity]:
        """Results of capacity searches, one for each objective."""
        return [capacity for capacity in self.result.capacities if capacity.gateway == self.label]

    @property
    def capacity(self) -> Capacity:
        """The result of the run's only capacity search."""
        found = self.capacities
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotMeasured(f"the run searched no capacity of {self.label}; `search` in a load point does")
        raise Ambiguous(f"{self.label} has {len(found)} capacities; choose one of .capacities: {found}")


class Result:
    """The results of a run."""

    def __init__(
        self,
        document: Mapping[str, Any],
        directory: Union[str, Path, None] = None,
        *,
        program: Optional[Program] = None,
        status: int = 0,
        accept_void: bool = False,
    ) -> None:
        schema = document.get("schema")
        if schema != SCHEMA or "cases" not in document:
            raise HoptaxError(
                f"this is not a JSON report of version {SCHEMA} (`schema` is {schema!r}); use `hoptax report DIR --format "
                "json`, and versions of the package and the binary that belong together"
            )
        self.document = document
        self.directory = Path(directory) if directory is not None else None
        """The run directory, if it is known."""
        self.status = status
        """Exit status of `hoptax run`: 3 if a budget is exceeded, 4 if a `void` finding applies, 5 if a budget is
        inconclusive."""
        self.accept_void = accept_void
        self.name: str = document["name"]
        self.interrupted: bool = document["interrupted"]
        self.answer: Optional[str] = document["answer"]
        """Which gateway adds least, or that there is no clear winner."""
        self._program = program
        self._gated: dict[str, dict[str, Mapping[str, Any]]] = {}

    @classmethod
    def from_json(cls, path: Union[str, Path], *, accept_void: bool = False) -> Result:
        """Reads a JSON report from a file."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file), accept_void=accept_void)

    def __repr__(self) -> str:
        rounds = self.document["rounds"]
        where = f" in {self.directory}" if self.directory else ""
        return f"<result of {self.name}: {', '.join(self.gateways)}; {rounds} rounds{where}>"

    def __str__(self) -> str:
        """The report's sentences."""
        lines = [self.answer] if self.answer else []
        return "\n".join(lines + [summary["sentence"] for summary in self.document["summary"]])

    @cached_property
    def cases(self) -> list[Case]:
        return [Case(self, document) for document in self.document["cases"]]

    @cached_property
    def findings(self) -> list[Finding]:
        """Findings, most severe first."""
        return [
            Finding(
                each["code"], each["severity"], each["case"], each["concerns"]["figures"], each["message"],
                each["advice"], each["evidence"],
            )
            for each in self.document["findings"]
        ]

    @property
    def void(self) -> list[Finding]:
        """Findings that make figures unusable."""
        return [finding for finding in self.findings if finding.severity == "void"]

    @cached_property
    def starts(self) -> list[Start]:
        return [Start(self, document) for document in self.document["starts"]]

    @cached_property
    def capacities(self) -> list[Capacity]:
        return [Capacity(self, document) for document in self.document["capacity"]]

    @property
    def budgets(self) -> list[Budget]:
        """Outcomes of the plan's budgets."""
        rows = []
        for each in self.document["budget"]:
            measured = each["measured"] and Estimate(
                each["measured"]["estimate"], each["measured"]["low"], each["measured"]["high"], UNITS[each["metric"]],
                each["measured"]["trials"], metric=each["metric"], gateway=each["gateway"], load=each["case"],
            )
            names = (each["case"], each["gateway"], each["metric"], each["outcome"])
            rows.append(Budget(*names, measured, each["reason"]))
        return rows

    @property
    def gateways(self) -> list[str]:
        """Labels of the gateways, in the order of the plan, without direct."""
        return [contender["label"] for contender in self.document["contenders"] if contender["label"] != "direct"]

    @property
    def measures(self) -> str:
        return "starts" if self.document["starts"] else "capacities" if self.document["capacity"] else "nothing"

    def __getitem__(self, label: str) -> GatewayResult:
        """The results of a gateway, by its label, or of `direct`."""
        if label != "direct" and label not in self.gateways:
            raise UnknownName(f"the run has no gateway {label!r}; it has direct, {', '.join(self.gateways)}")
        return GatewayResult(self, label, [case for case in self.cases if case.gateway == label])

    def __iter__(self) -> Iterator[GatewayResult]:
        return (self[label] for label in self.gateways)

    @property
    def direct(self) -> GatewayResult:
        """The baseline."""
        return self["direct"]

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every two gateways, compared round by round."""
        return [_pair(each) for each in self.document["pairs"]]

    @cached_property
    def versions(self) -> list[Versions]:
        """The versions of each gateway that has several, at each load point."""
        return [
            Versions(
                each["name"], LoadPoint.of(each["load"]),
                [Version(one["gateway"], one["name"], one["commit"]) for one in each["versions"]],
                [_pair(one) for one in each["changes"]],
            )
            for each in self.document.get("versions", [])
        ]

    @cached_property
    def profiles(self) -> list[Profile]:
        """Profiles of the gateways, if the plan has `cpu_profile`."""
        documents = self.document.get("profiles", [])
        return [Profile(each, each["gateway"], LoadPoint.of(each["load"]), each["kind"]) for each in documents]

    @cached_property
    def profile_differences(self) -> list[ProfileDifference]:
        """Profiles of CPU time, compared."""

        def side(document: Mapping[str, Any]) -> tuple[str, LoadPoint]:
            return document["gateway"], LoadPoint.of(document["load"])

        documents = self.document.get("profile_differences", [])
        return [ProfileDifference(each, side(each["first"]), side(each["second"])) for each in documents]

    def pair(self, one: Estimate, other: Estimate) -> Optional[Pair]:
        """The paired comparison of two estimates of this run; `None` if the report has none."""
        if one.metric != other.metric or one.load_index != other.load_index:
            return None
        metric = PAIRED.get(one.metric, one.metric)
        labels = {one.gateway, other.gateway}
        for pair in self.pairs:
            if pair.metric == metric and pair.load.index == one.load_index and {pair.first, pair.second} == labels:
                return pair
        return None

    def void_codes(self, case: Optional[str], metric: str) -> tuple[str, ...]:
        """Codes of the `void` findings about a metric of a case (`None`: only those about the whole run)."""
        if self.accept_void:
            return ()
        concerned = [
            finding.code
            for finding in self.void
            if finding.case in (None, case) and metric in CONCERNED.get(finding.figures, frozenset())
        ]
        return tuple(dict.fromkeys(concerned))

    def gated(self, metric: str) -> dict[str, Mapping[str, Any]]:
        """A metric, by case, for those metrics that only `hoptax gate` gives an interval."""
        if metric not in self._gated:
            if self._program is None or self.directory is None:
                raise NotMeasured(f"{metric} needs the run directory: use hoptax.report(DIRECTORY) or hoptax.run(PLAN)")
            most = {SIZE: "1GiB", RATE: "1000000/s"}.get(UNITS[metric], "100%")
            budget = [{"metric": metric, "max": most}]
            rows = self._program.gate(self.directory, budget)["budget"]
            self._gated[metric] = {row["case"]: row["measured"] for row in rows if row["measured"]}
        return self._gated[metric]

    def compare(self, first: str, second: str, **options: Any) -> Comparison:
        """Compares two gateways of this run round by round, second against first: `result.compare("main", "pr")`."""
        from .comparison import compare

        return compare(self, labels=(first, second), **options)

    @property
    def html(self) -> Path:
        """The HTML report in the run directory."""
        if self.directory is None:
            raise HoptaxError("the run directory is not known; use hoptax.report(DIRECTORY) or hoptax.run(PLAN)")
        path = self.directory / "report.html"
        if not path.is_file() and self._program is not None:
            self._program.output("report", str(self.directory), "--format", "html", "--output", str(path))
        return path

    def rows(self) -> list[dict[str, Any]]:
        """One row for each case and metric, for tables: gateway, load, metric, unit, estimate, low, high, …"""
        return [
            {
                "gateway": case.gateway, "load": case.load.label, "loop": case.load.loop,
                "connections": case.load.connections, "rate": case.load.rate, "metric": name, "unit": figure.unit,
                "estimate": figure.value, "low": figure.low, "high": figure.high, "trials": figure.trials,
                "distinguishable": figure.distinguishable,
            }
            for case in self.cases
            for name, figure in case.metrics.items()
        ]

    def frame(self) -> Any:
        """The rows as a pandas data frame. Needs pandas."""
        try:
            import pandas
        except ImportError as error:
            raise HoptaxError("frame() needs pandas (pip install pandas); rows() has the same rows") from error
        return pandas.DataFrame(self.rows())
