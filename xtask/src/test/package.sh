#!/bin/bash
# Runs inside a machine of its own, as its only service; what it says is read by `package.rs`.
# Installs, begins a cluster, upgrades, removes and purges, and ends at the first surprise.
set -euxo pipefail
cd /root

# Into a file first: who reads a pipe may leave before all of it was written.
shows() { local word=$1; shift; "$@" >shown; cat shown; grep -q "$word" shown; }
same() { [ "$1" = "$2" ] || { echo "expected: $2"; echo "found: $1"; exit 1; }; }
metric() { exec 3<>"/dev/tcp/127.0.0.1/$1"; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; grep -q "$2" <&3; exec 3>&-; }
until_ok() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; echo "never came true: $*"; exit 1; }

: installed
dpkg -i gantry_*.deb gantry-ganeti-names_*.deb
systemctl is-active gantry-masterd gantry-noded && exit 1
systemctl is-enabled gantry-masterd gantry-noded && exit 1
gnt --version
test -x /usr/bin/gnt-job
shows TH zcat /usr/share/man/man8/gnt.8.gz
id -nG gantry-master | grep -qw gantry-admin
while read -r path owner group mode; do
    same "$(stat -c '%U %G %a' "$path")" "$owner $group $mode"
done <directories
systemctl start gantry-masterd gantry-noded
systemctl is-active gantry-masterd gantry-noded && exit 1

: a cluster
gnt cluster init c1.example.com --node-name n1.example.com --primary-ip 127.0.0.1 --rack 0
systemctl enable --now gantry-masterd gantry-noded
gnt debug delay 0.1
until_ok sh -c 'gnt node list --json -o name,mtotal | grep -q "mtotal.*[0-9]"'
gnt debug delay -n n1.example.com 0.1
shows c1.example.com gnt cluster info
shows success gnt job list
same "$(stat -c '%U %G %a' /run/gantry/luxi.sock)" 'gantry-master gantry-admin 660'
metric 1815 'gantry_jobs{status="success"} 2'
metric 1816 'gantry_node_call_seconds_count{call="test_delay"} 1'
test -s /var/log/gantry/master-daemon.log
logrotate --debug /etc/logrotate.d/gantry 2>&1 | grep -qi 'error:' && exit 1

: an upgrade
before=$(systemctl show -P MainPID gantry-masterd)
if dpkg -i gantry_*.deb 2>refused; then exit 1; fi
cat refused
grep -q 'gnt cluster queue drain' refused
same "$(systemctl show -P MainPID gantry-masterd)" "$before"
shows 'ok installed' dpkg-query -W -f '${Status}\n' gantry
gnt cluster queue drain
dpkg -i gantry_*.deb
test "$(systemctl show -P MainPID gantry-masterd)" != "$before"
gnt cluster queue undrain
gnt debug delay 0
sed -i.kept 's/"format":1,/"format":99,/' /var/lib/gantry/store.json
if dpkg -i gantry_*.deb 2>refused; then exit 1; fi
cat refused
grep -q 'format 99' refused
mv /var/lib/gantry/store.json.kept /var/lib/gantry/store.json

: removed
dpkg -r gantry-ganeti-names gantry
systemctl is-active gantry-masterd gantry-noded && exit 1
test ! -e /usr/sbin/masterd
test ! -e /usr/bin/gnt-job
test -s /var/lib/gantry/config/cluster
grep -q '"clean":true' /var/lib/gantry/store.json
test -s /etc/logrotate.d/gantry
dpkg -i gantry_*.deb
systemctl start gantry-masterd
shows success gnt job list

: purged
dpkg -P gantry 2>purged
cat purged
grep -q '/var/lib/gantry is kept' purged
grep -q '/etc/gantry is kept' purged
test ! -e /var/log/gantry
test ! -e /run/gantry
test ! -e /etc/logrotate.d/gantry
test -s /var/lib/gantry/config/cluster
test -s /etc/gantry/pki/ca.key
dpkg-query -W gantry && exit 1
: all is well
