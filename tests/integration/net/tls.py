#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TLS between clients and telpherd: who is let in, who is not, and what each of them is told.

Settings come from the environment that CTest sets: TLS_TELPHERD, TLS_TELPHER, TLS_OPENSSL, and, empty where they
were not built, TLS_LBM, a program to compare with its native run, and TLS_LINK, which makes another machine."""
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TELPHERD, TELPHER, OPENSSL, LBM, LINK = (
    os.environ[f"TLS_{name}"] for name in ("TELPHERD", "TELPHER", "OPENSSL", "LBM", "LINK"))
LIMIT_S = 60
REPORT = re.compile(r".*(?:ERROR: LeakSan|ERROR: AddressSanitizer|WARNING: ThreadSan|runtime error:).*")
FEATURE_TLS = 1 << 18


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {LIMIT_S} s: {what}")
        time.sleep(0.01)
    return value


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def command_name(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return os.path.basename(file.read().split("\0")[0])
    except OSError:
        return ""


def processor_time(pid):
    """[s] that a process has used, of user and system."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def preface(session=bytes(16), stream=1, features=FEATURE_TLS, auth_len=0, index=0):
    return struct.pack("<8sHHIQ16sQIIQ", b"TELPHER\n", 1, 1, stream, features, session, 0, index, auth_len, 0)


def clean_environment(home):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TELPHER_", "XDG_"))}
    env.update(HOME=home, TELPHER_COOKIE=f"{home}/cookie", TELPHER_DRAIN_TIMEOUT="0")
    return env


class Server:
    def __init__(self, folder, *options, **more):
        while not self.start(folder, *options, **more):
            pass  # another program was faster to take the port

    def start(self, folder, *options, tls=True, log="info"):
        self.port = free_port()
        self.address = f"{'tls://' if tls else ''}127.0.0.1:{self.port}"
        self.log_path = tempfile.mktemp(dir=folder, prefix="log")
        self.log_file = open(self.log_path, "w", encoding="utf-8")
        self.process = subprocess.Popen(
            [TELPHERD, "--socket", "none", "--listen", self.address, "--log", log, *options],
            env=clean_environment(folder), stderr=self.log_file, stdout=self.log_file)
        until(lambda: "listening on" in self.log() or self.process.poll() is not None, "telpherd is up")
        if self.process.poll() is None:
            return True
        self.log_file.close()
        if "Address already in use" not in self.log():
            raise AssertionError(self.log())
        return False

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)

    def helpers(self):
        return [p for p in children(self.process.pid) if command_name(p) == "telpher-handshake"]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(LIMIT_S)
        self.log_file.close()
        report = REPORT.search(self.log())
        assert report is None, self.log()


class Authority:
    """A certificate authority and what it signs, made with the openssl command."""

    def __init__(self, folder, name):
        self.folder, self.name, self.serial = folder, name, 1
        self.ca = self.path(f"{name}.ca.pem")
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                 self.path(f"{name}.ca.key"), "-out", self.ca, "-days", "30", "-subj", f"/CN={name}")

    def path(self, name):
        return os.path.join(self.folder, name)

    @staticmethod
    def run(*arguments, **options):
        subprocess.run([OPENSSL, *arguments], check=True, capture_output=True, timeout=LIMIT_S, **options)

    def sign(self, name, san="", usage="", days=30):
        cert, key, request, ext = (self.path(f"{name}.{end}") for end in ("pem", "key", "csr", "ext"))
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                 request, "-subj", f"/CN={name}")
        with open(ext, "w", encoding="ascii") as file:
            file.write("basicConstraints=CA:FALSE\n")
            file.write(f"subjectAltName={san}\n" if san else "")
            file.write(f"extendedKeyUsage={usage}\n" if usage else "")
        self.serial += 1
        # `openssl x509` counts days from now; a negative number is a certificate that has expired
        self.run("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.path(f"{self.name}.ca.key"),
                 "-set_serial", str(self.serial), "-days", str(days), "-extfile", ext, "-out", cert)
        os.chmod(key, 0o600)
        return cert, key


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="tls_")
        cls.key = cls.make_key("shared.key", "alice")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def make_key(cls, file, name):
        path = os.path.join(cls.folder, file)
        subprocess.run([TELPHER, "keygen", "--name", name, path], check=True, capture_output=True, timeout=LIMIT_S)
        return path

    def serve(self, *options, **more):
        server = Server(self.folder, *options, **more)
        self.addCleanup(server.stop)
        return server

    def ask(self, address, *options, **settings):
        """What `telpher devices` says of a server: (exit code, both streams)."""
        env = clean_environment(self.folder)
        env.update(settings)
        run = subprocess.run([TELPHER, "devices", *options, "--timeout", "20s", "-s", address], env=env, capture_output=True,
                             text=True, timeout=LIMIT_S)
        return run.returncode, run.stdout + run.stderr

    def expect_in(self, address, **settings):
        code, text = self.ask(address, **settings)
        self.assertEqual(code, 0, text)

    def expect_out(self, pattern, address, **settings):
        code, text = self.ask(address, **settings)
        self.assertNotEqual(code, 0, text)
        self.assertRegex(text, pattern)


