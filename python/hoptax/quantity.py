"""Quantities with units, written as in plans: `100us`, `5%`, `20MiB`, `1000/s`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Union

TIME, RATE, SIZE, RATIO, SHARE, PER_REQUEST = "us", "requests/s", "bytes", "ratio", "share", "per request"

# Kind and example of each unit, for messages.
_KINDS = {
    TIME: ("a time", "100us"),
    RATE: ("a rate", "1000/s"),
    SIZE: ("a size", "20MiB"),
    RATIO: ("a ratio", "0.9 or 90%"),
    SHARE: ("a share", "0.001 or 0.1%"),
    PER_REQUEST: ("a number per request", "0.1"),
}
# These have no unit, so plain numbers and percentages are allowed.
_PLAIN = (RATIO, SHARE, PER_REQUEST)

_UNITS = {
    "ns": (TIME, 1e-3), "us": (TIME, 1.0), "ms": (TIME, 1e3), "s": (TIME, 1e6), "m": (TIME, 6e7), "h": (TIME, 3.6e9),
    "/s": (RATE, 1.0), "/m": (RATE, 1 / 60), "/h": (RATE, 1 / 3600),
    "B": (SIZE, 1.0), "kB": (SIZE, 1e3), "MB": (SIZE, 1e6), "GB": (SIZE, 1e9),
    "KiB": (SIZE, 1024.0), "MiB": (SIZE, 1024.0**2), "GiB": (SIZE, 1024.0**3),
    "%": (RATIO, 0.01), "": (RATIO, 1.0),
}
_PATTERN = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([A-Za-zµμ/%]*)")


@dataclass(frozen=True)
class Quantity:
    """A value in one of the units `us`, `requests/s`, `bytes` and `ratio`."""

    value: float
    unit: str

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Reads a quantity such as `100us`. A percentage is a ratio: `5%` is 0.05."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"cannot read the quantity {text!r}; write it like 100us, 5%, 20MiB or 1000/s")
        name = match[2].replace("µ", "u").replace("μ", "u")
        if name not in _UNITS:
            raise ValueError(f"unknown unit {match[2]!r} in {text!r}; the units are {', '.join(filter(None, _UNITS))}")
        unit, factor = _UNITS[name]
        return cls(float(match[1]) * factor, unit)

    def __str__(self) -> str:
        return show(self.value, self.unit)


Bound = Union[str, float, Quantity]


def value_in(bound: Bound, unit: str, metric: str = "the figure") -> float:
    """Value of a bound in a unit. Fails if the bound has no unit or is another kind of quantity."""
    kind, example = _KINDS[unit]
    if isinstance(bound, bool) or not isinstance(bound, (str, int, float, Quantity)):
        raise TypeError(f"cannot compare {metric} with {bound!r}; it is {kind}: write for example {example!r}")
    quantity = Quantity.parse(bound) if isinstance(bound, str) else bound
    if not isinstance(quantity, Quantity):
        quantity = Quantity(float(quantity), RATIO)
    if math.isnan(quantity.value):
        raise ValueError(f"cannot compare {metric} with {bound!r}: it is not a number")
    if quantity.unit == unit or (quantity.unit in _PLAIN and unit in _PLAIN):
        return quantity.value
    if quantity.unit == RATIO:
        reason = f"{bound!r} has no unit of it"
    else:
        reason = f"{bound!r} is {_KINDS[quantity.unit][0]}"
    raise ValueError(f"{metric} is {kind}, and {reason}; write for example {example!r}")


def scale(value: float, unit: str) -> tuple[float, str]:
    """Divisor and suffix that make a value readable."""
    size = abs(value) if math.isfinite(value) else 0.0
    if unit == TIME:
        return (1.0, " µs") if size < 1e3 else (1e3, " ms") if size < 1e6 else (1e6, " s")
    if unit == SIZE:
        for factor, suffix in ((1024.0**3, " GiB"), (1024.0**2, " MiB"), (1024.0, " KiB")):
            if size >= factor:
                return factor, suffix
        return 1.0, " B"
    if unit == RATE:
        return 1.0, "/s"
    return (1.0, "") if unit == PER_REQUEST else (0.01, " %")


def digits(value: float) -> str:
    """A number with three significant digits: `72`, `1.25`, `12,345`."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text.replace("-", "−")


def show(value: float, unit: str) -> str:
    """A value with its unit: `72 µs`, `88.3 %`, `12,345/s`."""
    divisor, suffix = scale(value, unit)
    return digits(value / divisor) + suffix
