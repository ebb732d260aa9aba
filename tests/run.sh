#!/bin/bash
#  tests/run.sh [SUITE...] [--ci] [--list] - build, then run the test suites
#
#  Suites: checks (layers, style), unit (cmocka), integration (real processes,
#  pytest), fuzz (10 s a target); and asan, tsan: the unit tests under
#  sanitizers. Default: the first four; --ci adds the sanitizers. As root it installs what is missing.
#  The last line is "N passed, M failed", with ", K skipped" if any were.
set -u
cd "$(dirname "$0")/.." || exit 2

declare -A LIMIT=([checks]=120 [unit]=400 [integration]=1200 [asan]=700
                  [tsan]=700 [fuzz]=120)
suites=()
for arg in "$@"; do
    case $arg in
    --ci) suites+=(checks unit integration fuzz asan tsan) ;;
    --list) printf '%s\n' checks unit integration fuzz asan tsan; exit 0 ;;
    --help) sed -n 's/^#  //p' "$0"; exit 0 ;;
    checks | unit | integration | fuzz | asan | tsan) suites+=("$arg") ;;
    *) echo "run.sh: unknown suite or option $arg; see --list" >&2; exit 2 ;;
    esac
done
[ ${#suites[@]} -gt 0 ] || suites=(checks unit integration fuzz)

passed=0 failed=0 skipped=0
log=$(mktemp -d) && trap 'rm -rf "$log"' EXIT

fail() { failed=$((failed + 1)); echo "FAILED: $*"; }

#  One cmocka program. Counts are cmocka's own; a crash is one failure.
cmocka() {
    local program=$1 out rc ok bad no
    out=$log/$(basename "$program")
    timeout -k 5 300 "$program" >"$out" 2>&1
    rc=$?
    ok=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p' "$out" | awk '{s+=$1} END {print s+0}')
    bad=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p' "$out" | awk '{s+=$1} END {print s+0}')
    no=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.*/\1/p' "$out" | awk '{s+=$1} END {print s+0}')
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + no))
    if [ $rc -ne 0 ] && [ "$bad" -eq 0 ]; then
        fail "$program: exit status $rc (124: took over 300 s)"
    fi
    [ $rc -eq 0 ] || tail -n 40 "$out"
    printf '  %-24s %s passed, %s failed\n' "$(basename "$program")" "$ok" "$bad"
}

#  unit DIR: every program there.
unit() {
    local program n=0
    for program in "$1"/tests/test_*; do
        case $program in *.o) continue ;; esac
        [ -x "$program" ] && [ -f "$program" ] || continue
        cmocka "$program"
        n=$((n + 1))
    done
    [ $n -gt 0 ] || fail "no test programs in $1/tests"
}

build() {
    if ! scons "$@" >"$log/build" 2>&1; then
        tail -n 40 "$log/build"
        fail "scons $*"
        return 1
    fi
}

check() {
    if python3 "tests/checks/$1.py" --self-test && python3 "tests/checks/$1.py"; then
        passed=$((passed + 1))
    else
        fail "tests/checks/$1.py"
    fi
}

integration() {
    local out=$log/pytest rc n
    timeout -k 10 "${LIMIT[integration]}" /usr/bin/python3 -m pytest -q \
        -p no:cacheprovider -rfEs --durations=10 tests/integration >"$out" 2>&1
    rc=$?
    tail -n 60 "$out"
    count() { grep -oE "[0-9]+ $1" <(tail -n 1 "$out") | grep -oE '^[0-9]+' || echo 0; }
    passed=$((passed + $(count passed)))
    skipped=$((skipped + $(count skipped)))
    n=$(($(count failed) + $(count error)))
    failed=$((failed + n))
    if [ $rc -ne 0 ] && [ "$n" -eq 0 ]; then
        fail "pytest: exit status $rc (124: over ${LIMIT[integration]} s)"
    fi
}

fuzz() {
    local line
    tests/fuzz/run.sh 10 >"$log/fuzz" 2>&1
    cat "$log/fuzz"
    line=$(tail -n 1 "$log/fuzz")
    passed=$((passed + ${line%% *}))
    line=${line#*, }
    failed=$((failed + ${line%% *}))
}

suite() {
    case $1 in
    fuzz) fuzz ;;
    checks) check layers; check style ;;
    unit) unit build ;;
    integration) integration ;;
    asan) build sanitize=address,undefined && unit build/asan ;;
    tsan) build sanitize=thread && unit build/tsan ;;
    esac
}

if [ "$(id -u)" = 0 ]; then
    deploy/install-deps.sh --tests || fail "deploy/install-deps.sh --tests"
fi
start=$SECONDS
build || { echo "$passed passed, $failed failed"; exit 1; }
echo "build: $((SECONDS - start)) s"
for name in "${suites[@]}"; do
    start=$SECONDS
    echo "suite $name"
    suite "$name"
    took=$((SECONDS - start))
    echo "suite $name: $took s"
    [ $took -le "${LIMIT[$name]}" ] || fail "suite $name took $took s, limit ${LIMIT[$name]}"
done
line="$passed passed, $failed failed"
[ $skipped -eq 0 ] || line="$line, $skipped skipped"
echo "$line"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
