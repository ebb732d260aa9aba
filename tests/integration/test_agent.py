"""tutti-agent as a process, between clients and a coordinator of ours.

The coordinator here is a ROUTER socket (libzmq through ctypes) that speaks
just enough protobuf, so that it can misbehave; clients are raw sockets, for
the same reason. The worker is the real one.
"""

import ctypes
import os
import re
import select
import signal
import socket
import struct
import subprocess
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
AGENT = os.environ.get(
    "TUTTI_AGENT_BINARY", os.path.join(
        ROOT, os.environ.get("TUTTI_BUILD", "build"), "bin", "tutti-agent"))

PROTOCOL = 1 << 16
HELLO, WELCOME, HEARTBEAT, GOODBYE, REFUSE = 10, 11, 12, 13, 14
JOIN, FORMING, LOST = 20, 21, 25
EINVAL, EVERSION, EJOIN, EDENIED = -1, -61, -62, -63

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


# -------------------------------------------------------------- coordinator

zmq = ctypes.CDLL("libzmq.so.5", use_errno=True)
for name in ("zmq_ctx_new", "zmq_socket"):
    getattr(zmq, name).restype = ctypes.c_void_p
CONTEXT = ctypes.c_void_p(zmq.zmq_ctx_new())


class Coordinator:
    """A ROUTER at a port; one agent talks to it."""

    def __init__(self, incarnation=7, port=0, host="127.0.0.1", secret=None,
                 welcome=True):
        self.incarnation = incarnation
        self.welcome = welcome
        self.seen = []  # (body number, envelope, body)
        self.peer = None
        self.socket = ctypes.c_void_p(zmq.zmq_socket(CONTEXT, 6))
        self.option(17, 0)  # LINGER
        self.option(27, 20)  # RCVTIMEO
        self.option(42, int(host[0] == "["))  # IPV6
        if secret:
            self.option(47, 1)  # CURVE_SERVER
            zmq.zmq_setsockopt(self.socket, 49, secret.encode(), 41)
        if port == 0:
            family = socket.AF_INET6 if host[0] == "[" else socket.AF_INET
            with socket.create_server((host.strip("[]"), 0),
                                      family=family) as probe:
                port = probe.getsockname()[1]
        self.port = port
        self.url = "tcp://%s:%d" % (host, port)
        for _ in range(100):
            if zmq.zmq_bind(self.socket, self.url.encode()) == 0:
                return
            time.sleep(0.05)
        raise OSError("bind " + self.url)

    def option(self, number, value):
        zmq.zmq_setsockopt(self.socket, number,
                           ctypes.byref(ctypes.c_int(value)), 4)

    def receive(self):
        buffer = ctypes.create_string_buffer(1 << 20)
        size = zmq.zmq_recv(self.socket, buffer, len(buffer), 0)
        if size < 0:
            return None
        self.peer = buffer.raw[:size]
        size = zmq.zmq_recv(self.socket, buffer, len(buffer), 0)
        envelope = decode(buffer.raw[:size])
        body = max(envelope)
        message = (body, envelope, decode(envelope[body][0]))
        self.seen.append(message)
        if body == HELLO and self.welcome:
            self.send(WELCOME, field(1, 50) + field(2, "0.1.0"))
        return message

    def send(self, body, content, job="", attempt=0):
        data = field(1, PROTOCOL) + field(4, self.incarnation)
        if job:
            data += field(2, job) + field(3, attempt)
        data += field(body, content)
        zmq.zmq_send(self.socket, self.peer, len(self.peer), 2)
        zmq.zmq_send(self.socket, data, len(data), 0)

    def refuse(self, code, text):
        self.send(REFUSE, field(1, zigzag(code)) + field(2, text))

    def wait(self, body, seconds=5, when=lambda message: True):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            message = self.receive()
            if message and message[0] == body and when(message):
                return message
        raise AssertionError("message %d did not come" % body)

    def close(self):
        if self.socket:
            zmq.zmq_close(self.socket)
            self.socket = None


# -------------------------------------------------------------------- agent


