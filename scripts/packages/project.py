"""Facts about the project that all packages state: from Cargo.toml, the date of the last commit, and the files to add."""

import dataclasses
import hashlib
import os
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Everything that the content of a package depends on.
INPUTS = ("Cargo.toml", "Cargo.lock", ".cargo", "crates", "gateways", "python/hoptax", "python/pyproject.toml", "scripts/packages",
          "scripts/chart-library/package.json", "README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT")
DOCUMENTS = ("README.md", "CHANGELOG.md", "LICENSE", "LICENSE-APACHE", "LICENSE-MIT")
SHELLS = ("bash", "zsh", "fish")
# The packages name a group, because the project has no single maintainer.
MAINTAINER = "The hoptax authors <hoptax@users.noreply.github.com>"
# ZIP files cannot contain earlier dates.
EARLIEST = 315_532_800


@dataclasses.dataclass(frozen=True)
class Target:
    """A target of the compiler, with the names that others use for its processor."""

    triple: str
    machine: str  # of `uname -m` and of Python's wheels
    debian: str  # of Debian and of container images
    elf: int  # e_machine of its ELF files


TARGETS = {target.triple: target for target in (
    Target("x86_64-unknown-linux-musl", "x86_64", "amd64", 62),
    Target("aarch64-unknown-linux-musl", "aarch64", "arm64", 183),
)}


def package():
    """The table `workspace.package` of Cargo.toml."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]


def python():
    """The table `project` of python/pyproject.toml."""
    return tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]


def lock():
    """The packages of Cargo.lock, by name and version."""
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return {(one["name"], one["version"]): one for one in packages}


def date():
    """Seconds since 1970 that all files get: the date of the last commit, so that a build can be repeated."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return max(EARLIEST, int(os.environ["SOURCE_DATE_EPOCH"]))
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    return max(EARLIEST, int(shown.stdout)) if shown.returncode == 0 else EARLIEST


def home():
    """Directory of the programs that the project's scripts install."""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
    return Path(os.environ.get("HOPTAX_HOME") or Path(data) / "hoptax")


def digest(*more):
    """Digest of all inputs, and of the texts `more`."""
    found = hashlib.sha256()
    for name in INPUTS:
        path = ROOT / name
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                content = file.read_bytes()
                found.update(f"{file.relative_to(ROOT)}\0{len(content)}\0".encode() + content)
    for text in more:
        found.update(text.encode() + b"\0")
    return found.hexdigest()


def absolute_links(page, address, version):
    """A page of the root, with links to files of the repository as addresses, because the page is shown elsewhere."""
    page = re.sub(r"\]\((?![a-z]+:|#)", f"]({address}/blob/v{version}/", page)
    return re.sub(r'\b(src|srcset)="(?![a-z]+:)', rf'\1="{address}/raw/v{version}/', page)


def release_notes(version, changelog):
    """The section about a version of a changelog, whose headings are `## 1.2.3` and perhaps a date."""
    sections = dict(re.findall(r"^## \[?([^\]\s]+)\]?[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S))
    if version not in sections:
        raise SystemExit(f"CHANGELOG.md has no section `## {version}`: rename `## Unreleased` before the release")
    return sections[version].strip() + "\n"
