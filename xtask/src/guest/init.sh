#!/bin/busybox sh
# The guest's PID 1: brings up what sandkeep needs, does the main job, tells a verdict.

export PATH=/bin
failures=0

# The kernel's first root cannot be left by pivot_root, and no machine runs on it.
if [ "$1" != real ]; then
    /bin/busybox mkdir /real
    /bin/busybox mount -t tmpfs tmpfs /real
    for dir in /*; do
        [ "$dir" = /real ] || /bin/busybox cp -a "$dir" /real/
    done
    exec /bin/busybox switch_root /real /init real
fi
/bin/busybox --install -s /bin

finish() {
    echo "verdict: $1"
    sync
    reboot -f
}

# check NAME WANTED GOT
check() {
    if [ "$2" = "$3" ]; then
        echo "ok: $1"
    else
        failures=$((failures + 1))
        echo "FAILED: $1: wanted [$2], got [$3]"
    fi
}

# until SECONDS COMMAND…
until_true() {
    left=$1
    shift
    while ! "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}

# What still sleeps in a sandbox; the client that waits for it does not count.
sleepers() {
    ps | grep '[s]leep 4321' | grep -v -c sandkeep
}

serve() {
    sandkeep serve --data /data --listen 127.0.0.1:7700 >>/tmp/log 2>&1 &
    server=$!
    if ! until_true 60 sandkeep ls; then
        cat /tmp/log
        sandkeep ls
        finish "the server does not come up"
    fi
}

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup2 /sys/fs/cgroup || finish "no cgroup v2"
while read -r module; do
    insmod "/modules/$module.ko" || echo "module $module was not loaded"
done </modules/order
# A disk: ids can be mapped on ext4 with every kernel that is supported.
truncate -s 300M /tmp/disk
/own/mke2fs -q -F -t ext4 /tmp/disk || finish "no file system"
losetup /dev/loop0 /tmp/disk
mount -t ext4 /dev/loop0 /data || finish "no disk"
ip link set lo up
export SANDKEEP_DATA=/data
ulimit -n 4096

echo "kernel $(uname -r), controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
serve
sandkeep image import box /image 2>/tmp/out || finish "no image"

check "a command runs" "Linux" "$(sandkeep run --image box one -- uname -s 2>&1)"
sandkeep exec one -- sh -c 'exit 7' 2>/dev/null
check "its exit code" 7 $?

sandkeep run --image box --memory 48 hog -- tail /dev/zero >/tmp/out 2>&1
check "out of memory is killed" 137 $?
check "and told" 1 "$(sandkeep executions --json hog | grep -c '"oomKilled": true')"
check "the sandbox lives on" "fine" "$(sandkeep exec hog -- sh -c 'echo fine' 2>&1)"

sandkeep run --image box --pids 24 forks -- \
    sh -c 'for i in $(seq 1 60); do sleep 20 & done; wait' >/tmp/out 2>&1
grep -q -i 'fork' /tmp/out
check "processes are limited" 0 $?
limit=$(cat /sys/fs/cgroup/sandkeep*/*/pids.max 2>/dev/null | grep -c '^24$')
check "pids.max is set" 1 "$limit"

sandkeep exec one -- sh -c 'setsid sleep 4321 & setsid sh -c "sleep 4321 & sleep 4321" & sleep 1'
sandkeep exec one -- sleep 4321 >/dev/null 2>&1 &
sleep 2
[ "$(sleepers)" -ge 4 ]
check "a tree runs" 0 $?
sandkeep stop one --reason evening
check "a stop leaves nothing of it" 0 "$(sleepers)"
check "the record says why" evening "$(sandkeep stops one | cut -f 4 | head -n 1)"

sandkeep exec one -- sh -c 'sleep 6; exit 9' >/dev/null 2>&1 &
sleep 3
kill -9 "$server"
wait "$server" 2>/dev/null
serve
check "adopted after kill -9" running "$(sandkeep ls | grep '^one' | cut -f 2)"
until_true 60 sh -c 'sandkeep executions one | head -n 1 | grep -q exited'
check "the code of what ran meanwhile" 9 "$(sandkeep executions one | head -n 1 | cut -f 6)"

sandkeep rm one hog forks
check "all removed" "" "$(sandkeep ls)"
left=$(find /sys/fs/cgroup -type d -path '*sandkeep*' | grep -c -E '/[0-9a-f]{64}')
check "no cgroup is left" 0 "$left"

kill "$server"
wait "$server"
check "the server ends" 0 $?
[ "$failures" = 0 ] || cat /tmp/log
if [ "$failures" = 0 ]; then finish ok; else finish "$failures checks failed"; fi
