"""tests/integration/test_launchers.py - which launcher wins, and what a rank
says when it was asked to

The agent is one that was started beforehand, as on a cluster; mpirun is the
real one."""

import os
import re
import shutil
import time

import pytest

from conftest import BUILD, EXAMPLES, TUTTI, clean_env, finish, run, start

HELLO = os.path.join(EXAMPLES, 'hello')
TORCH = {'RANK': '0', 'WORLD_SIZE': '1', 'LOCAL_RANK': '0',
         'TORCHELASTIC_RUN_ID': 'torch/job', 'TORCHELASTIC_RESTART_COUNT': '2'}
SLURM = {'SLURM_PROCID': '5', 'SLURM_STEP_NUM_TASKS': '9', 'SLURM_LOCALID':
         '1', 'SLURM_JOB_ID': '77'}
PMI = {'PMI_RANK': '0', 'PMI_SIZE': '1'}


def start_node(name):
    """A coordinator, and an agent at the socket NAME."""
    coordinator = start([BUILD + '/bin/tutti-coordinator', '--bind',
                         'tcp://127.0.0.1:0', '--http', '127.0.0.1:0',
                         '--insecure'])
    ready = coordinator.stdout.readline()
    control = re.search(r'control=(\S+)', ready).group(1)
    process = start([BUILD + '/bin/tutti-agent', '--coordinator', control,
                     '--socket', name, '--node', 'here', '--data-bind',
                     '127.0.0.1', '--insecure'])
    assert process.stdout.readline().startswith('ready socket=')
    return process, coordinator


def stop_node(daemons):
    for daemon in daemons:
        daemon.terminate()
        assert finish(daemon, 15).status == 0


@pytest.fixture(scope='module')
def agent():
    """The socket of a running agent."""
    name = '@tutti-test-%d' % os.getpid()
    daemons = start_node(name)
    yield name
    stop_node(daemons)


def joined(result):
    """What TUTTI_LOG=info says: source and number of ranks."""
    assert result.status == 0, result
    return re.findall(r'job (\S+) rank (\d+): joined as here by ([^:]+): '
                      r'(\d+) ranks', result.err)


def test_torchrun(agent):
    result = run([HELLO], env=dict(TORCH, TUTTI_AGENT=agent, TUTTI_LOG='info',
                                   **SLURM))
    assert joined(result) == [('torch-job', '0', 'torchrun', '1')], result


def test_tutti_beats_all(agent):
    result = run([HELLO], env=dict(TORCH, TUTTI_AGENT=agent, TUTTI_LOG='info',
                                   TUTTI_JOB='mine', TUTTI_RANK='0',
                                   TUTTI_SIZE='1', **SLURM, **PMI))
    assert joined(result) == [('mine', '0', 'TUTTI_*', '1')], result


def test_slurm_is_last(agent):
    result = run([HELLO], env=dict(PMI, TUTTI_AGENT=agent, TUTTI_LOG='info',
                                   TUTTI_JOB='pmi', **SLURM))
    assert joined(result) == [('pmi', '0', 'MPICH', '1')], result
    one = dict(SLURM, SLURM_PROCID='0', SLURM_STEP_NUM_TASKS='1')
    result = run([HELLO], env=dict(one, TUTTI_AGENT=agent, TUTTI_LOG='info'))
    assert joined(result) == [('77', '0', 'Slurm', '1')], result


def test_bad_numbers_are_named(agent):
    for name, value in (('TUTTI_RANK', 'x'), ('TUTTI_SIZE', '-3'),
                        ('TUTTI_INIT_TIMEOUT_MS', 'soon'),
                        ('TUTTI_ALGORITHM', 'fastest'),
                        ('TUTTI_LOG', 'loud'),
                        ('TUTTI_REPORT', '/no/such/folder/file'),
                        ('TUTTI_ELASTIC', 'some')):
        env = {'TUTTI_AGENT': agent, 'TUTTI_JOB': 'bad', 'TUTTI_RANK': '0',
               'TUTTI_SIZE': '1', name: value}
        result = run([HELLO], env=env)
        assert result.status == 1 and name in result.err, result
        assert value in result.err, result


def mpirun(agent, ranks, *program, env=None):
    if not shutil.which('mpirun'):
        pytest.skip('mpirun is not installed (Debian package openmpi-bin)')
    more = {'TUTTI_AGENT': agent, 'OMPI_ALLOW_RUN_AS_ROOT': '1',
            'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM': '1', 'OMPI_MCA_plm': 'isolated',
            **(env or {})}
    return run(['mpirun', '--oversubscribe', '-n', str(ranks), *program],
               env=more, timeout=60)


