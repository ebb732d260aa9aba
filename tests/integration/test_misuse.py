"""tests/integration/test_misuse.py - errors name who, what, where, what to do

And whatever dies, nobody hangs and nothing is left."""

import os
import re
import signal
import subprocess
import time

from conftest import EXAMPLES, TUTTI, finish, run, start, tutti_run

HELLO = os.path.join(EXAMPLES, 'hello')


def left(token):
    """Processes whose command line has TOKEN."""
    found = subprocess.run(['pgrep', '-f', token], capture_output=True,
                           text=True).stdout.split()
    return [pid for pid in found if pid != str(os.getpid())]


def test_no_agent():
    result = run([HELLO], env={'TUTTI_AGENT': '@nobody', 'TUTTI_JOB': 'x',
                               'TUTTI_RANK': '0', 'TUTTI_SIZE': '1'})
    assert result.status == 1
    assert 'EAGENTLOST' in result.err and '@nobody' in result.err
    assert 'tutti run' in result.err


def test_who_am_i():
    result = run([HELLO])
    assert result.status == 1 and 'TUTTI_RANK' in result.err, result
    result = run([HELLO], env={'TUTTI_JOB': 'x', 'TUTTI_RANK': '4',
                               'TUTTI_SIZE': '4'})
    assert 'EINVAL' in result.err and 'rank 4 of a world of 4' in result.err


def test_missing_rank():
    result = tutti_run(2, 1, ['sh', '-c',
                              'TUTTI_SIZE=4 TUTTI_INIT_TIMEOUT_MS=1500 exec '
                              + HELLO])
    assert result.status == 1
    assert 'EJOIN' in result.err and 'missing: 2-3' in result.err, result
    assert re.search(r'after 1500 ms \(agent \S+ s, coordinator \S+ s, ranks '
                     r'1\.\d s\)', result.err), result


def test_sizes_differ():
    result = tutti_run(2, 1, ['sh', '-c', 'test $TUTTI_RANK = 0 || '
                              '{ sleep 0.3; export TUTTI_SIZE=3; }; '
                              'TUTTI_INIT_TIMEOUT_MS=2000 exec ' + HELLO])
    assert result.status != 0
    assert 'EJOIN' in result.err and 'TUTTI_SIZE' in result.err, result


def test_rank_taken_twice():
    result = tutti_run(2, 2, ['sh', '-c', 'sleep 0.$TUTTI_RANK; TUTTI_RANK=0 '
                              'TUTTI_INIT_TIMEOUT_MS=2000 exec ' + HELLO])
    assert result.status != 0
    assert re.search(r'rank 0 is taken by pid \d+', result.err), result


def test_mismatch_on_one_and_two_nodes():
    for nodes in (1, 2):
        result = tutti_run(2, nodes, ['sh', '-c', 'test $TUTTI_RANK = 0 && '
                                      'exec %s bench allreduce -n 2 -b 4K -e '
                                      '4K; exec %s bench allgather -n 2 -b 4K '
                                      '-e 4K' % (TUTTI, TUTTI)])
        assert result.status == 1, result
        assert 'EMISMATCH' in result.err, result
        assert 'allreduce float32' in result.err
        assert 'allgather float32' in result.err


def test_killed_rank_frees_the_others():
    for nodes in (1, 2):
        process = start([TUTTI, 'run', '-n', '4', '--nodes', str(nodes), '--',
                         'sh', '-c', 'echo pid $TUTTI_RANK $$; exec %s bench '
                         'allreduce -b 4M -e 4M -n 10000 -c 0' % TUTTI])
        pids = {}
        while len(pids) < 4:
            m = re.match(r'pid (\d) (\d+)', process.stdout.readline())
            if m:
                pids[int(m.group(1))] = int(m.group(2))
        time.sleep(1.5)
        os.kill(pids[2], signal.SIGKILL)
        begun = time.time()
        result = finish(process, 20)
        took = time.time() - begun
        assert result.status == 128 + 9, result
        for rank in (0, 1, 3):
            assert re.search('rank %d: TUTTI_EPEERLOST: rank 2' % rank,
                             result.err), result
        assert 'rank 2 (node' in result.err and str(pids[2]) in result.err
        assert took < 5, took


def test_kill_of_run_leaves_nothing():
    process = start([TUTTI, 'run', '-n', '2', '--nodes', '2', '--', TUTTI,
                     'bench', 'allreduce', '-b', '4M', '-e', '4M', '-n',
                     '10000', '-c', '0'])
    time.sleep(2)
    group = subprocess.run(['pgrep', '-P', str(process.pid)],
                           capture_output=True, text=True).stdout.split()
    assert len(group) >= 5, group  # coordinator, 2 agents, 2 ranks
    workers = [w for g in group for w in subprocess.run(
        ['pgrep', '-P', g], capture_output=True, text=True).stdout.split()]
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGKILL)
    deadline = time.time() + 10
    alive = group + workers
    while alive and time.time() < deadline:
        alive = [p for p in alive if os.path.exists('/proc/%s' % p)
                 and ') Z ' not in open('/proc/%s/stat' % p).read()]
        time.sleep(0.1)
    assert alive == []
    process.wait()


def test_unknown_words():
    for args in (['no-such-command'], ['bench', 'allredduce'],
                 ['bench', 'allreduce', '-d', 'float7'], ['run', '--', 'x'],
                 ['bench', 'allreduce', '--no-such-option']):
        result = run([TUTTI, *args])
        assert result.status == 2 and result.err, (args, result)
