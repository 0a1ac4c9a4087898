# Runs on the target, in any POSIX shell, as one line: the comments and the line ends go, so every
# line ends as it would have to in the middle of another. It travels between single quotes through
# login shells of all kinds, so it holds no single quote, no exclamation mark and no doubled
# backslash. TOKEN, ROOM, PATIENCE and HEADER are filled in; all are digits. So is ASKED: nothing, or
# for a snapshot the folder to answer from.

umask 077; set -f;
token=TOKEN; room=ROOM;
# In two parts, so that an echo of this text is no mark.
mark=sysmcp-; mark=${mark}$token;
folder=; refused=; places=; lacks=;
say() { echo "$mark $*"; };
# What would go wrong later, in a way that tells nothing of the reason. Shells keep some files open for
# themselves, so this one comes first.
files=`ulimit -n`; case $files in ?|1[0-5]) say LIMITED files $files; exit 95;; esac;
# What a start-up file did to PATH, or an environment brought along as functions, is not meant for this.
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin; export PATH;
unset -f chmod command dd gzip head mkdir rm timeout uname 2>/dev/null;
# In blocks of 512 bytes (ulimit in POSIX).
blocks=`ulimit -f`; case $blocks in *[0-9]*) test $((blocks * 512)) -ge $room || {
  say LIMITED bytes $((blocks * 512)); exit 95; };;
esac;
for tool in chmod dd head mkdir rm uname; do
  command -v $tool >/dev/null 2>&1 || lacks="$lacks $tool";
done;
test -c /dev/zero || lacks="$lacks /dev/zero";
test -z "$lacks" || { say LACKS $lacks; exit 95; };
forget() { test -z "$folder" || rm -rf "$folder"; folder=; };
refuse() { forget; refused="$refused $1=$place"; exec 3>&- 4<&-; };
trap forget EXIT; trap "exit 1" HUP INT TERM PIPE;
# A network that is cut without a word closes nothing here: what waits for bytes has a limit. Whether
# there is one is tried with what has to be asked anyway.
limit="timeout PATIENCE";
machine=`timeout 5 uname -m 2>/dev/null` || {
  machine=`uname -m 2>/dev/null`; timeout 5 sh -c : >/dev/null 2>&1 || limit=;
};
file=;
for place in "$XDG_RUNTIME_DIR" /dev/shm /tmp /var/tmp "$HOME" /run; do
  case $place in /*) test -d "$place" || continue;; *) continue;; esac;
  case $places in *:"$place":*) continue;; esac; places="$places:$place:";
  test -w "$place" || { refuse unwritable; continue; };
  folder=$place/.sysmcp-$token;
  mkdir "$folder" 2>/dev/null || { folder=; refuse unwritable; continue; };
  { : >"$folder/a"; } 2>/dev/null && chmod 700 "$folder/a" || { refuse full; continue; };
  exec 4<"$folder/a";
  # The name goes before the first byte comes. Without /proc there is no other way to run the file,
  # and the agent removes its folder itself.
  file=/proc/self/fd/4;
  if test -r $file; then forget; else file=$folder/a; fi;
  # An empty file runs, and does nothing, unless the place forbids running files. Korn shells keep to
  # themselves what is open, but for what is named with the command.
  if "$file" 2>/dev/null 4<&4; then :; else refuse noexec; file=; continue; fi;
  exec 3>"$file";
  if head -c $room /dev/zero 2>/dev/null >&3; then break; fi;
  refuse full; file=;
done;
test -n "$file" || { say NOPLACE $refused; exit 91; };
# Not in the loop, where mksh would keep the old one open, and a file that is open for writing cannot be
# run.
exec 3>"$file";
unpack=raw; command -v gzip >/dev/null 2>&1 && unpack=gzip;
check=; for tool in sha256sum shasum openssl; do
  test -n "$check" || { command -v $tool >/dev/null 2>&1 && check=$tool; };
done;
# gzip checks what it unpacks; without either, nothing would.
test -n "$check" || test $unpack = gzip || { say NOCHECK; exit 92; };
say READY ${machine:-unknown} $unpack;
# Byte by byte, so that none of the agent is taken along. The timeout of busybox leaves a process
# behind for up to a second, which must not have the file open for writing: it could not be run.
set -- `$limit dd bs=1 count=HEADER 2>/dev/null 3>&-`;
bytes=$1; sum=$2; form=$3;
case $form in
  gzip) $limit head -c $bytes 3>&- | gzip -dc >&3;;
  raw) $limit head -c $bytes >&3 3>&-;;
  *) exit 89;;
esac || {
  # Too little room now, or bytes that do not unpack: trying tells.
  if head -c $room /dev/zero 2>/dev/null >&3; then say ALTERED; else say NOPLACE full=$place; fi;
  exit 93;
};
exec 3>&-;
case $check in
  sha256sum) found=`sha256sum <&4`;;
  shasum) found=`shasum -a 256 <&4`;;
  openssl) found=`openssl dgst -sha256 -r <&4`;;
  *) found=$sum;;
esac;
case $found in $sum*) ;; *) say ALTERED; exit 94;; esac;
trap - EXIT;
exec "$file" serve $token ASKED $folder 4<&4;
