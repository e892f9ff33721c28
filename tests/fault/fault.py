# SPDX-License-Identifier: Apache-2.0
"""What the fault tests share: a server, its clients, and the proof that a fault harmed nobody else.

Settings come from the environment that CTest sets: FAULT_TELPHERD, FAULT_ICD, FAULT_CLIENT, FAULT_LINK, and
FAULT_DRIVER_LIBRARY, what a server loads instead of libOpenCL to have its calls spoiled."""
import atexit
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TELPHERD, ICD, CLIENT, LINK = (os.environ[f"FAULT_{name}"] for name in ("TELPHERD", "ICD", "CLIENT", "LINK"))
DRIVER = os.environ["FAULT_DRIVER_LIBRARY"]
# No wait is longer; a machine that runs other tests under a sanitizer is slow.
LIMIT_S = 40
SKIPPED = 77
# Lost connections end a session at once here; fault_cut.py tests resuming.
os.environ.setdefault("TELPHER_ON_LOSS", "fail")
os.environ.setdefault("TELPHER_DRAIN_TIMEOUT", "0")
# The thread sanitizer else sleeps for a second in every process that ends.
os.environ["TSAN_OPTIONS"] = os.environ.get("TSAN_OPTIONS", "") + ":atexit_sleep_ms=0"
# The leak sanitizer else takes what lies before a block of dynamic TLS for its size, and may crash at the end.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":intercept_tls_get_addr=0"
# A SEGV is the crashing kernel's.
REPORT = re.compile(r".*(?:ERROR: LeakSan|ERROR: AddressSanitizer: (?!SEGV)|WARNING: ThreadSan|runtime error:).*")


LIVE = []


@atexit.register
def end_all():
    """What a failed test has left running."""
    for process in LIVE:
        if process.poll() is None:
            process.kill()
            process.wait()


