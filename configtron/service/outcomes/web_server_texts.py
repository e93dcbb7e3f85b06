# SPDX-License-Identifier: MIT
"""What a web server's configuration needs for page loads: the one source of docs/learn.md and of `--setup`.

Rules for this file: text alone. LOG_PATH and BEACONS stand for the socket of log lines and the address of beacons.
"""

from __future__ import annotations

from textwrap import indent

LOG_PATH, BEACONS = "/run/configtron/outcomes.log", "127.0.0.1:9315"

NGINX = """\
log_format configtron 'ctn $request_id $server_addr $server_port $realip_remote_addr $realip_remote_port $msec'
                      ' $request_time $connection_requests $connection $tcpinfo_rtt $host';
map $sent_http_content_type $configtron_page { default 0; ~^text/html 1; }
map $configtron_page $configtron_timing { default ''; 1 'ct;desc="$request_id"'; }
"""
NGINX_LOG = "access_log syslog:server=unix:/run/configtron/outcomes.log,nohostname configtron if=$configtron_page;\n"
NGINX_HEADER = "add_header Server-Timing $configtron_timing;\n"
# ^~: a location of a pattern, as of all `.js`, would take the beacon script.
NGINX_LOCATION = """location ^~ /configtron/ {
    proxy_pass http://127.0.0.1:9315;
    proxy_set_header X-Real-IP $remote_addr;
}
"""
HAPROXY_FIRST = """unique-id-format %[uuid()]
http-request set-var(txn.host) req.hdr(host)
http-response set-header Server-Timing 'ct;desc="%ID"'
use_backend configtron if { path_beg /configtron/ }
"""
HAPROXY_LAST = """log /run/configtron/outcomes.log len 1024 format raw local0
log-format "cth %ID %fi %fp %ci %cp %[date(0,us)] %Ta - - %[fc_rtt(us)] %[var(txn.host)]"
"""
HAPROXY_BACKEND = """backend configtron
    mode http
    option forwardfor header X-Real-IP
    server endpoint 127.0.0.1:9315
"""
# GlobalLog, unlike CustomLog, also logs the pages of virtual hosts that have a log of their own.
APACHE = r"""
LogFormat "cta %{UNIQUE_ID}e %A %{local}p %{c}a %{remote}p %{end:usec}t %D %k %{c}L - %V" configtron
GlobalLog "||/usr/bin/logger --tag ct --socket /run/configtron/outcomes.log" configtron \
    "expr=%{CONTENT_TYPE} =~ m#^text/html#"
Header set Server-Timing "ct;desc=\"%{UNIQUE_ID}e\"" "expr=%{CONTENT_TYPE} =~ m#^text/html#"
RequestHeader set X-Real-IP "expr=%{REMOTE_ADDR}"
ProxyPass /configtron/ http://127.0.0.1:9315/configtron/
""".lstrip()
APACHE_MODULES = "".join(
    f"<IfModule !{name}_module>\n    LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n</IfModule>\n"
    for name in ("unique_id", "headers", "proxy", "proxy_http")
)

# The blocks of docs/learn.md: each is a whole site.
BLOCKS = {
    "nginx": f"{NGINX}{NGINX_LOG}{NGINX_HEADER}server {{\n    listen 80;\n    root /var/www/html;\n"
    f"{indent(NGINX_LOCATION, '    ')}}}\n",
    "haproxy": f"frontend web\n    mode http\n    bind :80\n{indent(HAPROXY_FIRST + HAPROXY_LAST, '    ')}"
    f"    default_backend pages\n{HAPROXY_BACKEND}",
    "apache": APACHE,
}  # fmt: skip
