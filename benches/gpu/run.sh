#!/usr/bin/env bash
# Run on a machine with an NVIDIA GPU. Compares the GPU's results with the CPU's, times training
# steps here and in other libraries, and trains. Writes one JSON file and one table.
#
#   run.sh [DIR]        results go to DIR (default: ./gpu-results)
#
# Needs the driver, NVRTC and the CUDA headers (of a toolkit, or of the packages nvidia-cuda-nvrtc,
# nvidia-cuda-runtime, nvidia-cuda-crt and nvidia-cuda-cccl) and glibc 2.35. Uses PyTorch with
# Opacus and JAX (of EPSILAB_PYTHON, default python3) and data sets (EPSILAB_DATA) if installed.
# Takes less than ten minutes. The exit code is 0 if every part succeeded.
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
results="${1:-gpu-results}"
python="${EPSILAB_PYTHON:-python3}"
# Seconds for everything. Each part also has a limit of its own, below.
total="${EPSILAB_SECONDS:-570}"

die() { echo "error: $*" >&2; exit 1; }

glibc="$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)"
[ "$(printf '%s\n' 2.35 "${glibc:-0}" | sort -V | head -1)" = 2.35 ] ||
    die "glibc = ${glibc:-not found}: the program was built for 2.35 and later;" \
        "build it on this system"
mkdir -p "$results" || die "can't write to $results: name a folder that you may write to"
results="$(cd "$results" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if [ -f "$here/epsilab.xz" ]; then
    xz -dc "$here/epsilab.xz" >"$work/epsilab" || die "$here/epsilab.xz can't be unpacked"
    chmod +x "$work/epsilab"
    epsilab="$work/epsilab"
else
    epsilab="$here/epsilab"
fi

# --- Find NVRTC, which compiles the kernels, and the headers that the kernels include.

# The newest CUDA version that the driver supports.
driver="$(nvidia-smi 2>/dev/null |
    sed -n 's/.*CUDA[A-Za-z ]*Version: *\([0-9.]*\).*/\1/p' | head -1)"
packages() {
    command -v "$python" >/dev/null &&
        "$python" -c 'import os, sys
for path in sys.path:
    if os.path.isdir(path + "/nvidia"): print(path + "/nvidia")'
}
mapfile -t wheels < <(packages)
toolkits=("${CUDA_PATH:-}" "${CUDA_HOME:-}" /usr/local/cuda /usr/local/cuda-* /opt/cuda /usr)
folders=()
for toolkit in "${toolkits[@]}"; do
    [ -n "$toolkit" ] && folders+=("$toolkit/lib64" "$toolkit/lib"
        "$toolkit/targets/x86_64-linux/lib" "$toolkit/lib/x86_64-linux-gnu")
done
for wheel in "${wheels[@]}"; do
    folders+=("$wheel"/cu*/lib "$wheel/cuda_nvrtc/lib")
done
# A driver can't load code of a newer NVRTC: take one of at most the driver's version.
nvrtc="" nvrtc_version="" too_new=""
for folder in "${folders[@]}"; do
    library="$(ls "$folder"/libnvrtc.so* 2>/dev/null | head -1)"
    version="$(ls "$folder"/libnvrtc-builtins.so.* 2>/dev/null | head -1 |
        sed -nE 's/.*builtins\.so\.([0-9]+\.[0-9]+).*/\1/p')"
    [ -n "$library" ] && [ -n "$version" ] || continue
    newer="$(printf '%s\n' "$version" "$driver" | sort -V | tail -1)"
    if [ -n "$driver" ] && [ "$newer" != "$driver" ]; then
        too_new="$library ($version)"
        continue
    fi
    nvrtc="$(readlink -f "$library")" nvrtc_version="$version"
    break
