# SPDX-License-Identifier: MIT
"""Servers and clients of TLS as a machine has them: how each is configured, started, and asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.impaired_path import Rig

HOST, FIRST_PORT = "10.99.0.2", 7000
PAGES = {"small": 900, "mid": 40_000, "big": 200_000}
# Certificates sent beside the server's own: nothing, a usual chain, one that is longer than most windows.
CHAINS = {"short": 0, "usual": 2, "long": 16}
PYTHON_SERVER = """
    import http.server, os, socket, ssl, sys, threading
    class Page(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        def log_message(self, *_): pass
    for port, chain in zip(sys.argv[2::2], sys.argv[3::2]):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, sys.argv[1])
        server = http.server.ThreadingHTTPServer(("", int(port)), Page)
        if "BUFFER" in os.environ:
            server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, int(os.environ["BUFFER"]))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever).start()
"""
NODE_SERVER = """
    const fs = require("fs"), https = require("https"), key = fs.readFileSync(process.argv[2]);
    for (let n = 3; n < process.argv.length; n += 2)
        https.createServer({key, cert: fs.readFileSync(process.argv[n + 1])}, (ask, answer) => {
            fs.createReadStream("." + ask.url).on("error", () => answer.end()).pipe(answer);
        }).listen(Number(process.argv[n]));
"""
GO_SERVER = """
    package main
    import ("log"; "net/http"; "os"; "sync")
    func main() {
        var all sync.WaitGroup
        for n := 2; n+1 < len(os.Args); n += 2 {
            all.Add(1)
            go func(port, chain string) {
                log.Println(http.ListenAndServeTLS(":" + port, chain, os.Args[1], http.FileServer(http.Dir("."))))
            }(os.Args[n], os.Args[n+1])
        }
        all.Wait()
    }
"""
GO_CLIENT = """
    package main
    import ("crypto/tls"; "io"; "net/http"; "os")
    func main() {
        http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
        answer, err := http.Get(os.Args[1])
        if err != nil { os.Exit(1) }
        io.Copy(io.Discard, answer.Body)
    }
"""
JAVA_SERVER = """
    import com.sun.net.httpserver.*;
    import java.io.*; import java.net.*; import java.nio.file.*; import java.security.*; import javax.net.ssl.*;
    public class Serve {
        public static void main(String[] words) throws Exception {
            for (int n = 0; n + 1 < words.length; n += 2) {
                KeyStore store = KeyStore.getInstance("PKCS12");
                store.load(new FileInputStream(words[n + 1]), "secret".toCharArray());
                KeyManagerFactory keys = KeyManagerFactory.getInstance("SunX509");
                keys.init(store, "secret".toCharArray());
                SSLContext context = SSLContext.getInstance("TLS");
                context.init(keys.getKeyManagers(), null, null);
                HttpsServer server = HttpsServer.create(new InetSocketAddress(Integer.parseInt(words[n])), 0);
                server.setHttpsConfigurator(new HttpsConfigurator(context));
                server.createContext("/", asked -> {
                    byte[] page = Files.readAllBytes(Path.of("." + asked.getRequestURI().getPath()));
                    asked.sendResponseHeaders(200, page.length);
                    try (OutputStream out = asked.getResponseBody()) { out.write(page); }
                });
                server.start();
            }
        }
    }
"""
# A client that takes its time: half a request, a pause, the rest.
LATE = """
    import socket, ssl, sys, time
    context = ssl._create_unverified_context()
    with context.wrap_socket(socket.create_connection((sys.argv[1], int(sys.argv[2])), 20)) as stream:
        time.sleep(0.2)
        stream.sendall(b"GET /big HTTP/1.1\\r\\nHost: x\\r\\n")
        time.sleep(0.1)
        stream.sendall(b"Connection: close\\r\\n\\r\\n")
        while stream.recv(65536): pass
"""
URLLIB = """
    import ssl, sys, urllib.request
    urllib.request.urlopen(sys.argv[1], timeout=20, context=ssl._create_unverified_context()).read()
