#!/usr/bin/env bash
# Compiles every kernel that training launches on a GPU, without a GPU.
#
#   rehearse.sh [DIR]     results go to DIR (default: target/rehearsal)
#
# The program runs on a CUDA driver that computes nothing (support/cuda-stand-in), with the real
# NVRTC, for GPUs of compute capability 8.0 and 9.0: every method that `train --help` lists, models
# with convolutions, with normalisation and with recurrent layers, in f32 and bf16. A kernel that
# can't be generated, compiled or assembled fails the rehearsal, and so does a driver call that is
# not in support/cuda-stand-in/calls.txt. NVRTC, headers and ptxas come from PyPI.
#
#   EPSILAB_PROGRAM     the program (default: that of software-gpu/, which does not autotune; with
#                       autotuning, as in target/gpu-bundle, many more kernels are compiled)
#   EPSILAB_MODELS, EPSILAB_ARCHITECTURES, EPSILAB_PRECISIONS     parts of the matrix
set -euo pipefail
cd "$(dirname "$0")/../.."
out="$(realpath -m "${1:-target/rehearsal}")"
mkdir -p "$out"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
die() { echo "error: $*" >&2; exit 1; }

cuda=13.0
python3 -m venv "$work/python"
"$work/python/bin/pip" install --quiet "nvidia-cuda-nvrtc==$cuda.*" "nvidia-cuda-runtime==$cuda.*" \
    "nvidia-cuda-crt==$cuda.*" "nvidia-cuda-cccl==$cuda.*" "nvidia-cuda-nvcc==$cuda.*"
packages=("$work"/python/lib/python3*/site-packages/nvidia/cu13)
ptxas="${packages[0]}/bin/ptxas"
[ -x "$ptxas" ] || die "no ptxas in the packages"

if [ -z "${EPSILAB_PROGRAM:-}" ]; then
    target="$(realpath -m "${CARGO_TARGET_DIR:-target}")/software-gpu"
    (cd software-gpu && CARGO_TARGET_DIR="$target" cargo build --locked --bin epsilab)
    EPSILAB_PROGRAM="$target/debug/epsilab"
fi
mkdir -p "$work/driver" "$work/ptx"
cc -shared -fPIC -O1 -o "$work/driver/libcuda.so.1" support/cuda-stand-in/driver.c -lpthread

export LD_LIBRARY_PATH="$work/driver" CUDA_PATH="${packages[0]}"
export EPSILAB_REHEARSAL=1 EPSILAB_HOME="$work/home"
export STAND_IN_CUDA=13000 STAND_IN_PTX="$work/ptx" STAND_IN_LOG="$work/calls"

# Without the variable, a device that computes nothing is refused.
if EPSILAB_REHEARSAL=0 "$EPSILAB_PROGRAM" bench --device cuda --models mlp --batch 8 --steps 1 \
    >"$work/refused" 2>&1; then
    die "the stand-in was taken for a device that computes"
fi
grep -q "does not compute correctly" "$work/refused" || die "$(cat "$work/refused")"

# The program lists its methods, so a new one is rehearsed too.
methods="$("$EPSILAB_PROGRAM" train --help | grep -A1 -e '--method <NAME>' | tr '\n' ' ' |
    sed -n 's/^ *--method <NAME> *\(.*\) \[default.*/\1/p' | tr -d ,)"
case " $methods " in *" dp-sgd "*" non-private "*) ;; *) die "no methods in: $methods" ;; esac

data_of() { case $1 in bilstm) echo sentences ;; wide*) echo patterns ;; *) echo glyphs ;; esac; }
# Every method, then the settings that have kernels of their own: one process, so that each kernel
# is compiled once.
train_all() {
    python3 - "$model" "$(data_of "$model")" "$precision" $methods >"$work/experiments.json" <<'EOF'
import json
import sys

model, data, precision, *methods = sys.argv[1:]
# The clips do not bound trained normalisation layers.
frozen = {"freeze": [["*.gamma", "*.beta"]]} if model.startswith("wide") else {}
noise = {"noise-multiplier": 1}
cases = [
    {"method": method}
    | ({} if method == "non-private" else noise)
    | (frozen if method == "backprop-clipping" else {})
    for method in methods
]
masked = {"method": "dp-ssgd", "pre-prune": 0.5, "drop": 0.5}
cases += [
    noise | {"clip-rule": "auto-s", "optimizer": "adamw", "average": "ema"},
    noise | {"clip-rule": "per-layer", "optimizer": "nesterov", "freeze": "*.bias"},
    masked | noise | {"mask": "random", "drop-rule": ["random", "magnitude"]},
    masked | {"mask": "dp-snip", "epsilon": 3},
]
options = {"device": "cuda", "model": model, "data": data, "precision": precision}
options |= {"train": 48, "test": 8, "batch-size": 16, "steps": 2}
print(json.dumps({"experiments": [{"name": "all", "options": options, "cases": cases}]}))
EOF
    echo "== sm_$STAND_IN_ARCH, $model, $precision: $methods" >&2
    "$EPSILAB_PROGRAM" sweep "$work/experiments.json" >"$work/stdout" 2>"$work/stderr" ||
        die "$(tail -5 "$work/stderr")"
    if grep "^not trained" "$work/stderr" >&2; then die "a method was not trained"; fi
    grep -q "rehearsal: no result" "$work/stdout" || die "an output without its mark"
}
# Launches per step of all kinds that `bench` with these options measures: those of four steps less
# those of one.
launches() {
    local few many=0
    for steps in 1 4; do
        : >"$work/launches"
        STAND_IN_LOG="$work/launches" "$EPSILAB_PROGRAM" bench --device cuda --models "$model" \
            --batch 64 --warmup 0 --steps "$steps" --json "$@" >/dev/null
        few="$many" many="$(grep -c '^cuLaunchKernel' "$work/launches")"
    done
    echo $(((many - few) / 3))
}

