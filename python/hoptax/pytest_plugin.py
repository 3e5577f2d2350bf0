"""pytest plugin: fixtures that measure gateways, and the outcome *inconclusive*.

The fixtures are `lab`, `nginx`, `haproxy`, `envoy`, `gateway` and `upstream`.

`assert result["nginx"].added_p50 < "100us"` passes or fails if the whole interval lies on one side of the bound.
Otherwise the test is inconclusive. `hoptax_inconclusive` says what that counts as: `skip` (default), `fail` or `pass`.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any, Optional

import pytest

from . import estimate as estimates
from . import plan as plans
from .errors import HoptaxError, NotInstalled
from .estimate import Estimate, Inconclusive, Verdict
from .lab import Lab
from .plan import Gateway, Upstream

_OUTCOMES = {"skip": "skipped", "fail": "failed", "pass": "passed"}
_STATE = pytest.StashKey["_State"]()


class _State:
    """The plugin's state: the running test, and the lab if a test needed it."""

    def __init__(self) -> None:
        self.item: Optional[pytest.Item] = None
        self.lab: Optional[Lab] = None

    def record(self, verdict: Verdict) -> None:
        """Adds a comparison and its report to the properties of the running test, once each."""
        if self.item is None:
            return
        directories = (each.result.directory for each in verdict.estimates if each.result is not None)
        reports = [("hoptax.report", str(path / "report.html")) for path in directories if path is not None]
        for each in [("hoptax.comparison", str(verdict)), *reports]:
            if each not in self.item.user_properties:
                self.item.user_properties.append(each)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hoptax", "hoptax: measure gateways")
    group.addoption(
        "--hoptax-binary", metavar="FILE", help="The hoptax program [default: $HOPTAX, pip's script, or on PATH]"
    )
    group.addoption(
        "--hoptax-results", metavar="DIR", help="Directory for run directories with HTML reports [default: results]"
    )
    group.addoption(
        "--hoptax-set", metavar="KEY=VALUE", action="append", default=[],
        help="Override a key of every plan, such as time=20s; can be repeated",
    )
    group.addoption("--hoptax-packs", metavar="DIR", help="Directory with further packs, one folder for each")
    group.addoption(
        "--hoptax-inconclusive", choices=sorted(_OUTCOMES),
        help="What a test counts as if the interval contains the bound [default: skip]",
    )
    parser.addini("hoptax_results", "Directory for run directories", default="results")
    parser.addini("hoptax_packs", "Directory with further packs", default="")
    parser.addini("hoptax_set", "Overrides of every plan, one KEY=VALUE per line", type="linelist", default=[])
    parser.addini("hoptax_inconclusive", "What an inconclusive test counts as: skip, fail or pass", default="skip")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "hoptax_inconclusive(outcome): what this test counts as if inconclusive: 'skip', 'fail' or 'pass'"
    )
    _known_outcome(config.getini("hoptax_inconclusive"), "the ini option hoptax_inconclusive")
    state = config.stash[_STATE] = _State()
    estimates.observers.append(state.record)


def pytest_unconfigure(config: pytest.Config) -> None:
    state = config.stash.get(_STATE, None)
    if state is not None and state.record in estimates.observers:
        estimates.observers.remove(state.record)


def _known_outcome(outcome: object, source: str) -> str:
    if outcome not in _OUTCOMES:
        raise pytest.UsageError(f"{source} is {outcome!r}; it can be {', '.join(sorted(_OUTCOMES))}")
    return str(outcome)


