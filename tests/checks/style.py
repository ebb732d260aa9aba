#!/usr/bin/env python3
"""tests/checks/style.py - limits that keep the code readable

Function 60 lines, file 600, line 79, no tabs, no calls that overrun buffers,
a comment above every public function of a header, clang-format clean.
--self-test proves that bad samples are found."""

import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ('protocol', 'transport', 'kernels', 'agent', 'coordinator',
           'client', 'tests')
FUNCTION, FILE, LINE = 60, 600, 79
BANNED = re.compile(r'(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|atoi|'
                    r'atol|strtok|alloca|system)\s*\(')


def files():
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard',
                             '--'] + list(FOLDERS),
                            capture_output=True, text=True).stdout.split()
    return sorted(f for f in listed if f.endswith(('.c', '.h')))


def check_lines(path, lines):
    if len(lines) > FILE:
        yield '%s:1: %d lines, at most %d' % (path, len(lines), FILE)
    for number, line in enumerate(lines, 1):
        if len(line) > LINE and path != 'client/tutti.h':
            yield '%s:%d: %d columns, at most %d' % (path, number, len(line),
                                                    LINE)
        if '\t' in line:
            yield '%s:%d: a tab' % (path, number)
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line.split('//')[0])
        m = BANNED.search(code)
        if m:
            yield '%s:%d: %s is banned' % (path, number, m.group(1))


def check_functions(path, lines):
    start = None
    for number, line in enumerate(lines, 1):
        if line == '{':
            start = number
        elif line.startswith('}') and start:
            if number - start - 1 > FUNCTION:
                yield '%s:%d: a function of %d lines, at most %d' % (
                    path, start, number - start - 1, FUNCTION)
            start = None


def check_prototypes(path, lines):
    """Every prototype, or the group that it is in, has a comment above."""
    if not path.endswith('.h') or path.startswith('tests/') \
            or path == 'client/tutti.h':
        return
    for number, line in enumerate(lines):
        if not re.match(r'^[a-z]\w* ?\(.*', line) or number < 2 \
                or line.startswith('s_'):
            continue
        above = [l for l in lines[:number] if l.strip()]
        while above and not above[-1].startswith(('//', ' *', '#', '}', '{')):
            above.pop()
        if not above or not above[-1].startswith(('//', ' *', '#define')):
            yield '%s:%d: no comment above %s' % (path, number + 1, line)


def check_file(path):
    lines = open(path, encoding='utf-8').read().split('\n')
    for check in (check_lines, check_functions, check_prototypes):
        yield from check(path, lines)


def check_format(paths):
    tool = shutil.which('clang-format')
    if not tool:
        return ['clang-format: not installed (deploy/install-deps.sh --tests)']
    paths = [p for p in paths if p != 'client/tutti.h']
    run = subprocess.run([tool, '--dry-run', '-Werror'] + paths,
                         capture_output=True, text=True)
    return [l for l in run.stderr.splitlines() if 'error:' in l][:20]


def self_test():
    bad = ['int', 'f (void)', '{'] + ['    x ();'] * 61 + ['}', '\tstrcpy (a);',
                                                        'y' * 80, '']
    with tempfile.TemporaryDirectory() as root:
        path = root + '/bad.c'
        open(path, 'w').write('\n'.join(bad))
        found = list(check_file(path))
        assert len(found) == 4, found
        path = root + '/bad.h'
        open(path, 'w').write('\n\nint\nf (void);\n\n//  Good.\nint\ng (void);\n')
        found = list(check_file(path))
        assert len(found) == 1, found
        open(root + '/form.c', 'w').write('int  x ;\n')
        assert check_format([root + '/form.c'])


def main():
    if '--self-test' in sys.argv:
        self_test()
        return 0
    paths = files()
    found = [f for p in paths for f in check_file(p)] + check_format(paths)
    print('\n'.join(found) if found else 'style: %d files clean' % len(paths))
    return 1 if found else 0


sys.exit(main())
