"""tests/integration/test_install.py - scons install, then a program built
with pkg-config and run by the installed tool"""

import os
import re
import subprocess

import pytest

from conftest import BUILD, ROOT, run


@pytest.mark.skipif(os.path.basename(BUILD) != 'build',
                    reason='variants are not installed')
def test_installed_program(tmp_path):
    prefix = tmp_path / 'prefix'
    made = run(['scons', 'install', 'PREFIX=%s' % prefix], timeout=300,
               cwd=ROOT)
    assert made.status == 0, made
    readme = open(os.path.join(ROOT, 'README.md')).read()
    [program] = re.findall(r'```c\n(.*?)```', readme, re.S)
    source = tmp_path / 'first.c'
    source.write_text(program)
    env = dict(os.environ, PKG_CONFIG_PATH=str(prefix / 'lib/pkgconfig'))
    flags = subprocess.run(['pkg-config', '--cflags', '--libs', 'tutti'],
                           env=env, capture_output=True, text=True,
                           check=True).stdout.split()
    for compiler in ('gcc', 'clang'):
        subprocess.run([compiler, '-std=c11', '-Wall', '-Wextra', '-Werror',
                        str(source), '-o', str(tmp_path / 'first'), *flags],
                       check=True)
    result = run([str(prefix / 'bin/tutti'), 'run', '-n', '4', '--',
                  str(tmp_path / 'first')],
                 env={'LD_LIBRARY_PATH': str(prefix / 'lib')})
    assert result.status == 0, result
    assert sorted(result.out.split('\n'))[1:] == [
        'card %d: [10]' % i for i in range(4)], result
