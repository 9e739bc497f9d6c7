#!/bin/sh
# Runs a command beside a podman engine with two images made from this machine's own server files:
#
#   sh scripts/containers.sh REDIS_SERVER VALKEY_SERVER CLI COMMAND...
#
# Engine, containers and command live in namespaces and a folder of their own: this machine's network, mounts and
# images stay as they are, and everything ends with the command. Needs root, podman, crun and unshare.
set -eu

if [ "$1" != inside ]; then
    folder=$(mktemp -d)
    status=0
    unshare -m -n -p --fork --kill-child --mount-proc sh "$0" inside "$folder" "$@" || status=$?
    rm -rf "$folder"
    exit $status
fi
folder=$2 redis=$3 valkey=$4 cli=$5
shift 5

mount --make-rprivate /
mount -t tmpfs tmpfs /run
group=$(findmnt -n -t cgroup2 -o TARGET) && umount "$group"
ip link set lo up

cat >"$folder/containers.conf" <<CONF
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
CONF
cat >"$folder/storage.conf" <<CONF
[storage]
driver = "vfs"
graphroot = "$folder/images"
runroot = "$folder/run"
CONF
export CONTAINERS_CONF="$folder/containers.conf" CONTAINERS_STORAGE_CONF="$folder/storage.conf"

# An image with one server, a command-line client, and the libraries that both are linked with.
image() {
    name=$1 server=$2 as=$3
    root=$(mktemp -d)
    mkdir -p "$root/usr/local/bin" "$root/data" "$root/tmp"
    cp -L "$server" "$root/usr/local/bin/$as-server"
    cp -L "$cli" "$root/usr/local/bin/$as-cli"
    for library in $(ldd "$server" "$cli" | grep -o '/[^ )]*' | grep '\.so' | sort -u); do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
    tar -C "$root" -c . | podman import --quiet \
        --change "CMD [\"$as-server\", \"--bind\", \"0.0.0.0\", \"--protected-mode\", \"no\", \"--save\", \"\"]" \
        --change 'EXPOSE 6379' --change 'WORKDIR /data' - "$name"
    rm -rf "$root"
}
image docker.io/library/redis:7 "$redis" redis
image docker.io/valkey/valkey:9 "$valkey" valkey

socket=$folder/engine.sock
podman system service --time=0 "unix://$socket" &
export DOCKER_HOST="unix://$socket" TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_CONNECTION_MODE=docker_host
for _ in $(seq 100); do
    podman --url "unix://$socket" version >/dev/null 2>&1 && break
    sleep 0.1
done
"$@"
