# Prepares separate namespaces for mounts, network and processes for a node, and runs a command in them. It is their first
# process. Only the cgroups are visible outside; the caller removes them.
#
#   sh room.sh CGROUP ADDRESSES COMMAND...
#
# CGROUP is the parent cgroup of the node; ADDRESSES are space-separated addresses of this host.
set -eu
cgroup=$1
addresses=$2
shift 2

# Fixed folders of containerd, its shims, the network plugins and the kubelet.
for folder in /run /var/log /var/lib; do
  mount -t tmpfs room "$folder"
done

# The kubelet must find these kernel settings, because setting them would affect the whole host.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=/run/setting-${setting#*=}
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done

# Show only the node's cgroup. Version 1 has a tree for each controller, version 2 one for all.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  trees=/sys/fs/cgroup
else
  trees=/sys/fs/cgroup/*
fi
for tree in $trees; do
  # Some trees have two names.
  [ -d "$tree" ] && [ ! -L "$tree" ] || continue
  mkdir -p "$tree/$cgroup"
  # A cgroup without CPUs and memory accepts no process, and its children inherit them.
  for file in cpuset.cpus cpuset.mems; do
    if [ -s "$tree/$file" ] || [ -e "$tree/cpuset.cpu_exclusive" ]; then
      cat "$tree/$file" >"$tree/$cgroup/$file"
    fi
  done
  # Replace the tree's mount instead of covering it: runc uses the first mount that it finds.
  mkdir -p /run/tree
  mount --bind "$tree/$cgroup" /run/tree
  umount "$tree"
  mount --move /run/tree "$tree"
done

ip link set lo up
for address in $addresses; do
  ip address add "$address/32" dev lo
done

# Not with exec: orphans are reparented to the first process, and a shell reaps them.
status=0
"$@" || status=$?
exit "$status"
