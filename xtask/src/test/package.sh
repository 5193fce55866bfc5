#!/bin/bash
# Runs inside a machine of its own, as its only service; what it says is read by `package.rs`.
# Installs, begins a cluster, upgrades, removes and purges, and ends at the first surprise.
set -euxo pipefail
cd /root

# Into a file first: who reads a pipe may leave before all of it was written.
shows() { local word=$1; shift; "$@" >shown; cat shown; grep -q "$word" shown; }
refused() { if "$@" 2>refusal; then exit 1; fi; cat refusal; }
same() { [ "$1" = "$2" ] || { echo "expected: $2"; echo "found: $1"; exit 1; }; }
metric() { exec 3<>"/dev/tcp/127.0.0.1/$1"; printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3; grep -q "$2" <&3; exec 3>&-; }
until_ok() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; echo "never came true: $*"; exit 1; }

: installed
dpkg -i gantry_*.deb gantry-ganeti-names_*.deb
systemctl is-active gantry-masterd gantry-noded && exit 1
systemctl is-enabled gantry-masterd gantry-noded && exit 1
gnt --version
for name in gnt-job gnt-node gnt-cluster gnt-filter gnt-group gnt-debug; do
    "/usr/bin/$name" --version
    "/usr/sbin/$name" --version
done
for page in gnt gnt-job masterd noded rapi; do shows '^.TH ' zcat "/usr/share/man/man8/$page.8.gz"; done
for program in gnt gnt-job masterd noded rapi; do
    test -s "/usr/share/bash-completion/completions/$program"
    test -s "/usr/share/zsh/vendor-completions/_$program"
    test -s "/usr/share/fish/vendor_completions.d/$program.fish"
done
zcat /usr/share/doc/gantry/changelog.Debian.gz >/dev/null
same "$(dpkg --verify)" ''
same "$(gnt cluster check-upgrade | grep -c 'install the packages')" 1
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
same "$(stat -c '%U %G %a' /run/gantry/query.sock)" 'gantry-master gantry-read 660'
metric 1815 'gantry_jobs{status="success"} 2'
metric 1816 'gantry_node_call_seconds_count{call="test_delay"} 1'
test -s /var/log/gantry/master-daemon.log
systemctl start gantry-rapi
systemctl is-active gantry-rapi

: the names and the socket of Ganeti
same "$(stat -c '%U %G %a' /run/ganeti/socket)" 'gantry-master gantry-daemons 755'
same "$(stat -c '%U %G %a' /run/ganeti/socket/ganeti-query)" 'gantry-master gantry-admin 660'
same "$(cat /var/lib/ganeti/ssconf_master_node)" "$(gnt cluster getmaster)"
useradd --groups gantry-admin alice
useradd mallory
shows success su alice -c 'gnt-job list'
shows success su alice -c 'gnt --socket /run/ganeti/socket/ganeti-query job list'
if su mallory -c 'gnt-job list'; then exit 1; fi
shows success /usr/sbin/gnt-job list --no-headers -o status
if [ -d /host ]; then
    # The clients of the machine outside, which have Python: they see its disk, and this socket.
    mount --bind /run /host/run
    real() { chroot /host "/usr/sbin/$@"; }
    before=$(gnt-job list --no-headers -o id | wc -l)
    same "$(real gnt-job list --no-headers -o id | wc -l)" "$before"
    real gnt-debug delay 0
    same "$(real gnt-job list --no-headers -o status | sort -u)" success
    same "$(gnt-job list --no-headers -o id | wc -l)" "$((before + 1))"
    umount /host/run
fi
mkdir -p ganeti/DEBIAN
printf '%s\n' 'Package: ganeti' 'Version: 3' 'Architecture: all' 'Maintainer: X <x@x>' 'Description: x' >ganeti/DEBIAN/control
dpkg-deb --build ganeti ganeti.deb
refused dpkg -i ganeti.deb
grep -q 'gantry-ganeti-names conflicts with ganeti' refusal
dpkg -r gantry-ganeti-names
systemctl restart gantry-masterd
test ! -e /run/ganeti/socket/ganeti-query
dpkg -i ganeti.deb
refused dpkg -i gantry-ganeti-names_*.deb
dpkg -P ganeti
# The master of a running machine keeps its jobs: it is told what to do.
dpkg -i gantry-ganeti-names_*.deb 2>told-names
grep -q 'systemctl restart gantry-masterd' told-names
echo 'OPTIONS="--log-format json"' >/etc/default/gantry-masterd
systemctl restart gantry-masterd
shows success gnt --socket /run/ganeti/socket/ganeti-query job list
tail -n 1 /var/log/gantry/master-daemon.log | grep '^{'
systemctl stop gantry-masterd
test ! -e /run/ganeti/socket/ganeti-query
# Ganeti's tools wait for a master whose name they find.
same "$(cat /var/lib/ganeti/ssconf_master_node)" "$(gnt cluster getmaster)"
systemctl start gantry-masterd
logrotate --debug /etc/logrotate.d/gantry 2>&1 | grep -qi 'error:' && exit 1
test -e /var/log/gantry/rapi-access.log
metric 1819 'gantry_rapi_info{version='

