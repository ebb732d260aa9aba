"""tests/integration/test_star_ring.py - master-worker against the ring on
links of 1 Gbit/s: four hosts in network namespaces"""

import os
import shutil
import subprocess

import pytest

from conftest import SLOW, bench

PREFIX = 'tutti-%d' % os.getpid()


def sh(*commands):
    for command in commands:
        done = subprocess.run(command.split(), capture_output=True, text=True)
        assert done.returncode == 0, command + ': ' + done.stderr


@pytest.fixture
def hosts():
    """Four hosts on one switch; each sends and receives 1 Gbit/s."""
    if os.geteuid() != 0:
        pytest.skip('network namespaces need root')
    if not shutil.which('tc'):
        pytest.skip('tc is not installed (Debian package iproute2)')
    switch = PREFIX + '-sw'
    names = ['%s-n%d' % (PREFIX, i) for i in range(4)]
    try:
        sh('ip netns add ' + switch,
           'ip -n %s link add br0 type bridge' % switch,
           'ip -n %s link set br0 up' % switch)
        shape = 'root tbf rate 1gbit burst 256kb latency 50ms'
        for i, name in enumerate(names):
            sh('ip netns add ' + name,
               'ip link add e0 netns %s type veth peer name p%d netns %s'
               % (name, i, switch),
               'ip -n %s link set p%d master br0 up' % (switch, i),
               'ip -n %s addr add 10.98.7.%d/24 dev e0' % (name, i + 1),
               'ip -n %s link set lo up' % name,
               'ip -n %s link set e0 up' % name,
               'tc -n %s qdisc add dev e0 %s' % (name, shape),
               'tc -n %s qdisc add dev p%d %s' % (switch, i, shape))
        yield names, ['10.98.7.%d' % (i + 1) for i in range(4)]
    finally:
        for name in names + [switch]:
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True)


def test_star_against_ring(hosts):
    names, addresses = hosts
    time = {}
    size = '64M' if SLOW == 1 else '8M'
    for algorithm in ('ring', 'star'):
        result, rows = bench(
            'allreduce', '--ranks', '4', '--nodes', '4', '-b', size, '-e',
            size, '-n', '2', '-w', '0', '--in-place', '0', '--algorithm',
            algorithm, '--netns', ','.join(names), '--addresses',
            ','.join(addresses), timeout=180)
        assert result.status == 0 and rows[0]['wrong'] == 0, result
        time[algorithm] = rows[0]['time_us']
    ratio = time['star'] / time['ring']
    print('star %.0f us, ring %.0f us, ratio %.2f' % (time['star'],
                                                      time['ring'], ratio))
    if SLOW == 1:  # else the processors are the wire
        assert ratio >= 1.7
