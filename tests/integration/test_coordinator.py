"""tutti-coordinator as a process; agents are DEALER sockets of ours.

They are libzmq through ctypes and speak just enough protobuf, so that they
can misbehave.
"""

import ctypes
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
COORDINATOR = os.environ.get(
    "TUTTI_COORDINATOR_BINARY", os.path.join(
        ROOT, os.environ.get("TUTTI_BUILD", "build"), "bin",
        "tutti-coordinator"))

PROTOCOL = 1 << 16
HELLO, WELCOME, HEARTBEAT, GOODBYE, REFUSE = 10, 11, 12, 13, 14
JOIN, FORMING, START, READY, GO = 20, 21, 22, 23, 24
LOST, LEAVE, ABORT, FINISHED = 25, 26, 27, 28
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ESTATE, EABORTED, EVERSION, EJOIN, EDENIED = -3, -41, -61, -62, -63

# ----------------------------------------------------------------- protobuf


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def zigzag(value):
    return value * 2 if value >= 0 else -value * 2 - 1


def unzigzag(value):
    return value >> 1 ^ -(value & 1)


def read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 128:
            return value, at


def decode(data):
    """{field number: [values]}; sub-messages stay bytes."""
    fields, at = {}, 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def one(fields, number, default=0):
    return fields.get(number, [default])[0]


# -------------------------------------------------------------------- agents

zmq = ctypes.CDLL("libzmq.so.5", use_errno=True)
for name in ("zmq_ctx_new", "zmq_socket"):
    getattr(zmq, name).restype = ctypes.c_void_p
CONTEXT = ctypes.c_void_p(zmq.zmq_ctx_new())


def keypair():
    public, secret = (ctypes.create_string_buffer(41) for _ in "ps")
    assert zmq.zmq_curve_keypair(public, secret) == 0
    return public.value.decode(), secret.value.decode()


class Agent:
    def __init__(self, url, node="n1", curve=None):
        self.node, self.incarnation, self.epoch = node, 0, 0
        self.socket = ctypes.c_void_p(zmq.zmq_socket(CONTEXT, 5))
        self.option(17, 0)  # LINGER
        self.option(27, 20)  # RCVTIMEO
        for number, key in zip((50, 48, 49), curve or ()):
            zmq.zmq_setsockopt(self.socket, number, key.encode(), 41)
        assert zmq.zmq_connect(self.socket, url.encode()) == 0

    def option(self, number, value):
        zmq.zmq_setsockopt(self.socket, number,
                           ctypes.byref(ctypes.c_int(value)), 4)

    def raw(self, data):
        assert zmq.zmq_send(self.socket, data, len(data), 0) == len(data)

    def send(self, body, content=b"", job="", attempt=0, epoch=None,
             protocol=PROTOCOL):
        data = field(1, protocol) + field(4, self.incarnation)
        if job:
            data += field(2, job) + field(3, attempt)
            data += field(5, self.epoch if epoch is None else epoch)
        self.raw(data + field(body, content))

    def receive(self):
        """(kind, envelope, body) or None; learns incarnation and epoch."""
        buffer = ctypes.create_string_buffer(1 << 20)
        size = zmq.zmq_recv(self.socket, buffer, len(buffer), 0)
        if size < 0:
            return None
        envelope = decode(buffer.raw[:size])
        kind = max(envelope)
        if kind == WELCOME:
            self.incarnation = one(envelope, 4)
        if kind == START:
            self.epoch = one(envelope, 5)
        return kind, envelope, decode(envelope[kind][0])

    def wait(self, kind, seconds=5, never=(), when=lambda body: True):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            message = self.receive()
            if message:
                assert message[0] not in never, message
                if message[0] == kind and when(message[2]):
                    return message[2]
        raise AssertionError("message %d did not come" % kind)

    def none(self, kind, seconds=0.4):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            message = self.receive()
            assert not message or message[0] != kind, message

    def hello(self, welcome=True):
        self.send(HELLO, field(1, self.node) + field(2, "h-" + self.node) +
                  field(3, "0.1.0") + field(5, "127.0.0.1"))
        if welcome:
            self.wait(WELCOME, never=(REFUSE,))
        return self

    def beat(self, progress=b""):
        self.send(HEARTBEAT, field(1, 1) + progress)

    def join(self, rank, size, job="j", attempt=0, pid=None, config=b"",
             library="0.1.0"):
        self.send(JOIN, field(1, rank) + field(2, size) +
                  field(4, pid or 100 + rank) + field(5, "h-" + self.node) +
                  field(6, "tcp://%s:1" % self.node) +
                  field(7, config + field(6, "tcp") + field(7, library) +
                        field(8, "0.1.0")) + field(8, "b1d%d" % rank),
                  job, attempt, epoch=0)

    def leave(self, rank, job="j", attempt=0):
        self.send(LEAVE, field(1, rank), job, attempt)

    def lost(self, rank, job="j", cause="killed by signal 9"):
        self.send(LOST, field(1, rank) + field(2, self.node) +
                  field(3, 100 + rank) + field(4, cause), job)

    def close(self):
        if self.socket:
            zmq.zmq_close(self.socket)
            self.socket = None


