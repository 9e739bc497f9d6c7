#!/bin/sh
# Unpacks the valkey-server of another Debian suite without touching the system: sh scripts/debian-server.sh SUITE FOLDER
# Needs apt; the server file becomes FOLDER/root/usr/bin/valkey-server.
set -eu
suite=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
source=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)
mkdir -p "$folder"/lists/partial "$folder"/cache/archives/partial "$folder"/deb "$folder"/root
echo "deb $source $suite main" >"$folder/source.list"
apt() {
    apt-get -qq -o Dir::State::Lists="$folder/lists" -o Dir::Etc::sourcelist="$folder/source.list" \
        -o Dir::Etc::sourceparts=- -o Dir::Cache="$folder/cache" "$@"
}
apt update
(cd "$folder/deb" && apt download valkey-tools)
for package in "$folder"/deb/*.deb; do dpkg -x "$package" "$folder/root"; done
# One program under two names: called as valkey-server it serves.
ln -sf valkey-check-rdb "$folder/root/usr/bin/valkey-server"
