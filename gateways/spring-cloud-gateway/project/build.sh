#!/bin/sh
# Installs Spring Cloud Gateway, as one jar, in the directory $1.
set -eu
to=$1
mvn -q -B -DskipTests package
mkdir -p "$to/bin"
cp target/spring-cloud-gateway.jar "$to/"
# The version of the library, not of the application around it.
jar=$(unzip -Z1 target/spring-cloud-gateway.jar 2>/dev/null || jar tf target/spring-cloud-gateway.jar)
version=$(printf '%s\n' "$jar" | sed -n 's/.*spring-cloud-gateway-server-\([0-9][0-9.]*\)\.jar$/\1/p')
cat >"$to/bin/spring-cloud-gateway" <<END
#!/bin/sh
if [ "\${1:-}" = --version ]; then
    echo "spring-cloud-gateway $version"
    exit
fi
# JAVA_OPTIONS may contain several words.
exec java \${JAVA_OPTIONS:-} -jar '$to/spring-cloud-gateway.jar' "\$@"
END
chmod +x "$to/bin/spring-cloud-gateway"
