"""Parts of plans. Each is a mapping of a plan's keys (docs/reference/plan.md), and calling it changes some of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar

_Part = TypeVar("_Part", bound="_Keys")


@dataclass(frozen=True)
class _Keys:
    keys: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self: _Part, **keys: Any) -> _Part:
        """A copy with these keys. A key with the value None is removed."""
        merged = {**self.keys, **keys}
        return type(self)({key: value for key, value in merged.items() if value is not None})


@dataclass(frozen=True)
class Gateway(_Keys):
    """A gateway of a plan, such as `Gateway.of("nginx", workers=2, features=["key-auth"])`."""

    @classmethod
    def of(cls, name: str, **keys: Any) -> Gateway:
        return cls({"name": name})(**keys)

    @property
    def name(self) -> str:
        """Name of the pack, of the hop, or `external`."""
        return str(self.keys["name"])

    @property
    def label(self) -> str:
        """The name in results."""
        return str(self.keys.get("label", self.name))

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True)
class Upstream(_Keys):
    """The upstream of a plan: `upstream(body="64KiB", delay="2ms")`."""


@dataclass(frozen=True)
class Load(_Keys):
    """A load point of a plan. `result["nginx"].at(load)` finds its case."""

    def __str__(self) -> str:
        rate = f" {self.keys['rate']}" if "rate" in self.keys else ""
        return f"{self.keys.get('loop', 'load')}{rate} x{self.keys.get('connections', '?')}"


def closed_loop(connections: int, **keys: Any) -> Load:
    """Each connection sends its next request when the previous response ends."""
    return Load({"loop": "closed", "connections": connections})(**keys)


def open_loop(rate: str, connections: int, **keys: Any) -> Load:
    """Requests are sent at scheduled times: `open_loop("1000/s", 32)`."""
    return Load({"loop": "open", "rate": rate, "connections": connections})(**keys)


def plain(value: Any) -> Any:
    """A plan, or a part of it, as JSON knows it."""
    if isinstance(value, _Keys):
        return plain(value.keys)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"a plan cannot contain {value!r}; write quantities as text, such as \"10s\"")


def text(plan: Mapping[str, Any]) -> str:
    """A plan as JSON, which is also YAML. It has a line for each key, because hoptax's errors quote lines."""
    return json.dumps(plain(plan), indent=2, ensure_ascii=False) + "\n"


def name_of(words: str, fallback: Optional[str] = None) -> str:
    """A valid name of a plan from any words, such as the name of a test."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", words).strip("-._")[:64].rstrip("-._")
    return name or fallback or "python"