def until(condition, what, limit_s=LIMIT_S):
    """Waits for a condition; its value. @p what may be a function that tells."""
    deadline = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Client:
    """A run of fault_client."""
    program = CLIENT

    def __init__(self, folder, servers, *words, **environment):
        self.errors = tempfile.TemporaryFile(mode="w+", dir=folder)
        self.process = subprocess.Popen(
            [self.program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
            env={**os.environ, "TELPHER_SERVERS": servers, "OCL_ICD_VENDORS": folder, **environment})
        LIVE.append(self.process)
        self.pid = self.process.pid
        self.text = ""

    def wait_line(self, start, limit_s=LIMIT_S):
        """Waits for a new line that begins so; forgets all lines before."""
        deadline = time.monotonic() + limit_s
        while True:
            lines = self.text.split("\n")
            for number, line in enumerate(lines[:-1]):
                if line.startswith(start):
                    self.text = "\n".join(lines[number + 1:])
                    return line
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                raise AssertionError(f"no line '{start}' from the client: {self.text!r}, {self.said()!r}")
            self.text += data.decode()

    def drop_lines(self):
        """Forgets what it has said up to now."""
        while select.select([self.process.stdout], [], [], 0)[0]:
            if not os.read(self.process.stdout.fileno(), 65536):
                break
        self.text = ""

    def said(self):
        """Its standard error."""
        self.errors.seek(0)
        return self.errors.read()

    def end(self, limit_s=LIMIT_S):
        """Waits for its end, which must be a good one. Its standard error."""
        try:
            out, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            said = self.said()
            self.kill()
            raise AssertionError(f"the client hangs: {self.text!r}, {said!r}") from None
        said = self.said()
        self.errors.close()
        self.text += out.decode()
        if self.process.returncode != 0:
            raise AssertionError(f"the client ended with {self.process.returncode}: {self.text!r}, {said!r}")
        return said

    def kill(self):
        self.process.kill()
        self.process.communicate()
        self.errors.close()


class Server:
    """telpherd on a Unix socket, in a folder that must hold nothing else in the end."""

    def __init__(self, *options, path=None, is_known=False, program=TELPHERD, **environment):
        """@p is_known: programs wait for a server at this path, and use it at once."""
        self.folder = tempfile.mkdtemp(prefix="telpher-fault-")
        self.temporary = f"{self.folder}/tmp"
        os.mkdir(self.temporary)
        self.path = path or f"{self.folder}/socket"
        self.address = f"unix:{self.path}"
        with open(f"{self.folder}/telpher.icd", "w", encoding="utf-8") as file:
            file.write(ICD + "\n")
        self.log = open(f"{self.folder}/log", "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [program, "--socket", self.path, "--log", "info", *options], stdin=subprocess.DEVNULL,
            stderr=self.log, env={**os.environ, "TMPDIR": self.temporary, **environment})
        LIVE.append(self.process)
        self.pid = self.process.pid
        until(self.answers, "the server listens")
        if is_known:
            return
        self.client("devices").end()
        until(lambda: not children(self.pid), "the probe ends")
        self.descriptors = self.steady_descriptors()

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"telpherd ended: {self.read_log()}")
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def connect(self):
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(LIMIT_S)
        try:
            s.connect(self.path)
        except OSError:
            s.close()
            raise
        return s

    def client(self, *words, **environment):
        return Client(self.folder, self.address, *words, **environment)

    def count_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def steady_descriptors(self):
        """Their number, once connections that have just ended are closed."""
        count, since = self.count_descriptors(), time.monotonic()
        while time.monotonic() - since < 0.3:
            time.sleep(0.02)
            if self.count_descriptors() != count:
                count, since = self.count_descriptors(), time.monotonic()
        return count

    def open_descriptors(self):
        """For a message."""
        folder = f"/proc/{self.pid}/fd"
        names = [os.readlink(f"{folder}/{number}") for number in os.listdir(folder)]
        return f"the broker has as many descriptors as before ({self.descriptors}): {names}"

    def settled_descriptors(self):
        """The count once it has stayed the same for half a second: what is closed is closed."""
        seen = []
        until(lambda: seen.append(self.count_descriptors()) or (len(seen) > 10 and len(set(seen[-10:])) == 1),
              "the broker's descriptors settle")
        return seen[-1]

    def read_log(self):
        with open(f"{self.folder}/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def files_left(self):
        """Temporary files; the folder for those of drivers stays."""
        drivers = f"telpher-{os.geteuid()}"
        left = [name for name in os.listdir(self.temporary) if name != drivers]
        if os.path.isdir(f"{self.temporary}/{drivers}"):
            left += os.listdir(f"{self.temporary}/{drivers}")
        return left

    def expect_clean(self):
        """Without clients, nothing is left of any."""
        until(lambda: not children(self.pid), "the executors end")
        # on a busy machine, the first client's connection may have been counted, too
        until(lambda: self.count_descriptors() <= self.descriptors, self.open_descriptors)
        left = self.files_left()
        if left:
            raise AssertionError(f"files are left: {left}")

    def stop(self):
        self.process.terminate()
        status = self.process.wait(LIMIT_S)
        self.remove()
        if status != 0:
            raise AssertionError(f"telpherd ended with {status}")

    def remove(self):
        reports = REPORT.findall(self.read_log())
        self.log.close()
        shutil.rmtree(self.folder)
        if reports:
            raise AssertionError(f"a sanitizer has found: {reports}")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def has_listener(pid, port):
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    inodes = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    try:
        return any(os.readlink(entry.path) in inodes for entry in os.scandir(f"/proc/{pid}/fd"))
    except OSError: # it has ended, or has closed one meanwhile
        return False


def start_on_port(command_of, folder, driver_folder, **options):
    """A telpherd with a cookie in @p folder; @p command_of(port) gives its command. If another program has taken the port meanwhile, it gets
    another one. @return (process, port)"""
    environment = {**os.environ, "OCL_ICD_VENDORS": driver_folder, "TELPHER_COOKIE": f"{folder}/cookie"}
    for _ in range(5):
        port = free_port()
        process = subprocess.Popen(command_of(port), stdin=subprocess.DEVNULL, env=environment, **options) # pylint: disable=consider-using-with
        LIVE.append(process)
        until(lambda: process.poll() is not None or has_listener(process.pid, port), "the server listens")
        if process.returncode is None:
            return process, port
    raise AssertionError(f"telpherd ends with {process.returncode}")


def listening_server(**environment):
    """With a port on loopback. @return (server, its address, the cookie's file)"""
    while True:
        address = f"127.0.0.1:{free_port()}"
        cookie = f"/tmp/telpher-fault-cookie-{os.getpid()}-{address.rsplit(':', 1)[1]}"
        try:
            return Server("--listen", address, "--cookie", cookie, **environment), address, cookie
        except AssertionError as error:
            if "Address already in use" not in str(error):
                raise # else another program was faster


class FaultTest(unittest.TestCase):
    """A server, and beside every fault a client that computes and must not notice."""
    options = ()
    environment = {}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.options, **cls.environment)
        cls.bystander = cls.server.client("compute")
        cls.bystander.wait_line("round")
        cls.executors = children(cls.server.pid)
        cls.descriptors = cls.server.steady_descriptors()

    @classmethod
    def tearDownClass(cls):
        cls.bystander.end()
        cls.server.expect_clean()
        cls.server.stop()

    def tearDown(self):
        """The bystander goes on, and nothing of the others is left."""
        self.bystander.drop_lines()
        self.bystander.wait_line("round")
        self.expect_alone()

    def expect_alone(self):
        until(lambda: children(self.server.pid) == self.executors, "only the bystander's executor is left")
        until(lambda: self.server.count_descriptors() == self.descriptors, self.server.open_descriptors)


