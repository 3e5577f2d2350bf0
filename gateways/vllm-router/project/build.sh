#!/bin/sh
# Installs the vLLM router into a virtual environment in the directory $1, and a program that knows its version.
set -eu
to=$1
python3 -m venv "$to"
"$to/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: vllm-router==0.1.17
cat >"$to/bin/vllm-router" <<END
#!/bin/sh
if [ "\${1:-}" = --version ]; then
    exec '$to/bin/python' -c 'from importlib.metadata import version; print("vllm-router", version("vllm-router"))'
fi
exec '$to/bin/python' -m vllm_router.launch_router "\$@"
END
chmod +x "$to/bin/vllm-router"
