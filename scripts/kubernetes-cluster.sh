#!/usr/bin/env bash
# A Kubernetes cluster with one node on this machine: API server, scheduler, controllers, kubelet, kube-proxy, containerd.
# Needs root.
#
#   scripts/kubernetes-cluster.sh build             install missing packages, build five programs, and kubectl if it is missing:
#                                                   15 to 30 minutes, 5 GB meanwhile
#   scripts/kubernetes-cluster.sh run COMMAND …     start the cluster, run the command, stop everything
#   scripts/kubernetes-cluster.sh test [NAME …]     the tests that need a cluster, or those of them with such names
#
# The cluster has namespaces of its own for processes, mounts and the network. So nothing remains when it ends, and its
# addresses reach only the command. KUBECONFIG leads kubectl to it. The node has the image $HOPTAX_TEST_KUBERNETES_IMAGE with
# busybox and /hoptax: the program $HOPTAX, or target/debug/hoptax. The image lab/bare:1 has no busybox. Services have
# addresses, and no names. `run` exits with the command's exit status.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
home=${HOPTAX_HOME:-${XDG_DATA_HOME:-$HOME/.local/share}/hoptax}
bin=$home/tools/bin
hoptax=${HOPTAX:-$here/target/debug/hoptax}
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
image=docker.io/lab/hoptax:1
node=10.88.0.1
patience=60 # seconds for a program to be ready

say() { echo "kubernetes-cluster: $*" >&2; }
fail() { say "$@"; exit 1; }

# Debian has some programs outside of the PATH of a user. `$etcd` and the others may also be set by the caller.
etcd=${ETCD:-etcd} plugins=${CNI_PLUGINS:-/usr/lib/cni} busybox=${BUSYBOX:-/bin/busybox}
PATH=$PATH:/usr/sbin:/sbin:$bin

# What the cluster needs: program, or its path, and Debian's package.
needs() {
    printf '%s\n' "$etcd etcd-server" "containerd containerd" "ctr containerd" "runc runc" "nft nftables" "ip iproute2" \
        "openssl openssl" "unshare util-linux" "python3 python3" "$plugins/bridge containernetworking-plugins" \
        "$busybox busybox-static"
}

# Packages of programs that are missing, each once.
missing_packages() {
    local program package
    needs | while read -r program package; do
        command -v "$program" >/dev/null 2>&1 || echo "$package"
    done | sort -u
}