class Agent:
    def __init__(self, url, path, *more, insecure=True, env=None, **popen):
        self.path = path
        self.log_path = "%s/agent-%d.log" % (
            os.path.dirname(path) if path[0] == "/" else "/tmp", id(self))
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith("TUTTI_")}
        environment.update(env or {})
        command = [AGENT, "--coordinator", url, "--socket", path, "--node",
                   "n1", *more] + (["--insecure"] if insecure else [])
        with open(self.log_path, "w") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True,
                env=environment, **popen)

    def log(self):
        with open(self.log_path) as log:
            return log.read()

    def ready(self, coordinator, seconds=5):
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            coordinator.receive()
            if select.select([self.process.stdout], [], [], 0)[0]:
                return self.process.stdout.readline()
        raise AssertionError("not ready:\n" + self.log())

    def workers(self):
        tasks = "/proc/%d/task" % self.process.pid
        pids = []
        for task in os.listdir(tasks):
            with open("%s/%s/children" % (tasks, task)) as children:
                pids += [int(pid) for pid in children.read().split()]
        return pids

    def until(self, condition, seconds=5):
        limit = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < limit, self.log()
            time.sleep(0.02)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if self.path[0] == "@":
            os.unlink(self.log_path)


@pytest.fixture
def scene(tmp_path):
    """A factory of things that are ended in reverse order."""
    made = []

    def make(thing):
        made.append(thing)
        return thing
    make.path = str(tmp_path / "agent.sock")
    yield make
    for thing in reversed(made):
        thing.end() if isinstance(thing, Agent) else thing.close()


def serve(scene, *more, **keywords):
    coordinator = scene(Coordinator())
    agent = scene(Agent(coordinator.url, scene.path, *more, **keywords))
    line = agent.ready(coordinator)
    return coordinator, agent, line


# ------------------------------------------------------------------- client

HEAD = struct.Struct("=IIIIQ")
BODY = struct.Struct("=64sIIIIiI64s32s48sIIII32s1024s")
REPLY = struct.Struct("=iI512s")
MAGIC, VERSION = 0x49545554, 1 << 16
WAITING, REFUSED = 2, 4


