# Makes the virtual environment of this checkout; sourced by ./demo and ./test.
# Needs a POSIX shell and Python 3.10 or newer. Nothing outside the checkout is touched.

packages="-e packages/echomq-core[cli] -e packages/echomq-redis -e packages/echomq-valkey[embedded]"
# What the tests need as well, and a demo does not.
others="-e packages/echomq-memory -e packages/echomq-testing -e packages/echomq-opentelemetry -e packages/echomq-django -e packages/echomq-sqlalchemy"
python=.venv/bin/python

fail() {
    echo "$0: $*" >&2
    exit 1
}

# Prints the first Python that is new enough; PYTHON names another.
find_python() {
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

# Debian's python3 comes without ensurepip, so there are several ways to get pip into the environment.
make_environment() {
    found=$(find_python)
    [ -n "$found" ] || fail "needs Python 3.10 or newer; name it with PYTHON=/path/to/python $0"
    "$found" -c 'import ensurepip, venv' 2>/dev/null && "$found" -m venv --clear .venv && return
    "$found" -m virtualenv --quiet --clear .venv 2>/dev/null && return
    command -v uv >/dev/null && uv venv --quiet --clear --seed --python "$found" .venv && return
    "$found" -m venv --clear --without-pip .venv 2>/dev/null &&
        "$found" -m pip --quiet --python "$python" install pip 2>/dev/null && return
    fail "$found cannot make virtual environments; install its venv module (Debian: apt-get install python3-venv)"
}

# What an environment depends on: where it is, and the files that name its packages.
fingerprint() {
    { pwd; cat scripts/environment.sh pyproject.toml packages/*/pyproject.toml; } | cksum
}

# prepare PURPOSE ARGUMENTS: installs the packages and what pip's further ARGUMENTS name, unless that was done before.
prepare() {
    stamp=.venv/ready-for-$1
    shift
    [ "$(cat "$stamp" 2>/dev/null)" = "$(fingerprint)" ] && "$python" -c '' 2>/dev/null && return
    echo "Preparing .venv, once ..." >&2
    "$python" -m pip --version >/dev/null 2>&1 || make_environment
    pip="$python -m pip --quiet --disable-pip-version-check"
    $pip install --upgrade "pip>=25.1"
    # shellcheck disable=SC2086 # each word of packages is an argument
    $pip install $packages "$@"
    fingerprint >"$stamp"
}
