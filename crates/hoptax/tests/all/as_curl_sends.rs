//! Requests of `hoptax load` as a server receives them, in cases where curl and browsers have a rule of their
//! own.

use crate::load::{case, load, loaded};
use crate::origin::Origin;
use crate::support::refusals::refusals;
use crate::support::{Scratch, succeed};
use crate::tls;
use std::process::Command;

/// The heads that the server receives from `hoptax load` with these options, in lower case.
fn heads(url: &str, origin: &Origin, options: &[&str]) -> Vec<String> {
    let before = origin.heads().len();
    let address = origin.address.to_string();
    let count: &[&str] = if options.contains(&"-n") { &[] } else { &["-n", "1"] };
    loaded(&[&[url, "-c", "1", "--connect-to", &address], count, options].concat());
    origin.heads()[before..].iter().map(|head| head.to_ascii_lowercase()).collect()
}

fn head(origin: &Origin, options: &[&str]) -> String {
    heads("http://a.test/bytes?3", origin, options).remove(0)
}

#[test]
fn a_request_without_a_body_states_its_length_as_curl_does() {
    let (origin, scratch) = (Origin::start(), Scratch::new());
    let empty = format!("@{}", scratch.file("empty", "").display());
    let says = |options: &[&str]| head(&origin, options).contains("\r\ncontent-length: 0\r\n");
    for options in [
        &["-X", "POST"][..],
        &["-X", "PUT"],
        &["-X", "PATCH"],
        &["-b", ""],
        &["-b", &empty],
        &["-X", "DELETE", "-b", ""],
        &["-X", "POST", "-H", "content-length: 0"],
    ] {
        assert!(says(options), "{options:?}");
    }
    assert!(!says(&[]) && !says(&["-X", "DELETE"]));
    let own = head(&origin, &["-b", "hello", "-H", "Content-Length: 5"]);
    assert_eq!(own.matches("content-length: 5\r\n").count(), 1, "{own}");

    let url = format!("http://{}/bytes?3", origin.address);
    succeed(Command::new("curl").args(["-s", "-d", "", &url]));
    let sent = origin.heads().pop().expect("curl's").to_ascii_lowercase();
    assert!(sent.contains("\r\ncontent-length: 0\r\n"), "{sent}");

    let targets = scratch.file("targets.yaml", "- { method: POST, path: /bytes?3, body: { text: '' } }\n");
    let targets = targets.display().to_string();
    let sent = heads("http://a.test", &origin, &["--targets", &targets]).remove(0);
    assert!(sent.contains("\r\ncontent-length: 0\r\n"), "{sent}");
}

#[test]
fn the_host_header_has_no_default_port() {
    let origin = Origin::start();
    for (url, host) in [
        ("http://a.test:80/bytes?3", "a.test"),
        ("http://a.test:443/bytes?3", "a.test:443"),
        ("http://a.test:8080/bytes?3", "a.test:8080"),
        ("http://a.test./bytes?3", "a.test."),
        ("http://[::1]:80/bytes?3", "[::1]"),
    ] {
        let sent = heads(url, &origin, &[]).remove(0);
        assert!(sent.contains(&format!("\r\nhost: {host}\r\n")), "{sent}");
    }
    let two = ["http://a.test/", "-H", "host: a.test", "-H", "Host: b.test", "--connect-to", "127.0.0.1:1"];
    insta::assert_snapshot!(refusals(&["load"], &[&two]));
}

#[test]
fn a_dot_at_the_end_of_a_name_is_not_part_of_the_tls_name() {
    needs!("nginx");
    let authority = tls::authority("authority.test");
    let nginx = tls::Nginx::start(&tls::identity(tls::NAME, Some(&authority)), "");
    let scratch = Scratch::new();
    let ca = scratch.file("ca.pem", &format!("\u{feff}{}", authority.pem())).display().to_string();
    let (url, address) = (format!("https://{}.:443/", tls::NAME), nginx.address.to_string());
    let case = case(&[&url, "-n", "2", "-c", "1", "--ca", &ca, "--connect-to", &address]);
    assert_eq!(case["counts"]["ok"], 2, "{case}");
}

#[test]
fn lines_and_columns_of_files_reach_the_server_without_a_byte_order_mark() {
    let (origin, scratch) = (Origin::start(), Scratch::new());
    let users = scratch.file("users.csv", "\u{feff}ann,secret-a\r\nbob,secret-b\r\n").display().to_string();
    let user = format!("x-user: {{{{line {users} 1}}}}");
    let password = format!("x-password: {{{{line {users} 2}}}}");
    let sent = heads("http://a.test/bytes?3", &origin, &["-n", "4", "-H", &user, "-H", &password]);
    let pairs: Vec<bool> =
        sent.iter().map(|head| head.contains("x-user: ann\r\nx-password: secret-a\r\n")).collect();
    assert_eq!(pairs, [true, false, true, false], "{sent:?}");
    let others = sent.iter().filter(|head| head.contains("x-user: bob\r\nx-password: secret-b\r\n")).count();
    assert_eq!(others, 2, "{sent:?}");

    let three = scratch.file("three.txt", "1\n2\n3\n").display().to_string();
    let address = origin.address.to_string();
    let third = format!("x-third: {{{{line {three}}}}}");
    let few = ["http://a.test/bytes?3", "-n", "1", "-c", "1", "--connect-to", &address];
    let output = load(&[&few[..], &["-H", &user, "-H", &third]].concat());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("has 3 lines") && text.contains("users.csv` has 2"), "{text}");
}

#[test]
fn a_refused_answer_names_its_line() {
    let origin = Origin::start();
    let address = origin.address.to_string();
    let output = load(&["http://a.test/garbage", "-n", "1", "-c", "1", "--connect-to", &address]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("`this is not HTTP`"), "{text}");
    let odd = ["http://a.test/odd", "-n", "3", "-c", "1", "--connect-to", &address];
    let text = loaded(&[&odd[..], &["--expect-body-equals", "ok"]].concat());
    assert!(text.contains("200: 3"), "{text}");
}
