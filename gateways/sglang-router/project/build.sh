#!/bin/sh
# Installs the SGLang router into a virtual environment in the directory $1.
set -eu
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: sglang-router==0.3.2