"""
NODE = "require('https').get(process.argv[1], {rejectUnauthorized: false}, r => r.resume())"


class Place(NamedTuple):
    """A folder with pages, keys and chains of certificates, and the port of each server with each chain."""

    folder: Path

    @property
    def key(self) -> Path:
        """The private key, of all."""
        return self.folder / "key.pem"

    def chain(self, name: str) -> Path:
        """A file with the server's certificate and those sent beside it."""
        return self.folder / f"{name}.pem"

    def port(self, server: str, chain: str) -> int:
        """Where it listens."""
        return FIRST_PORT + 10 * list(SERVERS).index(server) + list(CHAINS).index(chain)

    def listens(self, server: str) -> list[str]:
        """Port and chain, for each chain."""
        return [word for name in CHAINS for word in (str(self.port(server, name)), str(self.chain(name)))]


@cache
def _prepared(folder: Path) -> Place:
    place = Place(folder)
    for name, size in PAGES.items():
        (folder / name).write_bytes(os.urandom(size))
    command = ("openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-days", "3", "-addext",
               f"subjectAltName=IP:{HOST},DNS:x")  # fmt: skip
    for n in range(1 + max(CHAINS.values())):
        key, certificate = folder / f"key{n}.pem", folder / f"certificate{n}.pem"
        words = (*command, "-subj", f"/CN=authority {n}", "-keyout", str(key), "-out", str(certificate))
        subprocess.run(words, check=True, capture_output=True)
    shutil.copy(folder / "key0.pem", place.key)
    for name, more in CHAINS.items():
        parts = [(folder / f"certificate{n}.pem").read_text() for n in range(1 + more)]
        place.chain(name).write_text("".join(parts))
        place.chain(name).with_suffix(".all").write_text("".join(parts) + place.key.read_text())
        pack = ("openssl", "pkcs12", "-export", "-in", str(place.chain(name)), "-inkey", str(place.key), "-passout",
                "pass:secret", "-out", str(folder / f"{name}.p12"))  # fmt: skip
        subprocess.run(pack, check=True, capture_output=True)
    for name, text in (("serve.py", PYTHON_SERVER), ("serve.js", NODE_SERVER), ("Serve.java", JAVA_SERVER),
                       ("late.py", LATE), ("urllib_get.py", URLLIB)):  # fmt: skip
        (folder / name).write_text(textwrap.dedent(text))
    if shutil.which("go"):
        for name, text in (("serve", GO_SERVER), ("fetch", GO_CLIENT)):
            (folder / f"{name}.go").write_text(textwrap.dedent(text))
            build = ("go", "build", "-o", str(folder / f"go-{name}"), str(folder / f"{name}.go"))
            subprocess.run(build, check=True, capture_output=True, env={**os.environ, "CGO_ENABLED": "0"})
    return place


def prepared(folder: Path, stands: Rig) -> Place:
    """Keys, certificates, pages, programs: made once."""
    return _prepared(folder)


