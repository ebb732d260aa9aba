#!/usr/bin/env python3
"""tests/checks/layers.py - who may include whom, and what libtutti shows

Includes are written from the root, so an include line shows a dependency.
Also: every source is named in a SConscript, libtutti needs libc alone and
exports client/tutti.map, the top level holds what it should. --self-test
proves that a bad tree is found."""

import os
import re
import subprocess
import sys
import tempfile

MAY = {  # folder: folders it may include
    'protocol': ('protocol',),
    'transport': ('transport', 'protocol'),
    'kernels': ('kernels', 'protocol'),
    'agent': ('agent', 'transport', 'kernels', 'protocol'),
    'coordinator': ('coordinator', 'protocol'),
    'client': ('client',),
    'client/tool': ('client/tool', 'client', 'protocol'),
    'client/examples': (),
}
LIBTUTTI = {'protocol/' + name + '.h' for name in  # besides client
            ('types', 'tutti_types', 'err', 'local', 'board', 'plan',
             'schedule')} | {'kernels/tk.h', 'kernels/work.h'}
DAEMONS = ('agent', 'coordinator')
FOREIGN = (  # header, where it may be included
    (r'infiniband/|rdma/', ('transport/verbs',)),
    (r'cuda|nvml', ('kernels/',)),  # and .cu only
    (r'czmq|zmq', DAEMONS + ('client/tool',)),
    (r'sodium', DAEMONS + ('protocol', 'transport/sealed', 'client/tool')),
    (r'protobuf-c', ('protocol',)),
    (r'sqlite3|microhttpd', ('coordinator',)),
    (r'jansson', ('coordinator', 'client/tool')),
    (r'curl/', ('coordinator', 'client/tool')),
    (r'zlib', ('client/examples',)),
)
TOP = {'SConstruct', 'coordinator', 'agent', 'client', 'kernels',
       'transport', 'protocol', 'deploy', 'tests', 'README.md', 'LICENSE'}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def folder_of(path):
    for name in ('client/tool', 'client/examples'):
        if path.startswith(name + '/'):
            return name
    return path.split('/')[0]


def bad_foreign(path, target):
    for header, places in FOREIGN:
        if re.match(header, target):
            if not path.startswith(places) or \
                    header.startswith('cuda') and not path.endswith('.cu'):
                return '%s does not belong here' % target
    return None


def bad_include(path, quote, target):
    """What is wrong with PATH including TARGET, or None."""
    why = bad_foreign(path, target)
    if why or quote == '<':
        return why
    folder = folder_of(path)
    if folder == 'client/examples':
        own = '/' not in target and target.startswith('train_')
        return None if own or target == 'client/tutti.h' else \
            'examples include <tutti.h> and their own train_*.h only'
    if target == 'tutti_types.h':
        return None if path == 'client/tutti.h' else \
            'write "protocol/tutti_types.h"'
    if '/' not in target:
        return 'includes are written from the root: ' + target
    if folder_of(target) in MAY[folder]:
        return None
    if folder == 'client' and target in LIBTUTTI:
        return None
    return '%s must not include %s' % (folder, target)


def sources(root, endings):
    for top in sorted({name.split('/')[0] for name in MAY} | {'tests'}):
        for base, _, files in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(files):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(base, name), root)


def check_includes(root):
    for path in sources(root, ('.c', '.h', '.cu')):
        if path.startswith('tests/'):
            continue
        with open(os.path.join(root, path), encoding='utf-8') as text:
            for number, line in enumerate(text, 1):
                m = INCLUDE.match(line)
                why = m and bad_include(path, m.group(1), m.group(2))
                if why:
                    yield '%s:%d: %s' % (path, number, why)


def check_built(root):
    """A source that no SConscript names is not built, so not tested."""
    for path in sources(root, ('.c',)):
        base = os.path.dirname(path)
        if base == 'tests/fuzz':  # its run.sh builds whatever is there
            continue
        script = os.path.join(root, base, 'SConscript')
        name = os.path.basename(path)
        if base.startswith('tests/'):
            script = os.path.join(root, 'tests/SConscript')
            name = re.sub(r'^test_(.*)\.c$', r'\1', name)
        with open(script) as text:
            code = re.sub(r'(^|\s)#.*', '', text.read())
        words = re.findall(r"'([^']*)'", code)
        if name not in words and name.replace('.c', '') not in words:
            yield '%s:1: not named in %s' % (path, os.path.relpath(script,
                                                                   root))


def check_scripts(root):
    for folder in sorted(MAY) + ['tests']:
        path = os.path.join(root, folder, 'SConscript')
        with open(path) as text:
            content = text.read()
        if content.count('\n') > 25:
            yield '%s/SConscript:1: over 25 lines' % folder
        if 'Glob' in content:
            yield '%s/SConscript:1: sources are listed by name' % folder


def check_top(names):
    have = {n.split('/')[0] for n in names if not n.startswith('.')}
    for name in sorted(have - TOP):
        yield '%s: does not belong on the top level' % name
    for name in sorted(TOP - have):
        yield '%s: is missing' % name


