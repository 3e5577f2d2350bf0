"""Comparisons of two runs, or of two gateways of one run, by `hoptax compare`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from .errors import Ambiguous, HoptaxError, NotMeasured, UnknownName
from .estimate import Estimate
from .plan import Load
from .quantity import RATIO
from .result import LoadPoint, Result, wanted_load


@dataclass(frozen=True)
class Row:
    """One metric of one case, compared."""

    load: LoadPoint
    labels: tuple[str, str]
    """The gateways: first, second."""
    metric: str
    a: Optional[Estimate]
    b: Optional[Estimate]
    difference: Estimate
    """Second − first."""
    relative: Optional[Estimate]
    verdict: str
    """`better`, `worse` or `not distinguishable`."""
    headline: bool

    @property
    def change(self) -> Estimate:
        """Second ÷ first − 1. Compare it with a percentage: `row.change < "5%"`."""
        if self.relative is None:
            raise NotMeasured(f"{self.metric} ({self.load}) has no change: the first value is not above zero")
        return self.relative


class Comparison:
    """A comparison of two runs or gateways. `comparison["p50"]` is a row. With several load points, or several gateways
    of two runs, choose with `at` and `of` first."""

    def __init__(self, document: Mapping[str, Any], *, accept_void: bool = False) -> None:
        if document.get("schema") != 1 or "rows" not in document:
            raise HoptaxError("this is not a comparison of version 1; use `hoptax compare … --format json`")
        self.document = document
        self.verdict: str = document["verdict"]
        self.paired: bool = document["paired"]
        self.warnings: list[str] = list(document["warnings"])
        # The comparison names void cases in words only, so they make all its rows void.
        void = ("a void case",) if document["void"] and not accept_void else ()
        self.rows = [_row(each, void) for each in document["rows"]]

    def __repr__(self) -> str:
        return f"<comparison: {self.verdict}, {len(self.rows)} rows>"

    def at(self, load: Union[Load, str, None] = None, **keys: Any) -> Comparison:
        """The comparison at some load points only, chosen as in `result[label].at(…)`."""
        wanted = wanted_load(load, keys)
        rows = [row for row in self.rows if row.load.matches(wanted)]
        return self._chosen(rows, f"no load point with {wanted}")

    def of(self, label: str) -> Comparison:
        """The comparison of one gateway of the second run only."""
        return self._chosen([row for row in self.rows if row.labels[1] == label], f"no gateway {label!r}")

    def _chosen(self, rows: list[Row], lack: str) -> Comparison:
        if not rows:
            raise UnknownName(f"the comparison has {lack}")
        chosen = Comparison({**self.document, "rows": []})
        chosen.rows = rows
        return chosen

    def __getitem__(self, metric: str) -> Row:
        found = [row for row in self.rows if row.metric == metric]
        if len(found) == 1:
            return found[0]
        if found:
            cases = "; ".join(f"{row.labels[1]}, {row.load.label}" for row in found)
            raise Ambiguous(f"{metric} was compared in {len(found)} cases; choose one with .at(…) and .of(…): {cases}")
        metrics = sorted({row.metric for row in self.rows})
        raise UnknownName(f"the comparison has no metric {metric!r}; it has {', '.join(metrics)}")


def _row(document: Mapping[str, Any], void: tuple[str, ...]) -> Row:
    load = LoadPoint.of(document["load"])
    metric, unit = document["metric"], document["unit"]

    def estimate(found: Optional[Mapping[str, Any]], unit: str, name: str, label: str) -> Optional[Estimate]:
        if found is None:
            return None
        return Estimate(
            found["estimate"], found["low"], found["high"], unit, found.get("trials", found.get("rounds", 0)),
            metric=name, gateway=label, load=load.label, void=void,
        )

    first, second = document["label_a"], document["label_b"]
    both = f"{second} against {first}"
    difference = estimate(document["difference"], unit, f"difference in {metric}", both)
    assert difference is not None
    return Row(
        load,
        (first, second),
        metric,
        estimate(document["a"], unit, metric, first),
        estimate(document["b"], unit, metric, second),
        difference,
        estimate(document["change"], RATIO, f"change of {metric}", both),
        document["verdict"],
        document["headline"],
    )


def compare(
    a: Union[Result, str, Path],
    b: Union[Result, str, Path, None] = None,
    *,
    labels: Optional[tuple[str, str]] = None,
    force: bool = False,
    binary: Union[str, Path, None] = None,
) -> Comparison:
    """Compares two runs (results or run directories), or with `labels` alone two gateways of the run `a`.

    `force` compares runs that measured different things.
    """
    from .commands import Program

    directories, program, accept_void = [], None, False
    for run in (a, b):
        if run is None:
            continue
        if isinstance(run, Result):
            if run.directory is None:
                raise HoptaxError(f"cannot compare {run!r}: it has no run directory; use hoptax.report(DIRECTORY)")
            program, accept_void = program or run._program, accept_void or run.accept_void
            directories.append(str(run.directory))
        else:
            directories.append(str(run))
    program = Program(binary) if binary is not None or program is None else program
    options = ["--labels", ",".join(labels)] if labels else []
    options += ["--force"] if force else []
    document = program.json("compare", *directories, *options, "--format", "json", "--accept-void")
    return Comparison(document, accept_void=accept_void)
