"""A Debian package, built by dpkg-deb: the static binary, manual pages and completions. It depends on nothing."""

import email.utils
import os
import subprocess
import tempfile
from pathlib import Path

import project
from archive import SMALLEST, Entry, gzipped

COMPLETIONS = {"bash": "usr/share/bash-completion/completions/hoptax", "zsh": "usr/share/zsh/vendor-completions/_hoptax",
               "fish": "usr/share/fish/vendor_completions.d/hoptax.fish"}
DESCRIPTION = """hoptax sends the same traffic to a service directly and through each API gateway,
reverse proxy or sidecar, and reports the difference: latency at each
percentile, throughput, CPU, memory and extra upstream requests. Every figure
has a 95 % interval, and every run is checked for known benchmarking mistakes."""


def debian_version(version):
    """A version of Cargo as a version of Debian: a pre-release sorts before its release."""
    return version.replace("-", "~", 1) + "-1"


def file_name(version, target):
    return f"hoptax_{debian_version(version)}_{target.debian}.deb"


def control(package, target, size):
    """The control file. `size` is the size of the installed files in bytes."""
    extended = "\n".join(f" {line}" for line in DESCRIPTION.splitlines())
    return (f"Package: hoptax\nVersion: {debian_version(package['version'])}\nArchitecture: {target.debian}\n"
            f"Maintainer: {project.MAINTAINER}\nInstalled-Size: {-(-size // 1024)}\nRecommends: ca-certificates\n"
            f"Suggests: nginx, haproxy\nSection: net\nPriority: optional\nHomepage: {package['repository']}\n"
            f"Description: measure what an API gateway hop costs\n{extended}\n")


def copyright_file(package):
    indented = lambda file: "".join(f" {line or '.'}\n" for line in (project.ROOT / file).read_text().splitlines())
    return ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: hoptax\n"
            f"Source: {package['repository']}\n\nFiles: *\nCopyright: 2026 The hoptax authors\n"
            "Comment: The binary contains other projects. Their licenses are in THIRD-PARTY-LICENSES.txt.gz.\n"
            "License: Apache-2.0 or Expat\n The text of Apache-2.0 is in /usr/share/common-licenses/Apache-2.0.\n .\n"
            + indented("LICENSE-MIT"))


def changelog(package, date):
    return (f"hoptax ({debian_version(package['version'])}) unstable; urgency=medium\n\n  * Release "
            f"{package['version']}. See changelog.gz.\n\n -- {project.MAINTAINER}  "
            f"{email.utils.formatdate(date)}\n")


def files(package, binary, pages, completions, third_party, date):
    """The installed files."""
    documents = "usr/share/doc/hoptax"
    return [
        Entry("usr/bin/hoptax", binary, 0o755),
        *(Entry(f"usr/share/man/man1/{page}.gz", gzipped(text)) for page, text in pages.items()),
        *(Entry(COMPLETIONS[shell], script) for shell, script in completions.items()),
        Entry(f"{documents}/changelog.gz", gzipped((project.ROOT / "CHANGELOG.md").read_bytes())),
        Entry(f"{documents}/changelog.Debian.gz", gzipped(changelog(package, date).encode())),
        Entry(f"{documents}/copyright", copyright_file(package).encode()),
        Entry(f"{documents}/THIRD-PARTY-LICENSES.txt.gz", gzipped(third_party)),
    ]


def build(package, target, entries, date, out, level=SMALLEST):
    """Writes the package to the file `out`."""
    with tempfile.TemporaryDirectory(prefix="hoptax-deb-") as scratch:
        root = Path(scratch) / "root"
        for entry in entries:
            path = root / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(entry.content)
            path.chmod(entry.mode)
        described = root / "DEBIAN/control"
        described.parent.mkdir()
        described.write_text(control(package, target, sum(len(entry.content) for entry in entries)))
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
            os.utime(path, (date, date))
        described.chmod(0o644)
        compression = ["-Zxz"] if level == SMALLEST else ["-Zgzip", f"-z{level}"]
        subprocess.run(["dpkg-deb", "--root-owner-group", *compression, "--build", root, out], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(date)})