def top_names():
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        return [n for n in listed.stdout.splitlines() if os.path.exists(n)]
    return [n for n in os.listdir('.') if n != 'build']


def command(*words):
    return subprocess.run(words, capture_output=True, text=True).stdout


def check_needs(path):
    for line in command('ldd', path).splitlines():
        if not re.search(r'linux-vdso|libc\.so|ld-linux', line):
            yield '%s needs %s' % (path, line.strip())


def declared(header):
    """Names of the functions that tutti.h declares."""
    text = re.sub(r'/\*.*?\*/', '', header, flags=re.S)
    names = set(re.findall(r'^[\w \t*]*?\b(tutti_\w+) \(', text, re.M))
    for name in re.findall(r'^TUTTI_COLL \((\w+),', text, re.M):
        names |= {'tutti_' + name, 'tutti_' + name + '_async'}
    return names


def check_symbols(symbols, defined, linker_map, header):
    """symbols: exported; defined: global in libtutti.a."""
    listed = set(re.findall(r'\b(tutti_\w+);', linker_map))
    for name in sorted(symbols - listed):
        yield 'client/tutti.map:1: exports %s without naming it' % name
    for name in sorted(listed - symbols):
        yield 'client/tutti.map:1: %s does not exist' % name
    for name in sorted(listed - declared(header)):
        yield 'client/tutti.map:1: %s is not in client/tutti.h' % name
    for name in sorted((defined & declared(header)) - listed):
        yield 'client/tutti.map:1: %s is missing here' % name


def check_library(so, archive):
    if not os.path.exists(so):
        yield so + ': not built'
        return
    yield from check_needs(so)
    exported = {line.split()[-1].split('@')[0] for line in command(
        'nm', '-D', '--defined-only', so).splitlines()}
    defined = {line.split()[-1] for line in command(
        'nm', '-g', '--defined-only', archive).splitlines() if line}
    with open('client/tutti.map') as m, open('client/tutti.h') as h:
        yield from check_symbols({n for n in exported
                                  if not re.match(r'TUTTI_\d', n)},
                                 defined, m.read(), h.read())


BAD = (('protocol/a.c', '#include "agent/b.h"\n'),
       ('client/a.c', '#include "protocol/msg.h"\n'),
       ('client/tool/a.c', '#include "agent/worker.h"\n'),
       ('client/examples/a.c', '#include "protocol/board.h"\n'),
       ('agent/a.c', '#include <infiniband/verbs.h>\n'),
       ('kernels/a.c', '#include <cuda_runtime.h>\n'),
       ('transport/a.c', '#include <zmq.h>\n'),
       ('coordinator/a.c', '#include "transport/tx.h"\n'))
GOOD = (('agent/b.c', '#include "kernels/tk.h"\n#include "protocol/msg.h"\n'),
        ('client/b.c', '#include "kernels/tk.h"\n#include <pthread.h>\n'),
        ('transport/verbs_dl.c', '#include <infiniband/verbs.h>\n'),
        ('kernels/a.cu', '#include <cuda_runtime.h>\n'),
        ('client/examples/b.c', '#include <tutti.h>\n#include <zlib.h>\n'))


def self_test():
    with tempfile.TemporaryDirectory() as root:
        for path, text in BAD + GOOD:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, 'w') as file:
                file.write(text)
        os.makedirs(root + '/tests')
        for folder in list(MAY) + ['tests']:
            with open(os.path.join(root, folder, 'SConscript'), 'w') as file:
                file.write("#  it's\nsources = ['a.c']\n" + '\n' * 25)
        found = [line.split(':')[0] for line in check_includes(root)]
        assert found == sorted(path for path, _ in BAD), found
        assert len(list(check_built(root))) == 4
        assert len(list(check_scripts(root))) == len(MAY) + 1
    assert len(list(check_top(TOP - {'LICENSE'} | {'stray'}))) == 2
    assert list(check_needs('/bin/bash'))
    header = 'int tutti_a (void);\nTUTTI_COLL (b, int x);\n'
    listed = 'global: tutti_a; tutti_b; tutti_b_async; local: *;'
    every = {'tutti_a', 'tutti_b', 'tutti_b_async'}
    assert not list(check_symbols(every, every, listed, header))
    assert list(check_symbols(every | {'tutti_c'}, every, listed, header))
    assert list(check_symbols(every - {'tutti_a'}, every, listed, header))
    assert list(check_symbols(every, every, listed.replace('tutti_a;', ''),
                              header))


def main():
    if '--self-test' in sys.argv:
        self_test()
        return 0
    found = [*check_includes('.'), *check_built('.'), *check_scripts('.'),
             *check_top(top_names()),
             *check_library('build/lib/libtutti.so', 'build/lib/libtutti.a')]
    print('\n'.join(found) if found else 'layers: clean')
    return 1 if found else 0


sys.exit(main())