# Fixtures.


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Measures gateways: `lab.measure(nginx, time="30s")`. Equal plans are measured once in a session."""
    config = request.config
    if getattr(config, "workerinput", {}).get("workercount", 1) > 1:
        pytest.fail("hoptax cannot measure while other workers use the machine: run pytest without -n", pytrace=False)
    named = config.getoption("--hoptax-results")
    out = config.invocation_params.dir / named if named else config.rootpath / config.getini("hoptax_results")
    further = config.getoption("--hoptax-packs")
    packs = config.invocation_params.dir / further if further else config.getini("hoptax_packs") or None
    packs = config.rootpath / packs if packs else None
    overrides = {}
    for each in [*config.getini("hoptax_set"), *config.getoption("--hoptax-set")]:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise pytest.UsageError(f"--hoptax-set {each}: write KEY=VALUE, such as time=20s")
        overrides[key.strip()] = value.strip()
    try:
        binary = config.getoption("--hoptax-binary")
        scratch = tmp_path_factory.mktemp("hoptax")
        made = Lab(scratch=scratch, out=out, set=overrides, binary=binary, packs=packs)
    except HoptaxError as error:
        pytest.fail(str(error), pytrace=False)
    config.stash[_STATE].lab = made
    _name_next_plan(config)
    return made


@pytest.fixture(scope="session")
def upstream() -> Upstream:
    """The built-in upstream. `upstream(body="64KiB", delay="2ms")` is one with these settings."""
    return Upstream()


@pytest.fixture(scope="session")
def gateway(request: pytest.FixtureRequest, lab: Lab) -> Gateway:
    """A gateway by its name: `@pytest.mark.parametrize("gateway", ["nginx", "kong"], indirect=True)`."""
    if not hasattr(request, "param"):
        advice = '@pytest.mark.parametrize("gateway", ["nginx"], indirect=True)'
        raise pytest.UsageError(f"the fixture `gateway` needs names: {advice}")
    return _installed(lab, request.param)


@pytest.fixture(scope="session")
def nginx(lab: Lab) -> Gateway:
    """nginx. `nginx(workers=2, features=["key-auth"], label="nginx-auth")` is one with these settings."""
    return _installed(lab, "nginx")


@pytest.fixture(scope="session")
def haproxy(lab: Lab) -> Gateway:
    """HAProxy, like `nginx`."""
    return _installed(lab, "haproxy")


@pytest.fixture(scope="session")
def envoy(lab: Lab) -> Gateway:
    """Envoy, like `nginx`."""
    return _installed(lab, "envoy")


def _installed(lab: Lab, name: str) -> Gateway:
    try:
        return lab.gateway(name)
    except NotInstalled as error:
        pytest.skip(str(error))


# Outcomes.


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, None]:
    state = item.config.stash[_STATE]
    state.item = item
    _name_next_plan(item.config)
    yield
    state.item = None


def _name_next_plan(config: pytest.Config) -> None:
    """Names the next plan without a name after the running test."""
    state = config.stash[_STATE]
    if state.lab is not None and state.item is not None:
        state.lab.name = plans.name_of(state.item.name)


# The outermost wrapper, so that it sees the outcome after xfail has handled the exception.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    outcome = yield
    if call.excinfo is None or not isinstance(call.excinfo.value, Inconclusive):
        return
    report: Any = outcome.get_result()
    reason = str(call.excinfo.value)
    counts_as = _counts_as(item)
    if hasattr(report, "wasxfail"):
        # Noise is not the failure that the mark expects.
        del report.wasxfail
    report.hoptax_inconclusive = reason
    item.user_properties.append(("hoptax.outcome", "inconclusive"))
    if counts_as == "pass" and report.when == "call":
        report.outcome, report.longrepr = "passed", None
    elif counts_as == "fail":
        report.outcome = "failed"
        if not report.longrepr or isinstance(report.longrepr, tuple):
            report.longrepr = item.repr_failure(call.excinfo)
    else:
        # A test cannot pass without its fixtures, so an inconclusive fixture skips the test even with `pass`.
        path, line, _ = item.location
        report.outcome, report.longrepr = "skipped", (str(path), (line or 0) + 1, f"Skipped: {reason}")


def _counts_as(item: pytest.Item) -> str:
    mark = item.get_closest_marker("hoptax_inconclusive")
    if mark is not None:
        return _known_outcome(mark.args[0] if mark.args else None, f"the mark hoptax_inconclusive of {item.nodeid}")
    named = item.config.getoption("--hoptax-inconclusive") or item.config.getini("hoptax_inconclusive")
    return str(named)


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> Optional[tuple[str, str, Any]]:
    if getattr(report, "hoptax_inconclusive", None) is None:
        return None
    if report.outcome == "failed":
        # Of the category `failed`, pytest prints details and lists the tests at the end.
        category = "failed" if report.when == "call" else "error"
        return category, "I", ("INCONCLUSIVE", {"red": True})
    return "inconclusive", "I", ("INCONCLUSIVE", {"yellow": True})


def pytest_assertrepr_compare(config: pytest.Config, op: str, left: Any, right: Any) -> Optional[list[str]]:
    """Shows both sides of a failed comparison, with the reason."""
    if op not in ("<", "<=", ">", ">=") or not (isinstance(left, Estimate) or isinstance(right, Estimate)):
        return None
    verdict: Any = {"<": left.__lt__, "<=": left.__le__, ">": left.__gt__, ">=": left.__ge__}[op](right)
    if verdict is NotImplemented:
        verdict = {"<": right.__gt__, "<=": right.__ge__, ">": right.__lt__, ">=": right.__le__}[op](left)
    return [verdict.claim, verdict.reason]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = terminalreporter.stats.get("inconclusive", [])
    if reports:
        terminalreporter.section("inconclusive", yellow=True)
        for report in reports:
            terminalreporter.line(f"{report.nodeid}: {report.hoptax_inconclusive}")
    measured = config.stash[_STATE].lab.results if config.stash[_STATE].lab is not None else []
    if measured:
        terminalreporter.section("hoptax reports")
        for result in measured:
            terminalreporter.line(_shortest(result.directory / "report.html", config.invocation_params.dir))


def _shortest(path: Path, start: Path) -> str:
    try:
        return str(path.relative_to(start))
    except ValueError:
        return str(path)
