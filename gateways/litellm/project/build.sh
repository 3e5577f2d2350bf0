#!/bin/sh
# Installs LiteLLM into a virtual environment in the directory $1, and a program that starts it without a database.
set -eu
to=$1
python3 -m venv "$to"
"$to/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: 'litellm[proxy]==1.108.0'
mv "$to/bin/litellm" "$to/bin/litellm-with-database"
cat >"$to/bin/litellm" <<END
#!/bin/sh
# LiteLLM itself needs seconds for this.
if [ "\${1:-}" = --version ]; then
    exec '$to/bin/python' -c 'from importlib.metadata import version; print("litellm", version("litellm"))'
fi
# It would change the tables of a database that the user's environment names.
unset DATABASE_URL
exec '$to/bin/litellm-with-database' "\$@"
END
chmod +x "$to/bin/litellm"
