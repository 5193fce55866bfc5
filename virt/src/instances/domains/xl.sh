#!/bin/sh
# A fake `xl`. A domain is a file `state/ID` beside it: its name, its UUID, its state, and why it ended. Each
# line of `state/fault-WORD` is a fault of one further `xl WORD`.
cd "${0%/*}/state" || exit 1
echo "$*" >> log
fault=$(head -n 1 "fault-$1" 2>/dev/null)
[ -z "$fault" ] || sed -i 1d "fault-$1"
line() { printf '%-40s %5d   128     1     %s       6.4 %s %8s %16s\n' "$2" "$1" "$4" "$3" "$5" -; }
list() {
    echo 'Name ID Mem VCPUs State Time(s) UUID Reason-Code Security Label'
    line 0 Domain-0 00000000-0000-0000-0000-000000000000 r----- -
    [ "$1" = empty ] || for id in [1-9]*; do [ ! -f "$id" ] || line "$id" $(cat "$id"); done
}
last() { for word; do :; done; echo "$word"; }
change() { read -r name uuid _ _ < "$1" && echo "$name $uuid $2" > "$1"; }
case $fault in
rubbish) echo 'xenstore: &%$#'; exit 0;;
fails) echo 'libxl: error: no xenstore' >&2; exit 1;;
cut) list | head -c 150; exit 0;;
empty) list empty; exit 0;;
ignored) exit 0;;
esac
case $1 in
list) list;;
domid)
    for id in [1-9]*; do
        [ ! -f "$id" ] || { read -r name _ < "$id"; [ "$name" != "$2" ] || { echo "$id"; exit 0; }; }
    done
    echo "Can't get domid of domain name '$2', maybe this domain does not exist." >&2
    exit 1;;
create)
    file=$(last "$@")
    id=$(($(cat next 2>/dev/null || echo 0) + 1))
    echo $id > next
    value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$file"; }
    echo "$(value name) $(value uuid) --p--- -" > $id
    [ "$fault" != hangs ] || sleep 1000
    [ "$fault" != late ] || { echo 'libxl: error: no device model' >&2; exit 1; };;
pause) change "$2" '--p--- -';;
unpause) change "$2" '-b---- -';;
shutdown) change "$3" '---s-- 0';;
reboot) change "$3" '---sr- 1';;
destroy) rm "$2";;
mem-set) ;;
*) exit 2;;
esac
