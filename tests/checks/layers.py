#!/usr/bin/env python3
"""tests/checks/layers.py - who may include whom, and what libtutti shows

Includes are written from the root, so an include line shows a dependency.
--self-test proves that a bad tree is found."""

import os
import re
import subprocess
import sys
import tempfile

MAY = {  # folder: folders it may include
    'protocol': {'protocol'},
    'transport': {'transport', 'protocol'},
    'kernels': {'kernels', 'protocol'},
    'agent': {'agent', 'transport', 'kernels', 'protocol'},
    'coordinator': {'coordinator', 'protocol'},
    'client': {'client', 'protocol'},
    'client/tool': {'client', 'protocol'},
    'client/examples': set(),
}
LIBTUTTI = {'kernels/tk.h', 'kernels/work.h'}  # besides client, protocol
DAEMONS_ONLY = {'protocol/' + n + '.h' for n in
                ('msg', 'frame', 'handshake', 'verdict', 'tutti.pb-c')}
TOP = {'SConstruct', 'coordinator', 'agent', 'client', 'kernels',
       'transport', 'protocol', 'deploy', 'tests', 'README.md', 'LICENSE',
       'build', 'compile_commands.json'}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    for name in ('client/tool', 'client/examples'):
        if path.startswith(name + '/'):
            return name
    return path.split('/')[0]


def bad_include(path, quote, target):
    """What is wrong with PATH including TARGET, or None."""
    folder = folder_of(path)
    if target.startswith(('infiniband/', 'rdma/')):
        return None if path.startswith('transport/verbs') else \
            'verbs headers belong in transport/verbs*'
    if re.match(r'cuda|nvml', target):
        return None if path.endswith('.cu') else \
            'CUDA headers belong in kernels/*.cu'
    if quote == '<':
        return None
    if folder == 'client/examples':
        local = os.path.join(os.path.dirname(path), target)
        return None if '/' not in target and target.startswith('train_') \
            else 'examples include <tutti.h> and their own files only: ' + local
    if target == 'tutti_types.h' and path == 'client/tutti.h':
        return None
    other = folder_of(target)
    if other == 'client/tool':
        other = 'client' if folder == 'client/tool' else other
    if folder == 'client':
        if target in LIBTUTTI:
            return None
        if target in DAEMONS_ONLY:
            return 'libtutti must not need ' + target
    if other not in MAY[folder]:
        return '%s must not include %s' % (folder, target)
    return None


def check_includes(root):
    found = []
    for top in sorted(set(f.split('/')[0] for f in MAY)):
        for base, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if not name.endswith(('.c', '.h', '.cu')):
                    continue
                full = os.path.join(base, name)
                path = os.path.relpath(full, root)
                for number, line in enumerate(open(full), 1):
                    m = INCLUDE.match(line)
                    why = m and bad_include(path, m.group(1), m.group(2))
                    if why:
                        found.append('%s:%d: %s' % (path, number, why))
    return found


def check_top(root):
    return ['%s: not one of the top-level entries' % name
            for name in sorted(os.listdir(root))
            if not name.startswith('.') and name not in TOP]


def check_library(path):
    if not os.path.exists(path):
        return ['%s: not built' % path]
    found = []
    needed = subprocess.run(['ldd', path], capture_output=True,
                            text=True).stdout
    for line in needed.splitlines():
        if not re.search(r'linux-vdso|libc\.so|ld-linux', line):
            found.append('%s needs %s' % (path, line.strip()))
    symbols = subprocess.run(['nm', '-D', '--defined-only', path],
                             capture_output=True, text=True).stdout
    for line in symbols.splitlines():
        name = line.split()[-1].split('@')[0]
        if not name.startswith('tutti_') and name != 'TUTTI_0':
            found.append('%s exports %s' % (path, name))
    return found


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in (('protocol/a.c', '#include "agent/b.h"\n'),
                           ('client/a.c', '#include "protocol/msg.h"\n'),
                           ('agent/a.c', '#include <infiniband/verbs.h>\n'),
                           ('agent/ok.c', '#include "kernels/tk.h"\n')):
            os.makedirs(os.path.join(root, os.path.dirname(path)),
                        exist_ok=True)
            open(os.path.join(root, path), 'w').write(text)
        open(os.path.join(root, 'stray'), 'w').write('')
        assert len(check_includes(root)) == 3, check_includes(root)
        assert len([f for f in check_top(root) if f.startswith('stray')]) == 1
        assert check_library('/bin/bash') != []


def main():
    if '--self-test' in sys.argv:
        self_test()
        return 0
    found = check_includes('.') + check_top('.') \
        + check_library('build/lib/libtutti.so')
    print('\n'.join(found) if found else 'layers: clean')
    return 1 if found else 0


sys.exit(main())
