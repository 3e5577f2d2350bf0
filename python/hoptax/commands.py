"""Runs the hoptax program. Everything in this package that starts a process is in this file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional, Union

from . import plan as plans
from .errors import BinaryNotFound, CommandFailed, HoptaxError, PlanError
from .result import Result

PathLike = Union[str, "os.PathLike[str]"]
Plan = Union[PathLike, Mapping[str, Any]]

# Exit statuses of `hoptax run`, `gate` and `compare` that come with results: success, budget exceeded, void, budget
# inconclusive.
_MEASURED = (0, 3, 4, 5)
# After the first signal, hoptax stops the gateways and writes the report of what was measured.
_TIME_TO_STOP_S = 60
# Number of last lines that an error quotes from a failed command.
_QUOTED_LINES = 40


def find_binary(binary: Optional[PathLike] = None) -> str:
    """Path of the hoptax program: the argument, else the environment variable HOPTAX, else `hoptax` where pip puts the
    scripts of this environment, else `hoptax` on PATH."""
    sources = {"the argument `binary`": binary, "the environment variable HOPTAX": os.environ.get("HOPTAX")}
    for source, named in sources.items():
        if named:
            found = shutil.which(os.fspath(named))
            if found is None:
                raise BinaryNotFound(f"{source} names {os.fspath(named)!r}, which is not a program")
            return os.path.abspath(found)
    # The directory is not on PATH if an environment is used without being activated: `venv/bin/pytest`.
    found = shutil.which("hoptax", path=sysconfig.get_path("scripts")) or shutil.which("hoptax")
    if found is None:
        raise BinaryNotFound(
            "there is no `hoptax` on PATH; `pip install hoptax`, or set the environment variable HOPTAX to its file"
        )
    return os.path.abspath(found)


class Program:
    """The hoptax program."""

    def __init__(self, binary: Optional[PathLike] = None) -> None:
        self.path = find_binary(binary)

    def __repr__(self) -> str:
        return f"<program {self.path}>"

    def output(self, *arguments: str, allowed: Iterable[int] = (0,)) -> str:
        """Runs a command that does not measure, and returns its standard output."""
        ran = subprocess.run(
            [self.path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False,
            encoding="utf-8", errors="replace",
        )
        if ran.returncode not in allowed:
            raise _failure(arguments, ran.returncode, ran.stderr)
        return ran.stdout

    def json(self, *arguments: str, allowed: Iterable[int] = _MEASURED) -> Any:
        """Runs a command that prints JSON."""
        printed = self.output(*arguments, allowed=allowed)
        try:
            return json.loads(printed)
        except ValueError as error:
            command = " ".join(arguments)
            raise HoptaxError(f"`hoptax {command}` did not print JSON ({error}): {printed[:200]!r}") from error

    def gate(self, directory: PathLike, budget: list[dict[str, Any]]) -> Any:
        """Checks a run against budgets."""
        with tempfile.TemporaryDirectory(prefix="hoptax-") as scratch:
            file = Path(scratch) / "budget.yaml"
            file.write_text(json.dumps(budget), encoding="utf-8")
            options = ("--budget", str(file), "--format", "json", "--accept-void")
            # Status 1 means that nothing was measured. The document then says why.
            return self.json("gate", os.fspath(directory), *options, allowed=(1, *_MEASURED))

    def measure(self, arguments: list[str], quiet: bool) -> tuple[int, str]:
        """Runs a command that measures. Copies its log to standard error unless `quiet`. Returns exit status and log.

        The program has a session of its own, so that Ctrl-C reaches it exactly once: a second signal would end it
        without a report.
        """
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                [self.path, *arguments], stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE,
                encoding="utf-8", errors="replace", start_new_session=True,
            )
            assert process.stderr is not None
            log = []
            try:
                for line in process.stderr:
                    log.append(line)
                    if not quiet:
                        sys.stderr.write(line)
                process.wait()
            except BaseException:
                _stop(process)
                raise
            finally:
                process.stderr.close()
        return process.returncode, "".join(log)


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends hoptax with the signal of Ctrl-C. If it does not end in time, or Ctrl-C is pressed again, kills it; its
    guards then stop the gateways."""
    try:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_TIME_TO_STOP_S)
    except BaseException:
        process.kill()
        process.wait()


