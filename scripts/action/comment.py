#!/usr/bin/env python3
"""The step "Comment" of action.yml and of .github/actions/comment: writes a comment on a pull request, or replaces it.

Reads environment variables: NAME and FILE, the comment's name and text; PULL, the number of the pull request. Without PULL, it
looks for the open pull request with HEAD_OWNER, HEAD_BRANCH and HEAD_SHA. `gh` needs GH_TOKEN.

The text comes from a run that the pull request could influence. So the number never comes from the artifact, the text is
bounded, and it mentions nobody.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

# GitHub allows 65,536 characters.
MOST = 60_000


def api(method, path, *, fields=(), body=None, pages=False):
    """The answer of GitHub's interface, as JSON."""
    command = ["gh", "api", "--method", method, path]
    for field in fields:
        command += ["--raw-field", field]
    if pages:
        command += ["--paginate", "--slurp"]
    if body is not None:
        command += ["--input", "-"]
    text = None if body is None else json.dumps(body)
    ran = subprocess.run(command, input=text, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"::error title=hoptax::cannot comment: {method} {path}: {ran.stderr.strip()}")
    return json.loads(ran.stdout)


def text_of(path):
    """The text to write, or None if the run left none."""
    # A link in an artifact could name any file of this runner.
    if path.is_symlink() or not path.is_file():
        return None
    with path.open(encoding="utf-8", errors="replace") as file:
        text = file.read(MOST + 1)
    if len(text) > MOST:
        text = text[:MOST] + "\n\n… The rest is in the report."
    # An invisible space after `@`, so that nobody is notified.
    return text.replace("@", "@\u200b").replace("<!--", "")


def pull_of(repository, environment):
    """The number of the pull request, or None if there is no open one whose head is the measured commit."""
    if environment.get("PULL"):
        return int(environment["PULL"])
    head = f"head={environment['HEAD_OWNER']}:{environment['HEAD_BRANCH']}"
    pulls = api("GET", f"repos/{repository}/pulls", fields=["state=open", head])
    numbers = [pull["number"] for pull in pulls if pull["head"]["sha"] == environment["HEAD_SHA"]]
    return numbers[0] if numbers else None


def main(environment):
    repository, name = environment["GITHUB_REPOSITORY"], environment["NAME"]
    text = text_of(Path(environment["FILE"]))
    if text is None:
        print("hoptax: nothing was measured, so there is no comment")
        return
    number = pull_of(repository, environment)
    if number is None:
        print("hoptax: the measured commit is no longer the head of an open pull request, so there is no comment")
        return
    mark = f"<!-- hoptax {name} -->"
    pages = api("GET", f"repos/{repository}/issues/{number}/comments?per_page=100", pages=True)
    # Check the author too, because a person could also write the mark.
    own = [one["id"] for page in pages for one in page if one["body"].startswith(mark) and one["user"]["type"] == "Bot"]
    body = {"body": f"{mark}\n{text}"}
    if own:
        api("PATCH", f"repos/{repository}/issues/comments/{own[0]}", body=body)
    else:
        api("POST", f"repos/{repository}/issues/{number}/comments", body=body)
    print(f"hoptax: commented on #{number}")


if __name__ == "__main__":
    main(os.environ)
