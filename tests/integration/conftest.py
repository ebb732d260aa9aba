"""tests/integration/conftest.py - running the real programs

Every process is started in a group of its own with a deadline, and the group
is killed at the end, so that a failing test leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
BUILD = os.environ.get('TUTTI_BUILD', os.path.join(ROOT, 'build'))
TUTTI = os.path.join(BUILD, 'bin', 'tutti')
AGENT = os.path.join(BUILD, 'bin', 'tutti-agent')
COORDINATOR = os.path.join(BUILD, 'bin', 'tutti-coordinator')
EXAMPLES = os.path.join(BUILD, 'bin', 'examples')
# How much slower programs of this build may be: every timeout grows by it.
SLOW = {'asan': 3, 'tsan': 8}.get(os.path.basename(BUILD), 1)


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def __repr__(self):
        return 'status %s\nstdout:\n%s\nstderr:\n%s' % (
            self.status, self.out[-4000:], self.err[-4000:])


def clean_env(env=None):
    base = {k: v for k, v in os.environ.items()
            if not k.startswith(('TUTTI_', 'OMPI_', 'PMI_', 'SLURM_'))
            and k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK')}
    base.update(env or {})
    return base


def start(args, env=None, **more):
    return subprocess.Popen(args, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True,
                            env=clean_env(env), start_new_session=True,
                            stdin=subprocess.DEVNULL, **more)


def finish(process, timeout=60):
    timeout *= SLOW
    try:
        out, err = process.communicate(timeout=timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        status = 'timeout after %s s' % timeout
    return Result(status, out, err)


def run(args, timeout=60, env=None, **more):
    return finish(start(args, env, **more), timeout)


def tutti_run(ranks, nodes, program, timeout=60, env=None, options=()):
    return run([TUTTI, 'run', '-n', str(ranks), '--nodes', str(nodes),
                *options, '--', *program], timeout, env)


def bench(*args, timeout=120, env=None):
    """Rows of tutti bench --json, and its exit status."""
    result = run([TUTTI, 'bench', *args, '--json'], timeout, env)
    rows = [json.loads(line) for line in result.out.splitlines()
            if line.startswith('{')]
    return result, rows


def record(line):
    """One line per test for tests/run.sh, which counts them."""
    path = os.environ.get('TUTTI_RESULTS')
    if path:
        with open(path, 'a') as file:
            file.write(line.replace('\n', ' ') + '\n')


def pytest_runtest_logreport(report):
    if report.skipped:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ''
        record('skipped: ' + why.replace('Skipped: ', ''))
    elif report.failed:
        record('failed: ' + report.nodeid)
    elif report.when == 'call':
        record('passed: ' + report.nodeid)


def pytest_collectreport(report):
    if report.failed:
        record('failed: %s cannot be read' % report.nodeid)


@pytest.fixture(scope='session', autouse=True)
def built():
    if not os.path.exists(TUTTI):
        sys.exit('%s is not built; run scons' % TUTTI)
