#!/usr/bin/env python3
"""Tests of the scripts that install and build other programs, in an empty home and with stand-ins for go and apt-get.

They install nothing and need no network.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
VERSION = re.search(r"^version=(.*)$", (ROOT / "scripts/kubernetes-lab.sh").read_text(), re.M)[1]

# Downloads a module with a go.mod like that of Kubernetes, and "builds" programs that print their version. Fails for the
# program in $BROKEN.
GO = """#!/bin/bash
echo "go $*" >>"$CALLS"
case "$1 $2" in
"mod download")
    mkdir -p "$STANDINS/module"
    printf 'module k8s.io/kubernetes\\n\\ngo 1.26.0\\n\\ngodebug default=go1.26\\n\\nrequire (\\n\\tk8s.io/api v0.0.0\\n)\\n' \\
        >"$STANDINS/module/go.mod"
    printf '{\\n\\t"Dir": "%s",\\n\\t"Info": "x"\\n}\\n' "$STANDINS/module"
    ;;
"mod tidy") grep -q 'replace k8s.io/api => k8s.io/api v0' go.mod ;;
build*)
    program=${@: -1}
    [ "$program" != "./${BROKEN-}" ] || { echo "main.go:1: it is broken"; exit 1; }
    cp "$program/main.go" "$STANDINS/${program#./}.go"
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\n[ "$1" = --version ] && echo "Kubernetes vVERSION" || echo "Client Version: vVERSION"\\n' >"$2"
    chmod +x "$2"
    ;;