table="$out/rehearsal.md"
{
    echo "| GPU | model | precision | kernels | launches per step, non-private | private |"
    echo "| --- | --- | --- | ---: | ---: | ---: |"
} >"$table"
kernels="$out/kernels.csv"
echo "architecture,kernel,registers,spilled_bytes,shared_bytes" >"$kernels"
for STAND_IN_ARCH in ${EPSILAB_ARCHITECTURES:-80 90}; do
    # A home of its own for each: a stored run would not be trained again.
    export STAND_IN_ARCH EPSILAB_HOME="$work/home-$STAND_IN_ARCH"
    suffix="$([ "$STAND_IN_ARCH" -ge 90 ] && echo a || true)"
    for model in ${EPSILAB_MODELS:-papernot_cnn wide_resnet_16_4 bilstm}; do
        for precision in ${EPSILAB_PRECISIONS:-f32 bf16}; do
            rm -f "$work"/ptx/*
            train_all
            # Modules of two processes may be equal.
            for module in "$work"/ptx/*.ptx; do
                mv "$module" "$work/ptx/$(sha256sum <"$module" | cut -c1-16)"
            done
            for module in "$work"/ptx/*; do
                "$ptxas" -arch="sm_$STAND_IN_ARCH$suffix" -v -o /dev/null "$module" \
                    2>"$work/ptxas" || die "ptxas: $(head -3 "$work/ptxas")"
                awk -v arch="sm_$STAND_IN_ARCH" '
                    /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
                    /bytes spill stores/ { spilled = $5 }
                    /Used [0-9]+ registers/ {
                        match($0, /Used [0-9]+/)
                        print arch "," name "," substr($0, RSTART + 5, RLENGTH - 5) "," spilled
                    }' "$work/ptxas" >>"$kernels"
            done
            count="$(find "$work/ptx" -type f | wc -l)"
            steps="– | –"
            if [ "$precision" = f32 ]; then
                # The rule `flat` adds one more private step to the private and the other one.
                both="$(launches)" private=$(($(launches --clip-rule flat) - both))
                steps="$((both - private)) | $private"
                [ "$private" -gt 0 ] && [ "$both" -gt "$private" ] || die "launches: $steps"
            fi
            echo "| sm_$STAND_IN_ARCH | $model | $precision | $count | $steps |" >>"$table"
        done
    done
done
# Shared memory is allocated at the launch, so it is in the log of the calls.
awk -F'[ ,]' 'NR == FNR { if (/^cuLaunchKernel/ && $3 > shared[$2]) shared[$2] = $3; next }
    { print $0 "," shared[$2] + 0 }' "$work/calls" <(tail -n +2 "$kernels") | sort -u >"$work/kernels"
{ head -1 "$kernels" && cat "$work/kernels"; } >"$work/all" && mv "$work/all" "$kernels"

cut -d' ' -f1 "$work/calls" | sort -u >"$out/calls.txt"
unknown="$(comm -13 support/cuda-stand-in/calls.txt "$out/calls.txt")"
[ -z "$unknown" ] || die "driver calls that are not in support/cuda-stand-in/calls.txt: $unknown"
{
    echo
    awk -F, 'NR > 1 { n++; if ($3 > r) r = $3; if ($4 > 0) s++; if ($5 > m) m = $5 } END {
        printf "%d kernels: at most %d registers, %d with spills, at most %d bytes of shared memory\n",
            n, r, s, m }' "$kernels"
} >>"$table"
cat "$table"
echo "wrote $table and $kernels: $(($(wc -l <"$kernels") - 1)) kernels compiled and assembled"
