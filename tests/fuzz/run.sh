#!/bin/bash
#  tests/fuzz/run.sh [SECONDS [TARGET...]] - build fuzz targets with clang, run them
set -u
cd "$(dirname "$0")/../.." || exit 2
seconds=${1:-10}
shift $(($# > 0))
[ $# -gt 0 ] || set -- frame msg local
out=build/fuzz
mkdir -p $out/gen
protoc-c --c_out=$out/gen -I. protocol/tutti.proto || exit 1
flags="-std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=fuzzer,address,undefined
-fno-sanitize-recover=all -I. -Iprotocol -I$out/gen"
sources="protocol/frame.c protocol/msg.c protocol/types.c protocol/geo.c
protocol/board.c agent/attach.c agent/log.c $out/gen/protocol/tutti.pb-c.c"
passed=0 failed=0
for target; do
    name=fuzz_$target
    # shellcheck disable=SC2086
    if ! clang $flags tests/fuzz/$name.c $sources -o $out/$name -lprotobuf-c; then
        failed=$((failed + 1))
        continue
    fi
    mkdir -p $out/corpus_$target
    if $out/$name -max_total_time="$seconds" -max_len=8192 -timeout=10 \
        -print_final_stats=1 -artifact_prefix=$out/ $out/corpus_$target >$out/$name.log 2>&1; then
        passed=$((passed + 1))
    else
        tail -n 30 $out/$name.log
        failed=$((failed + 1))
    fi
    echo "$name: $(sed -n 's/^stat::number_of_executed_units: */executions /p' $out/$name.log)"
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