build() {
    local packages
    mapfile -t packages < <(missing_packages)
    if [ ${#packages[@]} -gt 0 ]; then
        [ "$(id -u)" = 0 ] || fail "installing packages needs root. Run: apt-get install ${packages[*]}"
        apt-get update -qq >/dev/null 2>&1 || true
        # Debian's packages would also start services, but the cluster needs only the programs.
        RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" \
            >/dev/null || fail "cannot install packages. Run: apt-get install ${packages[*]}"
    fi
    command -v kubectl >/dev/null 2>&1 || programs+=(kubectl)
    "$here/scripts/kubernetes-lab.sh" build "${programs[@]}"
}

look() {
    [ $# -gt 0 ] || fail "give the command to run, such as: scripts/kubernetes-cluster.sh run kubectl get nodes"
    [ "$(id -u)" = 0 ] || fail "the cluster needs root"
    local name package
    while read -r name package; do
        command -v "$name" >/dev/null 2>&1 ||
            fail "$name is missing (package $package). Run: scripts/kubernetes-cluster.sh build"
    done < <(needs)
    for name in "${programs[@]}"; do
        [ -x "$bin/$name" ] || fail "$bin/$name is missing. Run: scripts/kubernetes-cluster.sh build"
    done
    command -v kubectl >/dev/null 2>&1 || fail "kubectl is missing. Run: scripts/kubernetes-cluster.sh build"
    [ -x "$hoptax" ] || fail "$hoptax is missing. Run: cargo build"
}

# start NAME PROGRAM …: starts a program in the background, with a log.
start() {
    local name=$1
    shift
    "$@" </dev/null >"$lab/$name.log" 2>&1 9<&- &
}

wait_for() { # wait_for NAME PROBE …
    local name=$1 end=$((SECONDS + patience))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || { tail -n 15 "$lab/$name.log" >&2; fail "$name was not ready after $patience s"; }
        sleep 0.2
    done
}

certificate() { # certificate NAME SUBJECT EXTENSIONS
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "$2" -keyout "$1.key" -out csr &&
        openssl x509 -req -in csr -CA ca.pem -CAkey ca.key -set_serial "0x$(openssl rand -hex 8)" -days 2 \
            -extfile <(printf '%s\n' "$3") -out "$1.pem"
}

credentials() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=lab -keyout ca.key -out ca.pem &&
        certificate server /CN=kube-apiserver "extendedKeyUsage = serverAuth
            subjectAltName = DNS:localhost, IP:127.0.0.1, IP:$node" &&
        # The group system:masters has all rights.
        certificate admin /O=system:masters/CN=admin "extendedKeyUsage = clientAuth" &&
        openssl genrsa -out accounts.key 2048 && openssl rsa -in accounts.key -pubout -out accounts.pub
} >"$lab/openssl.log" 2>&1

# All of these run in the namespaces of the cluster.
network() {
    # containerd keeps the network namespaces of pods here, as files that would remain.
    mount -t tmpfs tmpfs /run
    # The node's address. Pods are on a bridge that the plug-in makes.
    ip link set lo up
    ip link add node0 type veth peer name node1
    ip link set node1 up
    ip addr add "$node/32" dev node0
    ip link set node0 up
    ip route add default dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

control_plane() {
    local url=https://127.0.0.1:6443
    cat >kubeconfig <<YAML
apiVersion: v1
kind: Config
clusters: [{ name: lab, cluster: { server: "$url", certificate-authority: $lab/ca.pem } }]
users: [{ name: admin, user: { client-certificate: $lab/admin.pem, client-key: $lab/admin.key } }]
contexts: [{ name: lab, context: { cluster: lab, user: admin } }]
current-context: lab
YAML
    export KUBECONFIG=$lab/kubeconfig
    start etcd "$etcd" --name lab --data-dir "$lab/etcd" --unsafe-no-fsync
    start kube-apiserver "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
        --bind-address 127.0.0.1 --advertise-address "$node" --secure-port 6443 --endpoint-reconciler-type none \
        --service-cluster-ip-range 10.97.0.0/24 --tls-cert-file server.pem --tls-private-key-file server.key \
        --client-ca-file ca.pem --anonymous-auth=false --authorization-mode RBAC \
        --service-account-issuer https://kubernetes --service-account-key-file accounts.pub \
        --service-account-signing-key-file accounts.key --kubelet-client-certificate admin.pem \
        --kubelet-client-key admin.key --kubelet-preferred-address-types InternalIP \
        --feature-gates SizeBasedListCostEstimate=false # as in kubernetes-lab.sh
    wait_for kube-apiserver kubectl get --raw /readyz
    local logins=(--kubeconfig kubeconfig --authentication-kubeconfig kubeconfig --authorization-kubeconfig kubeconfig)
    start kube-controller-manager "$bin/kube-controller-manager" "${logins[@]}" --leader-elect=false \
        --service-account-private-key-file accounts.key --root-ca-file ca.pem
    start kube-scheduler "$bin/kube-scheduler" "${logins[@]}" --leader-elect=false
}

images() {
    # The first process of each pod: it waits, and collects processes that have ended.
    python3 "$here/scripts/kubernetes-image.py" docker.io/lab/pause:1 pause.tar /pause "/bin/busybox=$busybox" \
        "/bin/sh->busybox" "/pause=$lab/pause"
    local library libraries=() commands=() name
    for library in $(ldd "$hoptax" 2>/dev/null | grep -o '/[^ ]*'); do
        libraries+=("$library=$library")
    done
    for name in sh cat sleep ls mkdir chmod cp mv rm test uname env true; do
        commands+=("/bin/$name->busybox")
    done
    python3 "$here/scripts/kubernetes-image.py" "$image" hoptax.tar "/hoptax=$hoptax" "/bin/busybox=$busybox" \
        "${libraries[@]}" "${commands[@]}"
    python3 "$here/scripts/kubernetes-image.py" docker.io/lab/bare:1 bare.tar "/hoptax=$hoptax" "${libraries[@]}"
}

node() {
    mkdir cni
    cat >cni/10-lab.conflist <<JSON
{ "cniVersion": "0.4.0", "name": "lab", "plugins": [{ "type": "bridge", "bridge": "pods0", "isGateway": true,
  "ipam": { "type": "host-local", "dataDir": "$lab/ipam", "ranges": [[{ "subnet": "10.89.0.0/24" }]],
            "routes": [{ "dst": "0.0.0.0/0" }] } }] }
JSON
    cat >containerd.toml <<TOML
version = 2
root = "$lab/containerd"
state = "$lab/containerd-state"
[grpc]
address = "$lab/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "docker.io/lab/pause:1"
# In a container, root may not lower the score.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "$plugins"
conf_dir = "$lab/cni"
TOML
    start containerd containerd --config containerd.toml
    wait_for containerd ctr --address containerd.sock version
    local name
    for name in pause hoptax bare; do
        ctr --address containerd.sock --namespace k8s.io images import "$name.tar" >/dev/null
    done
    cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$lab/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
# Machines with control groups of version 1, with swap, and containers as nodes.
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
authentication: { anonymous: { enabled: false }, x509: { clientCAFile: $lab/ca.pem } }
authorization: { mode: AlwaysAllow }
podLogsDir: $lab/pod-logs
address: $node
YAML
    start kubelet "$bin/kubelet" --kubeconfig kubeconfig --config kubelet.yaml --root-dir "$lab/kubelet" \
        --node-ip "$node" --hostname-override node --cert-dir "$lab/kubelet-certificates"
    wait_for kubelet kubectl wait --for=condition=Ready node/node --timeout=2s
    wait_for kube-controller-manager kubectl get serviceaccount default
    # Pods are on one bridge, so without --masquerade-all the answer of a Service's pod would not pass the node.
    start kube-proxy "$bin/kube-proxy" --kubeconfig kubeconfig --hostname-override node --proxy-mode nftables \
        --masquerade-all --conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0s \
        --conntrack-tcp-timeout-close-wait 0s --bind-address "$node"
    wait_for kube-proxy nft list table ip kube-proxy
}

inside() {
    local status=0
    cd "$lab"
    credentials || { tail -n 5 openssl.log >&2; fail "cannot create the certificates"; }
    network
    control_plane
    cat >pause <<'SH'
#!/bin/sh
trap 'exit 0' TERM INT
while :; do sleep 3600 & wait $!; done
SH
    images
    node
    say "the node is ready after $SECONDS s"
    cd "$work"
    HOPTAX_TEST_KUBERNETES_IMAGE=$image "$@" <&9 || status=$?
    exit "$status"
}

remove_cgroups() {
    local controller
    for controller in /sys/fs/cgroup/*"$cgroup" "/sys/fs/cgroup$cgroup"; do
        [ ! -d "$controller" ] || find "$controller" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}

run() {
    look "$@"
    cgroup=/hoptax-cluster-$$
    work=$PWD
    lab=$(mktemp -d)
    trap 'remove_cgroups; rm -rf "$lab"' EXIT
    # The kubelet does not create its root.
    local controller
    for controller in /sys/fs/cgroup/*/; do
        [ ! -e "$controller/cgroup.procs" ] || mkdir -p "$controller$cgroup"
    done
    [ ! -e /sys/fs/cgroup/cgroup.controllers ] || mkdir -p "/sys/fs/cgroup$cgroup"
    [ ! -d "/sys/fs/cgroup/cpuset$cgroup" ] || for controller in cpus mems; do
        cat "/sys/fs/cgroup/cpuset/cpuset.$controller" >"/sys/fs/cgroup/cpuset$cgroup/cpuset.$controller"
    done
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    local status=0
    # When the first process of the namespace ends, the kernel kills all others.
    lab=$lab work=$work cgroup=$cgroup unshare --net --mount --pid --fork --kill-child --mount-proc \
        "$here/scripts/kubernetes-cluster.sh" inside "$@" 9<&0 || status=$?
    exit "$status"
}

case "${1:-}" in
build) build ;;
run)
    shift
    run "$@"
    ;;
inside)
    shift
    inside "$@"
    ;;
test)
    shift
    cd "$here/crates/hoptax"
    run cargo test -p hoptax --test all -- "${@:-cluster::}" --test-threads 1
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
