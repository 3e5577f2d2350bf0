#!/usr/bin/env python3
"""Checks the licenses of the chart library that reports carry.

    scripts/chart-library/licenses.py             check; exit with 1 if something is wrong
    scripts/chart-library/licenses.py --notice    print the comment that the built library begins with

Reports are passed on without this repository. So the library itself begins with the notices that its licenses require. The
check compares this comment with the license files, and versions and licenses with package-lock.json.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENDOR = HERE.parent.parent / "crates/hoptax-report/assets/vendor"

# The licenses that we have read, of packages that are part of the built library. 0BSD requires no notice.
ALLOWED = {"Apache-2.0", "BSD-3-Clause", "0BSD"}
# The packages of the built library, and the files of their notices. A package without files needs none.
NOTICES = {"echarts": ["echarts.NOTICE", "d3.LICENSE"], "zrender": ["zrender.LICENSE"], "tslib": []}
APACHE = "Apache License 2.0: https://www.apache.org/licenses/LICENSE-2.0"


def packages(lock):
    """The packages of package-lock.json that are part of the built library: name to entry."""
    found = {}
    for path, entry in lock["packages"].items():
        if path and not entry.get("dev"):
            found[path.rpartition("node_modules/")[2]] = entry
    return found


def notice(found):
    """The comment that the built library begins with."""
    files = [file for name in sorted(found) for file in NOTICES.get(name, [])]
    texts = [(VENDOR / file).read_text().strip() for file in files]
    first = f"Apache ECharts {found['echarts']['version']}, in parts. {APACHE}"
    return "/*! " + "\n\n".join([first, *texts]) + "\n*/"


def problems(manifest, lock, library):
    """What is wrong with the files, one sentence each."""
    found = packages(lock)
    wrong = []
    for name, version in manifest["dependencies"].items():
        if found.get(name, {}).get("version") != version:
            wrong.append(f"package-lock.json does not have {name} {version}, as package.json does")
    for name, entry in sorted(found.items()):
        license_ = entry.get("license", "no license")
        if license_ not in ALLOWED:
            wrong.append(f"{name} has {license_}. Read it, then add it to ALLOWED")
        if name not in NOTICES:
            wrong.append(f"{name} is new. Add the files of its notices to NOTICES, and copy them in chart-library.sh")
        if not entry.get("integrity"):
            wrong.append(f"package-lock.json has no checksum of {name}")
    if not wrong and not library.startswith(notice(found)):
        wrong.append("the library does not begin with the notices of its licenses. Run scripts/chart-library.sh")
    return wrong


def main():
    manifest, lock = (json.loads((HERE / name).read_text()) for name in ("package.json", "package-lock.json"))
    if sys.argv[1:] == ["--notice"]:
        print(notice(packages(lock)))
        return 0
    wrong = problems(manifest, lock, (VENDOR / "echarts.min.js").read_text())
    for what in wrong:
        print(f"licenses: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
