# Runs a command in the files of an image, in separate user and mount namespaces (`unshare --map-root-user --mount`).
#
#   sh enter.sh ROOT PROGRAM COMMAND...
#
# ROOT has the files of the image and of the volumes. PROGRAM replaces the coordinator in it. The environment is that of the container.
set -eu
root=$1
program=$2
shift 2
chroot=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v chroot)
mount=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v mount)
mkdir=$(PATH=/usr/sbin:/usr/bin:/sbin:/bin command -v mkdir)
# The program of a test is linked dynamically, unlike that of the image.
for folder in lib lib64 usr/lib dev proc; do
  if [ -d "/$folder" ]; then
    "$mkdir" -p "$root/$folder"
    "$mount" --rbind "/$folder" "$root/$folder"
  fi
done
"$mount" --bind "$program" "$root/flotilla-coordinator"
exec "$chroot" "$root" "$@"
