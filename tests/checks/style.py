#!/usr/bin/env python3
"""tests/checks/style.py - limits that keep the code readable

Function 60 lines, file 600, line 79, no tabs, no calls that overrun buffers
or hide errors, no printf where nobody reads it, a comment above every
function of a header, clang-format clean. client/tutti.h is the contract as
it was agreed, so its form is not checked. --self-test proves that bad
samples are found."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ('protocol', 'transport', 'kernels', 'agent', 'coordinator',
           'client', 'tests')
CONTRACT = 'client/tutti.h'
FUNCTION, FILE, LINE = 60, 600, 79
BANNED = re.compile(r'(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|atoi|'
                    r'atol|atof|strtok|alloca|system)\s*\(')
PRINTS = re.compile(r'(?<![\w.>])(printf|puts|putchar|perror)\s*\(|'
                    r'\bfprintf\s*\(\s*std(err|out)\b')
MAY_PRINT = re.compile(r'(^|/)main\.c$|(^|/)options\.c$|(^|/)log\.c$|'
                       r'^agent/worker\.c$|^client/tool/|^client/examples/|^tests/')


def files():
    listed = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard',
                             '--', *FOLDERS],
                            capture_output=True, text=True).stdout.split()
    return sorted(f for f in listed if f.endswith(('.c', '.h', '.cu'))
                  and os.path.exists(f))


def check_lines(path, lines):
    if len(lines) > FILE:
        yield '%s:%d: %d lines, at most %d' % (path, FILE + 1, len(lines),
                                               FILE)
    for number, line in enumerate(lines, 1):
        if len(line) > LINE and path != CONTRACT:
            yield '%s:%d: %d columns, at most %d' % (path, number, len(line),
                                                     LINE)
        if '\t' in line:
            yield '%s:%d: a tab' % (path, number)
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split('//')[0]
        m = BANNED.search(code)
        if m:
            yield '%s:%d: %s is banned' % (path, number, m.group(1))
        m = PRINTS.search(code)
        if m and not MAY_PRINT.search(path):
            yield '%s:%d: prints; log instead' % (path, number)


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
    """Every prototype, or the group that it is in, has a comment above or
    beside it."""
    if not path.endswith('.h') or path == CONTRACT \
            or path.startswith('tests/'):
        return
    commented = False  # the group that we are in has a comment
    for number, line in enumerate(lines, 1):
        if re.match(r'\s*//|\s*/?\*|#\s*define', line):
            commented = True
        elif re.match(r'[{}#]', line):
            commented = False
        elif re.match(r'[a-z]\w* ?\(', line) and not line.startswith('s_') \
                and not commented and '//' not in line:
            yield '%s:%d: no comment above %s' % (path, number, line)


def check_file(path):
    with open(path, encoding='utf-8') as text:
        lines = text.read().splitlines()
    for check in (check_lines, check_functions, check_prototypes):
        yield from check(path, lines)


def check_format(paths):
    tool = shutil.which('clang-format')
    if not tool:
        return ['clang-format: not installed (deploy/install-deps.sh --tests)']
    paths = [p for p in paths if p != CONTRACT]
    run = subprocess.run([tool, '--style=file:.clang-format', '--dry-run',
                          '-Werror', *paths], capture_output=True, text=True)
    found = [line for line in run.stderr.splitlines() if 'error:' in line]
    more = len(found) - 20
    return found[:20] + (['... %d more; scons format' % more]
                         if more > 0 else [])


def self_test():
    samples = (
        ('\n'.join(['{'] + ['    x ();'] * 61 + ['}']), 'a function of 61'),
        ('\n' * 601, '601 lines'),
        ('x' * 80, '80 columns'),
        ('\tx ();', 'a tab'),
        ('    strcpy (a, b);', 'strcpy is banned'),
        ('    printf ("x");', 'prints'),
        ('    fprintf (stderr, "x");', 'prints'),
    )
    good = ('    my_system (x);  //  system (x)\n    s = "atoi (x)";\n'
            '    snprintf (a, 1, "%d", b);\n    fprintf (file, "x");\n')
    with tempfile.TemporaryDirectory() as root:
        def found(name, text):
            path = os.path.join(root, name)
            with open(path, 'w') as file:
                file.write(text)
            return [line.split(': ', 1)[1] for line in check_file(path)]
        for text, words in samples:
            [line] = found('bad.c', text)
            assert line.startswith(words), line
        assert found('good.c', good) == []
        header = 'int\nf (void);\n\n//  Good.\nint\ng (void);\nint\nh (void);\n'
        assert found('bad.h', header) == ['no comment above f (void);']
        assert found('bad.h', '//  t\ntypedef struct {\n} t;\nint\nf (t);\n')
        found('form.c', 'int  x ;\n')
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