done
# The program looks for this name, whatever the version.
mkdir -p "$work/cuda/lib" "$work/cuda/include"
before="${LD_LIBRARY_PATH:-}"
if [ -n "$nvrtc" ]; then
    ln -s "$nvrtc" "$work/cuda/lib/libnvrtc.so"
    export LD_LIBRARY_PATH="$work/cuda/lib:$(dirname "$nvrtc")${before:+:$before}"
fi
headers=""
for toolkit in "${toolkits[@]}"; do
    [ -n "$toolkit" ] && [ -f "$toolkit/include/cuda_fp16.h" ] &&
        [ -f "$toolkit/include/crt/mma.h" ] && headers="$toolkit" && break
done
if [ -z "$headers" ]; then
    # Each package has a part of the headers: join them by links.
    for wheel in "${wheels[@]}"; do
        for part in "$wheel"/*/include; do
            [ -d "$part" ] && cp -rsn "$part/." "$work/cuda/include/" 2>/dev/null
        done
    done
    headers="$work/cuda"
fi
export CUDA_PATH="$headers"
missing=""
for header in cuda_fp16.h crt/mma.h nv/target cuda/barrier; do
    [ -f "$headers/include/$header" ] || [ -f "$headers/include/cccl/$header" ] ||
        missing+=" $header"
done

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
# part NAME SECONDS COMMAND...: writes its output to $work/NAME.json and records a failure.
part() {
    local name="$1" limit="$2" left=$((total - (SECONDS - started))) status why
    shift 2
    [ "$limit" -lt "$left" ] || limit="$left"
    if [ "$limit" -lt 5 ]; then
        missed "$name" "the time limit was reached before"
        return 1
    fi
    echo "== $name (at most $limit s)" >&2
    timeout -k 5 "$limit" "$@" >"$work/out" 2>"$work/err"
    status=$?
    cp "$work/out" "$work/$name.json"
    [ "$status" = 0 ] && return 0
    why="$(grep -m1 -E '^error: |DIFFER|differ' "$work/err" || tail -1 "$work/err")"
    [ "$status" = 124 ] || [ "$status" = 137 ] && why="more than $limit s. $why"
    echo "   failed ($status): ${why:0:300}" >&2
    missed "$name" "$why (exit code $status)"
    return 1
}
# answer: the last line that a part printed, or null. list: all lines of several parts.
answer() { if [ -s "$work/$1.json" ]; then tail -1 "$work/$1.json"; else echo null; fi; }
list() { printf '['; cat "$@" 2>/dev/null | grep '^{' | paste -sd, | tr -d '\n'; printf ']'; }
# The value of a numeric field in flat JSON.
field() { grep -oE "\"$2\": ?-?[0-9.eE+-]+" <<<"$1" | head -1 | sed 's/.*: *//'; }

timeout 30 "$epsilab" doctor --json >"$work/doctor.json"
if ! grep -q '"cuda:0"' "$work/doctor.json"; then
    # Prints what is wrong and fails.
    "$epsilab" bench --device cuda --models mlp --steps 1 --warmup 0 || exit 1
    die "the program works on a GPU that 'doctor' doesn't list"
fi
[ -z "$nvrtc" ] && [ -n "$too_new" ] &&
    echo "note: $too_new is newer than this driver (CUDA $driver):" \
        "NVRTC of at most its version is needed" >&2
[ -n "$nvrtc" ] || die "NVRTC not found: it compiles the kernels." \
    "Install the CUDA toolkit, or: pip install 'nvidia-cuda-nvrtc==${driver:-13.0}.*'" \
    "(nvidia-cuda-nvrtc-cu12 for CUDA 12)"
[ -z "$missing" ] ||
    echo "note: headers not found:$missing. Kernels that need them will fail;" \
        "pip install nvidia-cuda-runtime nvidia-cuda-crt nvidia-cuda-cccl" >&2
# gpu FIELDS: what nvidia-smi says of the first GPU.
gpu() { nvidia-smi --query-gpu="$1" --format=csv,noheader | head -1; }
echo "GPU: $(gpu name,driver_version); NVRTC $nvrtc_version: $nvrtc; headers: $headers" >&2

