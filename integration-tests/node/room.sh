# Runs in namespaces of its own, for mounts, the network and processes, as their first process: makes them a room in which
# a node can live, and runs a command there. Nothing of it is seen outside, but for the cgroups, which the caller
# removes.
#
#   sh room.sh CGROUP ADDRESSES COMMAND...
#
# CGROUP is the name of a cgroup that holds all others of the node, ADDRESSES are addresses of this host, by spaces.
set -eu
cgroup=$1
addresses=$2
shift 2

# Where containerd, its shims, the network plugins and the kubelet put things that they cannot be told to put elsewhere.
for folder in /run /var/log /var/lib; do
  mount -t tmpfs room "$folder"
done

# What the kubelet would set in the kernel, and so for everybody, it finds set.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/setting-${setting#*=}
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done

# One cgroup is all there is. Version 1 has a tree for each controller, version 2 one for all.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  trees=/sys/fs/cgroup
else
  trees=/sys/fs/cgroup/*
fi
for tree in $trees; do
  # Some trees have two names.
  [ -d "$tree" ] && [ ! -L "$tree" ] || continue
  mkdir -p "$tree/$cgroup"
  # A cgroup without processors and memory takes no process, and those made later get theirs from it.
  for file in cpuset.cpus cpuset.mems; do
    if [ -s "$tree/$file" ] || [ -e "$tree/cpuset.cpu_exclusive" ]; then
      cat "$tree/$file" >"$tree/$cgroup/$file"
    fi
  done
  # In place of the tree, not over it: runc goes by the first mount that it finds.
  mkdir -p /run/tree
  mount --bind "$tree/$cgroup" /run/tree
  umount "$tree"
  mount --move /run/tree "$tree"
done

ip link set lo up
for address in $addresses; do
  ip address add "$address/32" dev lo
done

# Not by exec: orphans come to the first process, and a shell takes them in.
status=0
"$@" || status=$?
exit "$status"