class Coordinator:
    def __init__(self, folder, *more, insecure=True, env=None, **popen):
        self.log_path = "%s/coordinator-%d.log" % (folder, id(self))
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("TUTTI_")}
        environment.update(env or {})
        command = [COORDINATOR, "--bind", "tcp://127.0.0.1:0", "--http",
                   "127.0.0.1:0", *more]
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                command + (["--insecure"] if insecure else []), text=True,
                stdout=subprocess.PIPE, stderr=log, env=environment, **popen)
        self.line = self.process.stdout.readline()
        match = re.fullmatch(r"ready control=(tcp://127\.0\.0\.1:\d+) "
                             r"http=(http://127\.0\.0\.1:\d+) key=(\S+)\n",
                             self.line)
        assert match, self.line + self.log()
        self.url, self.http, self.key = match.groups()

    def log(self):
        with open(self.log_path) as log:
            return log.read()

    def get(self, path, accept="*/*", method="GET"):
        request = urllib.request.Request(self.http + path, method=method,
                                         headers={"Accept": accept})
        try:
            with OPENER.open(request, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self):
        return json.loads(self.get("/status")[1])

    def states(self, what="jobs"):
        return [one["state"] for one in self.status()[what]]

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def until(self, condition, seconds=5):
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, self.log()
            time.sleep(0.02)

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            assert self.process.wait(5) == 0
        self.process.stdout.close()


@pytest.fixture
def scene(tmp_path):
    """A factory of things that are ended in reverse order."""
    made = []

    def make(thing):
        made.append(thing)
        return thing
    make.path = str(tmp_path)
    yield make
    for thing in reversed(made):
        thing.close()


def cast(scene, *nodes, options=()):
    coordinator = scene(Coordinator(scene.path, *options))
    agents = [scene(Agent(coordinator.url, node)).hello() for node in nodes]
    return (coordinator, *agents)


def running(a, b):
    """Ranks 0 and 1 of job j, on two nodes."""
    a.join(0, 2)
    b.join(1, 2)
    for agent in (a, b):
        agent.wait(START)
        agent.send(READY, job="j")
    for agent in (a, b):
        agent.wait(GO)


# ------------------------------------------------------------------ options


@pytest.mark.parametrize("arguments, word", [
    ([], "--insecure"), (["--nonsense"], "nonsense"), (["x"], "x"),
    (["--insecure", "--http", "nope"], "HOST:PORT"),
    (["--insecure", "--bind", "ipc://x"], "tcp://"),
    (["--insecure", "--state", "etcd:x"], "sqlite:"),
    (["--insecure", "--lost-ms", "500"], "lost-ms"),
    (["--insecure", "--lost-ms", "x"], "number"),
    (["--insecure", "--keys", "/nonexistent"], "exclude"),
    (["--keys", "/nonexistent"], "No such file"),
])
def test_bad_options(arguments, word):
    done = subprocess.run([COORDINATOR, *arguments], capture_output=True,
                          text=True, timeout=10)
    assert done.returncode == 2 and word in done.stderr and not done.stdout


def test_help_and_version():
    for option in ("--help", "--version"):
        done = subprocess.run([COORDINATOR, option], capture_output=True,
                              text=True, timeout=10)
        assert done.returncode == 0 and "tutti-coordinator" in done.stdout


def test_a_port_in_use_is_not_a_bad_option(scene):
    coordinator = scene(Coordinator(scene.path))
    done = subprocess.run([COORDINATOR, "--insecure", "--http", "127.0.0.1:0",
                           "--bind", coordinator.url], capture_output=True,
                          text=True, timeout=10)
    assert done.returncode == 1 and "in use" in done.stderr


def test_options_by_environment(scene):
    coordinator = scene(Coordinator(
        scene.path, insecure=False, env={"TUTTI_COORDINATOR_INSECURE": "1",
                                         "TUTTI_COORDINATOR_HEARTBEAT_MS":
                                         "70"}))
    agent = scene(Agent(coordinator.url))
    agent.hello(welcome=False)
    assert one(agent.wait(WELCOME), 1) == 70


