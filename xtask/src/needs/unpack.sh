# Unpacks Debian packages below $1/NAME with all that they depend on and that this machine does not have in
# that version; NAME is the first of them. Their programs, and $2, become links in $1/bin to how they run: $3.
set -eu
below=$1 program=$2 run=$3 name=$4
shift 3
tree=$below/$name
mkdir -p "$below/bin"
rm -rf "$tree" "$tree.new"
mkdir -p "$tree.new/etc" "$tree.new/usr/bin" "$tree.new/usr/sbin" "$tree.new/usr/lib" "$tree.new/usr/lib64"
cd "$tree.new"
# Packages from before Debian merged these directories have files in both.
ln -s usr/bin usr/sbin usr/lib usr/lib64 .
printf %s "$run" >run
chmod 755 run

# What apt would install on a machine that has nothing. It keeps what it read for the next time.
[ -e "$below/nothing" ] || : >"$below/nothing"
bare="-o Dir::State::status=$below/nothing -o Dir::Cache::pkgcache=$below/pkgcache.bin"
apt-get install --simulate --no-install-recommends $bare "$@" >plan
sed -n 's/^Inst \([^ ]*\) (\([^ ]*\) .*/\1=\2/p' plan | sort >wanted
dpkg-query -W -f '${db:Status-Abbrev}${Package}=${Version}\n' | sed -n 's/^ii //p' | sort >installed
apt-get download -qq $bare -o APT::Sandbox::User=root $(comm -23 wanted installed)
for file in *.deb; do
    dpkg-deb --fsys-tarfile "$file" | tar -x --keep-directory-symlink
done
# The programs of what was asked for, and not those of what it depends on.
for package; do
    for file in "${package}"_*.deb; do
        [ ! -f "$file" ] || dpkg-deb --fsys-tarfile "$file" | tar -t
    done
done | sed -n 's|^\./\(usr/\)\?s\?bin/\([^/]*[^/]\)$|\2|p' >programs
echo "$program" >>programs
rm -f -- *.deb plan wanted installed
# Nobody gets rights by them that he did not have.
find . -perm /6000 -type f -exec chmod u-s,g-s {} +

# What the package's own script would do.
if [ "$name" = ganeti ]; then
    version=$(basename "$(dirname usr/share/ganeti/*/gnt-job)")
    for part in lib share; do
        ln -s "/usr/$part/ganeti/$version" "etc/ganeti/$part"
    done
    cp /etc/passwd /etc/group etc
    id=64800
    for user in admin confd daemons luxid masterd metad rapi wconfd; do
        id=$((id + 1))
        echo "gnt-$user:x:$id:" >>etc/group
        echo "gnt-$user:x:$id:$id::/:/usr/sbin/nologin" >>etc/passwd
    done
fi
mv "$tree.new" "$tree"
cd "$tree"
# Some libraries are looked up by name.
./run ldconfig -C "$tree/etc/ld.so.cache"
# So many modules are not compiled at each start.
[ "$name" != ganeti ] || ./run python3 -m compileall -q -s "$tree" -p / usr/lib/python3 usr/share
while read -r link; do
    ln -sfn "../$name/run" "$below/bin/$link"
done <programs
