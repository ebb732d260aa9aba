"""tests/integration/test_status.py - the status endpoint of a running job"""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import AGENT, COORDINATOR, EXAMPLES, TUTTI, finish, run, start


def get(url, accept=None):
    request = urllib.request.Request(
        url, headers={'Accept': accept} if accept else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=5) as reply:
        return reply.read().decode()


@pytest.fixture(scope='module')
def job():
    process = start([TUTTI, 'run', '-n', '4', '--nodes', '2', '--job', 'seen',
                     '--', EXAMPLES + '/train_fashion', '--epochs', '50'])
    url = None
    for line in process.stderr:
        m = re.match(r'tutti: job seen status (http\S+)', line)
        if m:
            url = m.group(1)
            break
    assert url
    deadline = time.time() + 20
    while time.time() < deadline:
        jobs = json.loads(get(url + '/status'))['jobs']
        if jobs and jobs[0]['state'] == 'running' \
                and all(r['seq'] > 0 for r in jobs[0]['ranks']):
            break
        time.sleep(0.1)
    yield url
    process.terminate()
    finish(process, 20)


def test_document(job):
    status = json.loads(get(job + '/status'))
    assert status['insecure'] is False
    assert [n['state'] for n in status['nodes']] == ['ready', 'ready']
    [one] = [j for j in status['jobs'] if j['job'] == 'seen']
    assert one['state'] == 'running' and one['size'] == 4
    assert one['ring'] == ['node0', 'node1'] and one['missing'] == []
    assert [r['rank'] for r in one['ranks']] == [0, 1, 2, 3]
    assert [r['node'] for r in one['ranks']] == ['node0'] * 2 + ['node1'] * 2
    assert all(r['pid'] > 0 and 'allreduce' in r['op'] for r in one['ranks'])
    before = one['ranks'][0]['seq']
    time.sleep(1)
    after = json.loads(get(job + '/jobs/seen'))
    assert after['ranks'][0]['seq'] > before
    assert after['wire_bytes'] > 0


def test_health_and_refusals(job):
    assert get(job + '/healthz') == 'ok\n'
    for path in ('/', '/jobs/none', '/etc/passwd'):
        with pytest.raises(urllib.error.HTTPError) as error:
            get(job + path)
        assert error.value.code == 404
    request = urllib.request.Request(job + '/status', data=b'x')
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.build_opener(
            urllib.request.ProxyHandler({})).open(request, timeout=5)
    assert error.value.code == 405


def test_metrics(job):
    time.sleep(0.6)
    text = get(job + '/metrics')
    assert re.search(r'tutti_ops_total\{kind="allreduce"\} [1-9]', text)
    assert 'tutti_nodes{state="ready"} 2' in text
    assert re.search(r'tutti_wire_bytes_total\{transport="tcp"\} [1-9]', text)
    assert get(job + '/metrics', 'application/openmetrics-text'
               ).rstrip().endswith('# EOF')
    if not shutil.which('promtool'):
        pytest.skip('promtool is not installed (Debian package prometheus)')
    check = subprocess.run(['promtool', 'check', 'metrics'], input=text,
                           capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_tool(job):
    shown = run([TUTTI, 'status', '--url', job])
    assert shown.status == 0 and 'seen' in shown.out, shown
    assert run([TUTTI, 'status', '--url', job, '--healthz']).status == 0
    gone = run([TUTTI, 'status', '--url', 'http://127.0.0.1:9'])
    assert gone.status != 0 and '--url' in gone.err, gone


def ready(process, name):
    """The value of NAME= in the ready line of a daemon."""
    line = process.stdout.readline()
    return re.search(r'\b%s=(\S+)' % name, line).group(1), line


def test_no_op_of_a_short_job_is_lost(tmp_path):
    """A job that ends between two reports is counted all the same; a second
    run under its name does not hide in the first one's counts."""
    daemons = []
    try:
        daemons.append(start([COORDINATOR, '--insecure', '--bind',
                              'tcp://127.0.0.1:0', '--http', '127.0.0.1:0']))
        control, line = ready(daemons[0], 'control')
        url = re.search(r'\bhttp=(\S+)', line).group(1)
        sock = str(tmp_path / 'a')
        daemons.append(start([AGENT, '--insecure', '--coordinator', control,
                              '--socket', sock, '--node', 'n0']))
        ready(daemons[1], 'socket')
        for _ in range(2):
            ranks = [start([EXAMPLES + '/hello'],
                           {'TUTTI_AGENT': sock, 'TUTTI_JOB': 'short',
                            'TUTTI_RANK': str(r), 'TUTTI_SIZE': '2'})
                     for r in range(2)]
            for rank in ranks:
                done = finish(rank)
                assert done.status == 0, done
        wanted = {'allreduce': 6, 'allgather': 4, 'reduce_scatter': 2}
        deadline = time.time() + 10
        counts = {}
        while counts != wanted and time.time() < deadline:
            text = get(url + '/metrics')
            counts = {k: int(re.search(
                r'tutti_ops_total\{kind="%s"\} (\d+)' % k, text).group(1))
                for k in wanted}
            time.sleep(0.1)
        assert counts == wanted
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            finish(daemon, 10)
