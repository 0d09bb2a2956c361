# Process 1 of the node, in namespaces of its own: makes its own view of this machine, and then only stays.
# The lab gives NAME, STATE (its folder), TREES (of cgroups, as mount takes them) and HOLD (the program that stays).
set -eu
printf '%s' "$NAME" > /proc/sys/kernel/hostname
mount -t sysfs sysfs /sys # shows this namespace's own interfaces
mount -t tmpfs node /sys/fs/cgroup
for tree in $TREES; do
  folder="/sys/fs/cgroup/${tree#name=}"
  options="$tree"
  [ "$tree" = "${tree#name=}" ] || options="none,$tree"
  mkdir "$folder"
  mount -t cgroup -o "$options" cgroup "$folder"
done
mount -t tmpfs -o mode=755 node /run
mount -t tmpfs -o mode=755 node /var/lib
for name in kubelet containerd lab; do
  mkdir -p "$STATE/var/$name" "/var/lib/$name"
  mount --bind "$STATE/var/$name" "/var/lib/$name"
done
mkdir -p "$STATE/log/pods"
mount --bind "$STATE/log/pods" /var/log
# What a kubelet sets for the whole machine, though this kernel is not the node's own: it writes to files instead.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file="/run/kernel/${setting%=*}"
  mkdir -p "${file%/*}"
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
mount --make-rshared /
exec "$HOLD"
