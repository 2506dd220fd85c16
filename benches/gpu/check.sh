#!/usr/bin/env bash
# The lab on a card of NVIDIA, measured: built here, run on a machine that may have neither the
# Internet nor a toolchain nor this repository.
#
#   benches/gpu/check.sh build         make target/gpu-bundle/ (no card and no part of CUDA needed)
#   benches/gpu/check.sh run [DIR]     on the card: check, time and train; results go to DIR
#
# The bundle is a folder that can be copied anywhere: `gpu-bundle/run.sh [DIR]` does the same.
set -euo pipefail
cd "$(dirname "$0")/../.."

bundle=target/gpu-bundle
# All of the bundle: it has to travel.
most_mib=48
# A program of the size of a class's upload; packed, it is a third of that.
pack_above_mib=24
# The oldest C library the bundle is for, which is Ubuntu 22.04's.
oldest_glibc=2.35

# The driver's interface that the program is compiled for; why this one, .cargo/config.toml says.
# Calls are looked up when they are made: an older driver of CUDA 12 does unless one of them is missing.
export CUDARC_CUDA_VERSION="${CUDARC_CUDA_VERSION:-12080}"

die() { echo "error: $*" >&2; exit 1; }
mib() { du -sm --apparent-size "$1" | cut -f1; }

build() {
    # rust-analyzer's crates look at this variable when they are compiled; the others don't care.
    unset CI
    cargo build --locked --profile bundle -p epsilab-kernel --no-default-features --features cuda \
        --bin epsilab
    local program="${CARGO_TARGET_DIR:-target}/bundle/epsilab"
    local needs
    needs="$(grep -aoE 'GLIBC_2\.[0-9]+' "$program" | sort -uV | tail -1 | cut -d_ -f2)"
    [ "$(printf '%s\n' "$needs" "$oldest_glibc" | sort -V | tail -1)" = "$oldest_glibc" ] ||
        die "the program needs glibc $needs, the bundle promises $oldest_glibc: build it on an older system"

    rm -rf "$bundle"
    mkdir -p "$bundle"
    cp benches/gpu/run.sh benches/gpu/models.py benches/gpu/*_steps.py LICENSE-* "$bundle/"
    cp "$program" "$bundle/epsilab"
    echo "the program: $(mib "$bundle/epsilab") MiB, needs glibc $needs"
    if [ "$(mib "$bundle/epsilab")" -gt "$pack_above_mib" ]; then
        xz -T0 -6 "$bundle/epsilab"
        echo "packed: $(mib "$bundle/epsilab.xz") MiB"
    fi
    [ "$(mib "$bundle")" -le "$most_mib" ] ||
        die "$bundle takes $(mib "$bundle") MiB, more than the $most_mib that it may"
    echo "$bundle: $(mib "$bundle") MiB"
}

case "${1:-}" in
build) build ;;
run)
    [ -x "$bundle/run.sh" ] || die "there is no $bundle: make it with '$0 build', or copy it here"
    exec "$bundle/run.sh" "${@:2}"
    ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
