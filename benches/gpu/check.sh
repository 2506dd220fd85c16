#!/usr/bin/env bash
# Checks and measures the lab on an NVIDIA GPU. The bundle is built here and runs on a machine that
# may have neither Internet access nor a toolchain nor this repository.
#
#   benches/gpu/check.sh build              make target/gpu-bundle/ (needs no GPU, nothing of CUDA)
#   benches/gpu/check.sh rehearse [DIR]     compile every kernel without a GPU (rehearse.sh)
#   benches/gpu/check.sh run [DIR] [first]  on the GPU: check, time and train; results go to DIR
#
# The bundle is a folder that can be copied anywhere: `gpu-bundle/run.sh [DIR]` does the same.
set -euo pipefail
cd "$(dirname "$0")/../.."

bundle=target/gpu-bundle
# The largest size of the whole bundle, which has to be copied.
most_mib=48
# A larger program is compressed to about a third.
pack_above_mib=24
# The oldest C library that the bundle supports: that of Ubuntu 22.04.
oldest_glibc=2.35

die() { echo "error: $*" >&2; exit 1; }
mib() { du -sm --apparent-size "$1" | cut -f1; }

build() {
    rm -rf "$bundle"
    cargo lab bundle --cuda "$bundle"
    local needs
    needs="$(sed -n 's/.*glibc \(2\.[0-9]*\) or later.*/\1/p' "$bundle/README.txt")"
    [ "$(printf '%s\n' "$needs" "$oldest_glibc" | sort -V | tail -1)" = "$oldest_glibc" ] ||
        die "the program needs glibc $needs, the bundle supports $oldest_glibc"
    cp benches/gpu/run.sh benches/gpu/models.py benches/gpu/*_steps.py "$bundle/"
    if [ "$(mib "$bundle/epsilab")" -gt "$pack_above_mib" ]; then
        xz -T0 -6 "$bundle/epsilab"
        echo "packed: $(mib "$bundle/epsilab.xz") MiB"
    fi
    [ "$(mib "$bundle")" -le "$most_mib" ] ||
        die "$bundle takes $(mib "$bundle") MiB, but at most $most_mib MiB are allowed"
    echo "$bundle: $(mib "$bundle") MiB"
}

case "${1:-}" in
build) build ;;
rehearse) exec benches/gpu/rehearse.sh "${@:2}" ;;
run)
    [ -x "$bundle/run.sh" ] || die "$bundle is missing: make it with '$0 build', or copy it here"
    exec "$bundle/run.sh" "${@:2}"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