def _nginx(place: Place) -> tuple[str, ...]:
    blocks = "".join(
        f"server {{ listen {place.port('nginx', name)} ssl http2; ssl_certificate {place.chain(name)};"
        f" ssl_certificate_key {place.key}; ssl_buffer_size {size}; }}\n"
        for name, size in zip(CHAINS, ("4k", "16k", "16k"), strict=True)
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = " ".join(f"{kind}_temp_path {place.folder}/nginx-{kind};" for kind in kinds)
    text = f"daemon off; user root; error_log /dev/null; pid {place.folder}/nginx.pid; events {{}}\n"
    text += f"http {{ access_log off; {temporary} root {place.folder};\n{blocks}}}\n"
    (place.folder / "nginx.conf").write_text(text)
    return "nginx", "-c", f"{place.folder}/nginx.conf"


def _apache(place: Place) -> tuple[str, ...]:
    modules = ("mpm_event", "authz_core", "ssl", "http2", "socache_shmcb")
    lines = [f"LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so" for name in modules]
    lines += ["ServerName x", f"PidFile {place.folder}/apache.pid", f"DefaultRuntimeDir {place.folder}",
              f"ErrorLog {place.folder}/apache.log", "User www-data", f"DocumentRoot {place.folder}",
              "Protocols h2 http/1.1", "<Directory />", "Require all granted", "</Directory>"]  # fmt: skip
    for name in CHAINS:
        port = place.port("apache", name)
        lines += [f"Listen {port}", f"<VirtualHost *:{port}>", "SSLEngine on"]
        lines += [f"SSLCertificateFile {place.chain(name)}", f"SSLCertificateKeyFile {place.key}"]
        lines += ["SSLVerifyClient optional_no_ca", "</VirtualHost>"]
    (place.folder / "apache.conf").write_text("\n".join(lines) + "\n")
    return "apache2", "-DFOREGROUND", "-f", f"{place.folder}/apache.conf"


def _h2o(place: Place) -> tuple[str, ...]:
    text = "user: root\n"
    for name in CHAINS:
        text += f"listen:\n  port: {place.port('h2o', name)}\n"
        text += f"  ssl: {{certificate-file: {place.chain(name)}, key-file: {place.key}}}\n"
    text += f"hosts:\n  default:\n    paths:\n      /: {{file.dir: {place.folder}}}\n"
    (place.folder / "h2o.yaml").write_text(text)
    return "h2o", "-c", f"{place.folder}/h2o.yaml"


def _caddy(place: Place) -> tuple[str, ...]:
    text = f"{{\nadmin off\nauto_https off\nstorage file_system {place.folder}/caddy\ndefault_sni {HOST}\n}}\n"
    for name in CHAINS:
        text += f"https://:{place.port('caddy', name)} {{\ntls {place.chain(name)} {place.key}\n"
        text += f"root * {place.folder}\nfile_server\n}}\n"
    (place.folder / "Caddyfile").write_text(text)
    return "caddy", "run", "--adapter", "caddyfile", "--config", f"{place.folder}/Caddyfile"


def _haproxy(place: Place) -> tuple[str, ...]:
    text = "global\ntune.bufsize 262144\ndefaults\nmode http\ntimeout client 20s\n"
    text += "timeout server 20s\ntimeout connect 5s\n"
    for name in CHAINS:
        crt = place.chain(name).with_suffix(".all")
        text += f"frontend {name}\nbind :{place.port('haproxy', name)} ssl crt {crt} alpn h2,http/1.1\n"
        text += f"http-request return status 200 content-type text/plain file {place.folder}/big\n"
    (place.folder / "haproxy.cfg").write_text(text)
    return "haproxy", "-f", f"{place.folder}/haproxy.cfg"


def _each(words: Callable[[Place, str, str], tuple[str, ...]]) -> Callable[[Place, str], list[tuple[str, ...]]]:
    return lambda place, server: [words(place, server, name) for name in CHAINS]


def _one(words: Callable[[Place], tuple[str, ...]]) -> Callable[[Place, str], list[tuple[str, ...]]]:
    return lambda place, server: [words(place)]


def _nghttpd(place: Place, server: str, name: str) -> tuple[str, ...]:
    return "nghttpd", "-d", str(place.folder), str(place.port(server, name)), str(place.key), str(place.chain(name))


def _s_server(place: Place, server: str, name: str) -> tuple[str, ...]:
    chain = str(place.chain(name))
    return ("openssl", "s_server", "-quiet", "-accept", str(place.port(server, name)), "-cert", chain, "-cert_chain",
            chain, "-key", str(place.key), "-WWW", "-legacy_renegotiation", "-verify", "1")  # fmt: skip


# Server -> the programs to start, each a command.
SERVERS: dict[str, Callable[[Place, str], list[tuple[str, ...]]]] = {
    "nginx": _one(_nginx),
    "apache": _one(_apache),
    "h2o": _one(_h2o),
    "caddy": _one(_caddy),
    "haproxy": _one(_haproxy),
    "nghttpd": _each(_nghttpd),
    "s_server": _each(_s_server),
    "python": _one(lambda place: (sys.executable, "serve.py", str(place.key), *place.listens("python"))),
    # What is under way is then the buffer's, whatever the window is.
    "python-buffer": _one(
        lambda place: (
            "env",
            "BUFFER=4096",
            sys.executable,
            "serve.py",
            str(place.key),
            *place.listens("python-buffer"),
        )
    ),
    "node": _one(lambda place: ("node", "serve.js", str(place.key), *place.listens("node"))),
    "go": _one(lambda place: (f"{place.folder}/go-serve", str(place.key), *place.listens("go"))),
    "java": _one(lambda place: ("java", "Serve.java", *(w.replace(".pem", ".p12") for w in place.listens("java")))),
}


def serving(stands: Rig, place: Place, names: list[str], stack: ExitStack) -> list[str]:
    """Start those servers that are installed; which ones."""
    running = []
    for name in names:
        commands = SERVERS[name](place, name)
        if shutil.which(commands[0][0]):
            running.append(name)
            for words in commands:
                more = {"cwd": place.folder, "env": {**os.environ, "HOME": str(place.folder)}}
                stack.enter_context(stands.running("server", *words, **more))
    return running


def _curl(*words: str) -> tuple[str, ...]:
    return ("curl", "-k", "-s", "-m", "20", "-o", "/dev/null", *words)


def _s_client(*words: str) -> tuple[str, ...]:
    ask = r"(printf 'GET /mid HTTP/1.0\r\n\r\n'; sleep 0.6)"
    return ("sh", "-c", f"{ask} | timeout 20 openssl s_client -quiet -connect HOST:PORT {' '.join(words)}")


# How a conversation goes: HOST, PORT and PLACE are filled in.
CLIENTS: dict[str, tuple[str, ...]] = {
    "curl, TLS 1.3, h2": _curl("--http2", "https://HOST:PORT/big"),
    "curl, TLS 1.2": _curl("--http1.1", "--tls-max", "1.2", "https://HOST:PORT/big"),
    "curl, twice on one connection": _curl("https://HOST:PORT/small", "-o", "/dev/null", "https://HOST:PORT/mid"),
    "curl, a client's certificate": _curl("--cert", "PLACE/long.pem", "--key", "PLACE/key.pem", "https://HOST:PORT/mid"),
    "curl, an upload": _curl("-d", "@PLACE/mid", "https://HOST:PORT/mid"),
    "curl, TLS 1.2, h2": _curl("--http2", "--tls-max", "1.2", "https://HOST:PORT/mid"),
    "s_client, TLS 1.3": _s_client("-tls1_3"),
    "s_client, TLS 1.2, renegotiated": (
        "sh", "-c", "(sleep 0.4; echo R; sleep 0.4; printf 'GET /mid HTTP/1.0\\r\\n\\r\\n'; sleep 0.6)"
        " | timeout 20 openssl s_client -tls1_2 -legacy_renegotiation -connect HOST:PORT",
    ),
    "s_client, a session taken up": (
        "sh", "-c", "printf 'GET /small HTTP/1.0\\r\\n\\r\\n' | timeout 9 openssl s_client -connect HOST:PORT"
        " -sess_out PLACE/session -ign_eof; printf 'GET /mid HTTP/1.0\\r\\n\\r\\n' | timeout 9 openssl s_client"
        " -connect HOST:PORT -sess_in PLACE/session -ign_eof",
    ),
    "python, half a request late": (sys.executable, "PLACE/late.py", "HOST", "PORT"),
    "python, urllib": (sys.executable, "PLACE/urllib_get.py", "https://HOST:PORT/big"),
    "node": ("node", "-e", NODE, "https://HOST:PORT/big"),
    "go": ("PLACE/go-fetch", "https://HOST:PORT/mid"),
    "wget": ("wget", "-q", "--no-check-certificate", "-T", "20", "-t", "1", "-O", "/dev/null", "https://HOST:PORT/big"),
}  # fmt: skip


def clients() -> list[str]:
    """Clients that are installed."""
    return [name for name, words in CLIENTS.items() if shutil.which(words[0]) or words[0].startswith("PLACE")]


def conversation(stands: Rig, place: Place, port: int, turn: int) -> None:
    """One client, by turns, asks the server on that port; whether it succeeds is its own business."""
    words = CLIENTS[clients()[turn % len(clients())]]
    fills = {"HOST": HOST, "PORT": str(port), "PLACE": str(place.folder)}
    filled = list(words)
    for name, value in fills.items():
        filled = [word.replace(name, value) for word in filled]
    try:
        stands.run("client", *filled)
    except subprocess.TimeoutExpired:
        return