# ---- the wire, written from docs/protocol.md and not from our encoder ----

MAGIC = b"TELPHER\n"
PROTOCOL_ERROR = "the client sent a malformed"  # frame or chunk
TYPES = {"close": 0x02, "ping": 0x10, "devices": 0x11, "start": 0x12, "context_create": 0x20, "queue_create": 0x21,
         "buffer_create": 0x22, "program_source": 0x24, "release": 0x2c, "launch": 0x30, "read": 0x31, "write": 0x32,
         "fill": 0x34, "marker": 0x35, "peer_accept": 0x72, "pull": 0x75, "peer_reply": 0x9b, "peer_lost": 0x9c,
         "peer_ready": 0xc1, "pong": 0x80, "devices_reply": 0x81, "started": 0x83, "done": 0x84,
         "failed": 0x88, "data": 0xc0}
NAMES = {number: name for name, number in TYPES.items()}
CONTEXT, QUEUE, MEM, PROGRAM, KERNEL, EVENT, TRANSFER = ((kind << 56) for kind in (1, 2, 3, 4, 5, 6, 8))
NOTIFY = 1


def preface(versions=(1, 1), stream=1, session=bytes(16), index=0, auth_len=0):
    return struct.pack("<8sHHIQ16sQIIQ", MAGIC, *versions, stream, 0, session, 0, index, auth_len, 0)


def frame(kind, body, seq, ack=0, length=None, flags=0):
    """A frame; @p length is what it claims to have."""
    number = TYPES[kind] if isinstance(kind, str) else kind
    return struct.pack("<IHHQQ", 24 + len(body) if length is None else length, number, flags, seq, ack) + body


def numbers(*values):
    """U64S"""
    return struct.pack(f"<H{len(values)}Q", len(values), *values)


def receive(s, count):
    data = b""
    while len(data) < count:
        try:
            more = s.recv(count - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            return None
        data += more
    return data


class Session:
    """A session that speaks frame by frame and may say anything."""

    def __init__(self, server):
        self.socket = server.connect()
        self.sent = self.received = 0
        self.socket.sendall(preface())
        reply = receive(self.socket, 128)
        status, = struct.unpack_from("<i", reply, 12)
        if reply[:8] != MAGIC or status != 0:
            raise AssertionError(f"no session: {reply!r}")
        self.id = reply[24:40]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def put(self, kind, body, **claims):
        self.sent += 1
        self.put_raw(frame(kind, body, self.sent, self.received, **claims))

    def put_raw(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # what it had to say is read next

    def get(self):
        """The next frame but ACKs: (name, body); None at the end."""
        while True:
            header = receive(self.socket, 24)
            if header is None:
                return None
            length, kind, _, self.received, _ = struct.unpack("<IHHQQ", header)
            body = receive(self.socket, length - 24)
            if body is None:
                return None
            if kind != 0x01:
                return NAMES.get(kind, kind), body

    def expect(self, name):
        got = self.get()
        if got is None or got[0] != name:
            raise AssertionError(f"{got} instead of {name}")
        return got[1]

    def expect_broken(self, words):
        """The server takes leave with a reason, then closes. It may close at once if we are not reading."""
        body = self.expect("close")
        text = body[8:].decode()
        if words not in text:
            raise AssertionError(f"it says '{text}', not '{words}'")
        if self.get() is not None:
            raise AssertionError("a frame after CLOSE")

    def start(self):
        """An executor with context 1, in-order queue 1, buffer 1 of 4096 bytes."""
        self.put("start", struct.pack("<I", 0))
        status, = struct.unpack_from("<i", self.expect("started"))
        if status != 0:
            raise AssertionError(f"START fails with {status}")
        self.put("context_create", struct.pack("<Q", CONTEXT | 1) + numbers(0))
        self.put("queue_create", struct.pack("<QQIQ", QUEUE | 1, CONTEXT | 1, 0, 0))
        self.put("buffer_create", struct.pack("<QQQQ", MEM | 1, CONTEXT | 1, 1, 4096))
        return self

    def read(self, event, mem=MEM | 1, queue=QUEUE | 1, offset=0, size=4, transfer=0, wait=()):
        self.put("read", struct.pack("<QQQBQQQ", EVENT | event, queue, mem, NOTIFY, offset, size, transfer) +
                 numbers() + numbers(*wait))

    def expect_done(self, event, status):
        body = self.expect("done")
        got = struct.unpack_from("<Qi", body)
        if got != (EVENT | event, status):
            raise AssertionError(f"DONE of {got[0]:#x} with {got[1]}, not {status}")

    def expect_alive(self, event=999):
        self.read(event)
        self.expect_done(event, 0)


def main():
    # One line for each test, so that a failure on another machine says where it was.
    unittest.main(module="__main__", verbosity=2, argv=sys.argv)


def kill(pid):
    os.kill(pid, signal.SIGKILL)