class Keys(Base):
    def test_right_wrong_and_none(self):
        server = self.serve("--tls-psk", self.key)
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)
        self.assertIn("authenticated: key alice", server.log())
        self.expect_out("another one than the server's", server.address,
                        TELPHER_TLS_PSK=self.make_key("alice2.key", "alice"))
        self.expect_out("does not know this key", server.address, TELPHER_TLS_PSK=self.make_key("bob.key", "bob"))
        self.expect_out("no key to connect with.*telpher keygen", server.address)
        until(lambda: "key bob is not in the file" in server.log(), "the log says why")
        self.assertIn("another key than ours of the name alice", server.log())
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)

    def test_several_keys(self):
        both = os.path.join(self.folder, "both.key")
        bob = self.make_key("second.key", "second")
        with open(both, "w", encoding="ascii") as file:
            os.chmod(both, 0o600)
            for path in (self.key, bob):
                with open(path, encoding="ascii") as part:
                    file.write(part.read())
        server = self.serve("--tls-psk", both)
        self.expect_in(server.address, TELPHER_TLS_PSK=bob)
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)

    def test_default_places(self):
        os.makedirs(f"{self.folder}/.telpher", exist_ok=True)
        default = self.make_key(".telpher/key", "default")
        self.addCleanup(os.remove, default)
        server = self.serve()
        self.expect_in(server.address)

    def test_modes(self):
        server = self.serve("--tls-psk", self.key)
        open_key = os.path.join(self.folder, "open.key")
        shutil.copy(self.key, open_key)
        os.chmod(open_key, 0o644)
        self.expect_out("can be read or changed by other users.*chmod 600", server.address,
                        TELPHER_TLS_PSK=open_key)
        self.refuse_start("chmod 600", "--listen", "tls://127.0.0.1:0", "--tls-psk", open_key)
        self.assertEqual(os.stat(self.key).st_mode & 0o7777, 0o600)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_owners(self):
        """A key that another user can change is refused, also by root."""
        server = self.serve("--tls-psk", self.key)
        theirs = os.path.join(self.folder, "their.key")
        shutil.copy(self.key, theirs)
        os.chmod(theirs, 0o600)
        os.chown(theirs, 65534, 65534)
        self.expect_out("belongs to user 65534", server.address, TELPHER_TLS_PSK=theirs)
        self.refuse_start("belongs to user 65534", "--listen", "tls://127.0.0.1:0", "--tls-psk", theirs)

    def refuse_start(self, pattern, *options):
        run = subprocess.run([TELPHERD, "--socket", "none", *options], env=clean_environment(self.folder),
                             capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(run.returncode, 69, run.stderr)
        self.assertRegex(run.stderr, pattern)

    def test_off_loopback_is_mandatory(self):
        self.refuse_start("needs TLS.*telpher keygen", "--listen", "0.0.0.0:0")
        self.refuse_start("tcp:// is without TLS", "--listen", "tcp://0.0.0.0:0", "--tls-psk", self.key)
        self.refuse_start("holds no certificate of an authority", "--listen", "0.0.0.0:0", "--tls-ca",
                          "/nowhere")
        self.refuse_start("needs its key", "--listen", "0.0.0.0:0", "--tls-cert", "/nowhere")

    def test_plain_and_tls_do_not_mix(self):
        secured = self.serve("--tls-psk", self.key)
        plain = self.serve(tls=False)
        self.expect_out("TLS is wanted here", secured.address.removeprefix("tls://"))
        self.expect_out("no TLS at this address", f"tls://{plain.address}", TELPHER_TLS_PSK=self.key)
        self.expect_in(plain.address)

    def test_downgrade(self):
        """Who answers in clear, as if all were well, is not believed."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def answer():
                s, _ = listener.accept()
                with s:
                    s.recv(64)
                    s.sendall(struct.pack("<8sHHiQ16sQQII64s", b"TELPHER\n", 1, 0, 0, 0, b"s" * 16, 0, 1 << 24, 4,
                                          1 << 20, b""))
                    s.recv(4096)
                    s.recv(4096)

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            self.expect_out("answers without TLS, and this client insists",
                            f"tls://127.0.0.1:{listener.getsockname()[1]}", TELPHER_TLS_PSK=self.key)
            thread.join(LIMIT_S)

    def test_strange_server(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def answer():
                s, _ = listener.accept()
                with s:
                    s.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")
                    s.recv(4096)

            thread = threading.Thread(target=answer, daemon=True)
            thread.start()
            self.expect_out("no TLS", f"tls://127.0.0.1:{listener.getsockname()[1]}", TELPHER_TLS_PSK=self.key)
            thread.join(LIMIT_S)


class Certificates(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ours, theirs = Authority(cls.folder, "ours"), Authority(cls.folder, "theirs")
        cls.ca, cls.other_ca = ours.ca, theirs.ca
        cls.server = ours.sign("server", "DNS:localhost,IP:127.0.0.1", "serverAuth")
        cls.elsewhere = ours.sign("elsewhere", "DNS:gpu.example.org", "serverAuth")
        cls.old_server = ours.sign("old_server", "IP:127.0.0.1", "serverAuth", days=-1)
        cls.client = ours.sign("client", usage="clientAuth")
        cls.old_client = ours.sign("old_client", usage="clientAuth", days=-1)
        cls.strange_client = theirs.sign("strange_client", usage="clientAuth")

    def start(self, pair, *options, **more):
        return self.serve("--tls-cert", pair[0], "--tls-key", pair[1], "--tls-ca", self.ca, *options, **more)

    def show(self, pair, ca=None):
        return {"TELPHER_TLS_CERT": pair[0], "TELPHER_TLS_KEY": pair[1], "TELPHER_TLS_CA": ca or self.ca}

    def test_clients(self):
        server = self.start(self.server)
        self.expect_in(server.address, **self.show(self.client))
        self.assertIn("authenticated: /CN=client", server.log())
        self.expect_in(f"tls://localhost:{server.port}", **self.show(self.client))
        self.expect_out("wants a certificate", server.address, TELPHER_TLS_CA=self.ca)
        self.expect_out("has expired", server.address, **self.show(self.old_client))
        self.expect_out("another authority", server.address, **self.show(self.strange_client))
        self.expect_out("does not know this key", server.address, TELPHER_TLS_PSK=self.key)
        for words in ("it shows no certificate", "signed by none of the authorities", "renew it, or set the clock"):
            self.assertIn(words, server.log())
        self.expect_in(server.address, **self.show(self.client))

    def test_servers(self):
        self.expect_out("not for 127.0.0.1", self.start(self.elsewhere).address, **self.show(self.client))
        self.expect_out("renew it, or set the clock", self.start(self.old_server).address, **self.show(self.client))
        self.expect_out("signed by none of the authorities", self.start(self.server).address,
                        **self.show(self.client, self.other_ca))

    def test_both_ways_in(self):
        server = self.start(self.server, "--tls-psk", self.key)
        self.expect_in(server.address, **self.show(self.client))
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)

    def test_key_of_another_certificate(self):
        server = self.start(self.server)
        self.expect_out("is not the key of", server.address, TELPHER_TLS_CERT=self.client[0],
                        TELPHER_TLS_KEY=self.server[1], TELPHER_TLS_CA=self.ca)

    # ---- what only an authenticated client can try ----

    def open_tls(self, server, clear):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_verify_locations(self.ca)
        context.load_cert_chain(*self.client)
        s = server.connect()
        s.sendall(clear)
        return context.wrap_socket(s, server_hostname="localhost")

    def reply(self, s):
        data = b""
        while len(data) < 128:
            part = s.recv(128 - len(data))
            if not part:
                break
            data += part
        status, session = struct.unpack_from("<i8x16s", data, 12)
        return status, session, data[64:].split(b"\0")[0].decode()

    def test_changed_preface(self):
        server = self.start(self.server)
        with self.open_tls(server, preface()) as s:
            s.sendall(preface(features=FEATURE_TLS | 1))
            status, _, text = self.reply(s)
            self.assertEqual((status, text), (-33, "the preface was changed on its way here"))

    def test_foreign_stream(self):
        """Who is let in as well cannot join another's session, though its id is no secret."""
        server = self.start(self.server)
        with self.open_tls(server, preface()) as s:
            s.sendall(preface())
            status, session, _ = self.reply(s)
            self.assertEqual(status, 0)
            with self.assertRaises((ssl.SSLError, OSError)):
                other = self.open_tls(server, preface(session=session, stream=2))
                other.sendall(preface(session=session, stream=2))
                self.reply(other)
        self.expect_in(server.address, **self.show(self.client))

    def test_silence_behind_the_handshake(self):
        server = self.start(self.server, "--preface-timeout", "1s")
        with self.open_tls(server, preface()) as s:
            self.assertEqual(s.recv(1), b"")
        self.assertRegex(server.log(), "no preface within 1 s.*--preface-timeout")

    def test_garbage_behind_the_handshake(self):
        server = self.start(self.server)
        for garbage in (b"\0" * 64, b"GET / HTTP/1.1\r\n" * 4, preface() + b"\xff" * 24, preface() + b"\0" * 4096):
            with self.open_tls(server, preface()) as s:
                s.sendall(garbage)
                while s.recv(4096):  # a refusal or a CLOSE, then the end
                    pass
        for record in (b"\x17\x03\x03\x00\x40" + b"x" * 64, b"\x17\x03\x03\xff\xff", b"\x15\x03\x03\x00\x02\x01\x00"):
            s = self.open_tls(server, preface())
            raw = s.detach()
            os.write(raw, record)
            with socket.socket(fileno=raw) as plain:
                plain.settimeout(LIMIT_S)
                try:
                    while plain.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        forged = {b"\x17\x03\x03\x00\x20" + b"x" * 32: "BAD_RECORD_MAC",
                  b"\x17\x03\x03\x41\x01": "RECORD_OVERFLOW", b"\x16\x03\x03\x00\x20": "UNEXPECTED_MESSAGE"}
        for record, alert in forged.items():
            with self.open_tls(server, preface()) as s:
                os.write(s.fileno(), record)
                with self.assertRaisesRegex(ssl.SSLError, alert):
                    while s.recv(4096):
                        pass
        cut = self.open_tls(server, preface())
        raw = cut.detach()
        os.write(raw, b"\x17\x03\x03\x01\x00" + b"x" * 10)
        os.close(raw)
        self.expect_in(server.address, **self.show(self.client))
        self.assertIsNone(server.process.poll())


class Limits(Base):
    def knock(self, server, data=b"\x16\x03\x01\x02\x00"):
        s = server.connect()
        s.sendall(preface() + data)
        return s

    def test_stalled_handshake(self):
        server = self.serve("--tls-psk", self.key, "--handshake-timeout", "1s")
        start = time.monotonic()
        with self.knock(server) as s:
            until(server.helpers, "a process for the handshake")
            self.assertEqual(s.recv(1), b"")
        self.assertLess(time.monotonic() - start, 20)
        until(lambda: not server.helpers(), "its end")
        with server.connect() as s:  # a preface and nothing more costs no process at all
            s.sendall(preface())
            time.sleep(0.2)
            self.assertEqual(server.helpers(), [])
            self.assertEqual(s.recv(1), b"")

    def test_half_open_handshakes(self):
        server = self.serve("--tls-psk", self.key, "--handshake-timeout", "60s", "--max-handshakes", "8")
        held = [self.knock(server) for _ in range(50)]
        until(lambda: 1 <= len(server.helpers()) <= 8, "no more processes than allowed")
        start = time.monotonic()
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)
        self.assertLess(time.monotonic() - start, 20)
        self.assertLessEqual(len(server.helpers()), 9)
        for s in held:
            s.close()
        until(lambda: not server.helpers(), "all are gone with their clients")
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)

    def test_no_privilege(self):
        """While it waits for a stranger the process can do next to nothing."""
        server = self.serve("--tls-psk", self.key, "--handshake-timeout", "60s")
        with self.knock(server):
            pid = until(server.helpers, "a process for the handshake")[0]

            def status():
                with open(f"/proc/{pid}/status", encoding="ascii") as file:
                    return dict(line.split(":\t", 1) for line in file.read().splitlines())

            until(lambda: status()["Seccomp"].strip() == "2", "its filter of system calls")
            now = status()
            self.assertEqual(now["NoNewPrivs"].strip(), "1")
            for name in ("CapEff", "CapPrm", "CapInh"):
                self.assertEqual(int(now[name], 16), 0)
            before = processor_time(pid)
            time.sleep(1)
            self.assertLess(processor_time(pid) - before, 0.1, "it sleeps while the client is silent")
            if os.geteuid() == 0:
                self.assertEqual(now["Uid"].split(), ["65534"] * 4)
                self.assertEqual(now["Groups"].strip(), "")
                with open(f"/proc/{pid}/maps", encoding="ascii") as file:
                    self.assertNotIn("OpenCL", file.read())
                fds = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
                self.assertFalse([f for f in fds if f.startswith(self.folder) and "log" not in f], fds)

    def test_broker_keeps_nothing(self):
        server = self.serve("--tls-psk", self.key)
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)

        def descriptors():
            return len(os.listdir(f"/proc/{server.process.pid}/fd"))

        before = until(lambda: not children(server.process.pid) and descriptors(), "rest")
        for i in range(20):
            with self.knock(server, b"\x16\x03\x01\x00\x05hello" if i % 2 else b"no TLS at all, but long enough"):
                pass
        self.expect_in(server.address, TELPHER_TLS_PSK=self.key)
        until(lambda: not children(server.process.pid) and descriptors() <= before,
              "as many descriptors as before, and no process")


