# Sourced by the scripts beside it: timed steps, installation, and the settings they share.
# shellcheck shell=bash

set -euo pipefail

export CARGO_TERM_COLOR=never
# One build from nothing: incremental files cost more than they save.
export CARGO_INCREMENTAL=0
# Line numbers in backtraces are enough, and link faster.
export CARGO_PROFILE_DEV_DEBUG=line-tables-only
export DEBIAN_FRONTEND=noninteractive

# step NAME COMMAND...: runs it, with its name before and its time after. The first that fails ends the script.
# The command is not run in a condition, as that would switch `set -e` off within it.
step() {
    step_name=$1
    local start=$SECONDS
    shift
    printf '\n== %s\n' "$step_name"
    "$@" </dev/null
    printf '== %s: ok, %d s\n' "$step_name" $((SECONDS - start))
    step_name=
}

step_name=
trap 'code=$?; [ -z "$step_name" ] || printf "== %s: FAILED (exit code %d)\n" "$step_name" "$code" >&2' EXIT

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo env DEBIAN_FRONTEND="$DEBIAN_FRONTEND" "$@"
    fi
}

# ensure_packages PACKAGE...: Debian packages that are not there yet. A list of packages that could not be
# brought up to date is no failure by itself: installing says whether it mattered.
ensure_packages() {
    local package missing=()
    for package in "$@"; do
        if ! dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed; then
            missing+=("$package")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "installed: $*"
        return
    fi
    echo "installing: ${missing[*]}"
    as_root apt-get -o Acquire::Retries=3 -qq update || true
    as_root apt-get -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -qq -y --no-install-recommends \
        install "${missing[@]}" >/dev/null
}
