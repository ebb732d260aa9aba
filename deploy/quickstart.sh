#!/bin/bash
#  deploy/quickstart.sh [--no-install] [--keep] - from a clone to a trained model
#
#  Installs what is missing (as root), builds, runs the examples on two nodes
#  of a private cluster on this machine, trains on real data and leaves nothing
#  running. Without root it does all but the installing.
#    --no-install  name what is missing, and exit with 3 if anything is
#    --keep        leave a training job running at the end, and say where its
#                  status page is and how to stop it
set -u
cd "$(dirname "$0")/.." || exit 2

install=yes keep=no
for arg in "$@"; do
    case $arg in
    --help) sed -n '2,/^[^#]/s/^#  \?//p' "$0"; exit 0 ;;
    --no-install) install=no ;;
    --keep) keep=yes ;;
    *) echo "quickstart.sh: unknown option $arg; see --help" >&2; exit 2 ;;
    esac
done
echo "Tutti quickstart: installs packages (as root), builds into build/, trains" \
    "on 2 nodes x 2 ranks; about 1 minute, up to 5 with the installing."

step=0 begun=$SECONDS since=$SECONDS
say() {
    [ $step -eq 0 ] || echo "      $((SECONDS - since)) s"
    step=$((step + 1)) since=$SECONDS
    echo "[$step/7] $*"
}
die() {
    echo "quickstart.sh: $*" >&2
    exit 1
}
export LC_ALL=C QUICKSTART=$$  #  the second marks what we started
work=$(mktemp -d) || die "no temporary folder"
trap 'rm -rf "$work"' EXIT
run=build/bin/tutti
train=build/bin/examples/train_fashion

#  Starts $train in the background, waits until its ranks have finished an op,
#  and shows what the coordinator knows of them. Sets job and url.
watched() {
    local err=$1
    shift
    "$@" >"$work/train" 2>"$err" </dev/null &
    job=$! url=
    for _ in $(seq 150); do
        kill -0 $job 2>/dev/null || break
        url=$(sed -n 's/^tutti: job .* status \(http.*\)$/\1/p' "$err" | head -n 1)
        [ -n "$url" ] && curl -s --noproxy '*' "$url/status" \
            | grep -q '"seq": [1-9]' && break
        sleep 0.2
    done
    [ -n "$url" ] || { cat "$err" >&2; die "no status page"; }
    $run status --url "$url" | sed 's/^/  | /'
    echo "  the same as JSON: curl $url/status"
}

say "packages"
if [ $install = yes ] && [ "$(id -u)" = 0 ]; then
    deploy/install-deps.sh || exit 3
else
    deploy/install-deps.sh --check || exit 3
fi

say "building (log: build/quickstart.log)"
mkdir -p build && scons >build/quickstart.log 2>&1 \
    || { tail -n 30 build/quickstart.log; die "the build failed"; }

say "hello: 4 cards on 2 nodes"
$run run -n 4 --nodes 2 -- build/bin/examples/hello || die "hello failed"

say "50 steps of training: 4 ranks on 2 nodes against 1 rank that adds up 4 shards"
fifty() {  #  FILE OPTION...
    local losses=$1
    shift
    $run run "$@" --steps 50 --losses "$losses" >"$work/out" 2>"$work/err" \
        || { cat "$work/out" "$work/err"; die "training failed"; }
}
export TUTTI_REPRODUCIBLE=1
fifty "$work/four" -n 4 --nodes 2 -- $train
fifty "$work/one" -n 1 -- $train --shards 4
unset TUTTI_REPRODUCIBLE
fifty "$work/normal" -n 4 --nodes 2 -- $train
paste "$work/one" "$work/four" "$work/normal" | awk 'NR % 10 == 0 {print NR, $0}' \
    | while read -r n one four normal; do
        printf '  step %d  loss: 1 rank %.9g, 4 ranks %.9g, 4 ranks in normal mode %.9g\n' \
            "$n" "$one" "$four" "$normal"
    done
cmp "$work/four" "$work/one" || die "the losses differ"
echo "  reproducible mode: all $(wc -l <"$work/four") losses equal, bit for bit"

say "training on Fashion-MNIST, 2 nodes x 2 ranks, reproducible, 5 epochs"
TUTTI_REPRODUCIBLE=1 watched "$work/err" \
    $run run -n 4 --nodes 2 -- $train --epochs 5
wait $job || { cat "$work/train" "$work/err" >&2; die "training failed"; }
sed 's/^/  /' "$work/train"
accuracy=$(sed -n 's/^result accuracy=\([0-9.]*\).*/\1/p' "$work/train")
awk -v a="${accuracy:-0}" 'BEGIN { exit !(a >= 0.85) }' \
    || die "test accuracy ${accuracy:-unknown} is below 0.85"

say "bench: allreduce, 4 ranks on 2 nodes, every element checked"
$run bench allreduce --ranks 4 --nodes 2 -b 1K -e 16M -f 16 -c 1 \
    || die "bench found wrong results"

say "nothing is left running"
sleep 0.5
left=
for p in /proc/[0-9]*; do
    case $(readlink "$p/exe" 2>/dev/null) in
    "$PWD"/build/bin/*) grep -qzx "QUICKSTART=$$" "$p/environ" 2>/dev/null \
        && left="$left ${p#/proc/}" ;;
    esac
done
[ -z "$left" ] || die "still running: process$left"
if [ $keep = yes ]; then
    watched build/quickstart.job setsid nohup $run run -n 4 --nodes 2 \
        --job quickstart -- $train --epochs 1000
    echo "  left running; stop it with: kill $job"
fi
echo "done in $((SECONDS - begun)) s: accuracy $accuracy"