def _failure(arguments: Iterable[str], status: int, log: str) -> CommandFailed:
    arguments = tuple(arguments)
    quoted = "\n".join(log.strip().splitlines()[-_QUOTED_LINES:]) or "it printed no error"
    if status == 2:
        return PlanError(quoted, status, log)
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"failed with exit status {status}"
    return CommandFailed(f"`hoptax {' '.join(arguments)}` {how}:\n{quoted}", status, log)


class _PlanFile:
    """A plan as a file: the given one, or a temporary one with the text of a mapping."""

    def __init__(self, plan: Plan) -> None:
        self._scratch: Optional[tempfile.TemporaryDirectory[str]] = None
        if isinstance(plan, Mapping):
            self._scratch = tempfile.TemporaryDirectory(prefix="hoptax-")
            self.path = os.path.join(self._scratch.name, "plan.yaml")
            with open(self.path, "w", encoding="utf-8") as file:
                file.write(plans.text(plan))
        else:
            self.path = os.fspath(plan)

    def __enter__(self) -> str:
        return self.path

    def __exit__(self, *_: object) -> None:
        if self._scratch is not None:
            self._scratch.cleanup()


def _plan_options(
    set: Optional[Mapping[str, object]], only: Optional[Iterable[str]], packs: Optional[PathLike]
) -> list[str]:
    options = [word for key, value in (set or {}).items() for word in ("--set", f"{key}={_word(value)}")]
    if only is not None:
        if isinstance(only, str):
            raise TypeError(f"`only` is a list of labels, such as [{only!r}]")
        options += ["--only", ",".join(only)]
    return options + (["--packs", os.fspath(packs)] if packs is not None else [])


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(plans.plain(value))


def run(
    plan: Plan,
    *,
    set: Optional[Mapping[str, object]] = None,
    only: Optional[Iterable[str]] = None,
    packs: Optional[PathLike] = None,
    out: PathLike = "results",
    skip_missing: bool = False,
    accept_void: bool = False,
    quiet: bool = False,
    binary: Optional[PathLike] = None,
) -> Result:
    """Measures a plan and returns the results.

    `plan` is a file, or a mapping with the keys of a plan (write paths in it absolutely). `set` overrides keys of the
    plan (`{"time": "20s"}`), `only` chooses gateways by label, `packs` is a directory with further packs. The run
    directory is created in `out`. With `skip_missing`, gateways that are not installed are left out.

    An exceeded or inconclusive budget and a `void` finding are results, not errors: see `Result.status`, `Result.budgets`,
    `Result.void`. Comparisons with void figures are inconclusive, unless `accept_void` is true.
    """
    program = Program(binary)
    out = Path(out)
    with _PlanFile(plan) as path:
        before = _runs_in(out)
        arguments = ["run", path, "--out", str(out), "--no-live", *_plan_options(set, only, packs)]
        arguments += ["--skip-missing"] if skip_missing else []
        status, log = program.measure(arguments, quiet)
        if status not in _MEASURED:
            raise _failure(arguments, status, log)
        for directory in sorted(_runs_in(out) - before, reverse=True):
            document = _report(program, directory)
            # Another run may have begun in this directory at the same time.
            if document["command"][1:] == arguments:
                return Result(document, directory, program=program, status=status, accept_void=accept_void)
    raise HoptaxError(f"`hoptax {' '.join(arguments)}` ended well, but there is no new run directory in {out}")


def _runs_in(out: Path) -> set[Path]:
    return {path.parent for path in out.glob("*/run.json")}


def _report(program: Program, directory: Path) -> Any:
    return program.json("report", str(directory), "--format", "json")


def report(
    directory: PathLike, *, accept_void: bool = False, binary: Optional[PathLike] = None
) -> Result:
    """The results of a run directory."""
    program = Program(binary)
    return Result(_report(program, Path(directory)), directory, program=program, accept_void=accept_void)


def check(
    plan: Plan,
    *,
    set: Optional[Mapping[str, object]] = None,
    only: Optional[Iterable[str]] = None,
    packs: Optional[PathLike] = None,
    binary: Optional[PathLike] = None,
) -> Any:
    """Checks a plan without running it. Returns the JSON of `hoptax check`: contenders, load, `expected_s`, …"""
    program = Program(binary)
    with _PlanFile(plan) as path:
        return program.json("check", path, "--json", *_plan_options(set, only, packs))
