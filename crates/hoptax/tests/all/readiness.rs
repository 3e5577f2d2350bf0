//! Which process and which answer show that a gateway is ready.

use crate::packs::{AMPLE, gateway, scripted};
use crate::world::{Running, exe, http_upstream, running_plan};
use hoptax_lab::Driver as _;
use hoptax_lab::packs::PackSet;
use hoptax_lab::packs::manifest::ReadyPort;
use hoptax_lab::process::ProcessDriver;

/// If a start script starts its gateway twice, hoptax must not measure the first instance.
#[test]
fn a_background_child_of_the_start_script_that_answers_is_refused() {
    needs!("nginx");
    let configuration = "daemon off; pid {{ dir }}/pid; error_log stderr; events {} http { access_log off; \
                         client_body_temp_path {{ dir }}/1; proxy_temp_path {{ dir }}/2; fastcgi_temp_path \
                         {{ dir }}/3; uwsgi_temp_path {{ dir }}/4; scgi_temp_path {{ dir }}/5; server { \
                         listen 127.0.0.1:{{ port }}; location / { return 200; } } }";
    let server = "nginx -p '{{ dir }}' -e stderr -c '{{ dir }}/nginx.conf'";
    let start = |end: &str, by_child: bool| {
        let script = format!("cat >'{{{{ dir }}}}/nginx.conf' <<'END'\n{configuration}\nEND\n{end}\n");
        let packs = scripted(&script.replace("SERVER", server), AMPLE);
        if by_child {
            let file = packs.path().join("wrong/gateway.yaml");
            let text = std::fs::read_to_string(&file).expect("readable");
            std::fs::write(&file, text.replace("ready: { ", "ready: { by_child: true, ")).expect("written");
        }
        let run = tempfile::tempdir().expect("a directory");
        let plan = running_plan(vec![gateway("wrong", 1)]);
        let packs = PackSet::load(Some(packs.path())).expect("the pack is right");
        let mut driver = ProcessDriver::new(&plan, packs, run.path()).expect("a driver").with_exe(exe());
        let upstream = http_upstream("never asked");
        driver.start_gateway(&plan.gateways[0], &[upstream.address.into()]).map(Running).map(drop)
    };
    let failure = start("SERVER &\nsleep 600", false).expect_err("the script itself does not listen");
    assert!(failure.message.contains("`nginx` (process "), "{failure:?}");
    assert!(failure.message.contains("`sh` (process "), "{failure:?}");
    assert_eq!(start("SERVER &\nsleep 600", true), Ok(()), "the pack says that a child listens");
    assert_eq!(start("exec SERVER", false), Ok(()));
    // Each worker has a socket of its own.
    let reuse =
        start("sed -i 's/;  *location/ reuseport; location/' '{{ dir }}/nginx.conf'\nexec SERVER", false);
    assert_eq!(reuse, Ok(()));
}

#[test]
fn no_shipped_pack_takes_a_refusal_as_readiness() {
    for pack in crate::world::packs().iter() {
        let manifest = pack.manifest();
        assert_eq!(manifest.ready.status, 200, "{}", pack.name());
        let has_tls = manifest.features.iter().any(|name| name == "tls");
        assert!(manifest.ready.port == ReadyPort::Admin || !has_tls || manifest.ready.tls, "{}", pack.name());
    }
}
