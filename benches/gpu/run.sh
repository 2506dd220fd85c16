#!/usr/bin/env bash
# Run on a machine with an NVIDIA GPU. Compares the GPU's results with the CPU's, times training
# steps here and in other libraries, and trains. Writes one JSON file and one table, anew after each
# part.
#
#   run.sh [DIR] [first|all]     results go to DIR (default: ./gpu-results)
#
# `first` does the most important part: the test of the device, and private and non-private steps of
# papernot_cnn and wide_resnet, compared with the CPU and timed beside PyTorch. `all` (the default)
# does the rest as well. Kernels are tuned at first, which takes minutes per model and is kept. What
# DIR has already is not done again, so an interrupted run continues.
#
# Needs the driver, NVRTC and the CUDA headers (of a toolkit, or of the packages nvidia-cuda-nvrtc,
# nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl) and glibc 2.35. Uses PyTorch with
# Opacus and JAX (of EPSILAB_PYTHON, default python3) and data sets (EPSILAB_DATA) if installed. The
# exit code is 0 if every part succeeded.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
results="${1:-gpu-results}"
what="${2:-all}"
python="${EPSILAB_PYTHON:-python3}"
# Seconds for everything. Each part also has a limit of its own, below.
total="${EPSILAB_SECONDS:-3600}"

die() { echo "error: $*" >&2; exit 1; }
case "$what" in first | all) ;; *) die "$what: the second argument is 'first' or 'all'" ;; esac

glibc="$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)"
[ "$(printf '%s\n' 2.35 "${glibc:-0}" | sort -V | head -1)" = 2.35 ] ||
    die "glibc = ${glibc:-not found}: the program was built for 2.35 and later;" \
        "build it on this system"
mkdir -p "$results" || die "can't write to $results: name a folder that you may write to"
results="$(cd "$results" && pwd)"
# What each part printed; kept, so that the parts can be done in several runs.
parts="$results/parts"
mkdir -p "$parts"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if [ -f "$here/epsilab.xz" ]; then
    xz -dc "$here/epsilab.xz" >"$work/epsilab" || die "$here/epsilab.xz can't be unpacked"
    chmod +x "$work/epsilab"
    epsilab="$work/epsilab"
else
    epsilab="$here/epsilab"
fi

# --- The program finds NVRTC and the headers by itself, except in the Python packages of a Python
# that is not active.

if [ -z "${CUDA_PATH:-}${VIRTUAL_ENV:-}${CONDA_PREFIX:-}" ] && command -v "$python" >/dev/null; then
    CUDA_PATH="$("$python" -c 'import os, sys
for path in sys.path:
    for toolkit in ("cu13", "cuda_runtime"):
        folder = os.path.join(path, "nvidia", toolkit)
        if os.path.isdir(folder): print(folder)' | head -1)"
    [ -n "$CUDA_PATH" ] && export CUDA_PATH || unset CUDA_PATH
fi

# --- Parts: each has a time limit, and a failure does not stop the others.

started=$SECONDS
failed=() notes=()
# Text as a JSON string.
quoted() {
    printf '"%s"' "$(tr -cd '[:print:] ' <<<"$1" | sed 's/\\/\\\\/g; s/"/\\"/g' | cut -c1-400)"
}
missed() {
    failed+=("{\"part\": $(quoted "$1"), \"why\": $(quoted "$2")}")
    notes+=("- $1: $2")
}
# part NAME SECONDS COMMAND...: writes its output to $parts/NAME.json and records a failure.
part() {
    local name="$1" limit="$2" left=$((total - (SECONDS - started))) status why
    shift 2
    [ -s "$parts/$name.json" ] && [ ! -e "$parts/$name.failed" ] && return 0
    [ "$limit" -lt "$left" ] || limit="$left"
    if [ "$limit" -lt 5 ]; then
        missed "$name" "the time limit was reached before"
        return 1
    fi
    echo "== $name (at most $limit s)" >&2
    timeout -k 5 "$limit" "$@" >"$work/out" 2>"$work/err"
    status=$?
    # Also if it failed: a comparison that does not hold is a result.
    cp "$work/out" "$parts/$name.json"
    rm -f "$parts/$name.failed"
    [ "$status" = 0 ] && report && return 0
    touch "$parts/$name.failed"
    why="$(grep -m1 -E '^error: |DIFFER|differ' "$work/err" || tail -1 "$work/err")"
    [ "$status" = 124 ] || [ "$status" = 137 ] && why="more than $limit s. $why"
    echo "   failed ($status): ${why:0:300}" >&2
    missed "$name" "$why (exit code $status)"
    report
    return 1
}
# answer: the last line that a part printed, or null. list: all lines of several parts.
answer() { if [ -s "$parts/$1.json" ]; then tail -1 "$parts/$1.json"; else echo null; fi; }
list() { printf '['; cat "$@" 2>/dev/null | grep '^{' | paste -sd, | tr -d '\n'; printf ']'; }
# The value of a numeric field in flat JSON.
field() { grep -oE "\"$2\": ?-?[0-9.eE+-]+" <<<"$1" | head -1 | sed 's/.*: *//'; }

