"""tests/integration/test_bench.py - every collective, checked element by
element, over one and several nodes"""

import pytest

from conftest import bench

COLLECTIVES = ['allreduce', 'allgather', 'reduce_scatter', 'broadcast',
               'reduce', 'gather', 'scatter', 'alltoall']
SHAPES = [(1, 1), (2, 1), (3, 1), (4, 2), (3, 3), (5, 2)]


def right(result, rows):
    assert result.status == 0, result
    assert rows, result
    for row in rows:
        assert row['wrong'] == 0, row
        assert row.get('in_place_wrong', 0) == 0, row


@pytest.mark.parametrize('collective', COLLECTIVES)
@pytest.mark.parametrize('ranks,nodes', SHAPES)
def test_right(collective, ranks, nodes):
    result, rows = bench(collective, '--ranks', str(ranks), '--nodes',
                         str(nodes), '-b', '16', '-e', '4M', '-f', '16',
                         '-n', '3', '-c', '1', '--root', str(ranks // 2))
    right(result, rows)
    assert [r['bytes'] for r in rows][-1] > 1 << 19
    assert all(r['ranks'] == ranks and r['nodes'] == nodes for r in rows)


@pytest.mark.parametrize('nodes', [1, 2])
@pytest.mark.parametrize('collective', COLLECTIVES)
def test_ordinary_memory(collective, nodes):
    right(*bench(collective, '--ranks', '4', '--nodes', str(nodes), '-b',
                 '64', '-e', '16M', '-f', '64', '-n', '3', '--memory',
                 'malloc'))


@pytest.mark.parametrize('nodes', [1, 2])
@pytest.mark.parametrize('memory', ['shared', 'malloc'])
def test_async(nodes, memory):
    right(*bench('allreduce', '--ranks', '4', '--nodes', str(nodes), '-b',
                 '16', '-e', '4M', '-f', '16', '-n', '3', '--async',
                 '--memory', memory))


@pytest.mark.parametrize('nodes', ['1', '2'])
@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float64', 'int32',
                                   'int64'])
@pytest.mark.parametrize('op', ['sum', 'prod', 'min', 'max', 'avg'])
def test_types_and_ops(dtype, op, nodes):
    right(*bench('allreduce', '--ranks', '4', '--nodes', nodes, '-b', '48',
                 '-e', '300K', '-f', '64', '-n', '2', '-d', dtype, '-o', op))


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16', 'float32'])
def test_reproducible(dtype):
    right(*bench('allreduce', '--ranks', '6', '--nodes', '3', '-b', '48',
                 '-e', '3M', '-f', '64', '-n', '2', '-d', dtype,
                 '--reproducible'))


@pytest.mark.parametrize('algorithm', ['star', 'ring', 'doubling',
                                       'halving'])
@pytest.mark.parametrize('nodes', [2, 3])
def test_algorithms(algorithm, nodes):
    result, rows = bench('allreduce', '--ranks', str(nodes), '--nodes',
                         str(nodes), '-b', '16', '-e', '4M', '-f', '64',
                         '-n', '2', '--algorithm', algorithm)
    right(result, rows)
    assert {row['algorithm'] for row in rows} == {algorithm}


def test_corruption_is_seen():
    """Without this a "wrong": 0 would prove nothing."""
    result, rows = bench('allreduce', '--ranks', '2', '--nodes', '2', '-b',
                         '64K', '-e', '1M', '-n', '3', '--corrupt')
    assert sum(r['wrong'] + r['in_place_wrong'] for r in rows) > 0, result
    assert result.status == 1, result


def test_wire_bytes():
    """2 (N - 1) / N S per node around the ring, no more and no less."""
    size = 4 << 20
    for nodes in (2, 4):
        _, rows = bench('allreduce', '--ranks', str(nodes), '--nodes',
                        str(nodes), '-b', str(size), '-e', str(size), '-n',
                        '4', '--algorithm', 'ring', '--in-place', '0')
        want = 2 * (nodes - 1) * size // nodes
        # The barrier and the checks around the timed ops send no payload.
        assert abs(rows[0]['wire_bytes_max'] - want) < 1024, rows
        assert abs(rows[0]['wire_bytes_sum'] - nodes * want) < 4096, rows
        assert rows[0]['cpu_us'] > 0


def test_barrier():
    result, rows = bench('barrier', '--ranks', '4', '--nodes', '2', '-n',
                         '50')
    assert result.status == 0 and rows[0]['time_us'] > 0, result


@pytest.mark.parametrize('nodes', ['1', '2'])
@pytest.mark.parametrize('memory', ['shared', 'malloc'])
def test_tensors(nodes, memory, tmp_path):
    counts = tmp_path / 'counts'
    counts.write_text('1\n17\n9408\n64\n100000\n3\n' * 5)
    result, rows = bench('allreduce', '--ranks', '3', '--nodes', nodes,
                         '--tensors', str(counts), '--memory', memory)
    assert result.status == 0, result
    assert [r['mode'] for r in rows] == ['blocking', 'async', 'fused']
    assert all(r['wrong'] == 0 and r['tensors'] == 30 and r['time_us'] > 0
               and r['bytes'] == 4 * 5 * 109493 for r in rows), rows


def test_tensors_of_resnet50():
    result, rows = bench('allreduce', '--ranks', '2', '--tensors', 'resnet50')
    assert result.status == 0, result
    assert all(r['tensors'] == 161 and r['bytes'] == 4 * 25557032 and
               r['wrong'] == 0 for r in rows), rows


def test_bad_tensors(tmp_path):
    counts = tmp_path / 'counts'
    counts.write_text('12\nmany\n')
    result, _ = bench('allreduce', '--ranks', '1', '--tensors', str(counts))
    assert result.status == 1 and 'line 2' in result.err, result
    result, _ = bench('allreduce', '--ranks', '1', '--tensors', 'vgg')
    assert result.status == 1 and 'resnet50 is built in' in result.err, result
    result, _ = bench('allgather', '--tensors', 'resnet50')
    assert result.status == 2 and 'allreduce' in result.err, result


def test_overlap():
    result, rows = bench('allreduce', '--ranks', '2', '--nodes', '2',
                         '--overlap', '-b', '64K', '-e', '64K')
    assert result.status == 0 and len(rows) == 1, result
    assert rows[0]['op_us'] > 0 and rows[0]['both_us'] > 0
    assert -10 < rows[0]['hidden'] <= 2, rows
