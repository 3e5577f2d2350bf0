//! Runs in a real Kubernetes cluster. `scripts/kubernetes-cluster.sh run` creates the cluster on this
//! machine, with an image that contains hoptax and a shell. The script also sets the variable that these
//! tests need. Without the variable, the tests are skipped.

mod created;
mod sidecar;
mod traffic;
mod watched;

use crate::support::{skip, succeed};
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The image of the cluster. It has a shell, and hoptax as `/hoptax`.
const IMAGE: &str = "HOPTAX_TEST_KUBERNETES_IMAGE";

/// The address of the cluster's node. Pods can reach it.
const NODE: &str = "10.88.0.1";

/// The image; `None` if there is no cluster.
#[track_caller]
fn image() -> Option<String> {
    let image = std::env::var(IMAGE).ok();
    if image.is_none() {
        skip("there is no cluster; see scripts/kubernetes-cluster.sh");
    }
    image
}

/// Runs `kubectl`. Returns its output.
fn kubectl(words: &[&str]) -> String {
    succeed(Command::new("kubectl").args(words)).trim().to_owned()
}

/// An object of the test, such as `pod/edge`. It is deleted when dropped.
struct Object(String);

impl Object {
    fn create(object: &Value) -> Self {
        let mut create = Command::new("kubectl");
        let create = create.args(["create", "--filename=-"]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = create.spawn().expect("kubectl");
        child.stdin.take().expect("piped").write_all(object.to_string().as_bytes()).expect("written");
        assert!(child.wait().expect("it ends").success(), "{object}");
        let text = |value: &Value| value.as_str().expect("a text").to_lowercase();
        Self(format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"])))
    }

    /// Starts a pod with the label `app`, and waits until it is ready. Returns its address.
    fn pod(name: &str, spec: Value) -> (Self, String) {
        let metadata = json!({ "name": name, "labels": { "app": name } });
        let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec });
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        let created = Self::create(&pod);
        kubectl(&["wait", "--for=condition=Ready", "--timeout=60s", &created.0]);
        let address = kubectl(&["get", &created.0, "--output=jsonpath={.status.podIP}"]);
        (created, address)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        let _ = Command::new("kubectl").args(["delete", &self.0, "--wait=true"]).output();
    }
}

/// A container with this command.
fn container(name: &str, image: &str, command: &[&str]) -> Value {
    json!({ "name": name, "image": image, "imagePullPolicy": "Never", "command": command })
}
