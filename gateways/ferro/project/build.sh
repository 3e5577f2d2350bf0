#!/bin/sh
# Installs Ferro Labs AI Gateway into a virtual environment in the directory $1. The package contains the program.
set -eu
python3 -m venv "$1"
"$1/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: ferrogw==1.5.10
