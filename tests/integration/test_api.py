"""tests/integration/test_api.py - the C API as programs use it

tests/programs/api.c checks; here it is run on one and two nodes."""

import os
import shutil

import pytest

from conftest import BUILD, EXAMPLES, tutti_run

API = os.path.join(BUILD, 'tests', 'api')
OPS = os.path.join(BUILD, 'tests', 'ops')


def test_valgrind_finds_no_leak():
    """Every block of the library is freed at the end of hello."""
    if not shutil.which('valgrind'):
        pytest.skip('valgrind is not installed')
    if os.path.basename(BUILD) != 'build':
        pytest.skip('valgrind does not run a build with sanitizers')
    result = tutti_run(2, 2, ['valgrind', '--leak-check=full',
                              '--show-leak-kinds=all', '--error-exitcode=9',
                              os.path.join(EXAMPLES, 'hello')], timeout=120)
    assert result.status == 0, result
    assert result.err.count('no leaks are possible') == 2, result
    assert result.err.count('ERROR SUMMARY: 0 errors') == 2, result


@pytest.mark.parametrize('check', ['split', 'misuse', 'requests', 'many',
                                   'counts', 'abort', 'deadline', 'fork',
                                   'exec', 'vanish', 'threads', 'memory', 'hidden', 'late',
                                   'orders'])
@pytest.mark.parametrize('nodes', [1, 2, 3])
def test_api(check, nodes):
    result = tutti_run(4, nodes, [API, check], timeout=60)
    assert result.status == 0, result
    assert result.out == 'ok\n' * 4, result


@pytest.mark.parametrize('check', ['refused', 'counts_differ', 'counts_short',
                                   'lists_differ', 'cancel', 'batch', 'mixed',
                                   'priorities', 'opposite', 'property',
                                   'names', 'named_orders', 'named_mismatch',
                                   'named_ahead',
                                   'defaults'])
@pytest.mark.parametrize('nodes', [1, 2, 3])
def test_ops(check, nodes):
    result = tutti_run(4, nodes, [OPS, check], timeout=60)
    assert result.status == 0, result
    assert result.out == 'ok\n' * 4, result


@pytest.mark.parametrize('nodes', [1, 2, 4])
def test_property_to_the_bit(nodes):
    result = tutti_run(5, nodes, [OPS, 'property'],
                       env={'TUTTI_REPRODUCIBLE': '1'})
    assert result.status == 0, result


@pytest.mark.parametrize('check', ['ring', 'tags', 'lengths', 'mismatch'])
@pytest.mark.parametrize('nodes', [1, 2, 4])
def test_messages(check, nodes):
    result = tutti_run(4, nodes, [os.path.join(BUILD, 'tests', 'messages'),
                                  check], timeout=60)
    assert result.status == 0, result
    assert result.out == 'ok\n' * 4, result
