#!/usr/bin/env bash
# Two builds of the program read and write each other's databases.
#
#   A loads, B checks, reads and changes, A checks and reads what B changed; then the other way round.
#
# Usage: .ci/cross-files.sh PROGRAM PROGRAM        (each may be a command with arguments)
set -euo pipefail
read -ra first <<<"$1"
read -ra second <<<"$2"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "cross-files: $*" >&2
    exit 1
}

# 3,000 records of all sizes that the format tells apart: empty, within a page, and beyond it.
awk 'BEGIN {
    srand(7)
    for (n = 0; n < 3000; n++) {
        bytes = n % 500 == 0 ? 70000 : n % 7 == 0 ? 0 : int(rand() * 200)
        value = ""
        while (length(value) < bytes) value = value sprintf("%08x", rand() * 4294967295)
        printf "key %06d %x\t%s\n", (n * 7919) % 3000, n, substr(value, 1, bytes)
    }
}' >"$work/records.tsv"
LC_ALL=C sort "$work/records.tsv" >"$work/sorted.tsv"

round() {
    local -n writer=$1 reader=$2
    local db=$work/$3 page_size=$4
    "${writer[@]}" -q --page-size "$page_size" load "$db" "$work/records.tsv"
    "${reader[@]}" -q check "$db"
    "${reader[@]}" -q scan "$db" --values >"$work/read"
    cmp "$work/sorted.tsv" "$work/read" || fail "$3: records differ"

    # The reader writes in its turn: a record more, one less, a tree more.
    "${reader[@]}" -q put "$db" "other machine" 'value\x00\xff'
    "${reader[@]}" -q del "$db" "$(head -1 "$work/sorted.tsv" | cut -f1)"
    "${reader[@]}" -q put "$db" --tree second k v
    "${writer[@]}" -q check "$db"
    { tail -n +2 "$work/sorted.tsv" && printf 'other machine\tvalue\\0\\xff\n'; } >"$work/expected"
    "${writer[@]}" -q scan "$db" --values >"$work/read"
    cmp "$work/expected" "$work/read" || fail "$3: changed records differ"
    "${writer[@]}" -q dump "$db" -o "$work/dump-a"
    "${reader[@]}" -q dump "$db" -o "$work/dump-b"
    cmp "$work/dump-a" "$work/dump-b" || fail "$3: dumps differ"
}

round first second first-writes 16K
round second first second-writes 4K
echo "cross-files: 3000 records written by either program are read and changed by the other"