class AnotherMachine(Base):
    """Off loopback TLS goes without saying, on both sides."""

    def over_link(self, command, **settings):
        if not LINK:
            self.skipTest("the program link was not built")
        env = clean_environment(self.folder)
        env.update(TELPHER_INSECURE="no", **settings)
        run = subprocess.run(
            [LINK, "run", "--wait-port", "7717", "--b",
             f"exec {TELPHERD} --socket none --log info --listen 10.77.0.2 --tls-psk {self.key}", "--a", command],
            env=env, capture_output=True, text=True, timeout=LIMIT_S)
        if run.returncode == 77:
            self.skipTest(f"no network of our own: {run.stdout}{run.stderr}")
        return run.returncode, run.stdout + run.stderr

    def test_with_key(self):
        code, text = self.over_link(f"{TELPHER} devices -t 30s -s 10.77.0.2", TELPHER_TLS_PSK=self.key)
        self.assertEqual(code, 0, text)
        self.assertIn("authenticated: key alice", text)

    def test_without(self):
        code, text = self.over_link(f"{TELPHER} devices -t 30s -s 10.77.0.2")
        self.assertNotEqual(code, 0, text)
        self.assertIn("no key to connect with", text)
        code, text = self.over_link(f"{TELPHER} devices -t 30s -s tcp://10.77.0.2", TELPHER_TLS_PSK=self.key)
        self.assertNotEqual(code, 0, text)
        self.assertIn("TLS is wanted here", text)
        self.assertIn("INSECURE", text)


