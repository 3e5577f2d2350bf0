use super::*;
use std::time::Duration;

const AT: f64 = 1_795_811_144.0;

fn one(format: Option<&str>, line: &str) -> Seen {
    let format = match format {
        Some(typed) => named(typed).expect("a format"),
        None => detect("log", [line].into_iter()).expect("detected"),
    };
    format.read(line).expect("readable")
}

fn seen(method: &str, target: &str, status: u16) -> Seen {
    Seen {
        method: method.into(),
        target: target.into(),
        status: Some(status),
        at: Some(AT),
        ..Seen::default()
    }
}

#[test]
fn formats_of_servers_are_detected() {
    let combined =
        r#"192.0.2.1 - bob [27/Nov/2026:20:25:44 +0000] "GET /a?b=1 HTTP/1.1" 200 512 "-" "curl/8 (\"x\")""#;
    assert_eq!(one(None, combined), Seen { response_bytes: Some(512), ..seen("GET", "/a?b=1", 200) });
    let common = r#"::1 - - [27/Nov/2026:21:25:44 +0100] "POST /a HTTP/1.0" 204 -"#;
    assert_eq!(one(None, common), seen("POST", "/a", 204));
    let envoy = "[2026-11-27T20:25:44.000Z] \"GET /a HTTP/2\" 503 UF 3 91 12 - \"-\" \"curl\" \"id\" \
        \"shop.test\" \"10.0.0.1:80\"";
    let found = one(None, envoy);
    let expected = Seen {
        host: Some("shop.test".into()),
        request_bytes: Some(3),
        response_bytes: Some(91),
        took: Some(Duration::from_millis(12)),
        ..seen("GET", "/a", 503)
    };
    assert_eq!(found, expected);
    let vhost =
        r#"shop.test:443 192.0.2.1 - - [27/Nov/2026:20:25:44 +0000] "GET /a HTTP/1.1" 200 700 "-" "x""#;
    assert_eq!(
        one(None, vhost),
        Seen { host: Some("shop.test".into()), response_bytes: Some(700), ..seen("GET", "/a", 200) }
    );
}

#[test]
fn json_of_several_servers_is_read() {
    let took = |milliseconds| Some(Duration::from_micros((milliseconds * 1000.0_f64) as u64));
    let nginx = r#"{"time":"2026-11-27T20:25:44+00:00","request":"GET /a HTTP/1.1","status":"200","body_bytes_sent":"5","request_time":"0.500","upstream_response_time":"0.001, 0.002"}"#;
    assert_eq!(one(None, nginx), Seen { response_bytes: Some(5), took: took(2.0), ..seen("GET", "/a", 200) });
    let envoy = r#"{"start_time":"2026-11-27T20:25:44.000Z","method":"GET","path":"/a","response_code":200,"bytes_sent":5,"bytes_received":0,"duration":7,"authority":"Shop.test"}"#;
    let host = Some("shop.test".to_owned());
    let expected = Seen {
        host,
        request_bytes: Some(0),
        response_bytes: Some(5),
        took: took(7.0),
        ..seen("GET", "/a", 200)
    };
    assert_eq!(one(None, envoy), expected);
    let caddy = r#"{"ts":1795811144.0,"request":{"method":"GET","uri":"/a","host":"shop.test"},"status":200,"size":5,"duration":0.0015}"#;
    let expected = Seen { request_bytes: None, took: took(1.5), ..expected };
    assert_eq!(one(None, caddy), expected);
    let traefik = r#"{"StartUTC":"2026-11-27T20:25:44Z","RequestMethod":"GET","RequestPath":"/a","RequestHost":"shop.test","DownstreamStatus":200,"DownstreamContentSize":5,"Duration":9000000,"OriginDuration":1500000}"#;
    assert_eq!(one(None, traefik), expected);
}

#[test]
fn format_strings_of_nginx_and_apache_are_understood() {
    let told = [
        r#"$host "$request_method" $uri$is_args$args $status $upstream_response_time"#,
        "$remote_addr $status",
        "squid",
    ]
    .map(|typed| format!("{typed}\n=> {}\n", named(typed).err().expect("refused")));
    insta::assert_snapshot!(told.concat());
    let nginx = r#"${host} "$request_method" $uri ?$args $status $upstream_response_time rt=$request_time"#;
    let found = one(Some(nginx), r#"a.test "GET" /x ?q=1 200 0.010, 0.020 rt=0.5"#);
    let expected = Seen {
        host: Some("a.test".into()),
        took: Some(Duration::from_millis(20)),
        at: None,
        ..seen("GET", "/x?q=1", 200)
    };
    assert_eq!(found, expected);
    let apache = r#"%h %t "%r" %>s %B %D "%{Host}i""#;
    let found =
        one(Some(apache), r#"::1 [27/Nov/2026:20:25:44 +0000] "GET /x HTTP/1.1" 200 9 1500 "A.test""#);
    let host = Some("a.test".to_owned());
    let expected = Seen {
        host,
        response_bytes: Some(9),
        took: Some(Duration::from_micros(1500)),
        ..seen("GET", "/x", 200)
    };
    assert_eq!(found, expected);
}

fn read_all(text: &str) -> (Result<(), ImportError>, Mix, Vec<String>) {
    let (mut mix, mut notes) = (Mix::new(false), Vec::new());
    let mut input = lines::unpacked(text.as_bytes()).expect("readable");
    let outcome = read("log", &mut input, &Options::default(), &mut mix, &mut notes);
    (outcome, mix, notes)
}

#[test]
fn lines_that_are_not_requests_are_counted() {
    let line = |request: &str| format!("::1 - - [27/Nov/2026:20:25:44 +0000] \"{request}\" 400 0\n");
    let good = line("GET / HTTP/1.1").repeat(3);
    let text = format!(
        "\u{feff}{good}\n{}{}{}oops\n",
        line("-"),
        line("\\x16\\x03\\x01"),
        line("CONNECT a:443 HTTP/1.1")
    );
    let (outcome, mix, notes) = read_all(&text);
    outcome.expect("read");
    assert_eq!(mix.requests(), 3);
    let (outcome, ..) = read_all("what is\nthis\n");
    insta::assert_snapshot!(format!("{}\n{}", notes.join("\n"), outcome.expect_err("refused")));
    let (outcome, ..) = read_all(&format!("{}oops\n{}", good, "what\n".repeat(30)));
    assert!(
        outcome.is_err_and(|error| error.to_string().contains("31 of 34 lines")
            || error.to_string().contains("unknown format"))
    );
}