def test_lines_of_the_log(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    b.lost(1)
    a.wait(LOST)
    a.raw(b"\xff")
    coordinator.until(lambda: "event=garbage" in coordinator.log())
    levels = {}
    for line in coordinator.log().splitlines():
        match = re.fullmatch(
            r'time=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z '
            r'level=(info|warn|error) event=(\w+)( \w+=("[^"]*"|\S+))*',
            line)
        assert match, line
        levels.setdefault(match[2], set()).add(match[1])
    assert levels["insecure"] == {"warn"} and levels["hello"] == {"info"}
    assert levels["job"] == {"info", "warn"}
    assert levels["garbage"] == {"warn"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(scene, number):
    coordinator = scene(Coordinator(scene.path))
    coordinator.process.send_signal(number)
    assert coordinator.process.wait(5) == 0


# --------------------------------------------------------------- rendezvous


def test_a_job_from_join_to_finished(scene):
    coordinator, a, b = cast(scene, "n10", "n2")
    a.join(0, 2)
    forming = a.wait(FORMING)
    assert (one(forming, 1), one(forming, 2), one(forming, 3)) == (1, 2, b"1")
    assert one(a.wait(FORMING, 3), 3) == b"1"  # said again
    b.join(1, 2)
    start = a.wait(START)
    members = [decode(m) for m in start[2]]
    assert [one(m, 1) for m in members] == [b"n2", b"n10"]
    assert [one(m, 2) for m in members] == [b"tcp://n2:1", b"tcp://n10:1"]
    assert [m[3] for m in members] == [[b"\1"], [b"\0"]]
    assert one(decode(one(start, 3)), 1) == 1 and len(one(start, 4)) == 32
    assert b.wait(START)[4] == start[4] and a.epoch == b.epoch > 0
    a.send(READY, job="j")
    a.none(GO)
    b.send(READY, job="j")
    a.wait(GO)
    b.wait(GO)
    coordinator.until(lambda: coordinator.states() == ["running"])
    job = coordinator.status()["jobs"][0]
    assert job["ring"] == ["n2", "n10"] and job["missing"] == []
    a.leave(0)
    a.none(FINISHED)
    b.leave(1)
    a.wait(FINISHED)
    b.wait(FINISHED)
    coordinator.until(lambda: coordinator.states() == ["finished"])
    first = a.epoch
    running(a, b)  # the name may be used again
    assert a.epoch > first


@pytest.mark.parametrize("second, words", [
    (dict(rank=1, size=3), ["2", "3", "rank 0", "h-n1", "pid 100", "h-n2",
                            "pid 101"]),
    (dict(rank=2, size=2), ["rank 2", "0 to 1"]),
    (dict(rank=0, size=2, pid=9), ["pid 100", "h-n1", "taken"]),
    (dict(rank=1, size=2, config=field(1, 1)), ["reproducible=1",
                                                "reproducible=0"]),
    (dict(rank=1, size=2, config=field(5, "ring")), ["algorithm=ring",
                                                     "algorithm=-"]),
    (dict(rank=1, size=2, library="0.2.0"), ["library=0.2.0",
                                             "library=0.1.0", "rank 0"]),
    (dict(rank=1, size=2, attempt=1), ["attempt 1", "attempt 2"]),
])
def test_refusals_name_both_sides(scene, second, words):
    _, a, b = cast(scene, "n1", "n2")
    a.join(0, 2, attempt=2)
    a.wait(FORMING)
    b.join(**{"attempt": 2, **second})
    refuse = b.wait(REFUSE)
    assert unzigzag(one(refuse, 1)) == EJOIN
    assert one(refuse, 3) == 1 and one(refuse, 4) == second["rank"]
    for word in words:
        assert word in one(refuse, 2).decode(), one(refuse, 2)
    b.join(1, 2, attempt=2)  # the right one is still welcome
    b.wait(START, never=(REFUSE,))


def test_the_same_join_again_is_silent(scene):
    _, a, b = cast(scene, "n1", "n2")
    a.join(0, 2)
    a.join(0, 2)
    b.join(1, 2)
    a.wait(START, never=(REFUSE,))


def test_a_bad_first_rank_leaves_no_job(scene):
    coordinator, a = cast(scene, "n1")
    a.join(5, 2)
    a.wait(REFUSE)
    assert coordinator.status()["jobs"] == []


def test_leave_and_lost_while_forming_free_the_rank(scene):
    _, a, b = cast(scene, "n1", "n2")
    a.join(0, 3)
    a.join(1, 3)
    a.wait(FORMING, when=lambda f: one(f, 3) == b"2")
    a.leave(0)
    a.wait(FORMING, when=lambda f: one(f, 3) == b"0, 2")
    a.lost(1)
    b.join(1, 3)
    b.wait(FORMING, when=lambda f: one(f, 3) == b"0, 2")
    b.join(0, 3)
    b.join(2, 3)
    assert len(b.wait(START)[2]) == 1


def test_a_higher_attempt_ends_the_old_one(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    a.join(0, 2, attempt=1)
    for agent in (a, b):
        abort = agent.wait(ABORT)
        assert one(abort, 1) == 0 and unzigzag(one(abort, 2)) == EABORTED
    b.join(1, 2, attempt=1)
    a.wait(START)
    coordinator.until(
        lambda: coordinator.states() == ["failed", "forming"])
    b.leave(1, attempt=0)  # of the old one: nobody cares
    a.none(FINISHED)


# -------------------------------------------------------------------- losses


def test_lost_reaches_the_others(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    b.lost(1)
    lost = a.wait(LOST)
    assert (one(lost, 2), one(lost, 3)) == (b"n2", 101)
    assert one(lost, 4) == b"killed by signal 9"
    coordinator.until(lambda: coordinator.states() == ["failed"])
    a.none(FINISHED)
    b.none(LOST, 0.1)
    a.leave(0)
    a.wait(FINISHED)


def test_unknown_ranks_are_ignored(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    for rank in (0, 7, 65535):  # 0 is not on b
        b.lost(rank)
    b.leave(7)
    b.leave(1, job="nojob")
    a.none(LOST)
    assert coordinator.status()["jobs"][0]["state"] == "running"


def test_abort_reaches_the_others(scene):
    _, a, b = cast(scene, "n1", "n2")
    running(a, b)
    a.send(ABORT, field(1, 9) + field(2, zigzag(EABORTED)) +
           field(3, "enough"), "j")
    assert one(b.wait(ABORT), 3) == b"enough"
    a.none(ABORT)


def test_a_silent_node_is_suspect_then_lost(scene):
    coordinator, a, b = cast(scene, "n1", "n2", options=[
        "--heartbeat-ms", "50", "--suspect-ms", "300", "--lost-ms", "1000"])
    running(a, b)
    coordinator.until(lambda: len(coordinator.status()["nodes"]) == 2)
    seen, lost = set(), None
    limit = time.monotonic() + 5
    while not lost and time.monotonic() < limit:
        a.beat()
        seen.add(coordinator.states("nodes")[1])
        message = a.receive()
        if message and message[0] == LOST:
            lost = message[2]
    assert {"ready", "suspect"} <= seen
    assert one(lost, 4) == b"node n2 silent for 1.0 s" and one(lost, 1) == 1
    coordinator.until(lambda: coordinator.states() == ["failed"])
    coordinator.until(
        lambda: coordinator.metric('tutti_nodes{state="lost"}') == 1)
    b.beat()  # it wakes: unknown now
    refuse = b.wait(REFUSE)
    assert unzigzag(one(refuse, 1)) == ESTATE
    b.hello()
    coordinator.until(
        lambda: coordinator.metric('tutti_nodes{state="lost"}') == 0)


def test_its_own_sleep_kills_nobody(scene):
    coordinator, a = cast(scene, "n1", options=[
        "--heartbeat-ms", "50", "--suspect-ms", "200", "--lost-ms", "800"])
    os.kill(coordinator.process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(coordinator.process.pid, signal.SIGCONT)
    a.beat()
    coordinator.until(lambda: coordinator.states("nodes") == ["ready"])
    assert "state=lost" not in coordinator.log()


def test_goodbye(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    b.send(GOODBYE)
    assert b"stopped" in one(a.wait(LOST), 4)
    coordinator.until(lambda: len(coordinator.status()["nodes"]) == 1)


# ------------------------------------------------------------ who is who


def test_hello_twice_is_welcomed_twice(scene):
    _, a = cast(scene, "n1")
    a.hello()


def test_two_agents_of_one_name(scene):
    coordinator, a = cast(scene, "n1")
    b = scene(Agent(coordinator.url, "n1"))
    b.hello(welcome=False)
    refuse = b.wait(REFUSE)
    assert unzigzag(one(refuse, 1)) == EJOIN and b"h-n1" in one(refuse, 2)
    a.join(0, 1)
    a.wait(START)  # the first is not disturbed


def test_a_restarted_agent_takes_its_place_at_once(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    b.close()
    scene(Agent(coordinator.url, "n2")).hello()
    assert b"restarted" in one(a.wait(LOST), 4)


def test_a_new_connection_of_the_same_agent_keeps_its_jobs(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    b.close()
    again = scene(Agent(coordinator.url, "n2"))
    again.incarnation, again.epoch = b.incarnation, b.epoch
    again.hello()
    a.none(LOST)
    a.leave(0)
    again.leave(1)
    again.wait(FINISHED)


def test_who_said_no_hello(scene):
    coordinator = scene(Coordinator(scene.path))
    a = scene(Agent(coordinator.url))
    a.beat()
    message = None
    while not message:
        message = a.receive()
    assert message[0] == REFUSE and 2 not in message[1]
    assert unzigzag(one(message[2], 1)) == ESTATE


def test_garbage_is_counted_and_logged_once(scene):
    coordinator, a = cast(scene, "n1")
    for data in (b"", b"\xff" * 40, os.urandom(1000),
                 field(1, PROTOCOL) + field(HEARTBEAT, field(1, 1))[:-1],
                 field(1, PROTOCOL) + field(JOIN, b"")):
        a.raw(data)
    coordinator.until(
        lambda: coordinator.metric("tutti_coordinator_garbage_total") == 5)
    assert coordinator.log().count("event=garbage") == 1
    a.hello()


def test_raw_garbage_on_the_control_port(scene):
    coordinator, a, b = cast(scene, "n1", "n2")
    running(a, b)
    port = int(coordinator.url.rsplit(":", 1)[1])
    greeting = b"\xff" + bytes(8) + b"\x7f\3\0NULL".ljust(55, b"\0")
    open_ones = []
    for data in (os.urandom(5000), b"GET / HTTP/1.0\r\n\r\n", b"\0" * 3000,
                 greeting, greeting + os.urandom(500),
                 greeting + b"\2" + b"\xff" * 8, b"\xff"):
        raw = socket.create_connection(("127.0.0.1", port))
        raw.sendall(data)
        open_ones.append(raw)  # stays open and says no more
    a.beat()
    a.leave(0)
    b.leave(1)
    a.wait(FINISHED)
    assert coordinator.process.poll() is None
    scene(Agent(coordinator.url, "n3")).hello()
    for raw in open_ones:
        raw.close()
    coordinator.until(lambda: len(coordinator.status()["nodes"]) == 3)


def test_another_protocol_is_told(scene):
    coordinator = scene(Coordinator(scene.path))
    a = scene(Agent(coordinator.url))
    a.send(HELLO, field(1, "n1"), protocol=2 << 16)
    refuse = a.wait(REFUSE)
    assert unzigzag(one(refuse, 1)) == EVERSION
    assert b"2.0" in one(refuse, 2) and b"1.0" in one(refuse, 2)


def test_keys_admit_the_listed_only(scene):
    server, one_key, other = keypair(), keypair(), keypair()
    path = scene.path + "/keys"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as keys:
        keys.write("# of a test\ncoordinator_secret %s\ncoordinator_public "
                   "%s\nagent_public %s\n" % (server[1], server[0],
                                              one_key[0]))
    coordinator = scene(Coordinator(scene.path, "--keys", path,
                                    insecure=False))
    assert coordinator.key == server[0]
    scene(Agent(coordinator.url, "n1",
                curve=(server[0], *one_key))).hello()
    for curve in ((server[0], *other), None):
        stranger = scene(Agent(coordinator.url, "n2", curve=curve))
        stranger.hello(welcome=False)
        stranger.none(WELCOME)
    coordinator.until(lambda: len(coordinator.status()["nodes"]) == 1)
    assert "event=denied" in coordinator.log()
    os.chmod(path, 0o644)
    done = subprocess.run([COORDINATOR, "--keys", path], capture_output=True,
                          text=True, timeout=10)
    assert done.returncode == 2 and "chmod 600" in done.stderr


def test_a_key_is_no_right_to_any_name(scene):
    server, k1, k2, k3 = (keypair() for _ in range(4))
    path = scene.path + "/keys"
    with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as keys:
        keys.write("coordinator_secret %s\ncoordinator_public %s\n"
                   "agent_public %s\nagent_public %s\nagent_public %s n3\n"
                   % (server[1], server[0], k1[0], k2[0], k3[0]))
    coordinator = scene(Coordinator(
        scene.path, "--keys", path, "--suspect-ms", "400", "--lost-ms", "600",
        insecure=False))

    def agent(key, node):
        return scene(Agent(coordinator.url, node, curve=(server[0], *key)))

    def refused(key, node, *words):
        other = agent(key, node).hello(welcome=False)
        refuse = other.wait(REFUSE, never=(WELCOME,))
        assert unzigzag(one(refuse, 1)) == EDENIED
        for word in words:
            assert word in one(refuse, 2).decode()
        other.close()

    first = agent(k1, "n1").hello()
    refused(k2, "n1", "n1", "h-n1", "another key")
    first.close()
    coordinator.until(lambda: coordinator.states("nodes") == ["lost"])
    refused(k2, "n1", "n1", "another key")  # silent, but not for the taking
    agent(k1, "n1").hello()
    refused(k3, "n4", "for node n3", "n4")  # a key that is one node's
    refused(k1, "n3", "n3", "another key")  # a node that has its key
    agent(k3, "n3").hello()
    agent(k2, "n2").hello()
    with open(path, "a") as keys:
        keys.write("agent_public %s no/name\n" % k2[0])
    done = subprocess.run([COORDINATOR, "--keys", path], capture_output=True,
                          text=True, timeout=10)
    assert done.returncode == 2 and "line 6" in done.stderr


def test_keys_by_descriptor(scene):
    server, agent = keypair(), keypair()
    fd = os.memfd_create("keys")
    os.write(fd, ("coordinator_secret %s\ncoordinator_public %s\n"
                  "agent_public %s\n" % (server[1], server[0],
                                         agent[0])).encode())
    coordinator = scene(Coordinator(scene.path, "--keys", "fd:%d" % fd,
                                    insecure=False, pass_fds=[fd]))
    os.close(fd)
    scene(Agent(coordinator.url, "n1", curve=(server[0], *agent))).hello()
    assert not coordinator.status()["insecure"]


# ---------------------------------------------------------- status, metrics


def progress(job, ops, wire, kind=1, epoch=0):
    count = field(1, kind) + field(2, ops) + field(3, 8 * ops) + \
        field(4, 1000 * ops) + field(5, bytes([0, 0, ops, 0, 0, 0, 0, 0]))
    rank = field(1, 0) + field(2, ops) + \
        field(3, "allreduce float32 x1024 sum") + field(4, "staged") + \
        field(5, 1)
    return field(2, field(1, job) + field(2, wire) + field(3, 77) +
                 field(4, rank) + field(5, count) + field(6, "tcp") +
                 field(7, epoch))


def test_progress_is_shown_and_never_goes_backwards(scene):
    coordinator, a = cast(scene, "n1")
    a.join(0, 1)
    a.wait(START)
    a.send(READY, job="j")
    a.wait(GO)
    ops = 'tutti_ops_total{kind="allreduce"}'
    wire = 'tutti_wire_bytes_total{transport="tcp"}'
    a.beat(progress("j", 5, 1000))
    coordinator.until(lambda: coordinator.metric(ops) == 5)
    job = json.loads(coordinator.get("/jobs/j")[1])
    assert (job["wire_bytes"], job["cpu_us"], job["size"]) == (1000, 77, 1)
    assert job["ranks"][0] == {
        "rank": 0, "node": "n1", "pid": 100, "state": "waiting", "seq": 5,
        "op": "allreduce float32 x1024 sum", "path": "staged",
        "build": "b1d0"}
    a.beat(progress("j", 7, 1500))
    a.beat(progress("j", 2, 10))  # a new worker
    a.beat()
    coordinator.until(lambda: coordinator.metric(ops) == 9)
    assert coordinator.metric(wire) == 1510
    assert coordinator.metric('tutti_bytes_total{direction="sent"}') == 72
    le = 'tutti_op_seconds_bucket{kind="allreduce",le="%s"}'
    assert coordinator.metric(le % "0.0001") == 0
    assert coordinator.metric(le % "0.001") == 9
    assert coordinator.metric(le % "+Inf") == 9
    assert coordinator.metric('tutti_jobs{state="running"}') == 1


def one_rank(a):
    """Job j with one rank, running."""
    a.join(0, 1)
    a.wait(START)
    a.send(READY, job="j")
    a.wait(GO)


def test_runs_of_one_name_are_counted_apart(scene):
    coordinator, a = cast(scene, "n1")
    ops = 'tutti_ops_total{kind="allreduce"}'
    runs = []
    for n in (100, 120):  # the second has more than the first: not its sum
        one_rank(a)
        runs.append((n, a.epoch))
        a.beat(progress("j", n, n, epoch=a.epoch))
        a.leave(0)
        a.wait(FINISHED)
    coordinator.until(lambda: coordinator.metric(ops) == 220)
    a.beat(*[progress("j", n, n, epoch=epoch) for n, epoch in runs[:1]])
    a.beat()
    time.sleep(0.3)  # the first run, said again: nothing is added
    assert coordinator.metric(ops) == 220


def test_comm_share_of_a_running_job(scene):
    coordinator, a = cast(scene, "n1")
    one_rank(a)
    share = 'tutti_comm_share{job="j"}'
    start = time.monotonic()
    a.beat(progress("j", 0, 0, epoch=a.epoch))
    a.beat()
    coordinator.until(lambda: coordinator.status()["jobs"])
    assert coordinator.metric(share) is None
    while time.monotonic() < start + 2.2:
        time.sleep(0.1)
        a.beat()
    for _ in range(4):  # 200 operations of 1 ms each in a bit over 2 s
        a.beat(progress("j", 200, 0, epoch=a.epoch))
        time.sleep(0.05)
    coordinator.until(lambda: coordinator.metric(share) is not None)
    assert 0.03 < coordinator.metric(share) < 0.1
    job = coordinator.status()["jobs"][0]
    assert abs(job["comm_share"] - coordinator.metric(share)) < 1e-3
    a.leave(0)
    a.wait(FINISHED)
    coordinator.until(lambda: coordinator.metric(share) is None)


def schema_checked(status):
    jsonschema = pytest.importorskip(
        "jsonschema", reason="python3-jsonschema is not installed")
    with open(ROOT + "/deploy/status.schema.json") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(status)
    return status


def test_status_by_its_schema(scene):
    coordinator, a, b = cast(scene, "n1", "n2",
                             options=("--suspect-ms", "400", "--lost-ms",
                                      "900"))
    schema_checked(coordinator.status())
    a.join(1, 3)
    coordinator.until(lambda: coordinator.status()["jobs"])
    status = schema_checked(coordinator.status())
    assert status["plan"] == 0
    assert status["nodes"][0] == {"node": "n1", "host": "h-n1",
                                  "addr": "127.0.0.1", "state": "ready",
                                  "ranks": [1]}
    job = status["jobs"][0]
    assert job["missing"] == [0, 2] and job["state"] == "forming"
    assert job["comm_share"] is None and job["tenant"] == ""
    assert job["library"] == "0.1.0" and job["ranks"][1]["build"] == "b1d1"
    a.leave(1)
    running(a, b)
    a.beat(progress("j", 5, 1000))
    coordinator.until(lambda: schema_checked(
        coordinator.status())["jobs"][-1]["wire_bytes"] == 1000)
    assert coordinator.status()["plan"] == 1
    a.leave(0)
    coordinator.until(lambda: "lost" in coordinator.states("nodes"))
    status = schema_checked(coordinator.status())
    assert status["jobs"][-1]["state"] == "failed"
    assert {r["state"] for r in status["jobs"][-1]["ranks"]} == {"left",
                                                                 "lost"}
    assert schema_checked(status)["jobs"][-1]["text"]
    broken = json.loads(json.dumps(status))
    broken["jobs"][-1]["new"] = 1
    with pytest.raises(Exception, match="new"):
        schema_checked(broken)


def plan_of(coordinator, agent, job, size=1):
    """Run a job of SIZE ranks on one node; its plan."""
    for rank in range(size):
        agent.join(rank, size, job=job)
    agent.wait(START)
    coordinator.until(lambda: any(
        j["job"] == job and j["epoch"] for j in coordinator.status()["jobs"]))
    plan = coordinator.status()["jobs"][-1]["plan"]
    for rank in range(size):
        agent.leave(rank, job=job)
    agent.wait(FINISHED)
    return plan


def test_plans_are_kept_by_shape(scene):
    """The same shape has the same plan, also after a restart."""
    state = ("--state", "sqlite:" + scene.path + "/state.db")
    coordinator, a = cast(scene, "n1", options=state)
    assert plan_of(coordinator, a, "x") == 1
    assert plan_of(coordinator, a, "y") == 1
    assert plan_of(coordinator, a, "z", 2) == 2
    log = coordinator.log()
    assert "job=x plan=1 reason=new-shape" in log
    assert "job=y plan=1 reason=stored" in log
    coordinator.close()
    coordinator, a = cast(scene, "n1", options=state)
    assert plan_of(coordinator, a, "v", 2) == 2
    assert plan_of(coordinator, a, "w", 3) == 3
    assert "job=v plan=2 reason=stored for=\"1 nodes 2 ranks tcp" in \
        coordinator.log()
    coordinator.close()
    with sqlite3.connect(scene.path + "/state.db") as db:
        rows = list(db.execute("SELECT id, alpha_us, segment_bytes FROM plans "
                               "ORDER BY id"))
    assert [row[0] for row in rows] == [1, 2, 3]
    assert all(row[1] > 0 and row[2] > 0 for row in rows)


def test_builds_that_differ_are_logged_once(scene):
    coordinator, a = cast(scene, "n1")
    for rank in range(3):
        a.join(rank, 4)
    coordinator.until(lambda: "event=builds" in coordinator.log())
    assert coordinator.log().count("event=builds") == 1
    assert "rank 1 (host h-n1) has loaded build b1d1" in coordinator.log()


def test_metrics_lint_and_openmetrics(scene):
    coordinator, a = cast(scene, "n1")
    a.beat(progress("j", 5, 1000))
    coordinator.until(
        lambda: coordinator.metric('tutti_ops_total{kind="allreduce"}') == 5)
    text = coordinator.get("/metrics")[1]
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    text = coordinator.get("/metrics", "application/openmetrics-text")[1]
    assert text.endswith("# EOF\n") and "# TYPE tutti_ops counter" in text
    assert 'tutti_ops_total{kind="allreduce"} 5' in text


def test_metrics_table_is_true(scene):
    coordinator, a = cast(scene, "n1")
    one_rank(a)
    a.beat(progress("j", 5, 1000))
    time.sleep(2.1)
    a.beat(progress("j", 5, 1000))
    a.beat(progress("j", 6, 1000))
    coordinator.until(
        lambda: coordinator.metric('tutti_comm_share{job="j"}') is not None)
    text = coordinator.get("/metrics")[1]
    served = set(re.findall(r"# TYPE (\S+) (\S+)", text))
    with open(ROOT + "/deploy/METRICS.md") as file:
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", file.read(),
                          re.M)
    assert served == {(name, kind) for name, kind, _ in rows}
    for name, _, labels in rows:
        shown = set(re.findall(r"[{,](\w+)=", "".join(
            re.findall(r"^%s(?:_bucket)?(\{.*\}) " % name, text, re.M))))
        assert shown == set(re.findall(r"`(\w+)`", labels)), name


def test_http_is_read_only(scene):
    coordinator = scene(Coordinator(scene.path))
    coordinator.until(lambda: coordinator.get("/readyz")[0] == 200)
    assert coordinator.get("/healthz") == (200, "ok\n")
    assert coordinator.get("/readyz") == (200, "ready\n")
    assert coordinator.get("/healthz", method="HEAD") == (200, "")
    for path in ("/", "/nothing", "/jobs/none"):
        code, text = coordinator.get(path)
        assert code == 404 and "error" in json.loads(text)
    for method in ("POST", "DELETE", "PUT"):
        code, text = coordinator.get("/status", method=method)
        assert code == 405 and "error" in json.loads(text)


def test_slow_browsers_do_not_stop_the_loop(scene):
    coordinator, a = cast(scene, "n1")
    port = int(coordinator.http.rsplit(":", 1)[1])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    a.join(0, 1)
    a.wait(START, 2)
    coordinator.until(lambda: coordinator.status()["jobs"])
    for connection in idle:
        connection.close()


# --------------------------------------------------------------------- store


def test_epochs_outlive_a_kill(scene):
    path = scene.path + "/state.db"
    epochs = []
    for _ in range(2):
        coordinator, a = cast(scene, "n1",
                              options=["--state", "sqlite:" + path])
        a.join(0, 1)
        a.wait(START)
        epochs.append(a.epoch)
        coordinator.process.kill()
        coordinator.process.wait()
    assert 0 < epochs[0] < epochs[1]


def test_ended_jobs_outlive_a_kill(scene):
    options = ["--state", "sqlite:" + scene.path + "/state.db"]
    coordinator, a, b = cast(scene, "n1", "n2", options=options)
    running(a, b)
    b.lost(1)
    a.wait(LOST)
    a.join(0, 1, job="k")  # is running when the coordinator dies
    a.wait(START)
    coordinator.until(lambda: coordinator.states() == ["failed", "forming"])
    time.sleep(0.2)
    coordinator.process.kill()
    coordinator.process.wait()
    coordinator, a = cast(scene, "n1", options=options)
    job, = coordinator.status()["jobs"]
    assert (job["job"], job["state"], job["size"]) == ("j", "failed", 2)
    assert "killed by signal 9" in job["text"] and job["ranks"] == []
    assert json.loads(coordinator.get("/jobs/j")[1]) == job
    a.epoch = job["epoch"]  # what comes late about it harms nobody
    a.leave(0)
    a.lost(1)
    a.send(READY, job="j")
    a.hello()
    one_rank(a)  # the name may be used again
    assert a.epoch > job["epoch"]
    coordinator.until(lambda: coordinator.states() == ["failed", "running"])


def test_a_state_file_has_one_coordinator(scene):
    options = ["--state", "sqlite:" + scene.path + "/state.db"]
    coordinator, _ = cast(scene, "n1", options=options)
    done = subprocess.run([COORDINATOR, "--insecure", "--bind",
                           "tcp://127.0.0.1:0", "--http", "127.0.0.1:0",
                           *options], capture_output=True, text=True,
                          timeout=10)
    assert done.returncode == 1 and "in use" in done.stderr
    assert not done.stdout
    coordinator.process.kill()
    coordinator.process.wait()
    cast(scene, "n1", options=options)  # the lock went with the process


def test_jobs_and_nodes_are_recorded(scene):
    path = scene.path + "/state.db"
    coordinator, a, b = cast(scene, "n1", "n2",
                             options=["--state", "sqlite:" + path])
    running(a, b)
    b.lost(1)
    a.wait(LOST)
    coordinator.close()
    db = sqlite3.connect(path)
    job, attempt, size, state, text = db.execute(
        "SELECT job, attempt, size, state, text FROM jobs").fetchone()
    assert (job, attempt, size, state) == ("j", 0, 2, "failed")
    assert "killed by signal 9" in text
    assert db.execute("SELECT node FROM nodes ORDER BY node").fetchall() \
        == [("n1",), ("n2",)]
    assert db.execute("SELECT count(*) FROM incarnations").fetchone() == (1,)
    db.execute("UPDATE meta SET value=99 WHERE key='schema'")
    db.commit()
    db.close()
    done = subprocess.run([COORDINATOR, "--insecure", "--state",
                           "sqlite:" + path], capture_output=True, text=True,
                          timeout=10)
    assert done.returncode == 2 and "schema 99" in done.stderr
