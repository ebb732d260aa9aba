#!/bin/sh
#  deploy/install-deps.sh [--tests] [--print|--check] - Debian packages
#
#  Installs only what is missing, as root; without root it prints the line to
#  run and exits with 3.
#    --tests  also what the tests need
#    --print  list all of them, change nothing
#    --check  change nothing; name what is missing, exit with 3 if anything is
set -eu

build="gcc libc6-dev scons pkg-config libzmq3-dev libczmq-dev libsodium-dev
libprotobuf-c-dev protobuf-c-compiler libmicrohttpd-dev libjansson-dev
libsqlite3-dev libcurl4-openssl-dev zlib1g-dev dataset-fashion-mnist curl"
tests="libcmocka-dev python3 python3-pytest python3-jsonschema git clang clang-format
libclang-rt-14-dev valgrind prometheus iproute2 nftables strace procps
openmpi-bin"

list=$build print=no check=no
for arg in "$@"; do
    case $arg in
    --tests) list="$list $tests" ;;
    --print) print=yes ;;
    --check) check=yes ;;
    --help) sed -n '2,/^[^#]/s/^#  \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "install-deps.sh: unknown option $arg; see --help" >&2; exit 2 ;;
    esac
done
if [ $print = yes ]; then
    printf '%s\n' $list
    exit 0
fi
if ! command -v dpkg-query >/dev/null; then
    echo "install-deps.sh: no dpkg here: this script knows Debian 12 only;" \
        "deploy/README.md lists the libraries" >&2
    exit 3
fi
missing=""
for package in $list; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null \
        | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
if [ $check = yes ] || [ "$(id -u)" != 0 ]; then
    echo "install-deps.sh: packages are missing; as root, run:" >&2
    echo "apt-get install -y --no-install-recommends$missing" >&2
    exit 3
fi
export DEBIAN_FRONTEND=noninteractive
echo "install-deps.sh: installing$missing"
apt-get update -qq || { sleep 5; apt-get update -qq; }
apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 $missing >/dev/null
