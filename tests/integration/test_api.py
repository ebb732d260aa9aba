"""tests/integration/test_api.py - the C API as programs use it

tests/programs/api.c checks; here it is run on one and two nodes."""

import os

import pytest

from conftest import BUILD, tutti_run

API = os.path.join(BUILD, 'tests', 'api')


@pytest.mark.parametrize('check', ['split', 'misuse', 'requests', 'many',
                                   'counts', 'abort', 'deadline', 'fork',
                                   'threads', 'memory', 'hidden', 'late',
                                   'orders'])
@pytest.mark.parametrize('nodes', [1, 2, 3])
def test_api(check, nodes):
    result = tutti_run(4, nodes, [API, check], timeout=60)
    assert result.status == 0, result
    assert result.out == 'ok\n' * 4, result
