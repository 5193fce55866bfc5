#!/bin/sh
# Runs a program as if the packages beside this file were installed: their files lie over those of the
# machine, for this process alone. A link to this file tells the program by its name.
name=${0##*/}
[ "$name" != run ] || { name=$1; shift; }
user=
[ "$(id -u)" = 0 ] || user='--user --map-root-user'
exec unshare $user --mount sh -c '
tree=$0 name=$1; shift
for part in etc usr; do
    mount -t overlay overlay -o "lowerdir=$tree/$part:/$part" "/$part" || exit 126
done
for place in /usr/sbin /usr/bin /usr/lib/systemd /usr/lib/openvswitch-switch /usr/lib/dracut/modules.d/30ignition; do
    [ ! -x "$place/$name" ] || exec "$place/$name" "$@"
done
exec "$name" "$@"' "$(dirname "$(readlink -f "$0")")" "$name" "$@"
