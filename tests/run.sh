#!/bin/bash
#  tests/run.sh [SUITE...] [--ci] [--no-build] [--list] - run the test suites
#
#    checks       who includes whom, libtutti's needs and symbols, style
#    unit         cmocka programs of tests/unit, built by gcc
#    integration  real coordinators, agents and ranks (pytest)
#    fuzz         libFuzzer targets, 10 s each
#    clang        the unit tests built by clang
#    asan, tsan   unit and integration tests under sanitizers
#
#  Default: the first four; --ci is all of them. As root it installs what is
#  missing first; without, it says what is missing, and tests that need root
#  are skipped by name. A suite goes on after a failure; its limit in seconds
#  is below. The last line is "N passed, M failed", with ", K skipped" if any
#  were, and the exit status is 0 only if nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 2

ALL=(checks unit integration fuzz clang asan tsan)
declare -A LIMIT=([checks]=60 [unit]=300 [integration]=840 [fuzz]=180
                  [clang]=400 [asan]=1200 [tsan]=1800)

suites=() make=yes
for arg in "$@"; do
    case $arg in
    --ci) suites+=("${ALL[@]}") ;;
    --no-build) make=no ;;
    --list) printf '%s\n' "${ALL[@]}"; exit 0 ;;
    --help) sed -n '2,/^[^#]/s/^#  \?//p' "$0"; exit 0 ;;
    checks | unit | integration | fuzz | clang | asan | tsan) suites+=("$arg") ;;
    *) echo "run.sh: unknown suite or option $arg; see --help" >&2; exit 2 ;;
    esac
done
[ ${#suites[@]} -gt 0 ] || suites=(checks unit integration fuzz)

passed=0 failed=0 skipped=0 deadline=0
unset ${!TUTTI_*}
export TEST_RUN=$$ PYTHONDONTWRITEBYTECODE=1
log=$(mktemp -d) || exit 2
trap 'rm -rf "$log"' EXIT

fail() {
    failed=$((failed + 1))
    echo "FAILED: $*"
}

#  Seconds that the suite has left, at least 1.
left() {
    local n=$((deadline - SECONDS))
    echo $((n > 0 ? n : 1))
}

build() {
    if ! timeout "$(left)" scons "$@" >"$log/build" 2>&1; then
        grep -v '^\(gcc\|clang\|ar\|ranlib\) ' "$log/build" | tail -n 40
        fail "build: scons $*"
        return 1
    fi
}

check() {
    if python3 "tests/checks/$1.py" --self-test \
        && python3 "tests/checks/$1.py"; then
        passed=$((passed + 1))
    else
        fail "tests/checks/$1.py"
    fi
}

#  One cmocka program. Its own counts are summed; a crash, or an exit status
#  that no failed test explains, is one more failure.
cmocka() {
    local program=$1 out rc ok bad none
    out=$log/$(basename "$program")
    timeout -k 5 "$(left)" "$program" >"$out" 2>&1
    rc=$?
    count() { sed -n "s/^\[  $1 *\] \([0-9]*\) test.*/\1/p" "$out" | awk '{ s += $1 } END { print s + 0 }'; }
    ok=$(count PASSED) bad=$(count FAILED) none=$(count SKIPPED)
    passed=$((passed + ok)) failed=$((failed + bad))
    skipped=$((skipped + none))
    printf '  %-24s %s passed, %s failed\n' "$(basename "$program")" "$ok" "$bad"
    [ $rc -eq 0 ] && return
    tail -n 40 "$out"
    [ "$bad" -gt 0 ] || fail "$program: exit status $rc (124: out of time)"
}

#  Every program of tests/unit in this build folder; none may be forgotten.
unit() {
    local source name
    for source in tests/unit/test_*.c; do
        name=$(basename "$source" .c)
        if [ -x "$1/tests/$name" ]; then
            cmocka "$1/tests/$name"
        else
            fail "$source: $1/tests/$name was not built (tests/SConscript, cmocka)"
        fi
    done
}

#  pytest; conftest.py writes one line per test to $TUTTI_RESULTS, so that a
#  run which is killed still counts what it did.
whole() {
    local folder=$1 rc bad
    shift
    : >"$log/results"
    TUTTI_BUILD=$PWD/$folder TUTTI_RESULTS=$log/results timeout -k 10 \
        "$(left)" /usr/bin/python3 -m pytest -q -p no:cacheprovider \
        --tb=short -rf --durations=5 "$@" tests/integration >"$log/pytest" 2>&1
    rc=$?
    tail -n 80 "$log/pytest"
    grep '^skipped' "$log/results" | sort | uniq -c
    bad=$(grep -c '^failed' "$log/results")
    passed=$((passed + $(grep -c '^passed' "$log/results")))
    skipped=$((skipped + $(grep -c '^skipped' "$log/results")))
    failed=$((failed + bad))
    if [ $rc -ne 0 ] && [ "$bad" -eq 0 ]; then
        fail "pytest: exit status $rc (124: out of time)"
    fi
    orphans "$folder"
}

#  The integration tests with every process under the sanitizer of its build: a report
#  of any of them, daemons too, is a failure.
watched() {
    local report=$log/report each
    rm -f "$report".*
    export ASAN_OPTIONS=log_path=$report UBSAN_OPTIONS=log_path=$report
    export TSAN_OPTIONS="log_path=$report exitcode=0 suppressions=$PWD/tests/tsan.supp"
    whole "$1"
    unset ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS
    for each in "$report".*; do
        [ -s "$each" ] || continue
        head -n 30 "$each"
        fail "$1: the sanitizer reported a process"
    done
}

#  tests/fuzz/run.sh ends with a line as ours.
fuzz() {
    local rc a b
    timeout -k 5 "$(left)" tests/fuzz/run.sh 10 >"$log/fuzz" 2>&1
    rc=$?
    tail -n 40 "$log/fuzz"
    read -r a _ b _ < <(tail -n 1 "$log/fuzz")
    case $a$b in
    *[!0-9]* | "") fail "tests/fuzz/run.sh: exit status $rc (124: out of time)" ;;
    *) passed=$((passed + a)) failed=$((failed + b)) ;;
    esac
}

