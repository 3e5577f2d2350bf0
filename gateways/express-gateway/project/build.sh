#!/bin/sh
# Installs Express Gateway and the application around it in the directory $1.
set -eu
to=$1
cp package.json server.js "$to/"
cd "$to"
# Install scripts of packages are not needed and do not run.
npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
mkdir -p bin
cat >bin/express-gateway <<END
#!/bin/sh
exec node '$to/server.js' "\$@"
END
chmod +x bin/express-gateway
