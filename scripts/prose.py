#!/usr/bin/env python3
"""Checks spelling with typos, and looks for phrases that we avoid, in pages, comments, help texts and messages.
Lines of Rust that rustfmt does not break, comments and continued strings, have at most 110 characters.

    scripts/prose.py [FILE…]    checks these files, or every file of the project; exits with 1 if it finds something

Words are in typos.toml, phrases in scripts/words-to-avoid.txt. `scripts/setup.sh check` installs typos.

STYLE.md says why. A line that must quote a phrase ends with a comment that contains `prose: allow`.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "scripts/words-to-avoid.txt"
SUFFIXES = {".md", ".rs", ".py", ".sh", ".yaml", ".yml", ".html", ".js", ".css", ".j2", ".toml", ".txt", ""}
# Files that are not checked: measured results, texts from other projects, and lists that quote the phrases.
EXCLUDED = ("records/", "fuzz/corpus/", "LICENSE", "Cargo.lock", "scripts/words-to-avoid.txt", "STYLE.md")
WIDTH = 110
# A comment, except rows of tables, drawings and addresses. Also a line of a string that continues in the next line.
CAN_BREAK = re.compile(r"\s*//(?![/!]?( ?\|| {4}| ?\S+$))|.*\\$")


def rules():
    """Each rule as (compiled expression, what to write instead)."""
    for line in RULES.read_text().splitlines():
        if line and not line.startswith("#"):
            phrase, _, instead = line.partition("\t")
            # The words of a phrase can be on two lines, with a comment marker between them.
            yield re.compile(rf"\b(?:{phrase})\b".replace(" ", r"[\s/*#!]+"), re.IGNORECASE), instead


def files():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if not name.startswith(EXCLUDED) and "/vendor/" not in name and Path(name).suffix in SUFFIXES:
            yield ROOT / name


def faults(path, checks):
    """(line number, what is wrong) of each fault found in a file."""
    try:
        text = path.read_text()
    except (UnicodeDecodeError, OSError):
        return
    lines = text.splitlines()
    for expression, instead in checks:
        for match in expression.finditer(text):
            number = text.count("\n", 0, match.start())
            if "prose: allow" not in lines[number]:
                yield number + 1, f"'{' '.join(match.group().split())}': write {instead}"
    if path.suffix == ".rs":
        for number, line in enumerate(lines, 1):
            if len(line) > WIDTH and CAN_BREAK.match(line):
                yield number, f"{len(line)} characters: break the line at {WIDTH}"


def spelling(named):
    """Runs typos, which prints what it finds. Returns its exit status."""
    home = os.environ.get("HOPTAX_HOME") or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "hoptax"
    )
    typos = shutil.which("typos", path=f"{os.environ.get('PATH', '')}:{home}/tools/bin")
    if typos is None:
        print("typos is missing: run `scripts/setup.sh check`, or `pip install typos`", file=sys.stderr)
        return 1
    return subprocess.run([typos, "--format=brief", "--force-exclude", *map(str, named)], cwd=ROOT).returncode


def main():
    checks = list(rules())
    named = [Path(name).resolve() for name in sys.argv[1:]]
    misspelt = spelling(named)
    found = 0
    for path in named or files():
        for line, wrong in sorted(faults(path, checks)):
            print(f"{path.relative_to(ROOT)}:{line}: {wrong}")
            found += 1
    if found:
        print(f"{found} places to rewrite; see scripts/words-to-avoid.txt", file=sys.stderr)
    return 1 if found or misspelt else 0


if __name__ == "__main__":
    sys.exit(main())
