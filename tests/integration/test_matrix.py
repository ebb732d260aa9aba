"""tests/integration/test_matrix.py - every collective, type, operation, count,
placement and alignment against a reference (tests/programs/matrix.c)

A sample with a new seed each time; TUTTI_SEED=N repeats one, TUTTI_FULL=1
runs every combination."""

import os
import re
import time

import pytest

from conftest import BUILD, SLOW, tutti_run

MATRIX = os.path.join(BUILD, 'tests', 'matrix')
SEED = int(os.environ.get('TUTTI_SEED', int(time.time())))
FULL = 'TUTTI_FULL' in os.environ
CASES = 0 if FULL else 800 // SLOW
SHAPES = [(n, k) for n in (1, 2, 3, 4, 5, 8) for k in (1, 2, 3) if k <= n]


def matrix(ranks, nodes, env=None):
    seed = str(SEED * 100 + 10 * ranks + nodes)
    begun = time.time()
    result = tutti_run(ranks, nodes, [MATRIX, seed, str(CASES)],
                       timeout=3600 if FULL else 60, env=env)
    done = re.search(r'cases (\d+)', result.out)
    print('matrix ranks=%d nodes=%d seed=%s cases=%s seconds=%.1f %s' % (
        ranks, nodes, seed, done and done.group(1), time.time() - begun,
        env or ''))
    assert result.status == 0 and int(done.group(1)) >= CASES, result


@pytest.mark.parametrize('ranks, nodes', SHAPES)
def test_matrix(ranks, nodes):
    matrix(ranks, nodes)


@pytest.mark.parametrize('mode', ['TUTTI_REPRODUCIBLE', 'TUTTI_WIDE'])
@pytest.mark.parametrize('ranks, nodes', [(4, 1), (4, 2), (5, 3)])
def test_matrix_modes(mode, ranks, nodes):
    matrix(ranks, nodes, {mode: '1'})


@pytest.mark.parametrize('algorithm', ['star', 'ring', 'tree', 'doubling',
                                       'halving', 'direct'])
def test_matrix_algorithms(algorithm):
    matrix(5, 3, {'TUTTI_ALGORITHM': algorithm})
