"""tests/integration/test_train.py - training: same losses, every mode"""

import os
import re

import pytest

from conftest import EXAMPLES, SLOW, tutti_run

TRAIN = os.path.join(EXAMPLES, 'train_fashion')
HELLO = os.path.join(EXAMPLES, 'hello')
STEPS = 60 if SLOW == 1 else 15  # arithmetic is what sanitizers slow down


def losses(tmp_path, name, ranks, nodes, *options, env=None):
    path = str(tmp_path / name)
    result = tutti_run(ranks, nodes, [TRAIN, '--losses', path, *options],
                       timeout=120, env=env)
    assert result.status == 0, result
    return [float.fromhex(line) for line in open(path)]


def test_reproducible_is_bit_equal(tmp_path):
    env = {'TUTTI_REPRODUCIBLE': '1'}
    four = losses(tmp_path, 'four', 4, 2, '--steps', str(STEPS), env=env)
    one = losses(tmp_path, 'one', 1, 1, '--shards', '4', '--steps',
                 str(STEPS), env=env)
    node = losses(tmp_path, 'node', 4, 1, '--steps', str(STEPS), env=env)
    assert len(four) == STEPS
    assert four == one
    assert four == node


def test_normal_mode_is_close(tmp_path):
    four = losses(tmp_path, 'four', 4, 2, '--steps', str(STEPS))
    one = losses(tmp_path, 'one', 1, 1, '--shards', '4', '--steps',
                 str(STEPS))
    assert max(abs(a - b) for a, b in zip(four, one)) < 1e-5
    assert four[-1] < four[0] * (0.5 if SLOW == 1 else 0.9)  # it learns


def test_final_accuracy():
    """4 ranks on 2 nodes and 1 rank with 4 shards end within a point."""
    length, least = ('--epochs', '4'), 0.83
    if SLOW > 1:
        length, least = ('--steps', str(STEPS)), 0.6
    accuracy = []
    for ranks, nodes, more in ((4, 2, []), (1, 1, ['--shards', '4'])):
        result = tutti_run(ranks, nodes, [TRAIN, *length, *more],
                           timeout=120)
        assert result.status == 0, result
        accuracy.append(float(re.search(r'result accuracy=([\d.]+)',
                                        result.out).group(1)))
    assert min(accuracy) > least, accuracy
    assert abs(accuracy[0] - accuracy[1]) < 0.01, accuracy


@pytest.mark.parametrize('options', [('--mode', 'async'), ('--sharded',),
                                     ('--algorithm', 'star'),
                                     ('--slow', '1:50')])
def test_modes_agree(tmp_path, options):
    steps = ('--steps', str(STEPS // 3))
    plain = losses(tmp_path, 'plain', 4, 2, *steps)
    other = losses(tmp_path, 'other', 4, 2, *steps, *options)
    assert max(abs(a - b) for a, b in zip(plain, other)) < 1e-4


def test_hello_tells_the_chapter():
    result = tutti_run(4, 2, [HELLO])
    assert result.status == 0, result
    for card in range(4):
        assert 'allreduce sum   card %d: [10]' % card in result.out
        assert 'allreduce avg   card %d: [2.5]' % card in result.out
        assert 'allgather       card %d: [0, 10, 20, 30]' % card in result.out
    assert 'bit for bit' in result.out


@pytest.mark.parametrize('option', [[], ['--epoll']])
@pytest.mark.parametrize('nodes', [1, 2])
def test_async_callbacks(option, nodes):
    result = tutti_run(4, nodes, [os.path.join(EXAMPLES, 'async'), *option])
    assert result.status == 0, result
    assert result.out.count('as computed') == 4, result
    assert '20 updates' in result.out
