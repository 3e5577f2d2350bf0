#!/bin/sh
# Builds Traefik from its Go module into the directory $1. The published module lacks the assets of the dashboard.
set -eu
to=$1
module=github.com/traefik/traefik/v3
version=3.6.12
# With -mod=mod, go adds the modules that Traefik requires to the go.mod that is written here.
export GOFLAGS=-mod=mod CGO_ENABLED=0
source=$(go mod download -json "$module@v$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
if [ ! -f "$source/go.mod" ]; then
    echo "cannot download $module@v$version" >&2
    exit 1
fi
# Go refuses to install a module whose go.mod replaces other modules, and ignores these lines if the module is only
# required. So the go.mod here repeats them. One of them names a folder that the published module lacks: an extension
# whose types are empty in this edition.
mkdir ext
{
    echo "module traefik-build"
    sed -n '/^go [0-9]/p; /^godebug /p' "$source/go.mod"
    echo "require $module v$version"
    sed -n '/^replace (/,/^)/p; /^exclude (/,/^)/p; /^replace [^(]/p; /^exclude [^(]/p' "$source/go.mod" |
        sed 's|=> \./pkg/config/dynamic/ext$|=> ./ext|'
} >go.mod
printf 'module github.com/traefik/traefik/dynamic/ext\n\ngo 1.24.0\n' >ext/go.mod
cat >ext/ext.go <<'GO'
// Package ext contains the types that other editions of Traefik fill.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends a router.
type Router struct{}
GO
mkdir -p "$to/bin"
go build -trimpath -ldflags "-s -w -X $module/pkg/version.Version=$version" -o "$to/bin/traefik" "$module/cmd/traefik"