def test_real_mpirun(agent):
    result = mpirun(agent, 3, HELLO, env={'TUTTI_LOG': 'info'})
    found = joined(result)
    assert sorted(f[1] for f in found) == ['0', '1', '2'], result
    assert {f[2:] for f in found} == {('Open MPI', '3')}, result
    assert result.out.count('[6]') == 3, result


def test_mpirun_inside_others(agent):
    """An allocation's variables are the outer launcher's."""
    result = mpirun(agent, 2, HELLO, env=dict(SLURM, TUTTI_LOG='info'))
    assert {f[2:] for f in joined(result)} == {('Open MPI', '2')}, result


def test_bench_joins_the_launchers_job(agent):
    result = mpirun(agent, 2, TUTTI, 'bench', 'allreduce', '-b', '64', '-e',
                    '4K', '-n', '3', '--json')
    assert result.status == 0, result
    assert result.out.count('"ranks":2') == 4, result


def test_silent_unless_asked(agent):
    env = {'TUTTI_AGENT': agent, 'TUTTI_JOB': 'quiet', 'TUTTI_RANK': '0',
           'TUTTI_SIZE': '1'}
    assert run([HELLO], env=env).err == ''
    told = run([HELLO], env=dict(env, TUTTI_LOG='ops'))
    assert 'allreduce float32' in told.err and '#1' in told.err, told


def test_report(agent, tmp_path):
    path = tmp_path / 'report'
    env = {'TUTTI_AGENT': agent, 'TUTTI_JOB': 'told', 'TUTTI_RANK': '0',
           'TUTTI_SIZE': '1', 'TUTTI_REPORT': str(path)}
    assert run([HELLO], env=env).err == ''
    text = path.read_text()
    assert re.search(r'allreduce +3 ', text) and 'p99' in text, text
    assert 'waited for communication' in text


def test_stall_is_told_in_the_jobs_log():
    """Rank 1 comes 12 s late: the others say for whom they wait."""
    result = run([TUTTI, 'run', '-n', '2', '--', 'sh', '-c', 'exec %s stall'
                  % os.path.join(BUILD, 'tests', 'api')], timeout=60)
    assert result.status == 0, result
    assert re.search(r'rank 0: barrier #\d+ waits since 10 s for rank 1 '
                     r'\(pid \d+\)', result.err), result


def test_agent_that_comes_later(tmp_path):
    """A rank waits for its node's agent, and the log says how long."""
    path = str(tmp_path / 'agent.sock')
    rank = start([HELLO], {'TUTTI_AGENT': path, 'TUTTI_JOB': 'early',
                           'TUTTI_RANK': '0', 'TUTTI_SIZE': '1',
                           'TUTTI_LOG': 'info'})
    time.sleep(3.5)
    daemons = start_node(path)
    result = finish(rank, 30)
    assert result.status == 0, result
    times = re.search(r'; agent (\S+) s, coordinator (\S+) s, ranks (\S+) s, '
                      r'nodes (\S+) s', result.err)
    assert times and 3.3 < float(times.group(1)) < 20, result
    stop_node(daemons)


def test_agent_that_never_comes(tmp_path):
    env = {'TUTTI_JOB': 'x', 'TUTTI_RANK': '0', 'TUTTI_SIZE': '1'}
    begun = time.time()
    result = run([HELLO], env=dict(env, TUTTI_AGENT='/no/such/agent.sock'))
    assert result.status == 1 and 'EAGENTLOST' in result.err, result
    assert time.time() - begun < 30  # not the five minutes of a join
    result = run([HELLO], env=dict(env, TUTTI_AGENT=str(tmp_path / 'sock'),
                                   TUTTI_INIT_TIMEOUT_MS='500'))
    assert 'EAGENTLOST' in result.err and 'after 0.' in result.err, result


def test_attempts(agent):
    """A higher attempt ends the lower one; a lower one is refused."""
    env = {'TUTTI_AGENT': agent, 'TUTTI_JOB': 'again', 'TUTTI_RANK': '0',
           'TUTTI_SIZE': '2', 'TUTTI_INIT_TIMEOUT_MS': '20000'}
    old = start([HELLO], env=dict(env, TUTTI_ATTEMPT='1'))
    time.sleep(1)
    lower = run([HELLO], env=dict(env, TUTTI_ATTEMPT='0'))
    assert lower.status == 1 and 'attempt 1 is running' in lower.err, lower
    new = [start([HELLO], env=dict(env, TUTTI_ATTEMPT='2',
                                   TUTTI_RANK=str(r))) for r in range(2)]
    gone = finish(old, 15)
    assert gone.status == 1 and 'attempt 2' in gone.err, gone
    for process in new:
        assert finish(process, 20).status == 0