class Programs(Base):
    def test_same_result(self):
        if not LBM:
            self.skipTest("the example lbm was not built")
        field = os.path.join(self.folder, "native.field")
        options = ["--size", "128x64", "--steps", "60"]
        native = subprocess.run([LBM, *options, "--dump", field], env=clean_environment(self.folder),
                                capture_output=True, text=True, timeout=LIMIT_S)
        if native.returncode != 0:
            self.skipTest(f"no native OpenCL device: {native.stderr.strip()}")
        cache = os.path.join(self.folder, "cache")
        server = self.serve("--tls-psk", self.key, "--cache", cache)
        env = clean_environment(self.folder)
        env["TELPHER_TLS_PSK"] = self.key
        run = subprocess.run([TELPHER, "run", "-s", server.address, "--", LBM, "--platform", "Telpher", *options,
                              "--compare", field], env=env, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr + server.log())
        self.assertRegex(run.stdout, "(?i)(equal|identical|same)")
        self.assertIn("authenticated: key session", server.log())
        # what was built is kept for this key alone
        self.assertIn("tls-" + b"key alice".hex(), os.listdir(cache))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    if result.wasSuccessful() and result.skipped:
        print(f"skipped: one case at least: {result.skipped[-1][1].strip()}")
        sys.exit(77)
    sys.exit(0 if result.wasSuccessful() else 1)
