# Sourced by ./demo, ./test and ./docs-site from the root of the repository.
# shellcheck shell=bash

case ${OSTYPE-} in
    msys* | cygwin*) programs=Scripts ;;
    *) programs=bin ;;
esac
venv=.venv
python=$venv/$programs/python
# Hundreds of processes are started: none of them is to compile the package again.
unset PYTHONDONTWRITEBYTECODE

# environment EXTRA [LANE]: make .venv if there is none, and install this package with EXTRA into it.
# A lane has an environment of its own: "locked" takes the versions of pylock.toml, "minimum" the
# oldest ones that pyproject.toml allows. A stamp remembers where and from what that was done; then
# nothing is installed.
environment() {
    local extra=$1 lane=${2-} known
    if [ -n "$lane" ]; then
        venv=.venv-$lane
        python=$venv/$programs/python
    fi
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        local base=${PYTHON:-python3}
        if ! "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            echo "mustdp needs Python 3.11 or later; set PYTHON to one (now: $base)" >&2
            return 1
        fi
        echo "Making a virtual environment in $venv ..."
        "$base" -m venv "$venv"
    fi
    for known in "$extra" dev; do
        if stamp | cmp -s - "$venv/mustdp-$known.stamp" && "$python" -c 'import mustdp'; then
            return 0
        fi
    done
    echo "Installing mustdp[$extra] into $venv ..."
    case $lane in
        locked)
            install --upgrade "pip>=26.1" # the first one that reads lock files
            # All of it is listed, so pip need not look for what its packages need; torch, which is
            # not listed, would be looked for, and refused without a hash.
            install --no-deps --requirement pylock.toml
            ;;
        minimum)
            "$python" .ci/minimum.py >"$venv/minimum.txt"
            export PIP_CONSTRAINT=$venv/minimum.txt
            ;;
    esac
    install --editable ".[$extra]"
    # On all cores, where pip would use one, and without the tests of others; templates are no Python.
    "$python" -m compileall -qq -j 0 -x '/tests?/' "$venv/lib" || true
    stamp >"$venv/mustdp-$extra.stamp"
}

install() { "$python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }

stamp() {
    pwd
    cat pyproject.toml
    case $venv in *-locked) cat pylock.toml ;; esac
}