def hello_bytes(job="j", rank=0, size=2, attempt=0, magic=MAGIC,
                version=VERSION, tail=b"", host=b"h"):
    body = BODY.pack(job.encode(), attempt, rank, size, rank, -1, os.getpid(),
                     host, b"0.1.0", b"b1d", 0, 0, 0, 60000, b"", b"") + tail
    return HEAD.pack(magic, version, 1, len(body), 1) + body


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(8)
        self.socket.connect("\0" + path[1:] if path[0] == "@" else path)

    def send(self, data, fds=None):
        mine = os.pidfd_open(os.getpid()) if fds is None else None
        socket.send_fds(self.socket, [data], [mine] if fds is None else fds)
        if mine is not None:
            os.close(mine)

    def attach(self, **keywords):
        self.send(hello_bytes(**keywords))
        return self

    def receive(self):
        """(type, err, text), or None when the agent closed."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return None
        if not data:
            return None
        magic, version, kind, size, _ = HEAD.unpack_from(data)
        assert magic == MAGIC and size == len(data) - HEAD.size
        if size != REPLY.size:
            return kind, 0, ""
        err, _, text = REPLY.unpack_from(data, HEAD.size)  # WAITING: a stage
        return kind, err, text.split(b"\0")[0].decode()

    def close(self):
        self.socket.close()


# -------------------------------------------------------------------- tests


def test_ready_line_and_heartbeats(scene):
    coordinator, agent, line = serve(
        scene, "--label", "rack=7", "--label=zone=a")
    assert line == "ready socket=%s node=n1 data=127.0.0.1\n" % scene.path
    body = coordinator.wait(HEARTBEAT)[2]
    first = body[1][0]
    start = time.monotonic()
    beats = [coordinator.wait(HEARTBEAT)[2][1][0] for _ in range(10)]
    assert beats == list(range(first + 1, first + 11))
    assert 0.3 < time.monotonic() - start < 3  # heartbeat_ms is 50
    hello = next(m for m in coordinator.seen if m[0] == HELLO)[2]
    assert hello[1] == [b"n1"] and hello[5] == [b"127.0.0.1"]
    assert hello[4] == [b"rack=7", b"zone=a"]
    assert os.stat(scene.path).st_mode & 0o777 == 0o666


def test_waits_for_the_coordinator_and_says_so(scene):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    agent = scene(Agent("tcp://127.0.0.1:%d" % port, scene.path))
    agent.until(lambda: os.path.exists(scene.path))
    client = scene(Client(scene.path)).attach()
    kind, _, text = client.receive()
    assert kind == WAITING and "waits for" in text and "n1" in text
    agent.until(lambda: agent.log().count("event=waiting") >= 2, 8)
    assert str(port) in agent.log()
    coordinator = scene(Coordinator(port=port))
    assert agent.ready(coordinator, 10).startswith("ready ")
    join = coordinator.wait(JOIN)  # the client was kept
    assert join[1][2] == [b"j"]


def test_join_is_relayed_both_ways(scene):
    coordinator, agent, _ = serve(scene)
    one = scene(Client(scene.path)).attach(job="a", rank=1, size=3)
    join = coordinator.wait(JOIN)
    assert join[1][2] == [b"a"] and join[2][1] == [1] and join[2][2] == [3]
    assert join[2][4] == [os.getpid()]
    two = scene(Client(scene.path)).attach(job="a", rank=2, size=3)
    assert coordinator.wait(JOIN)[2][1] == [2]
    assert len(agent.workers()) == 1
    other = scene(Client(scene.path)).attach(job="b", rank=1, size=3)
    assert coordinator.wait(JOIN)[1][2] == [b"b"]
    assert len(agent.workers()) == 2
    coordinator.send(FORMING, field(1, 2) + field(2, 3) + field(3, "0"), "a")
    one.socket.settimeout(5)
    assert one.receive()[0] == WAITING
    assert two.receive()[0] == WAITING
    again = scene(Client(scene.path)).attach(job="a", attempt=1, rank=0)
    assert coordinator.wait(JOIN)[1][3] == [1]
    assert len(agent.workers()) == 3
    del again, other


def test_bad_hello_is_refused_by_name(scene):
    _, agent, _ = serve(scene)
    cases = [
        (dict(version=2 << 16), EVERSION, "2.0"),
        (dict(rank=2, size=2), EINVAL, "TUTTI_RANK"),
        (dict(size=0), EINVAL, "TUTTI_SIZE"),
        (dict(size=70000), EINVAL, "TUTTI_SIZE"),
        (dict(job="a/b"), EINVAL, "TUTTI_JOB"),
        (dict(job=""), EINVAL, "TUTTI_JOB"),
    ]
    for keywords, code, word in cases:
        client = scene(Client(scene.path)).attach(**keywords)
        kind, err, text = client.receive()
        assert (kind, err) == (REFUSED, code) and word in text, text
        assert "n1" in text and client.receive() is None
    assert "1.0" in scene(Client(scene.path)).attach(
        version=2 << 16).receive()[2]
    assert agent.workers() == []


def test_garbage_costs_the_connection_only(scene):
    coordinator, agent, _ = serve(scene)
    good = hello_bytes()
    for data in (b"x", good[:20], good[:-1], good + b"x", b"\0" * 5000,
                 hello_bytes(magic=1), hello_bytes(job="j" * 64),
                 hello_bytes(host=b"h" * 64), hello_bytes(host=b"\x1b[2J")):
        client = scene(Client(scene.path))
        client.send(data)
        assert client.receive() is None
    assert agent.workers() == []
    # A newer minor version may say more.
    scene(Client(scene.path)).attach(version=VERSION + 3, tail=b"more")
    coordinator.wait(JOIN)


def test_descriptors_that_come_with_hello(scene):
    coordinator, agent, _ = serve(scene)
    none = scene(Client(scene.path))  # one is opened by its pid
    none.send(hello_bytes(job="k"), [])
    coordinator.wait(JOIN)
    read, write = os.pipe()
    wrong = scene(Client(scene.path))
    wrong.send(hello_bytes(), [read])
    assert "pidfd" in wrong.receive()[2]
    pidfd = os.pidfd_open(os.getpid())
    before = len(os.listdir("/proc/%d/fd" % agent.process.pid))
    more = scene(Client(scene.path))
    more.send(hello_bytes(), [write, pidfd, read, write, pidfd])
    coordinator.wait(JOIN)
    agent.until(lambda: len(os.listdir(
        "/proc/%d/fd" % agent.process.pid)) == before + 1)  # the pair
    os.close(write)  # nobody else holds it: end of file
    assert os.read(read, 1) == b""
    for fd in (read, pidfd):
        os.close(fd)


def test_silent_client_is_dropped(scene):
    coordinator, agent, _ = serve(scene)
    silent = [scene(Client(scene.path)) for _ in range(600)]
    scene(Client(scene.path)).attach()  # waits behind 512 silent ones
    kind, err, text = silent[0].receive()
    assert kind == REFUSED and "5 s" in text
    coordinator.wait(JOIN, 8)


def test_worker_that_dies_is_reported(scene):
    coordinator, agent, _ = serve(scene)
    clients = [scene(Client(scene.path)).attach(rank=r, size=4)
               for r in range(3)]
    for _ in clients:
        coordinator.wait(JOIN)
    pid, = agent.workers()
    start = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    ranks = set()
    for _ in clients:
        message = coordinator.wait(LOST)
        ranks.add(message[2].get(1, [0])[0])
        assert message[1][2] == [b"j"] and message[2][2] == [b"n1"]
        assert message[2][3] == [os.getpid()]
        assert message[2][4] == [
            b"worker of job j on node n1 killed by signal 9"]
    assert ranks == {0, 1, 2}
    assert time.monotonic() - start < 1
    for client in clients:
        while client.receive():
            pass
    scene(Client(scene.path)).attach(job="next")  # the agent lives
    coordinator.wait(JOIN)


def test_worker_ends_with_its_last_client_and_another_comes(scene):
    coordinator, agent, _ = serve(scene)
    for _ in range(3):
        client = Client(scene.path).attach(size=1)
        coordinator.wait(JOIN)
        client.close()
        agent.until(lambda: agent.workers() == [], 15)
    assert "event=worker-died" not in agent.log()


def test_restarted_coordinator_is_greeted_again(scene):
    coordinator, agent, _ = serve(scene)
    client = scene(Client(scene.path)).attach()
    coordinator.wait(JOIN)
    worker = agent.workers()
    port = coordinator.port
    coordinator.close()
    agent.until(lambda: "state=down was=up" in agent.log())
    second = scene(Coordinator(incarnation=8, port=port))
    second.wait(HELLO, 10)
    second.wait(HEARTBEAT)
    assert "event=coordinator-restarted" in agent.log()
    assert agent.workers() == worker  # running jobs went on
    second.send(FORMING, field(1, 1) + field(2, 2) + field(3, "1"), "j")
    assert client.receive()[0] == WAITING


def test_message_of_another_incarnation_is_stale(scene):
    coordinator, agent, _ = serve(scene)
    coordinator.wait(HEARTBEAT)
    coordinator.incarnation = 9
    coordinator.send(FORMING, field(1, 1) + field(2, 2) + field(3, "1"), "j")
    coordinator.wait(HELLO)
    agent.until(lambda: "event=stale" in agent.log())


def test_hello_is_repeated_with_back_off(scene):
    coordinator = scene(Coordinator(welcome=False))
    scene(Agent(coordinator.url, scene.path))
    times = []
    for _ in range(4):
        coordinator.wait(HELLO)
        times.append(time.monotonic())
    gaps = [b - a for a, b in zip(times, times[1:])]
    assert gaps[0] < gaps[1] < gaps[2] and gaps[2] > 0.25


def test_refused_node_ends_with_the_sentence(scene):
    coordinator = scene(Coordinator(welcome=False))
    agent = scene(Agent(coordinator.url, scene.path))
    coordinator.wait(HELLO)
    coordinator.refuse(EJOIN, "node n1 is here already, from host h2")
    assert agent.process.wait(5) == 1
    assert agent.log().splitlines()[-1] == (
        "tutti-agent: node n1 is here already, from host h2")
    assert not os.path.exists(scene.path)


def test_unknown_node_greets_again(scene):
    coordinator, agent, _ = serve(scene)
    coordinator.refuse(-3, "say HELLO first")
    coordinator.wait(HELLO)
    assert agent.process.poll() is None


def test_sigterm_drains_and_leaves_nothing(scene):
    coordinator, agent, _ = serve(scene)
    client = scene(Client(scene.path)).attach()
    coordinator.wait(JOIN)
    worker, = agent.workers()
    start = time.monotonic()
    agent.process.terminate()
    coordinator.wait(GOODBYE, 6)
    assert agent.process.wait(6) == 0
    assert time.monotonic() - start < 6
    assert os.listdir(os.path.dirname(scene.path)) == [
        os.path.basename(agent.log_path)]
    assert not os.path.exists("/proc/%d" % worker)
    while client.receive():
        pass


def test_kill_of_the_supervisor_ends_workers(scene):
    coordinator, agent, _ = serve(scene)
    client = scene(Client(scene.path)).attach()
    coordinator.wait(JOIN)
    worker, = agent.workers()
    agent.process.kill()
    agent.process.wait()

    def gone():
        try:
            with open("/proc/%d/stat" % worker) as stat:
                return stat.read().split()[2] == "Z"
        except FileNotFoundError:
            return True
    agent.until(gone, 3)
    while client.receive():
        pass
    # The dead socket is replaced.
    assert os.path.exists(scene.path)
    again = scene(Agent(coordinator.url, scene.path))
    assert again.ready(coordinator).startswith("ready ")


def test_second_agent_on_the_socket_is_refused(scene):
    coordinator, agent, _ = serve(scene)
    second = scene(Agent(coordinator.url, scene.path))
    assert second.process.wait(5) == 1
    assert "another agent serves it" in second.log()
    assert os.path.exists(scene.path)
    with open(scene.path + ".file", "w") as file:
        file.write("precious")
    third = scene(Agent(coordinator.url, scene.path + ".file"))
    assert third.process.wait(5) == 1 and "in the way" in third.log()
    with open(scene.path + ".file") as file:
        assert file.read() == "precious"


def test_keys(scene):
    def pair():
        public, secret = (ctypes.create_string_buffer(41) for _ in "ab")
        assert zmq.zmq_curve_keypair(public, secret) == 0
        return public.value.decode(), secret.value.decode()
    theirs, ours = pair(), pair()
    coordinator = scene(Coordinator(secret=theirs[1]))
    keys = scene.path + ".keys"
    text = ("# of n1\ncoordinator_public %s\nagent_public %s\n"
            "agent_secret %s\n" % (theirs[0], *ours))
    with open(keys, "w") as file:
        file.write(text)
    open_file = scene(Agent(coordinator.url, scene.path, "--keys", keys,
                            insecure=False))
    assert open_file.process.wait(5) == 1
    assert "chmod 600" in open_file.log()
    os.chmod(keys, 0o600)
    agent = scene(Agent(coordinator.url, scene.path, "--keys", keys,
                        insecure=False))
    assert agent.ready(coordinator).startswith("ready ")
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    inherited = scene(Agent(coordinator.url, scene.path + "2", "--keys",
                            "fd:%d" % read, insecure=False,
                            pass_fds=[read]))
    os.close(read)
    assert inherited.ready(coordinator).startswith("ready ")
    plain = scene(Agent(coordinator.url, scene.path + "3"))
    plain.until(lambda: "check that both sides" in plain.log())


def test_private_socket_is_for_its_user(scene):
    coordinator = scene(Coordinator())
    name = "@tutti-test-%d" % os.getpid()
    agent = scene(Agent(coordinator.url, name))
    assert ("socket=%s " % name) in agent.ready(coordinator)
    scene(Client(name)).attach()
    coordinator.wait(JOIN)
    if os.geteuid() != 0:
        pytest.skip("needs root to be somebody else")
    pid = os.fork()
    if pid == 0:
        os.setuid(65534)
        answer = Client(name).attach().receive()
        os._exit(0 if answer[:2] == (REFUSED, EDENIED) else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_job_belongs_to_its_user(scene):
    if os.geteuid() != 0:
        pytest.skip("needs root to be somebody else")
    coordinator, agent, _ = serve(scene)
    os.chmod(os.path.dirname(scene.path), 0o755)
    scene(Client(scene.path)).attach()
    coordinator.wait(JOIN)
    parents = os.path.dirname(scene.path)
    while parents != "/tmp" and parents != "/":
        os.chmod(parents, os.stat(parents).st_mode | 0o011)
        parents = os.path.dirname(parents)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        answer = Client(scene.path).attach(rank=1).receive()
        own = Client(scene.path).attach(job="own")
        os.close(write)
        os.read(read, 1)
        os._exit(0 if own and answer[:2] == (REFUSED, EDENIED) else 1)
    coordinator.wait(JOIN, when=lambda message: message[1][2] == [b"own"])
    uids = set()
    for worker in agent.workers():
        with open("/proc/%d/status" % worker) as status:
            uids.add(re.search(r"Uid:\s+(\d+)", status.read()).group(1))
    assert uids == {"0", "65534"}
    os.close(write)
    os.close(read)
    assert os.waitpid(pid, 0)[1] == 0


def route_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("198.51.100.9", 9))
        except OSError:
            return None
        return probe.getsockname()[0]


def test_loopback_is_not_told_to_a_remote_coordinator(scene):
    address = route_address()
    if not address or address.startswith("127."):
        pytest.skip("this host has no other address than loopback")
    coordinator = scene(Coordinator(host=address))
    wrong = scene(Agent(coordinator.url, scene.path, "--data-bind", "lo"))
    assert wrong.process.wait(5) == 1
    assert "--data-bind" in wrong.log().splitlines()[-1]
    right = scene(Agent(coordinator.url, scene.path))
    assert right.ready(coordinator).endswith(" data=%s\n" % address)
    cidr = scene(Agent(coordinator.url, scene.path + "2", "--data-bind",
                       address + "/16"))
    assert cidr.ready(coordinator).endswith(" data=%s\n" % address)


def test_arguments(scene):
    def run(*arguments, **env):
        return subprocess.run([AGENT, *arguments], text=True, timeout=10,
                              capture_output=True, env=env)
    assert "--data-bind" in run("--help").stdout
    assert re.fullmatch(r"tutti-agent \d+\.\d+\.\d+\n", run(
        "--version").stdout)
    for arguments, word in (
            ([], "--insecure"), (["--insecure", "--node", "a b"], "--node"),
            (["--nonsense"], "--nonsense"), (["--socket"], "--socket"),
            (["--insecure", "--data-ports", "9-1"], "--data-ports"),
            (["--insecure", "--staging", "1K"], "--staging"),
            (["--insecure", "--transport", "rdmx"], "--transport"),
            (["--insecure", "--transport", "loopback"], "--transport"),
            (["--insecure", "--transport", "faulty:flop:1"], "--transport"),
            (["--insecure", "--coordinator", "x:1"], "--coordinator")):
        result = run(*arguments)
        assert result.returncode == 2 and word in result.stderr
        assert result.stderr.count("\n") == 1
    assert "TUTTI_AGENT_CHANNELS" in run(
        "--insecure", TUTTI_AGENT_CHANNELS="many").stderr


def test_options_from_the_environment(scene):
    coordinator = scene(Coordinator())
    agent = scene(Agent(coordinator.url, scene.path, insecure=False, env={
        "TUTTI_AGENT_INSECURE": "1", "TUTTI_AGENT_LABEL": "rack=1,zone=b",
        "TUTTI_AGENT_NODE": "ignored", "TUTTI_AGENT_DATA_BIND": "127.0.0.1"}))
    assert " node=n1 " in agent.ready(coordinator)
    hello = next(m for m in coordinator.seen if m[0] == HELLO)[2]
    assert hello[4] == [b"rack=1", b"zone=b"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_name_with_two_families(scene, host):
    """Only one of the addresses of a name answers."""
    families = {info[0] for info in socket.getaddrinfo("localhost", 1)}
    if socket.AF_INET6 not in families and host == "[::1]":
        pytest.skip("localhost has no IPv6 address here")
    coordinator = scene(Coordinator(host=host))
    agent = scene(Agent("tcp://localhost:%d" % coordinator.port, scene.path))
    line = agent.ready(coordinator, 10)
    assert line.endswith(" data=%s\n" % host.strip("[]"))
