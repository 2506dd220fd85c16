# Functions of .ci/run and .ci/full: the table of parts, which of them a change touches, and the
# table at the end. Both run in the root of a clone.

# Reads one column of a part's row in .ci/parts: lane, minutes or paths.
row() {
    awk -v part="$1" -v column="$2" '!/^#/ && $1 == part {
        if (column == "lane") print $2
        if (column == "minutes") print $3
        if (column == "paths") { $1 = $2 = $3 = ""; print }
    }' .ci/parts
}

# The parts of the lanes $1 (a regular expression), in the order of the table.
parts() { awk -v lanes="^($1)$" '!/^#/ && $2 ~ lanes { print $1 }' .ci/parts; }

# The commit at which a part passed last, if this clone has it.
passed() {
    local commit
    commit="$(awk -v part="$1" '!/^#/ && $1 == part { print $2 }' .ci/passed)"
    [ -z "$commit" ] || ! git cat-file -e "$commit^{commit}" 2>/dev/null || echo "$commit"
}

# Whether a path that the part checks has changed since it passed last.
touched() {
    local commit
    commit="$(passed "$1")"
    # shellcheck disable=SC2046
    [ -z "$commit" ] || ! git diff --quiet "$commit" -- $(row "$1" paths) ':!.ci/passed'
}

table=()
failed=0

# Runs a part, with its output also in a file, and adds a row to the table.
run_part() {
    local part="$1" start=$SECONDS outcome=passed
    printf '\n== %s\n' "$part"
    .ci/part "$part" 2>&1 | tee "$logs/$part.log" || { outcome=FAILED && failed=1; }
    local minutes
    minutes="$(awk -v s=$((SECONDS - start)) 'BEGIN { printf "%.1f", s / 60 }')"
    printf '== %s: %s, %s min\n' "$part" "$outcome" "$minutes"
    table+=("$(printf '%-14s %-8s %6s min' "$part" "$outcome" "$minutes")")
    [ "$outcome" = passed ]
}

# Adds a row for a part that does not run.
leave_out() { table+=("$(printf '%-14s left out, %s' "$1" "$2")"); }

# Prints which tests were skipped, and the table.
print_table() {
    local skipped
    skipped="$(grep -hi 'skipped' "$logs"/*.log 2>/dev/null | grep -vi ' 0 skipped' | sort -u || true)"
    [ -z "$skipped" ] || printf '\nskipped:\n%s\n' "$skipped"
    printf '\n'
    printf '%s\n' "${table[@]}"
    printf '%-14s %15.1f min\n' together "$(awk -v s=$SECONDS 'BEGIN { print s / 60 }')"
}