*) exit 64 ;;
esac
""".replace("VERSION", VERSION)


class Scripts(unittest.TestCase):
    def setUp(self):
        self.scratch = Path(tempfile.mkdtemp(prefix="hoptax-scripts-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.home, self.standins, self.temporary = (self.scratch / name for name in ("new/home", "bin", "tmp"))
        self.standins.mkdir()
        self.temporary.mkdir()
        self.calls = self.scratch / "calls"
        self.calls.touch()

    def stand_in(self, name, text='#!/bin/sh\necho "NAME $*" >>"$CALLS"\n'):
        path = self.standins / name
        path.write_text(text.replace("NAME", name))
        path.chmod(0o755)

    def run_script(self, name, *words, **more):
        environment = {**os.environ, "PATH": f"{self.standins}:{os.environ['PATH']}", "HOPTAX_HOME": str(self.home),
                       "TMPDIR": str(self.temporary), "STANDINS": str(self.standins), "CALLS": str(self.calls), **more}
        ran = subprocess.run([ROOT / "scripts" / name, *words], env=environment, capture_output=True, text=True,
                             timeout=120, check=False, stdin=subprocess.DEVNULL)
        self.assertNotIn("unbound variable", ran.stderr)
        self.assertEqual(list(self.temporary.iterdir()), [], "temporary files remain")
        return ran

    def called(self, program):
        return [line.split(" ", 1)[1] for line in self.calls.read_text().splitlines() if line.startswith(f"{program} ")]


class KubernetesLab(Scripts):
    def setUp(self):
        super().setUp()
        self.stand_in("etcd")
        self.stand_in("go", GO)

    def test_programs_are_built_once_in_an_empty_home(self):
        built = self.run_script("kubernetes-lab.sh", "build", *KUBERNETES, "kubectl")
        self.assertEqual(built.returncode, 0, built.stderr)
        programs = self.home / "tools/bin"
        self.assertEqual(sorted(file.name for file in programs.iterdir()), sorted((*KUBERNETES, "kubectl")))
        self.assertEqual(len([call for call in self.called("go") if call.startswith("build")]), 6)
        for name, package in (("kubelet", "k8s.io/kubernetes/cmd/kubelet/app"), ("kubectl", "k8s.io/kubectl/pkg/cmd")):
            self.assertIn(f'app "{package}"', (self.standins / f"{name}.go").read_text())
        self.calls.write_text("")
        again = self.run_script("kubernetes-lab.sh", "build", *KUBERNETES, "kubectl")
        self.assertEqual((again.returncode, self.called("go")), (0, []), again.stdout)
        self.assertEqual(again.stdout.count(f"{VERSION} is already built"), 6)

    def test_a_build_that_fails_says_why_and_leaves_nothing(self):
        failed = self.run_script("kubernetes-lab.sh", "build", BROKEN="kube-apiserver")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("it is broken\nkubernetes-lab: cannot build kube-apiserver", failed.stderr)

    def test_an_unknown_program_is_refused_before_anything_starts(self):
        refused = self.run_script("kubernetes-lab.sh", "build", "kube-apiserve")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("cannot build kube-apiserve: choose from", refused.stderr)
        self.assertEqual(self.called("go"), [])


class KubernetesCluster(Scripts):
    def setUp(self):
        super().setUp()
        self.stand_in("go", GO)
        self.stand_in("id", "#!/bin/sh\necho 0\n")
        for name in ("containerd", "ctr", "nft", "ip", "openssl", "unshare", "kubectl", "bridge", "busybox", "etcd"):
            self.stand_in(name)
        # The stand-in installs the program that is missing.
        self.stand_in("apt-get", '#!/bin/sh\necho "NAME $*" >>"$CALLS"\n[ "$1" = update ] || cp "$STANDINS/ip" "$STANDINS/absent"\n')

    def build(self, **more):
        return self.run_script("kubernetes-cluster.sh", "build", CNI_PLUGINS=str(self.standins),
                               BUSYBOX=str(self.standins / "busybox"), **more)

    def test_all_programs_are_built_in_an_empty_home(self):
        self.stand_in("runc")
        built = self.build()
        self.assertEqual(built.returncode, 0, built.stderr)
        self.assertEqual(sorted(file.name for file in (self.home / "tools/bin").iterdir()), sorted(KUBERNETES))
        self.assertEqual(self.called("apt-get"), [], "every package is there")

    def test_only_missing_packages_are_installed(self):
        self.stand_in("runc")
        built = self.build(ETCD=str(self.standins / "absent"))
        self.assertEqual(built.returncode, 0, built.stderr)
        installed = [call.rsplit(" ", 1)[1] for call in self.called("apt-get") if call.startswith("install")]
        self.assertEqual(installed, ["etcd-server"])


class SetUp(Scripts):
    def test_an_unknown_set_is_refused_before_anything_is_installed(self):
        refused = self.run_script("setup.sh", "tests")
        self.assertEqual(refused.returncode, 2)
        self.assertIn('"tests" is not a set of programs; use check, demo, test or bench', refused.stderr)
        self.assertFalse(self.home.exists())

    def test_each_program_is_asked_for_once(self):
        text = (ROOT / "scripts/setup.sh").read_text()
        asked = re.findall(r"^    (need\S*(?: \S+ \S+)?)$", text[text.index('if [ "$for_what" = check ]'):], re.M)
        self.assertGreater(len(asked), 20)
        self.assertEqual(sorted(set(asked)), sorted(asked))


class NoProcesses(Scripts):
    """The filter of `make test-fast`."""

    def guarded(self, program):
        return self.run_script("no-processes.py", "python3", "-c", program)

    def test_a_process_is_refused(self):
        for start in ("subprocess.run(['true'])", "os.posix_spawn('/bin/true', ['true'], {})", "os.fork()", "os.system('true') and exit(1)"):
            ran = self.guarded(f"import os, subprocess; {start}")
            self.assertNotEqual(ran.returncode, 0, start)

    def test_threads_and_the_exit_code_remain(self):
        ran = self.guarded("import threading; t = threading.Thread(target=print, args=['a thread']); t.start(); t.join(); exit(3)")
        self.assertEqual((ran.returncode, ran.stdout), (3, "a thread\n"), ran.stderr)


class GatewaysExtra(Scripts):
    def test_an_unknown_gateway_is_refused(self):
        refused = self.run_script("gateways-extra.sh", "traefik", "trafik")
        self.assertEqual(refused.returncode, 2)
        self.assertRegex(refused.stderr, "no pack trafik has a project; choose from .*traefik")
        self.assertFalse(self.home.exists())


if __name__ == "__main__":
    unittest.main()