cases=(papernot_cnn:4096 simple_vgg:4096 wide_resnet_16_4:4096 resnet18:256)
checked=(papernot_cnn simple_vgg wide_resnet_16_4 bilstm mlp resnet18)
for model in "${checked[@]}"; do
    part "check-$model" 60 "$epsilab" bench --device cuda --check --json --models "$model"
done
for case in "${cases[@]}"; do
    part "steps-$case" 90 "$epsilab" bench --device cuda --json --models "${case%:*}" \
        --batch "${case#*:}" --steps 30 --warmup 5
done

data=glyphs
grep -qE '"mnist":"' "$work/doctor.json" && data=mnist
grid() {
    # A home of its own for each: a stored run would not be trained again.
    EPSILAB_HOME="$work/home-$1" part "train-$1" 75 "$epsilab" grid --device "$1" --data "$data" \
        --method dp-sgd,dp-ssgd,non-private --pre-prune 0.5 --drop 0.5 --epsilon 3 --seeds 1 \
        --epochs 2 --batch 1024 --json
}
grid cuda
grid cpu

has() { command -v "$python" >/dev/null && "$python" -c "import $1" 2>/dev/null; }
for library in torch jax; do
    has "$library" || { echo "== $library: not installed for $python" >&2; continue; }
    for case in "${cases[@]}"; do
        # With the CUDA libraries that the package was built for.
        part "$library-${case%:*}" 75 env LD_LIBRARY_PATH="$before" \
            "$python" -B "$here/${library}_steps.py" \
            --model "${case%:*}" --batch "${case#*:}" --seconds 55
    done
done

# --- One JSON file and one table.

machine="{\"gpu\": $(quoted "$(gpu name,memory.total,driver_version)"),
 \"driver_cuda\": $(quoted "$driver"), \"nvrtc\": $(quoted "$nvrtc_version, $nvrtc"),
 \"headers\": $(quoted "$headers"), \"missing_headers\": $(quoted "$missing"),
 \"cpus\": $(nproc), \"kernel\": $(quoted "$(uname -r)"), \"glibc\": $(quoted "$glibc")}"
# The lists of several parts, joined.
joined() {
    for name in "$@"; do answer "$name"; done | grep '^\[{' | sed 's/^\[//; s/\]$//' | paste -sd,
}
{
    echo "{\"made\": $(quoted "$(date -u +%FT%TZ)"), \"seconds\": $((SECONDS - started)),"
    echo " \"machine\": $machine,"
    echo " \"doctor\": $(answer doctor),"
    echo " \"check\": [$(joined "${checked[@]/#/check-}")],"
    echo " \"steps\": [$(joined "${cases[@]/#/steps-}")],"
    echo " \"train\": {\"data\": \"$data\", \"cuda\": $(answer train-cuda),"
    echo " \"cpu\": $(answer train-cpu)},"
    echo " \"others\": $(list "$work"/torch-*.json "$work"/jax-*.json),"
    echo " \"failed\": [$(IFS=,; echo "${failed[*]:-}")]}"
} >"$results/gpu.json"

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
    cat "$work"/torch-"$1".json "$work"/jax-"$1".json 2>/dev/null |
        grep "\"private\": $2" | grep '"median_s"' |
        sed -E 's/.*"name": "([^"]*)".*"median_s": ([0-9.eE+-]+).*/\2 \1/' | sort -g | head -1
}
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
    right="$(cat "$work"/check-*.json 2>/dev/null | grep -o '"ok":true' | wc -l)"
    wrong="$(cat "$work"/check-*.json 2>/dev/null | grep -o '"ok":false' | wc -l)"
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
cat "$results/gpu.md"
echo "wrote $results/gpu.json and $results/gpu.md" >&2
[ ${#failed[@]} = 0 ]
