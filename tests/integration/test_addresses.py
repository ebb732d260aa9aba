"""tests/integration/test_addresses.py - IPv4 only, IPv6 only, both: two hosts
in network namespaces; and a partition that heals"""

import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, EXAMPLES, finish, start, tutti_run

PREFIX = 'tutti-a%d' % os.getpid()
HELLO = os.path.join(EXAMPLES, 'hello')


def sh(command):
    subprocess.run(command.split(), check=True, capture_output=True)


@pytest.fixture
def pair(request):
    """Two hosts joined by a cable, with addresses of the families."""
    if os.geteuid() != 0:
        pytest.skip('network namespaces need root')
    if not shutil.which('ip'):
        pytest.skip('ip is not installed (Debian package iproute2)')
    a, b = PREFIX + '-a', PREFIX + '-b'
    try:
        sh('ip netns add ' + a)
        sh('ip netns add ' + b)
        sh('ip link add e0 netns %s type veth peer name e0 netns %s' % (a, b))
        for i, name in enumerate((a, b), 1):
            if '4' in request.param:
                sh('ip -n %s addr add 10.97.3.%d/24 dev e0' % (name, i))
            if '6' in request.param:
                sh('ip -n %s addr add fd97::%d/64 dev e0 nodad' % (name, i))
            sh('ip -n %s link set lo up' % name)
            sh('ip -n %s link set e0 up' % name)
        yield request.param, a, b
    finally:
        for name in (a, b):
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True)


def inside(name, args, env=None):
    return start(['nsenter', '--net=/run/netns/' + name, *args], env)


def cluster(family, a, b, binds):
    """Coordinator on host a, one agent on each; rank 0 on a, rank 1 on b."""
    host = '[fd97::1]' if family == '6' else '10.97.3.1'
    plain = host.strip('[]')
    started = []
    try:
        coordinator = inside(a, [BUILD + '/bin/tutti-coordinator', '--bind',
                                 'tcp://%s:0' % host, '--http', host + ':0',
                                 '--insecure'])
        started.append(coordinator)
        ready = coordinator.stdout.readline()
        control = re.search(r'control=(\S+)', ready).group(1)
        assert plain in control.replace('%e0', ''), ready
        said = []
        for i, (name, bind) in enumerate(zip((a, b), binds)):
            agent = inside(name, [
                BUILD + '/bin/tutti-agent', '--coordinator', control,
                '--socket', '@%s-%d' % (PREFIX, i), '--node', 'n%d' % i,
                '--insecure', '--data-ports', '40100-40110',
                *(['--data-bind', bind] if bind else [])])
            started.append(agent)
            said.append(agent.stdout.readline())
        ranks = [inside(name, [HELLO], env={
            'TUTTI_JOB': 'net', 'TUTTI_RANK': str(i), 'TUTTI_SIZE': '2',
            'TUTTI_AGENT': '@%s-%d' % (PREFIX, i),
            'TUTTI_INIT_TIMEOUT_MS': '15000'})
            for i, name in enumerate((a, b))]
        results = [finish(rank, 30) for rank in ranks]
        for result in results:
            assert result.status == 0, result
        return said
    finally:
        for process in reversed(started):
            process.terminate()
            finish(process, 10)


@pytest.mark.parametrize('pair', ['4', '6', '46'], indirect=True)
def test_families(pair):
    """Without --data-bind the address is that of the route taken."""
    family, a, b = pair
    said = cluster(family, a, b, (None, None))
    for i, line in enumerate(said, 1):
        want = 'fd97::%d' % i if family == '6' else '10.97.3.%d' % i
        assert 'data=%s' % want in line.replace('[', ''), line


@pytest.mark.parametrize('bind', ['e0', 'cidr', 'address'])
@pytest.mark.parametrize('pair', ['4', '6'], indirect=True)
def test_data_bind(pair, bind):
    family, a, b = pair
    net, one = ('fd97::/64', 'fd97::%d') if family == '6' \
        else ('10.97.3.0/24', '10.97.3.%d')
    binds = [{'e0': 'e0', 'cidr': net, 'address': one % i}[bind]
             for i in (1, 2)]
    cluster(family, a, b, binds)


@pytest.mark.parametrize('pair', ['4'], indirect=True)
def test_late_route(pair):
    """The second host is cut off while the agents start and comes back: the
    connection is retried, nothing has to be started again."""
    _, a, b = pair
    host = '10.97.3.1'
    coordinator = inside(a, [BUILD + '/bin/tutti-coordinator', '--bind',
                             'tcp://%s:0' % host, '--http', host + ':0',
                             '--insecure'])
    control = re.search(r'control=(\S+)',
                        coordinator.stdout.readline()).group(1)
    sh('ip -n %s link set e0 down' % b)
    agent = inside(b, [BUILD + '/bin/tutti-agent', '--coordinator', control,
                       '--socket', '@%s-x' % PREFIX, '--node', 'x',
                       '--insecure'])
    time.sleep(3)
    assert agent.poll() is None
    sh('ip -n %s link set e0 up' % b)
    line = agent.stdout.readline()
    assert line.startswith('ready socket='), finish(agent, 1)
    for process in (agent, coordinator):
        process.terminate()
        finish(process, 10)