#  Programs of this run that are still there.
orphans() {
    local p
    for p in /proc/[0-9]*; do
        case $(readlink "$p/exe" 2>/dev/null) in
        "$PWD/$1"/*) grep -qzx "TEST_RUN=$$" "$p/environ" 2>/dev/null \
            && fail "left running: $(tr '\0' ' ' <"$p/cmdline")" ;;
        esac
    done
}

suite() {
    case $1 in
    checks) check layers; check style ;;
    unit) unit build ;;
    integration) whole build ;;
    fuzz) fuzz ;;
    clang) build compiler=clang && unit build/clang ;;
    asan) build sanitize=address,undefined && unit build/asan \
        && watched build/asan ;;
    tsan) build sanitize=thread && unit build/tsan \
        && watched build/tsan ;;
    esac
}

finish() {
    local line="$passed passed, $failed failed"
    [ $skipped -eq 0 ] || line="$line, $skipped skipped"
    echo "$line"
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
    exit
}

if [ $make = yes ]; then
    if [ "$(id -u)" = 0 ]; then
        deploy/install-deps.sh --tests || fail "deploy/install-deps.sh --tests"
    else
        deploy/install-deps.sh --tests || echo "run.sh: going on without"
    fi
    begun=$SECONDS deadline=$((SECONDS + 600))
    build || finish
    echo "build: $((SECONDS - begun)) s"
fi
for name in "${suites[@]}"; do
    begun=$SECONDS deadline=$((SECONDS + LIMIT[$name]))
    before="$passed $failed"
    echo "suite $name (at most ${LIMIT[$name]} s)"
    suite "$name"
    set -- $before
    echo "suite $name: $((SECONDS - begun)) s," \
        "$((passed - $1)) passed, $((failed - $2)) failed"
done
finish
