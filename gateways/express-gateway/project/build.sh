#!/bin/sh
# Puts Express Gateway and the application around it into the directory $1.
set -eu
to=$1
cp package.json server.js "$to/"
cd "$to"
# No package's own scripts are needed, and none is run.
npm install --omit=dev --ignore-scripts --no-audit --no-fund --loglevel=error
mkdir -p bin
cat >bin/express-gateway <<END
#!/bin/sh
exec node '$to/server.js' "\$@"
END
chmod +x bin/express-gateway
