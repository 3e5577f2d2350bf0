#!/usr/bin/env python3
"""Checks that the commands that do not need Linux compile for macOS and Windows: report, compare, gate, history, serve,
check. Nothing is linked and nothing runs. zig compiles the C code of dependencies.

    scripts/packages/systems.py                          check all targets
    scripts/packages/systems.py aarch64-apple-darwin     check this target
"""

import os
import subprocess
import sys
from pathlib import Path

import build
import project

TARGETS = ("x86_64-apple-darwin", "aarch64-apple-darwin", "x86_64-pc-windows-gnu")


def main():
    tools = build.environment()
    folder = Path(os.environ.get("CARGO_TARGET_DIR") or project.ROOT / "target").absolute() / "systems"
    failed = []
    for triple in sys.argv[1:] or TARGETS:
        build.add_library(triple)
        build.say(f"checking for {triple}")
        command = ["cargo-zigbuild", "check", "--locked", "--package", "hoptax", "--target", triple, "--target-dir", folder]
        if subprocess.run(command, cwd=project.ROOT, env=build.compiler(tools, project.date())).returncode != 0:
            failed.append(triple)
    if failed:
        raise SystemExit(f"packages: hoptax does not compile for {', '.join(failed)}")


if __name__ == "__main__":
    main()
