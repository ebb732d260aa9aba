#!/bin/bash
#  deploy/quickstart.sh [--no-install] [--keep] - from a clone to a trained model
#
#  Installs what is missing (as root), builds, runs the examples on two nodes
#  of a private cluster, trains on real data and leaves nothing running.
#  --no-install names what is missing and exits with 3 if anything is. --keep
#  leaves a cluster up at the end, and says how to look at it and stop it.
set -u
cd "$(dirname "$0")/.." || exit 2

install=yes keep=no
for arg in "$@"; do
    case $arg in
    --help) sed -n 's/^#  //p' "$0"; exit 0 ;;
    --no-install) install=no ;;
    --keep) keep=yes ;;
    *) echo "quickstart.sh: unknown option $arg; see --help" >&2; exit 2 ;;
    esac
done
echo "Tutti quickstart: installs packages, builds, trains on 2 nodes x 2 ranks;" \
    "about 3 to 6 minutes, nothing is left running."

step=0 begun=$SECONDS
say() {
    step=$((step + 1))
    echo "[$step/7] $* (after $((SECONDS - begun)) s)"
}
die() {
    echo "quickstart.sh: $*" >&2
    exit 1
}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
run=build/bin/tutti
train=build/bin/examples/train_fashion

say "packages"
if [ $install = yes ]; then
    deploy/install-deps.sh || exit 3
else
    deploy/install-deps.sh --check || exit 3
fi

say "building"
scons >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; die "the build failed"; }

say "hello: four cards on two nodes"
$run run -n 4 --nodes 2 -- build/bin/examples/hello || die "hello failed"

say "the same losses, bit for bit, from 4 ranks on 2 nodes and from 1 rank with 4 shards"
TUTTI_REPRODUCIBLE=1 $run run -n 4 --nodes 2 -- $train --steps 50 \
    --losses "$work/four" >/dev/null || die "training on 4 ranks failed"
TUTTI_REPRODUCIBLE=1 $run run -n 1 -- $train --shards 4 --steps 50 \
    --losses "$work/one" >/dev/null || die "training on 1 rank failed"
echo "  loss of step 50: 4 ranks $(tail -n 1 "$work/four"), 1 rank $(tail -n 1 "$work/one")"
cmp "$work/four" "$work/one" || die "the losses differ"
$run run -n 4 --nodes 2 -- $train --steps 50 --losses "$work/normal" >/dev/null \
    || die "training in normal mode failed"
echo "  normal mode, step 50: $(tail -n 1 "$work/normal")"

say "training on Fashion-MNIST, 2 nodes x 2 ranks"
$run run -n 4 --nodes 2 -- $train --epochs 5 >"$work/train" 2>"$work/err" &
job=$!
url="" status=""
for _ in $(seq 100); do
    url=$(sed -n 's/^tutti: job .* status \(http.*\)$/\1/p' "$work/err" | head -n 1)
    if [ -n "$url" ]; then
        status=$(curl -s --noproxy '*' "$url/status")
        case $status in *'"running"'*) break ;; esac
    fi
    sleep 0.2
done
wait $job || { cat "$work/err"; die "training failed"; }
cat "$work/train"
accuracy=$(sed -n 's/^result accuracy=\([0-9.]*\).*/\1/p' "$work/train")
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a >= 0.85) }' \
    || die "test accuracy $accuracy is below 0.85"
echo "  the status document while it ran ($url/status):"
echo "$status"

say "bench: allreduce, 4 ranks on 2 nodes"
$run bench allreduce --ranks 4 --nodes 2 -b 1K -e 16M -f 16 -c 1 || die "bench found wrong results"

say "nothing is left"
sleep 0.5
if pgrep -f "^$PWD/build/bin/tutti-(agent|coordinator)" >/dev/null; then
    die "a daemon is still running"
fi
if [ $keep = yes ]; then
    nohup $run run -n 4 --nodes 2 --keep -- build/bin/examples/hello \
        >"$work/keep" 2>&1 </dev/null &
    kept=$!
    sleep 2
    echo "left running: $(sed -n 's/^tutti: job/job/p' "$work/keep"); stop it with: kill $kept"
fi
echo "done in $((SECONDS - begun)) s: accuracy $accuracy"
