#!/usr/bin/env bash
# A Kubernetes API server as an upstream for gateways: kube-apiserver and its etcd, both on loopback.
#
#   scripts/kubernetes-lab.sh build [PROGRAM…]  install etcd, build kube-apiserver: 10 to 25 minutes, 5 GB during the build.
#                                               Also builds these other programs of Kubernetes, 1 minute each
#   scripts/kubernetes-lab.sh run COMMAND …     start both, create the ConfigMaps, run the command, stop both
#
# `make kubernetes-lab` runs `build`. Set-up and CI do not run it. The program that `build` creates is kept for later
# runs. While the command runs, .kubernetes-lab/ contains the files that plans refer to: ca.pem, client.pem, client.key,
# token. The API server is https://127.0.0.1:26443 (HOPTAX_KUBERNETES_PORT sets another port). The variable
# KUBE_APISERVER_PID in the command's environment is the pid of the API server. `run` exits with the command's exit
# status and stops everything that it started.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
tools=$home/tools
version=1.36.3
# The modules in Kubernetes' repository have other version numbers: in release v1.X.Y, their version is v0.X.Y.
staging=v0.${version#1.}

say() { echo "kubernetes-lab: $*"; }
fail() { echo "kubernetes-lab: $*" >&2; exit 1; }

install_etcd() {
    command -v etcd >/dev/null 2>&1 && return
    [ "$(id -u)" = 0 ] || fail "etcd is not installed, and installing it needs root. Run: apt-get install etcd-server"
    say "installing etcd"
    # Debian's package would also start a service, but the lab needs only the program.
    apt-get update -qq >/dev/null 2>&1 || true
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends etcd-server >/dev/null 2>&1 ||
        fail "cannot install etcd. Run: apt-get install etcd-server"
    # Some init systems ignore the runlevel and start the service anyway.
    [ ! -d /run/systemd/system ] || systemctl disable --quiet --now etcd ||
        say "the etcd service is now running; the lab does not need it"
}

# The Go function that makes the command of each program. It is in the package `k8s.io/kubernetes/cmd/PROGRAM/app`, except
# for kubectl.
declare -A constructors=(
    [kube-apiserver]='NewAPIServerCommand()'
    [kube-controller-manager]='NewControllerManagerCommand()'
    [kube-scheduler]='NewSchedulerCommand()'
    [kube-proxy]='NewProxyCommand()'
    [kubelet]='NewKubeletCommand(context.Background())'
    [kubectl]='NewDefaultKubectlCommand()'
)

is_built() { # is_built PROGRAM
    local ask=--version
    [ "$1" != kubectl ] || ask='version --client'
    # shellcheck disable=SC2086 # two words
    "$tools/bin/$1" $ask 2>/dev/null | grep -qE "^(Kubernetes|Client Version:) v${version//./\\.}\$"
}

main_go() { # main_go PROGRAM: prints the file main.go of a program
    local app=k8s.io/kubernetes/cmd/$1/app context=''
    [ "$1" != kubectl ] || app=k8s.io/kubectl/pkg/cmd
    [ "$1" != kubelet ] || context='"context"'
    cat <<GO
// Package main starts $1.
package main

import (
	$context
	"os"

	"k8s.io/component-base/cli"
	app "$app"
)

func main() { os.Exit(cli.Run(app.${constructors[$1]})) }
GO
}

# The directory of a build. It is not a local variable, because the trap also runs after the function has returned.
project=''
trap '[ -z "$project" ] || rm -rf "$project"' EXIT

build_programs() { # build_programs PROGRAM …; a program may be repeated
    local name missing=() source
    local -A seen=()
    for name; do
        [ -z "${seen[$name]-}" ] || continue
        seen[$name]=yes
        if is_built "$name"; then
            say "$name $version is already built"
        else
            missing+=("$name")
        fi
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v go >/dev/null 2>&1 || fail "building ${missing[*]} needs Go, which is not installed"
    say "building ${missing[*]} $version: 10 to 25 minutes the first time"
    project=$(mktemp -d)
    cd "$project"
    export GOFLAGS=-mod=mod
    # Kubernetes' go.mod requires version v0.0.0 of the modules in its own repository, but this version does not exist.
    # The go.mod that is written here replaces it by the released version.
    source=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
    [ -d "$source" ] || fail "cannot download k8s.io/kubernetes@v$version"
    {
        echo "module kubernetes-lab"
        sed -n 's/^\(go [0-9.]*\)$/\1/p; s/^\(godebug .*\)$/\1/p' "$source/go.mod"
        echo "require k8s.io/kubernetes v$version"
        sed -n "s|^\t\(k8s.io/[^ ]*\) v0.0.0\$|replace \1 => \1 $staging|p" "$source/go.mod"
    } >go.mod
    for name in "${missing[@]}"; do
        mkdir "$name"
        main_go "$name" >"$name/main.go"
    done
    go mod tidy >"$home/kubernetes-build.log" 2>&1 ||
        { tail -n 15 "$home/kubernetes-build.log" >&2; fail "cannot download its modules"; }
    local about=k8s.io/component-base/version
    mkdir -p "$tools/bin"
    for name in "${missing[@]}"; do
        go build -trimpath -o "$name/program" -ldflags "-s -w -X $about.gitVersion=v$version -X $about.gitMajor=1 \
            -X $about.gitMinor=$(echo "$version" | cut -d. -f2) -X $about.gitTreeState=clean" "./$name" \
            >>"$home/kubernetes-build.log" 2>&1 ||
            { tail -n 15 "$home/kubernetes-build.log" >&2; fail "cannot build $name"; }
        mv "$name/program" "$tools/bin/$name"
        say "built $name $version: $tools/bin/$name"
    done
}

lab=$here/.kubernetes-lab
port=${HOPTAX_KUBERNETES_PORT:-26443}
url=https://127.0.0.1:$port
configmaps=1000
patience=60 # seconds for a server to be ready

# Process ids; empty if the process is not running.
etcd='' apiserver='' command=''

need() { # need PROGRAM WHERE-FROM
    command -v "$1" >/dev/null 2>&1 || fail "$1 is missing: $2"
}

# Checks everything that can be checked before a server is started.
look() {
    [ $# -gt 0 ] || fail "give the command to run, such as: scripts/kubernetes-lab.sh run hoptax run plans/kube-apiserver.yaml"
    command -v "$1" >/dev/null 2>&1 || fail "$1 is not a command; nothing was started"
    need openssl "install the package openssl"
    need curl "install the package curl"
    need setpriv "install the package util-linux"
    need etcd "run: make kubernetes-lab"
    [ -x "$tools/bin/kube-apiserver" ] || fail "$tools/bin/kube-apiserver is missing. Run: make kubernetes-lab"
    [[ $port =~ ^[1-9][0-9]{0,4}$ ]] && [ "$port" -le 65535 ] ||
        fail "HOPTAX_KUBERNETES_PORT is $port; it must be a port from 1 to 65535"
    # The servers inherit the lock, so the lock is released only after they have ended.
    exec 9<"$here"
    flock -n 9 || fail "another lab of this project is running. Wait until it ends"
    ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null ||
        fail "port $port is in use. Stop the program that listens there, or set HOPTAX_KUBERNETES_PORT and upstream.url in the plan"
}

# certificate NAME SUBJECT EXTENSIONS: creates a key, and a certificate signed by the lab's authority.
certificate() {
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$1.key" -out private/csr &&
    openssl x509 -req -in private/csr -CA ca.pem -CAkey private/ca.key -set_serial "0x$(openssl rand -hex 8)" -days 2 \
        -extfile <(printf '%s\n' "$3") -out "$1.pem"
}

# Creates new certificates and a new token for each run. Only this user can read them.
make_credentials() {
    rm -rf "$lab"
    mkdir -m 700 "$lab" "$lab/private"
    cd "$lab"
    {
        printf '%s\n' '[req]' 'distinguished_name = name' 'x509_extensions = authority' '[name]' '[authority]' \
            'basicConstraints = critical, CA:TRUE' 'keyUsage = critical, keyCertSign' \
            'subjectKeyIdentifier = hash' >private/authority.cnf &&
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=kubernetes-lab" \
            -config private/authority.cnf -keyout private/ca.key -out ca.pem &&
        certificate private/server "/CN=kube-apiserver" "extendedKeyUsage = serverAuth
            subjectAltName = DNS:kubernetes, DNS:localhost, IP:127.0.0.1" &&
        # The group system:masters has all rights.
        certificate client "/O=system:masters/CN=hoptax" "extendedKeyUsage = clientAuth" &&
        openssl rand -hex 24 >token
    } >private/openssl.log 2>&1 || { tail -n 5 private/openssl.log >&2; fail "cannot create the certificates"; }
    rm private/ca.key
    echo "$(cat token),measurer,measurer,system:masters" >private/tokens.csv
}

# start NAME PROGRAM …: starts a server in its own session, so that Ctrl-C in a terminal does not stop the servers
# before the command ends. If this script is killed, the kernel kills the server. After the call, $! is the pid of the
# server.
start() {
    local name=$1
    shift
    : >"$lab/private/$name.log"
    setsid setpriv --pdeathsig KILL "$@" </dev/null >>"$lab/private/$name.log" 2>&1 &
}

# wait_for NAME PID PROBE: waits until the probe succeeds. If the server ends or takes too long, prints the end of its
# log and exits.
wait_for() {
    local end=$((SECONDS + patience))
    until $3; do
        kill -0 "$2" 2>/dev/null || give_up "$1" "ended by itself"
        [ "$SECONDS" -lt "$end" ] || give_up "$1" "was not ready after $patience s"
        sleep 0.2
    done
}

give_up() { # give_up NAME WHAT
    echo "kubernetes-lab: the last lines of $1:" >&2
    tail -n 15 "$lab/private/$1.log" >&2
    fail "$1 $2"
}

# The format of the log line depends on etcd's version and log format, but the line always ends with the address.
etcd_port() { sed -n '/serving.*client/{/insecure/s/.*127\.0\.0\.1:\([0-9]*\).*/\1/p}' "$lab/private/etcd.log" | grep -m 1 .; }
etcd_ready() { etcd_port >/dev/null; }
ask() { curl --silent --fail --max-time 10 --cacert "$lab/ca.pem" --cert "$lab/client.pem" --key "$lab/client.key" "$@"; }
apiserver_ready() { ask --output /dev/null "$url/readyz"; }

start_etcd() {
    # With port 0, the kernel chooses a port, and etcd writes it to the log. Writes are not flushed to the disk, because
    # the data is deleted at the end anyway, and waiting for the disk would slow down every CREATE.
    start etcd etcd --name lab --data-dir "$lab/private/etcd" --unsafe-no-fsync --quota-backend-bytes 8589934592 \
        --listen-client-urls http://127.0.0.1:0 --advertise-client-urls http://127.0.0.1:0 \
        --listen-peer-urls http://127.0.0.1:0 --initial-advertise-peer-urls http://127.0.0.1:0 \
        --initial-cluster lab=http://127.0.0.1:0 --enable-grpc-gateway=false
    etcd=$!
    wait_for etcd "$etcd" etcd_ready
}

start_apiserver() {
    local private=$lab/private
    local flags=(
        --etcd-servers "http://127.0.0.1:$(etcd_port)"
        # Created objects never change, so compaction would free no space, and would only take time during trials.
        --etcd-compaction-interval 0
        --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port"
        # Without this option the API server complains about a loopback address.
        --endpoint-reconciler-type none
        --service-cluster-ip-range 10.0.0.0/24
        --tls-cert-file "$private/server.pem" --tls-private-key-file "$private/server.key"
        --client-ca-file "$lab/ca.pem" --token-auth-file "$private/tokens.csv" --anonymous-auth=false
        --authorization-mode RBAC
        # The API server requires the key options, although no request uses a service account token. The plugin is
        # disabled, because it would wait for accounts that only a controller creates.
        --service-account-issuer https://kubernetes --service-account-key-file "$private/server.pem"
        --service-account-signing-key-file "$private/server.key" --disable-admission-plugins ServiceAccount
        # Disables the limits on concurrent requests. With limits, requests could be queued or answered with 429, and
        # the run would measure the limits.
        --enable-priority-and-fairness=false --max-requests-inflight 0 --max-mutating-requests-inflight 0
        # Without this option the API server lists every kind of object once a minute. With an etcd as old as Debian's,
        # these requests time out.
        --feature-gates SizeBasedListCostEstimate=false
    )
    start kube-apiserver "$tools/bin/kube-apiserver" "${flags[@]}"
    apiserver=$!
    wait_for kube-apiserver "$apiserver" apiserver_ready
}

# Creates the namespace and the ConfigMaps settings-0000 … settings-0999 of about 1 KiB each. A single curl process
# creates all of them. Its configuration has a section for each ConfigMap.
make_configmaps() {
    local made filling
    ask --output /dev/null -H 'content-type: application/yaml' --data '{metadata: {name: hoptax}}' "$url/api/v1/namespaces" ||
        fail "cannot create the namespace"
    filling=$(head -c 850 /dev/zero | tr '\0' x)
    seq -f 'settings-%04g' 0 $((configmaps - 1)) | while read -r name; do
        printf '%s\n' "url = $url/api/v1/namespaces/hoptax/configmaps" \
            "cacert = $lab/ca.pem" "cert = $lab/client.pem" "key = $lab/client.key" "output = /dev/null" \
            'header = "content-type: application/yaml"' "data = \"{metadata: {name: $name}, data: {filling: $filling}}\"" \
            'write-out = "%{http_code}\n"' next
    done | sed '$d' >"$lab/private/configmaps"
    made=$(curl --silent --max-time 60 --config "$lab/private/configmaps" | grep -cx 201) || true
    [ "$made" = "$configmaps" ] || fail "only $made of $configmaps ConfigMaps were created"
    # Wait until the API server's cache contains the last ConfigMap. The API server reports its counter of reads only
    # after a read, so this request is needed for the ledger too.
    ask --output /dev/null --retry 20 --retry-delay 1 --retry-all-errors \
        "$url/api/v1/namespaces/hoptax/configmaps/settings-$(printf %04d $((configmaps - 1)))?resourceVersion=0" ||
        fail "cannot read the ConfigMaps"
}

# stop PID: kills the process at once, because none of its data is kept.
stop() {
    [ -n "$1" ] || return 0
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null || true
}

take_down() {
    trap '' INT TERM HUP
    [ -z "$command" ] || kill -TERM "$command" 2>/dev/null || true
    stop "$apiserver"
    stop "$etcd"
    rm -rf "$lab"
}

# gone PID SECONDS: succeeds if the process ends within this number of seconds.
gone() {
    local end=$((SECONDS + $2))
    while kill -0 "$1" 2>/dev/null; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# A terminal sends INT to all its processes, so the command receives INT too. TERM is forwarded to the command here. If
# the command does not end, this script kills it. After a second signal, this script ends at once.
end_command() { # end_command SIGNAL STATUS
    trap "exit $2" INT TERM HUP
    [ "$1" = INT ] && gone "$command" 15 || kill -TERM "$command" 2>/dev/null || true
    gone "$command" 15 || kill -KILL "$command" 2>/dev/null || true
    exit "$2"
}

run() {
    local began=$SECONDS status=0
    look "$@"
    trap take_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    (make_credentials)
    start_etcd
    start_apiserver
    make_configmaps
    say "$url is ready with $configmaps ConfigMaps, after $((SECONDS - began)) s" >&2
    # Without `<&0` and `env`, bash would close the standard input of a background command and make the command ignore
    # INT.
    KUBE_APISERVER_PID=$apiserver setpriv --pdeathsig TERM env --default-signal=INT,QUIT "$@" <&0 9<&- &
    command=$!
    trap 'end_command INT 130' INT
    trap 'end_command TERM 143' TERM HUP
    wait "$command" || status=$?
    command=''
    kill -0 "$apiserver" 2>/dev/null || give_up kube-apiserver "ended while the command ran"
    kill -0 "$etcd" 2>/dev/null || give_up etcd "ended while the command ran"
    exit "$status"
}

mkdir -p "$home"
case "${1:-}" in
build)
    shift
    for name; do
        [ -n "${constructors[$name]-}" ] || fail "cannot build $name: choose from ${!constructors[*]}"
    done
    install_etcd
    build_programs kube-apiserver "$@"
    ;;
run)
    shift
    run "$@"
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