: an upgrade
before=$(systemctl show -P MainPID gantry-masterd)
until_ok sh -c 'su alice -c "gnt cluster check-upgrade" 2>&1 | grep "1 of 1 reached"'
refused su alice -c 'gnt cluster check-upgrade'
grep -q 'gnt cluster queue drain' refusal
refused dpkg -i gantry_*.deb
grep -q 'gnt cluster queue drain' refusal
same "$(grep -c 'What to do next' refusal)" 0
same "$(systemctl show -P MainPID gantry-masterd)" "$before"
shows 'ok installed' dpkg-query -W -f '${Status}\n' gantry
gnt cluster queue drain
su alice -c 'gnt cluster check-upgrade'
dpkg -i gantry_*.deb
test "$(systemctl show -P MainPID gantry-masterd)" != "$before"
gnt cluster queue undrain
gnt debug delay 0
sed -i.kept 's/"format":1,/"format":99,/' /var/lib/gantry/store.json
refused dpkg -i gantry_*.deb
grep -q 'format 99' refusal
mv /var/lib/gantry/store.json.kept /var/lib/gantry/store.json

: an upgrade of a stopped master
gnt filter add --action PAUSE --predicates '[["jobid", [">", "id", 0]]]'
gnt debug delay --submit 0
systemctl stop gantry-masterd
refused dpkg -i gantry_*.deb
grep -q 'no master runs, .* not finished: 1,' refusal
refused su alice -c 'gnt cluster check-upgrade'
grep -q 'ask as root' refusal
shows 'ok installed' dpkg-query -W -f '${Status}\n' gantry
GANTRY_UPGRADE=anyway dpkg -i gantry_*.deb
systemctl is-active gantry-masterd && exit 1
systemctl start gantry-masterd
gnt job list --pending --no-headers -o id | xargs gnt job cancel
gnt filter list --no-headers -o uuid | xargs -n 1 gnt filter delete
systemctl kill --signal=KILL gantry-masterd
systemctl stop gantry-masterd
refused gnt cluster check-upgrade
grep -q 'did not close its store' refusal
systemctl start gantry-masterd
gnt debug delay 0

: removed
job=$(gnt debug delay --submit --print-jobid 600)
until_ok sh -c "gnt job list --no-headers -o status $job | grep running"
dpkg -r gantry-ganeti-names gantry 2>removal
test ! -e /var/lib/ganeti
cat removal
grep -q 'removed all the same: .*gnt cluster queue drain' removal
test ! -e /usr/lib/systemd/system/gantry-masterd.service.d
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
dpkg -P gantry gantry-ganeti-names 2>purged
cat purged
if grep 'removed all the same' purged; then exit 1; fi
grep -q '/var/lib/gantry is kept' purged
grep -q '/etc/gantry is kept' purged
test ! -e /var/log/gantry
test ! -e /run/gantry
test ! -e /etc/logrotate.d/gantry
test -s /var/lib/gantry/config/cluster
test -s /var/lib/gantry/config/authority
test ! -e /etc/default/gantry-masterd
dpkg-query -W gantry && exit 1

: from an older version, with the stores that older versions left
dpkg-deb -R gantry_*_*.deb old
sed -i 's/^Version: .*/Version: 0.0.1-1/' old/DEBIAN/control
dpkg-deb -Zgzip -z1 --build old old.deb
for store in golden/format-*/clean; do
    rm -rf /var/lib/gantry /etc/gantry
    dpkg -i old.deb
    gnt cluster init c1.example.com --node-name n1.example.com --primary-ip 127.0.0.1 --rack 0
    # Where versions before replication kept it.
    mv /var/lib/gantry/config/authority /etc/gantry/pki/ca.key
    chown gantry-master:gantry-daemons /etc/gantry/pki/ca.key
    uuid=$(grep -o '"uuid":"[^"]*"' /var/lib/gantry/config/cluster)
    (cd /var/lib/gantry && rm -rf config machines ipam node-indices queue journal store.json)
    cp -a "$store/." /var/lib/gantry
    # The certificates are of this cluster.
    sed -i "s/\"uuid\":\"[^\"]*\"/$uuid/" /var/lib/gantry/config/cluster
    chown -R gantry-master:gantry-daemons /var/lib/gantry
    chown -R gantry-node:gantry-daemons /var/lib/gantry/node
    systemctl enable --now gantry-masterd
    dpkg -i gantry_*.deb
    same "$(dpkg-query -W -f '${Version}' gantry)" "$(dpkg-deb -f gantry_*.deb Version)"
    systemctl is-active gantry-masterd
    systemctl is-enabled gantry-masterd
    same "$(gnt job list --no-headers -o id,status --separator=: | tr '\n' ' ')" \
        '2:success 3:success 4:error 5:canceled '
    refused gnt debug delay 0
    gnt cluster queue undrain
    gnt debug delay 0
    same "$(gnt job list --no-headers -o id,status --separator=: | tail -n 1)" 6:success
    dpkg -P gantry
done
: all is well
