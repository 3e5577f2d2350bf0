"""The JSON Schema of the JSON report, checked with the reports of all kept runs."""

import copy
import re

import pytest
from json_schema import DOCUMENT, FILE, faults
from kept import NAMES, ROOT

from hoptax.metrics import MESSAGES, UNITS


@pytest.mark.parametrize("name", NAMES)
def test_reports_of_kept_runs_match_the_schema(name, report):
    assert list(faults(report(name), DOCUMENT)) == []


def test_every_member_is_described():
    def objects(schema, path):
        if isinstance(schema, dict):
            if "properties" in schema:
                yield schema, path
            for name, each in schema.items():
                yield from objects(each, f"{path}.{name}")

    members = [
        (f"{path}.{name}", member) for each, path in objects(DOCUMENT, "$") for name, member in each["properties"].items()
    ]
    assert len(members) > 250
    assert [path for path, member in members if not member.get("description")] == []
    assert [path for each, path in objects(DOCUMENT, "$") if not set(each["required"]) <= set(each["properties"])] == []


def test_the_page_names_the_members_of_the_report():
    page = (ROOT / "docs/reference/json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+)`", page))
    assert set(DOCUMENT["properties"]) <= named
    assert f"({FILE.name})" in page


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda each: each.update(schema=2), "$.schema: 2 is not allowed"),
        (lambda each: each.pop("cases"), "$: no cases"),
        (lambda each: each.update(new=1), "$.new is not described"),
        (lambda each: each["cases"][0].update(trials=-1), "$.cases[0].trials: -1 is too small"),
        (lambda each: each["cases"][0].update(trials=1.5), "$.cases[0].trials: 1.5 is not ['integer']"),
        (lambda each: each["cases"][0]["throughput"].update(estimate="1"), "$.cases[0].throughput.estimate: '1' is not"),
        (lambda each: each["findings"][0].update(severity="fatal"), "$.findings[0].severity: 'fatal' is not allowed"),
        (lambda each: each["cases"][0]["counts"].update(causes={"gremlins": 1}), "(name): 'gremlins' is not allowed"),
        (lambda each: each.update(interrupted=0), "$.interrupted: 0 is not ['boolean']"),
    ],
)
def test_the_check_finds_faults(change, fault, report):
    document = copy.deepcopy(report("loops"))
    change(document)
    found = list(faults(document, DOCUMENT))
    assert found and any(fault in each for each in found), found


def test_metrics_of_the_package_are_members_of_the_report():
    case = {name for each in ("Tax", "Latency", "Case") for name in DOCUMENT["$defs"][each]["properties"]}
    elsewhere = {"error_share", "memory_rss_bytes", "memory_pss_bytes", "listening", "ready", "first_request", "settled"}
    elsewhere |= {"first_byte_p50", "goodput_share", "good_rate"}
    assert set(UNITS) - elsewhere - set(MESSAGES) <= case
    times = DOCUMENT["$defs"]["MessageTimes"]["properties"]
    assert {member for member, _ in MESSAGES.values()} == set(times)
    metrics = DOCUMENT["$defs"]["Budget"]["properties"]["metric"]["enum"]
    assert set(UNITS) - {"max", "mean"} == set(metrics)
