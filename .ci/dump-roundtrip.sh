#!/bin/sh
# Dumps go to LMDB, Berkeley DB and latchkv, and come back unchanged.
#
#   LMDB --mdb_dump--> latchkv load --latchkv dump--> mdb_load --mdb_dump--> equal?
#                                   --latchkv dump--> db_load  --db_dump---> equal?
#   files of this machine --------> latchkv load --latchkv dump--> latchkv load --latchkv dump--> equal?
#
# The files are the sources in cargo's registry, or this checkout where there are none: at most 20,000.
# Usage: .ci/dump-roundtrip.sh [PATH OF latchkv]     (without it, the program is built)
# Installs the Debian packages lmdb-utils and db-util if mdb_dump or db_dump is missing.
set -eu
cd "$(dirname "$0")/.."

if ! command -v mdb_dump >/dev/null || ! command -v db_dump >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq lmdb-utils db-util
fi
if [ $# -ge 1 ]; then
    latchkv=$1
else
    cargo build --quiet --release -p latchkv-cli
    latchkv=${CARGO_TARGET_DIR:-target}/release/latchkv
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "dump-roundtrip: $*" >&2
    exit 1
}
# Keys and values of a dump, in the notation without escapes; headers differ from tool to tool.
records() {
    sed -n '/^ /p' "$1"
}

# A database of each tool's own making: 4,000 records in two named databases, all bytes occur.
# LMDB takes no empty keys and no keys over 511 bytes.
awk 'BEGIN {
    srand(11)
    for (part = 1; part <= 2; part++) {
        printf "VERSION=3\nformat=bytevalue\ndatabase=part %d\ntype=btree\n", part
        printf "mapsize=268435456\nHEADER=END\n"
        for (n = 0; n < 2000; n++) {
            printf " %04x", n
            keys = int(rand() * 30)
            for (i = 0; i < keys; i++) printf "%02x", int(rand() * 256)
            printf "\n "
            values = n % 100 == 0 ? int(rand() * 20000) : int(rand() * 60)
            for (i = 0; i < values; i++) printf "%02x", int(rand() * 256)
            printf "\n"
        }
        print "DATA=END"
    }
}' >"$work/made"
mkdir "$work/lmdb"
mdb_load -f "$work/made" "$work/lmdb"
mdb_dump -a -f "$work/from-lmdb" "$work/lmdb"
[ "$(records "$work/from-lmdb" | wc -l)" -eq 8000 ] || fail "LMDB did not take the input"

"$latchkv" -q load "$work/db" "$work/from-lmdb" --format dump
"$latchkv" -q check "$work/db"

for notation in "" --print; do
    # Into LMDB and out again.
    rm -rf "$work/lmdb-back"
    mkdir "$work/lmdb-back"
    "$latchkv" -q dump "$work/db" --lmdb $notation -o "$work/out"
    mdb_load -f "$work/out" "$work/lmdb-back"
    mdb_dump -a -f "$work/from-lmdb-back" "$work/lmdb-back"
    grep -v '^mapsize=' "$work/from-lmdb" >"$work/a"
    grep -v '^mapsize=' "$work/from-lmdb-back" >"$work/b"
    cmp "$work/a" "$work/b" || fail "LMDB differs ($notation)"

    # Into Berkeley DB and out again, one named database at a time.
    rm -f "$work/bdb"
    "$latchkv" -q dump "$work/db" $notation -o "$work/out"
    db_load -f "$work/out" "$work/bdb"
    : >"$work/from-bdb"
    for part in 1 2; do
        db_dump -s "part $part" "$work/bdb" >>"$work/from-bdb"
    done
    records "$work/from-lmdb" >"$work/a"
    records "$work/from-bdb" >"$work/b"
    cmp "$work/a" "$work/b" || fail "Berkeley DB differs ($notation)"

    # What Berkeley DB prints, in its own escaped notation, is read back.
    db_dump -p -s "part 1" "$work/bdb" >"$work/bdb-print"
    rm -rf "$work/db-print"
    "$latchkv" -q load "$work/db-print" "$work/bdb-print" --format dump
    "$latchkv" -q scan "$work/db" --tree "part 1" --values --hex >"$work/a"
    tree=$("$latchkv" trees "$work/db-print")
    "$latchkv" -q scan "$work/db-print" --tree "$tree" --values --hex >"$work/b"
    cmp "$work/a" "$work/b" || fail "db_dump -p differs ($notation)"
done
echo "dump-roundtrip: 4000 records are the same after LMDB and Berkeley DB"

# Files as people have them: texts, binaries, empty ones, long paths.
sources=${CARGO_HOME:-${HOME:-.}/.cargo}/registry/src
[ -d "$sources" ] || sources=.
mkdir "$work/files"
(cd "$sources" && find . -path ./target -prune -o -name .git -prune -o -type f -size -64M -print0) |
    LC_ALL=C sort -z | head -z -n 20000 >"$work/names"
tar -C "$sources" --null -T "$work/names" -cf - | tar -C "$work/files" -xf -
files=$(tr -cd '\0' <"$work/names" | wc -c)
"$latchkv" -q load "$work/files-db" "$work/files" --format dir
"$latchkv" -q check "$work/files-db"
[ "$("$latchkv" count "$work/files-db")" -eq "$files" ] || fail "not every file of $sources was loaded"
[ "$files" -gt 0 ] || fail "no files in $sources"
for notation in "" --print; do
    rm -rf "$work/again-db"
    "$latchkv" -q dump "$work/files-db" $notation -o "$work/out"
    "$latchkv" -q load "$work/again-db" "$work/out" --format dump
    "$latchkv" -q dump "$work/again-db" $notation -o "$work/out-again"
    cmp "$work/out" "$work/out-again" || fail "files differ after a second load ($notation)"
done
# And they are the files: the first and the last of them.
for name in "$(head -z -n 1 "$work/names" | tr -d '\0')" "$(tail -z -n 1 "$work/names" | tr -d '\0')"; do
    key=hex:$(printf %s "${name#./}" | od -An -v -tx1 | tr -d ' \n')
    "$latchkv" get "$work/again-db" "$key" --raw >"$work/a"
    cmp "$work/a" "$work/files/$name" || fail "$name differs"
done
echo "dump-roundtrip: $files files are the same after a dump, a load and a dump"
