#!/bin/sh
# Installs Portkey and the program that starts it in the directory $1.
set -eu
to=$1
cp package.json listen.js "$to/"
cd "$to"
# Install scripts of packages are not needed and do not run.
npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
mkdir -p bin
package=$to/node_modules/@portkey-ai/gateway
cat >bin/portkey <<END
#!/bin/sh
if [ "\${1:-}" = --version ]; then
    exec node -p '"portkey " + require("$package/package.json").version'
fi
exec node --require '$to/listen.js' '$package/build/start-server.js' "\$@"
END
chmod +x bin/portkey
