"""The reports of kept runs."""

import copy
import gzip
import json
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RUNS = ROOT / "records/runs"
NAMES = sorted(path.parent.name for path in RUNS.glob("*/report.json.gz"))


@lru_cache
def _read(name):
    with gzip.open(RUNS / name / "report.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def report(name):
    """The JSON report of a kept run. Each call returns a copy."""
    return copy.deepcopy(_read(name))
