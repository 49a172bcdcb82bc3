#!/bin/sh
# In a guest of a virtual board: a driver through its life. Each line that is printed begins with a name.
cp /matmul.bin /matmul; chmod +x /matmul
npu=/sys/bus/platform/devices/10000000.npu
say() { echo "life: $*" > /dev/kmsg; echo "$*"; }
one() { say "$1: $(/matmul 2>&1 | tail -n 1)"; }
numbers() { echo 3 > /proc/sys/vm/drop_caches; sleep 1; awk '/MemFree|SUnreclaim|SecPageTables|Shmem:/ {printf "%s%s ", $1, $2}' /proc/meminfo; }
one first
sleep 1
say "runtime: $(cat $npu/power/runtime_status) $(cat /sys/bus/platform/devices/10009000.iommu/power/runtime_status)"
one after-runtime-suspend
for n in $(seq 10); do /matmul >/dev/null; done
say "before: $(numbers)"
bad=0; for n in $(seq 100); do /matmul >/dev/null || bad=$((bad + 1)); done
say "after: $(numbers)"
say "bad: $bad"
echo devices > /sys/power/pm_test; echo freeze > /sys/power/state; say "suspend: $? $(cat /sys/power/suspend_stats/success) $(cat /sys/power/suspend_stats/fail)"
one after-suspend
for n in 1 2 3 4 5 6 7 8 9; do /matmul > /out.$n & done; wait
say "together: $(cat /out.* | grep -c right)"
rmmod rocket; say "unload: $?"
insmod /modules/rocket.ko; say "load: $? $(ls /dev/accel)"
one after-reload
echo 10040000.npu > /sys/bus/platform/drivers/rocket/unbind; say "unbind: $?"
one after-unbind
echo 10040000.npu > /sys/bus/platform/drivers/rocket/bind; say "bind: $?"
one after-bind
rmmod rocket; say "unload: $?"
