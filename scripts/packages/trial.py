#!/usr/bin/env python3
"""Packs a binary that is already built, installs the packages and measures a hop with each for a second. `make test` tries the
scripts and the Python package in this way; a release checks packages with static binaries.

    scripts/packages/trial.py target/debug/hoptax

Writes skips to the file that HOPTAX_TEST_NOTES names, as scripts/run-tests.py expects.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# The checks of `uvx` and `docker` need a network, and `starts` needs an optimised binary.
CHECKS = ("archive", "bill", "pip", "deb", "container")


def note(test, reason):
    """Writes that a test was skipped."""
    print(f"skip {test}: {reason}")
    if path := os.environ.get("HOPTAX_TEST_NOTES"):
        with open(path, "a", encoding="utf-8") as notes:
            notes.write(f"skip packages::{test} {' '.join(reason.split())[:200]}\n")


def main():
    if sys.version_info < (3, 11):
        note("all", "building packages needs Python 3.11")
        return 0
    import check
    import project

    here = [target for target in project.TARGETS.values() if target.machine == platform.machine()]
    if not here:
        note("all", f"there are no packages for {platform.machine()}")
        return 0
    with tempfile.TemporaryDirectory(prefix="hoptax-trial-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        binary, dist = scratch / "hoptax", scratch / "dist"
        shutil.copy(sys.argv[1], binary)
        if not shutil.which("strip"):
            note("all", "strip is not installed")
            return 0
        subprocess.run(["strip", binary], check=True)
        build = [sys.executable, project.ROOT / "scripts/packages/build.py", "--fast", "--out", dist]
        subprocess.run([*build, "--binary", f"{here[0].triple}={binary}"], check=True)
        outcomes, tries = check.Outcomes(), check.Tries(dist, 1, scratch, is_trial=True)
        check.check_packages(outcomes, tries, CHECKS)
    for name, outcome, *_, reason in outcomes.rows:
        if outcome == "skipped":
            note(name.split()[-1], reason)
    return outcomes.status()


if __name__ == "__main__":
    sys.exit(main())
