#!/bin/sh
# Replace this with your gateway. So that the example runs, it is nginx with a configuration of its own.
#
#   my-gateway --listen ADDRESS:PORT --upstream HOST:PORT --directory DIR
#   my-gateway --version
set -eu
if [ "${1:-}" = --version ]; then
    echo "my-gateway 1.0"
    exit 0
fi
while [ $# -gt 0 ]; do
    case $1 in
    --listen) listen=$2 ;;
    --upstream) upstream=$2 ;;
    --directory) directory=$2 ;;
    *) echo "my-gateway: unknown option $1" >&2 && exit 2 ;;
    esac
    shift 2
done
user=''
[ "$(id -u)" != 0 ] || user='user root;'
cat >"$directory/nginx.conf" <<CONF
$user
daemon off;
worker_processes 1;
pid $directory/nginx.pid;
error_log $directory/error.log;
events { worker_connections 512; }
http {
    access_log off;
    client_body_temp_path $directory/body;
    proxy_temp_path $directory/proxy;
    fastcgi_temp_path $directory/fastcgi;
    uwsgi_temp_path $directory/uwsgi;
    scgi_temp_path $directory/scgi;
    upstream service {
        server $upstream;
        keepalive 32;
    }
    server {
        listen $listen;
        location / {
            proxy_pass http://service;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host \$http_host;
        }
    }
}
CONF
PATH=$PATH:/usr/sbin:/sbin
exec nginx -e "$directory/error.log" -c "$directory/nginx.conf"