# gpu FIELDS: what nvidia-smi says of the first GPU.
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -1; }
cases=(papernot_cnn:4096 simple_vgg:4096 wide_resnet_16_4:4096 resnet18:256)
checked=(papernot_cnn simple_vgg wide_resnet_16_4 bilstm mlp resnet18)
data=glyphs
grep -qE '"mnist":"' "$parts/doctor.json" 2>/dev/null && data=mnist

# The lists of several parts, joined.
joined() {
    for name in "$@"; do answer "$name"; done | grep '^\[{' | sed 's/^\[//; s/\]$//' | paste -sd,
}
ms() { if [ -n "$1" ]; then awk -v s="$1" 'BEGIN { printf "%.3g", 1000 * s }'; else echo –; fi; }
ratio() {
    if [ -n "$1" ] && [ -n "$2" ]; then
        awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
    else
        echo –
    fi
}
# The fastest other library: best MODEL true|false -> "seconds name"
best() {
    cat "$parts"/torch-"$1".json "$parts"/jax-"$1".json 2>/dev/null |
        grep "\"private\": $2" | grep '"median_s"' |
        sed -E 's/.*"name": "([^"]*)".*"median_s": ([0-9.eE+-]+).*/\2 \1/' | sort -g | head -1
}
# Writes the results so far: one JSON file and one table.
report() {
    local machine
    machine="{\"gpu\": $(quoted "$(gpu name,memory.total,driver_version)"),
 \"cpus\": $(nproc), \"kernel\": $(quoted "$(uname -r)"), \"glibc\": $(quoted "$glibc")}"
    {
        echo "{\"made\": $(quoted "$(date -u +%FT%TZ)"), \"seconds\": $((SECONDS - started)),"
        echo " \"machine\": $machine,"
        echo " \"doctor\": $(answer doctor),"
        echo " \"check\": [$(joined "${checked[@]/#/check-}")],"
        echo " \"steps\": [$(joined "${cases[@]/#/steps-}")],"
        echo " \"train\": {\"data\": \"$data\", \"cuda\": $(answer train-cuda),"
        echo " \"cpu\": $(answer train-cpu)},"
        echo " \"others\": $(list "$parts"/torch-*.json "$parts"/jax-*.json),"
        echo " \"failed\": [$(IFS=,; echo "${failed[*]:-}")]}"
    } >"$results/gpu.json"
    {
        echo "Training steps on $(gpu name), milliseconds:"
        echo
        echo "| model, batch | ours, non-private | ours, private | ratio | best other, non-private |" \
            "best other, private | ours / theirs, private |"
        echo "| --- | --- | --- | --- | --- | --- | --- |"
        for case in "${cases[@]}"; do
            model="${case%:*}" line="$(answer "steps-$case")"
            plain="$(field "$line" nonprivate_s)" private="$(field "$line" private_s)"
            read -r their_plain plain_name <<<"$(best "$model" false)"
            read -r their_private private_name <<<"$(best "$model" true)"
            echo "| $model, ${case#*:} | $(ms "$plain") | $(ms "$private") |" \
                "$(ratio "$private" "$plain") | $(ms "$their_plain") ${plain_name:+($plain_name)} |" \
                "$(ms "$their_private") ${private_name:+($private_name)} |" \
                "$(ratio "$private" "$their_private") |"
        done
        echo
        right="$(cat "$parts"/check-*.json 2>/dev/null | grep -o '"ok":true' | wc -l)"
        wrong="$(cat "$parts"/check-*.json 2>/dev/null | grep -o '"ok":false' | wc -l)"
        echo "GPU compared with the CPU's fused kernels: $right comparisons hold, $wrong do not."
        echo
        echo "Accuracy on $data after two epochs, epsilon 3:"
        echo
        echo "| method | on the GPU | on the CPU |"
        echo "| --- | --- | --- |"
        accuracy() {
            answer "train-$1" | sed 's/},{/}\n{/g' | grep "\"method\":\"$2\"" | head -1 |
                grep -oE '"accuracy_mean":[0-9.]+' | cut -d: -f2
        }
        for method in dp-sgd dp-ssgd non-private; do
            on_gpu="$(accuracy cuda "$method")" on_cpu="$(accuracy cpu "$method")"
            echo "| $method | ${on_gpu:-–} | ${on_cpu:-–} |"
        done
        if [ ${#failed[@]} -gt 0 ]; then
            printf '\nNot done:\n\n'
            printf '%s\n' "${notes[@]}"
        fi
    } >"$results/gpu.md"
}

# --- What is done, the most important first.

# The test of the device compiles its kernels.
timeout 180 "$epsilab" doctor --json >"$parts/doctor.json"
if ! grep -q '"cuda":{[^}]*"works":true' "$parts/doctor.json"; then
    # Prints what is wrong and fails.
    "$epsilab" bench --device cuda --models mlp --steps 1 --warmup 0 || exit 1
    die "the program works on a GPU that 'doctor' doesn't accept"
fi
report
echo "GPU: $(gpu name,driver_version); $(grep -o '"nvrtc_path":"[^"]*"' "$parts/doctor.json")" >&2

check() { part "check-$1" "$2" "$epsilab" bench --device cuda --check --json --models "$1"; }
steps() { # MODEL:BATCH SECONDS
    part "steps-$1" "$2" "$epsilab" bench --device cuda --json --models "${1%:*}" \
        --batch "${1#*:}" --steps 30 --warmup 5 --threads "$(nproc)"
}
has() { command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null; }
other() { # LIBRARY MODEL:BATCH SECONDS, with the CUDA libraries that the library was built for
    has "$1" || { echo "== $1: not installed for $python" >&2; return 0; }
    part "$1-${2%:*}" "$3" env -u CUDA_PATH "$python" -B "$here/$1_steps.py" \
        --model "${2%:*}" --batch "${2#*:}" --seconds $(($3 - 20))
}

check papernot_cnn 600
steps papernot_cnn:4096 600
other torch papernot_cnn:4096 75
check wide_resnet_16_4 600
steps wide_resnet_16_4:4096 600
other torch wide_resnet_16_4:4096 75

grep -qE '"mnist":"' "$parts/doctor.json" && data=mnist
if [ "$what" = all ]; then
    for model in simple_vgg bilstm mlp resnet18; do check "$model" 600; done
    for case in simple_vgg:4096 resnet18:256; do steps "$case" 600; done
    for case in simple_vgg:4096 resnet18:256; do other torch "$case" 75; done
    for case in "${cases[@]}"; do other jax "$case" 120; done
    for device in cuda cpu; do
        # A home of its own for each: a stored run would not be trained again.
        EPSILAB_HOME="$work/home-$device" part "train-$device" 600 "$epsilab" grid \
            --device "$device" --data "$data" --method dp-sgd,dp-ssgd,non-private \
            --pre-prune 0.5 --drop 0.5 --epsilon 3 --seeds 1 --epochs 2 --batch 1024 --json
    done
fi

report
cat "$results/gpu.md"
echo "wrote $results/gpu.json and $results/gpu.md" >&2
[ ${#failed[@]} = 0 ]
