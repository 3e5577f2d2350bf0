#!/usr/bin/env python3
"""Builds the documentation as a site, with mdBook, below target/site/book.

    scripts/site.py                  build it; installs mdBook into hoptax's tools directory if needed
    scripts/site.py --sources DIR    only copy the sources of the site to DIR, as the tests do

docs/README.md is the table of contents. Each heading is a part, and each item of a list is a page. Files that pages
link to are copied too, so that links work on a code host and on the site. The script exits with 1 if a link is broken.
"""

import argparse
import html.parser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
INDEX = Path("docs/README.md")
FRONT = Path("README.md")
MDBOOK = "0.5.4"
BOOK = """[book]
title = "hoptax"
description = "What does this hop cost? Measures API gateways, reverse proxies and sidecars against direct."
language = "en"
src = "."

[build]
build-dir = "../book"
# Without preprocessors, README.md keeps its name as a page, and mdBook does not expand hoptax's templates {{…}}.
use-default-preprocessors = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
additional-css = ["docs/site.css"]

[output.html.fold]
enable = true
level = 0

[output.html.print]
enable = false

[output.html.search]
limit-results = 20
"""

LINK = re.compile(r"\]\(([^)\s]+)\)")
ROW = re.compile(r"^(?:\||-) \[([^\]]+)\]\(([^)#]+)\)(?: \||:|$)")
# The pages in the rows of this index become subpages of the index.
NESTED = Path("docs/gateways/README.md")


def without_code(text):
    """The text without fenced blocks and code spans, because they may contain text that looks like a link."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)


def rows(page):
    """Headings and pages of an index, as (title, None) or (title, path from the root)."""
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("## "):
            yield line[3:], None
        elif row := ROW.match(line):
            yield row[1].strip("`"), resolve(page, row[2])


def resolve(page, target):
    """Target of a relative link of a page, as a path from the root."""
    return Path(os.path.normpath(page.parent / unquote(target)))


def links(page):
    """The files of the repository that a page links to."""
    for target in LINK.findall(without_code((ROOT / page).read_text())):
        target = target.split("#")[0]
        if target and "://" not in target:
            there = resolve(page, target)
            if not (ROOT / there).exists():
                raise SystemExit(f"{page}: there is no {target}")
            yield there


def summary():
    """mdBook's table of contents, and every file of the site."""
    lines = ["# Summary", "", f"[hoptax]({FRONT})"]
    pages = [FRONT]

    def add(title, page, depth=0):
        if page not in pages:
            pages.append(page)
            lines.append(f"{'  ' * depth}- [{title}]({page})")

    for title, page in rows(INDEX):
        if page is None:
            lines += ["", f"# {title}", ""]
            continue
        add(title, page)
        if page == NESTED:
            for name, below in rows(NESTED):
                if below:
                    add(name, below, depth=1)
    files = []
    lines += ["", "# More", "", f"- [All pages]({INDEX})"]
    pages.append(INDEX)
    for page in pages:  # The list grows during the loop: pages that only other pages link to come last.
        for target in links(page):
            if target.suffix == ".md":
                add(heading(target), target)
            elif target not in files:
                files.append(target)
    return "\n".join(lines) + "\n", pages + files


def heading(page):
    """The title of a page that is in no index."""
    first = next(line for line in (ROOT / page).read_text().splitlines() if line.startswith("# "))
    return first[2:].replace("`", "")


def gather(sources):
    """Copies the site's sources to the same paths as in the repository."""
    contents, files = summary()
    for file in [*files, Path("docs/site.css"), *images()]:
        (sources / file).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / file).is_file():
            shutil.copyfile(ROOT / file, sources / file)
    (sources / "SUMMARY.md").write_text(contents)
    (sources / "book.toml").write_text(BOOK)


def images():
    """The pictures of docs/images. Pages can include pictures with HTML, which `links` ignores."""
    folder = ROOT / "docs/images"
    return [path.relative_to(ROOT) for path in sorted(folder.iterdir()) if path.is_file()] if folder.is_dir() else []


def mdbook():
    """Path of mdBook. If mdBook is not found, installs it, which takes some minutes."""
    home = Path(os.environ.get("HOPTAX_HOME") or
                Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "hoptax")
    tools = home / "tools"
    found = shutil.which("mdbook", path=f"{tools / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if found and subprocess.run([found, "--version"], capture_output=True, text=True).stdout.startswith("mdbook v0.5."):
        return found
    print(f"site: installing mdBook {MDBOOK} into {tools}", file=sys.stderr)
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features",
                    "--features", "search", "--root", str(tools)], check=True, cwd=home)
    return str(tools / "bin/mdbook")


class Page(html.parser.HTMLParser):
    """Link targets of a page of the site, and the names on the page that links can refer to."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.names = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.add(attributes.get("id") or "")
        target = attributes.get("src" if tag in ("img", "script") else "href")
        if target and "://" not in target and not target.startswith(("data:", "mailto:")):
            self.targets.append(target)


def broken(book):
    """Broken links of the site, as `page: target`."""
    paths = [path for path in sorted(book.rglob("*.html")) if path.name not in ("404.html", "toc.html")]
    pages = {path: Page(path.read_text()) for path in paths}
    for path, page in pages.items():
        for target in dict.fromkeys(page.targets):
            file, _, name = unquote(target).partition("#")
            there = Path(os.path.normpath(path.parent / file)) if file else path
            if not there.exists() or (there in pages and name not in pages[there].names):
                yield f"{path.relative_to(book)}: {target}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=Path, help="only copy the sources to this directory")
    asked = parser.parse_args()
    if asked.sources:
        gather(asked.sources)
        return 0
    site = ROOT / "target/site"
    shutil.rmtree(site, ignore_errors=True)
    gather(site / "sources")
    subprocess.run([mdbook(), "build", str(site / "sources")], check=True)
    wrong = list(broken(site / "book"))
    for link in wrong:
        print(f"site: broken link: {link}", file=sys.stderr)
    print(f"site: {site / 'book/index.html'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
