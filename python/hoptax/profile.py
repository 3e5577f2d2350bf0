"""Versions and profiles of a run, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .errors import UnknownName
from .estimate import Estimate
from .quantity import TIME

if TYPE_CHECKING:
    from .result import LoadPoint, Pair


@dataclass(frozen=True)
class Version:
    """A version of a gateway."""

    gateway: str
    """Label in the plan: `result[version.gateway]` has its figures."""
    name: str
    commit: Optional[str]


@dataclass(frozen=True)
class Versions:
    """The versions of one gateway at one load point, in the plan's order."""

    name: str
    load: LoadPoint
    versions: list[Version]
    changes: list[Pair]
    """Each version minus the version before it. p-values are adjusted for the number of these changes."""


@dataclass(frozen=True)
class FrameTime:
    """Time of a function, or its change: `own`, and `total` with all that it calls."""

    name: str
    module: str
    own: Estimate
    total: Estimate


@dataclass(frozen=True)
class ModuleTime:
    """Time of the functions of a program or library, or its change."""

    name: str
    own: Estimate


class Profile:
    """CPU time (`kind` is `cpu`) or waiting time (`waiting`) of a gateway per request, by function and by module."""

    def __init__(self, document: Mapping[str, Any], gateway: str, load: LoadPoint, kind: str) -> None:
        self.document = document
        self.gateway = gateway
        self.load = load
        self.kind = kind
        whole = document["us_per_request"]
        self.whole: Optional[Estimate] = whole and self._time(whole, f"{kind} time")
        """Time of all functions; `None` if no pass succeeded."""
        self.frames = [
            FrameTime(each["frame"], each["module"], *(self._time(each[key], each["frame"]) for key in ("own_us", "total_us")))
            for each in document["frames"]
        ]
        """The functions with the largest own times, or changes of them."""
        self.modules = [
            ModuleTime(each["module"], self._time(each["own_us"], each["module"])) for each in document["modules"]
        ]

    def __repr__(self) -> str:
        return f"<{self.kind} profile of {self.gateway}, {self.load}: {self.whole}>"

    def frame(self, name: str) -> FrameTime:
        """A function by its name, such as `deflate`."""
        return next((each for each in self.frames if each.name == name), None) or self._unknown("function", name)

    def module(self, name: str) -> ModuleTime:
        """A module by the start of its name, such as `libz.so`."""
        found = next((each for each in self.modules if each.name.startswith(name)), None)
        return found or self._unknown("module", name)

    def _unknown(self, kind: str, name: str) -> Any:
        raise UnknownName(f"{self!r} has no {kind} {name!r}; the report lists only the largest")

    def _time(self, found: Mapping[str, Any], name: str) -> Estimate:
        count = found["trials"] if "trials" in found else found["rounds"]
        return Estimate(
            found["estimate"], found["low"], found["high"], TIME, count, metric=name, gateway=self.gateway,
            load=self.load.label, load_index=self.load.index,
        )


class ProfileDifference(Profile):
    """Two profiles of CPU time: the second minus the first. Figures are changes."""

    def __init__(self, document: Mapping[str, Any], first: tuple[str, LoadPoint], second: tuple[str, LoadPoint]) -> None:
        super().__init__(document, f"{second[0]} − {first[0]}", second[1], "cpu")
        self.first = first
        """Label and load point."""
        self.second = second
