//! A pack of nginx in a temporary directory. A fault is planted by replacing texts of its template.

use std::path::Path;

/// Features that the pack offers.
const FEATURES: &str = "key-auth, header-rewrite, gzip";

const MANIFEST: &str = "name: planted
summary: nginx, with something planted
binary: nginx
version: { command: [\"{{ binary }}\", -v], pattern: 'nginx/(\\S+)' }
files:
  - { template: nginx.conf.j2, to: nginx.conf }
start: [\"{{ binary }}\", -p, \"{{ dir }}\", -e, \"{{ log_dir }}/error.log\", -c, \"{{ dir }}/nginx.conf\"]
stop: { signal: QUIT, grace: 30s }
ready: { path: /ready, port: admin }
access_log: file
features: [key-auth, header-rewrite, gzip]
settings:
  stock: [{ setting: error_log, reason: shipped is outside of the run }]
  equalised: [{ setting: \"worker_processes {{ workers }}\", reason: the same for every gateway }]
";

const TEMPLATE: &str = r#"{% if root %}user root;{% endif %}
daemon off;
pid {{ dir }}/nginx.pid;
error_log {{ log_dir }}/error.log;
worker_processes {{ workers }};
events { worker_connections {{ [connections * 2 + 512, descriptors] | min }}; }
http {
    client_body_temp_path {{ dir }}/1; proxy_temp_path {{ dir }}/2; fastcgi_temp_path {{ dir }}/3;
    uwsgi_temp_path {{ dir }}/4; scgi_temp_path {{ dir }}/5;
    access_log {{ access_log or "off" }};
    keepalive_requests 1000000000;
    {%- if features.key_auth %}
    map_hash_bucket_size 256;
    map $http_{{ features.key_auth.header | replace("-", "_") }} $known {
        default 0;
        {%- for consumer in features.consumers %}
        "{{ consumer.key }}" 1;
        {%- endfor %}
    }
    {%- endif %}
    upstream upstreams {
        {%- for upstream in upstreams %}
        server {{ upstream.host }}:{{ upstream.port }};
        {%- endfor %}
        keepalive {{ [connections, 32] | max }};
        keepalive_requests 1000000000;
    }
    server {
        listen 127.0.0.1:{{ port }};
        location / {
            {%- if features.key_auth %}
            if ($known = 0) { return 401; }
            {%- endif %}
            {%- if features.gzip %}
            gzip on;
            gzip_comp_level {{ features.gzip.level }};
            gzip_types {{ features.gzip.types | join(" ") }};
            gzip_proxied any;
            gzip_vary on;
            {%- endif %}
            {%- if features.header_rewrite %}
            proxy_set_header {{ features.header_rewrite.request_set.name }} {{ features.header_rewrite.request_set.value }};
            proxy_set_header {{ features.header_rewrite.request_removed.name }} "";
            proxy_hide_header {{ features.header_rewrite.response_removed.name }};
            add_header {{ features.header_rewrite.response_set.name }} {{ features.header_rewrite.response_set.value }};
            {%- endif %}
            proxy_pass http://upstreams;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
        }
    }
    server {
        listen 127.0.0.1:{{ admin_port }};
        access_log off;
        location = /ready { return 200; }
    }
}
"#;

/// Creates a directory with the pack `planted`. In the pack's template, the first text of each pair is
/// replaced by the second.
pub(crate) fn packs(plants: &[(&str, &str)]) -> tempfile::TempDir {
    offering(FEATURES, plants)
}

/// Like [`packs`], with other features.
pub(crate) fn offering(features: &str, plants: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let mut template = TEMPLATE.to_owned();
    for (from, to) in plants {
        assert!(template.contains(from), "`{from}`");
        template = template.replace(from, to);
    }
    let folder = directory.path().join("planted");
    std::fs::create_dir(&folder).expect("made");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    write("gateway.yaml", &MANIFEST.replace(FEATURES, features));
    write("nginx.conf.j2", &template);
    directory
}

/// The pack with a gateway that accepts requests over TLS only.
pub(crate) fn with_tls_alone() -> tempfile::TempDir {
    let listen = "listen 127.0.0.1:{{ port }};";
    let secure = "listen 127.0.0.1:{{ port }} ssl; ssl_certificate {{ features.tls.certificate }}; \
                  ssl_certificate_key {{ features.tls.key }}; ssl_protocols TLSv1.3; ssl_conf_command \
                  Ciphersuites {{ features.tls.cipher_suite }}; {% if features.mtls \
                  %}ssl_client_certificate {{ features.mtls.authority }}; ssl_verify_client on;{% endif %}";
    let directory = offering("tls, mtls, gzip", &[(listen, secure)]);
    change(&directory, "gateway.yaml", "access_log: file\n", "access_log: file\ntls: always\n");
    directory
}

/// Replaces a text in a file of the pack.
pub(crate) fn change(packs: &tempfile::TempDir, file: &str, from: &str, to: &str) {
    let path = packs.path().join("planted").join(file);
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(text.contains(from), "`{from}` in {text}");
    std::fs::write(path, text.replace(from, to)).expect("written");
}

/// Copies a pack of the project under another name into `packs`, and replaces texts in files of the copy.
pub(crate) fn altered(packs: &Path, from: &str, name: &str, changes: &[(&str, &str, &str)]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../gateways").join(from);
    let target = packs.join(name);
    std::fs::create_dir_all(&target).expect("made");
    let (old, new) = (format!("name: {from}\n"), format!("name: {name}\n"));
    for entry in std::fs::read_dir(source).expect("there").flatten() {
        let file = entry.file_name().into_string().expect("text");
        let mut text = std::fs::read_to_string(entry.path()).expect("text");
        for (_, old, new) in
            changes.iter().chain([&("gateway.yaml", old.as_str(), new.as_str())]).filter(|one| one.0 == file)
        {
            assert!(text.contains(old), "{file} lacks `{old}`");
            text = text.replace(old, new);
        }
        std::fs::write(target.join(file), text).expect("written");
    }
}

/// The directory as a command-line argument.
pub(crate) fn argument(directory: &tempfile::TempDir) -> &str {
    let path: &Path = directory.path();
    path.to_str().expect("text")
}
