"""A lab: measures gateways with common settings, and measures each plan once."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from . import commands
from . import plan as plans
from .commands import PathLike, Plan, Program
from .errors import HoptaxError, NotInstalled
from .plan import Gateway, Load, Upstream
from .result import Result

_HOPS = ("hop-l4", "hop-l7", "hop-h2", "external")

# A gateway with one of these keys does not use the installed program.
_ANOTHER_PROGRAM = frozenset({"driver", "binary", "git", "version"})


class Lab:
    """Measures plans with the same program, run directory and settings. `packs` is a directory with further packs.

    Within a lab, equal plans are measured once, so tests with the same plan share a result.
    """

    def __init__(
        self,
        *,
        scratch: Path,
        out: PathLike = "results",
        set: Optional[Mapping[str, object]] = None,
        binary: Optional[PathLike] = None,
        packs: Optional[PathLike] = None,
    ) -> None:
        self.program = Program(binary)
        self.out = Path(out)
        self.set = dict(set or {})
        """Overrides of every plan."""
        self.name = "lab"
        """Name of the next plan without a name."""
        self.results: list[Result] = []
        """What was measured, in order."""
        self._packs = Path(scratch) / "packs"
        self._own = self._link(Path(packs).absolute()) if packs is not None else frozenset()
        self._written = Path(scratch) / "written"
        self._measured: dict[Any, Result] = {}
        self._known: dict[str, Mapping[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<lab with {self.program.path}, results in {self.out}>"

    def gateway(self, name: str, **keys: Any) -> Gateway:
        """A gateway of a plan. Raises `NotInstalled` if its program is missing, unless `keys` name another program."""
        if _ANOTHER_PROGRAM.isdisjoint(keys) and not self.installed(name):
            ways = "; ".join(f"{tool}: {how}" for tool, how in self.pack(name)["install"].items())
            raise NotInstalled(f"{name} is not installed{f' ({ways})' if ways else ''}", name)
        return Gateway.of(name, **keys)

    def installed(self, name: str) -> bool:
        """Whether the program of a gateway is installed."""
        return name in _HOPS or bool(self.pack(name)["installed"])

    def pack(self, name: str) -> Mapping[str, Any]:
        """What `hoptax gateways NAME --json` says: version, features, …"""
        if name not in self._known:
            found = self.program.json("gateways", name, "--json", *self._with_packs())
            self._known[name] = found[0] if isinstance(found, list) else found
        return self._known[name]

    def _link(self, packs: Path) -> frozenset[str]:
        """Links the user's packs into the directory of packs, beside those of `build`. Returns their names."""
        found = [each for each in packs.iterdir() if (each / "gateway.yaml").is_file()] if packs.is_dir() else []
        if not found:
            raise HoptaxError(f"{packs} is not a directory of packs: it needs a folder with a gateway.yaml for each pack")
        self._packs.mkdir(parents=True, exist_ok=True)
        for each in found:
            (self._packs / each.name).symlink_to(each, target_is_directory=True)
        return frozenset(each.name for each in found)

    def _with_packs(self) -> list[str]:
        return ["--packs", str(self._packs)] if self._own else []

    def supports(self, name: str, *features: str) -> bool:
        """Whether a gateway has these features."""
        return all(feature in self.pack(name)["features"] for feature in features)

    def build(self, name: str, label: str, binary: PathLike, **keys: Any) -> Gateway:
        """Another build or version of a gateway: its pack with another program. One run can measure several of them."""
        program = shutil.which(str(binary))
        if program is None:
            raise NotInstalled(f"{label}: {binary} is not a program", label)
        if label == name or label != plans.name_of(label):
            raise ValueError(f"{label!r} cannot be a label: use letters, digits, `.`, `_`, `-`, not the pack's name")
        if label in self._own:
            raise ValueError(f"{label!r} cannot be a label: it is a pack")
        pack = self._packs / label
        for stale in (pack, self._written):
            shutil.rmtree(stale, ignore_errors=True)
        self.program.output("gateways", name, "--write", str(self._written), *self._with_packs())
        self._packs.mkdir(exist_ok=True)
        shutil.move(str(self._written / name), str(pack))
        manifest = pack / "gateway.yaml"
        text = manifest.read_text(encoding="utf-8")
        for key, value in (("name", pack.name), ("binary", str(Path(program).absolute()))):
            # JSON quotes a text as YAML does.
            line = json.dumps(value, ensure_ascii=False)
            text, count = re.subn(rf"(?m)^{key}:.*$", lambda _, key=key, line=line: f"{key}: {line}", text)
            if count != 1:
                raise HoptaxError(f"cannot change `{key}` in the pack {name}: it has {count} lines with this key")
        manifest.write_text(text, encoding="utf-8")
        return Gateway.of(pack.name, **keys)

    def run(self, plan: Plan, *, set: Optional[Mapping[str, object]] = None, **options: Any) -> Result:
        """Measures a plan, with the options of `hoptax.run`. Equal calls are measured once."""
        overrides = {**(set or {}), **self.set}
        if self._own:
            options.setdefault("packs", self._packs)
        text = plans.text(plan) if isinstance(plan, Mapping) else str(Path(plan).absolute())
        key = (text, repr(overrides), repr(sorted(options.items())))
        if key not in self._measured:
            result = commands.run(plan, set=overrides, out=self.out, binary=self.program.path, **options)
            self.results.append(result)
            self._measured[key] = result
        return self._measured[key]

    def plan(
        self,
        *gateways: Union[Gateway, str],
        load: Union[Load, Iterable[Load], None] = None,
        upstream: Optional[Upstream] = None,
        **keys: Any,
    ) -> dict[str, Any]:
        """The plan that `measure` would run: gateways, load (default: 1,000/s over 32 connections) and further keys."""
        loads = [plans.open_loop("1000/s", 32)] if load is None else [load] if isinstance(load, Load) else list(load)
        named = {"name": self.name, "gateways": list(gateways), "load": loads}
        if upstream is not None and upstream.keys:
            named["upstream"] = upstream
        return plans.plain({**named, **keys})

    def measure(
        self,
        *gateways: Union[Gateway, str],
        load: Union[Load, Iterable[Load], None] = None,
        upstream: Optional[Upstream] = None,
        accept_void: bool = False,
        **keys: Any,
    ) -> Result:
        """Measures gateways in one run, in interleaved rounds: `lab.measure(nginx, haproxy, time="1m")`.

        Further keys are those of a plan: `target`, `time`, `trials`, `warmup`, `budget`, …
        """
        plan = self.plan(*gateways, load=load, upstream=upstream, **keys)
        # The name depends on the test that is first. Tests with otherwise equal plans share a result.
        key = plans.text({**plan, "name": ""}) + repr((sorted(self.set.items()), accept_void))
        if key not in self._measured:
            packs = self._packs if self._packs.is_dir() else None
            self._measured[key] = self.run(plan, packs=packs, accept_void=accept_void)
        return self._measured[key]
