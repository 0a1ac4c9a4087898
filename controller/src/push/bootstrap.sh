# Runs on the target, in any POSIX shell, as one line: the comments and the line ends go, so every
# line ends as it would have to in the middle of another. It travels between single quotes through
# login shells of all kinds, and between double quotes to sudo, so it holds no single quote, no
# exclamation mark and no backslash. TOKEN, ROOM, PATIENCE and HEADER are filled in; all are digits. So
# are MEMORY, which is yes or no, and ROLE and ASKED, which are words of ours: what the agent is started
# for, and how, such as from which folder to answer.

umask 077; set -f;
token=TOKEN; room=ROOM; LC_ALL=C; export LC_ALL;
# By this a sweep finds what a session started, whatever became of the session.
export SYSMCP_SESSION=$token;
# In two parts, so that an echo of this text is no mark.
mark=sysmcp-; mark=${mark}$token;
made=; inside=; holder=; places=; refused=; only=yes; lacks=; file=;
say() { echo "$mark $*"; };
# What would go wrong later, in a way that tells nothing of the reason. Shells keep some files open for
# themselves, so this one comes first.
files=`ulimit -n`; case $files in ?|1[0-5]) say LIMITED files $files; exit 95;; esac;
# What a start-up file did to PATH, or an environment brought along as functions, is not meant for this.
PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin; export PATH;
unset -f cat chmod command dd gzip head kill mkdir rm rmdir stat timeout uname 2>/dev/null;
# In blocks of 512 bytes (ulimit in POSIX).
blocks=`ulimit -f`; case $blocks in *[0-9]*) test $((blocks * 512)) -ge $room || {
  say LIMITED bytes $((blocks * 512)); exit 95; };;
esac;
for tool in cat chmod dd head mkdir rm rmdir; do
  command -v $tool >/dev/null 2>&1 || lacks="$lacks $tool";
done;
test -c /dev/zero || lacks="$lacks /dev/zero";
test -z "$lacks" || { say LACKS $lacks; exit 95; };
# Whoever may write to a place may put another folder where ours was. So ours is left file by file,
# and by name only if it is empty.
leave() {
  test -z "$inside" || rm -f ./a; inside=;
  test -z "$made" || { cd /; rmdir "$made"; made=; };
  test -z "$holder" || kill -9 $holder; holder=;
} 2>/dev/null;
# Why a place does not serve: a word of ours, or what a tool said last.
refuse() {
  why=$1; case $why in
    *": Read-only file system") why=readonly;;
    *"uota exceeded") why=quota;;
    *": No space left on device") why=full;
      test -z "$2" || case $(stat -f -c %c:%d "$place" 2>/dev/null) in 0:*) ;; *:0) why=inodes;; esac;;
    *": Permission denied"|*": Operation not permitted") why=unwritable;;
    noexec|forbidden|missing|foreign) ;;
    *) why=failed;;
  esac;
  # What only noexec and the like stand against may be started in memory, if that is allowed.
  case $why in noexec|readonly|unwritable|missing) ;; *) only=;; esac;
  refused="$refused|$why=$place"; leave; exec 4<&-;
};
# A file that may be run does not run there: by the mount, or by something else.
refuse_running() {
  at=$(cd "$place" && pwd -P); best=; how=noexec;
  test -r /proc/self/mounts && while read -r what where kind options rest; do
    case $at/ in "${where%/}"/*) test ${#where} -lt ${#best} || { best=$where; how=$options; };; esac;
  done </proc/self/mounts;
  case ,$how, in *,noexec,*) refuse noexec;; *) refuse forbidden;; esac;
};
# Whether there is room in the file. It is empty then.
has_room() {
  why=$(head -c $room /dev/zero 2>&1 >"$file") && true >"$file";
};
trap leave EXIT; trap "exit 1" HUP INT TERM PIPE;
# A network that is cut without a word closes nothing here: what waits for bytes has a limit. Whether
# there is one is tried with what has to be asked anyway.
limit="timeout PATIENCE";
machine=`timeout 5 uname -m 2>/dev/null` || {
  machine=`uname -m 2>/dev/null`; timeout 5 sh -c : >/dev/null 2>&1 || limit=;
};
# Without it no file can be run that has no name, and nothing be measured.
test -r /proc/self/fd || { say NOPROC; exit 96; };
for place in "$XDG_RUNTIME_DIR" /dev/shm /tmp /var/tmp "$HOME" /run; do
  test -n "$place" || continue;
  case $places in *:"$place":*) continue;; esac; places="$places:$place:";
  case $place in
    /dev/shm|/tmp|/var/tmp|/run) test -d $place || continue;;
    /*) test -d "$place" || { refuse missing; continue; };;
    *) refuse missing; continue;;
  esac;
  made=$place/.sysmcp-$token;
  why=$(mkdir -m 700 "$made" 2>&1) || { made=; refuse "$why" new; continue; };
  # From here on it is known by itself, not by its name: it is neither a link nor another user's, and
  # what is removed from it was made in it.
  cd "$made" 2>/dev/null && test -O . && case $(pwd -P) in */.sysmcp-$token) ;; *) false;; esac ||
    { refuse foreign; continue; };
  # A signal may come when the file is there and that is not known yet, so it counts as there before.
  inside=yes; why=$({ set -C; true >a; } 2>&1) || { inside=; refuse "$why" new; continue; };
  why=$(chmod 700 a 2>&1) || { refuse "$why"; continue; };
  # The name goes before the first byte comes.
  exec 4<a; leave; file=/proc/self/fd/4;
  # An empty file runs, and does nothing, unless the place forbids running files. Shells of the Korn
  # family hand on only what is named with the command.
  if "$file" 2>/dev/null 4<&4; then :; else refuse_running; file=; continue; fi;
  has_room && break;
  refuse "$why"; file=;
done;
# A program that has a file in memory, and says so, until it is opened here too.
hold() {
  set -- $("$@" </dev/null 2>/dev/null &);
  holder=$1; held=/proc/$1/fd/$2;
  test -r $held && exec 4<$held; leave;
  # Nobody may have it open for writing when it is run.
  while test -e $held; do :; done;
  test -r /proc/self/fd/4;
};
memory=; if test -z "$file$only"; then :; elif test -z "$file" && test MEMORY = yes; then
  memory=none; place=memory; call=;
  case $machine in x86_64|amd64) call=319;; aarch64|arm64) call=279;; esac;
  # 16 is MFD_EXEC, which kernels before 6.3 do not know.
  for flags in 16 0; do
    hold python3 -c "import os,sys,time;print(os.getpid(),os.memfd_create(sys.argv[1],int(sys.argv[2])),flush=True);os.close(1);time.sleep(9)" sysmcp $flags ||
    hold perl -e "print readlink(q(/proc/self)),q( ),syscall(shift()+0,shift,shift()+0);close STDOUT;sleep 9" ${call:-0} sysmcp $flags ||
    continue;
    file=/proc/self/fd/4;
    "$file" 2>/dev/null 4<&4 && { has_room && memory= || { refuse "$why"; memory=; file=; }; break; };
    memory=forbidden; file=; exec 4<&-;
  done;
fi;
test -n "$file" || { say "NOPLACE$refused${memory:+|memory=$memory}"; exit 91; };
unpack=raw; command -v gzip >/dev/null 2>&1 && unpack=gzip;
check=; for tool in sha256sum shasum openssl; do
  test -n "$check" || { command -v $tool >/dev/null 2>&1 && check=$tool; };
done;
# gzip checks what it unpacks; without either, nothing would.
test -n "$check" || test $unpack = gzip || { say NOCHECK; exit 92; };
# Which programs run here is said by the start of one that does, and how wide the kernel is by its
# addresses: uname is a program like any other.
wide=; test -r /proc/kallsyms && read -r wide rest </proc/kallsyms;
say READY ${machine:-unknown} $unpack ${#wide};
head -c 20 /proc/self/exe 2>/dev/null || head -c 20 /bin/sh 2>/dev/null; echo;
# Byte by byte, so that none of the agent is taken along.
set -- `$limit dd bs=1 count=HEADER 2>/dev/null`;
bytes=$1; sum=$2; form=$3;
case $form in
  gzip) $limit head -c $bytes | gzip -dc >"$file";;
  raw) $limit head -c $bytes | cat >"$file";;
  # Where no process can be started, this says so.
  *) $limit true; exit 89;;
esac || {
  # As many processes as above: where they cannot be started, this says so too.
  test -n "$(echo $form | $limit head -c 4 | cat)" || exit 89;
  # Too little room now, or bytes that do not unpack: trying tells.
  if has_room; then say ALTERED; else refuse "$why"; say "NOPLACE$refused"; fi;
  exit 93;
};
case $check in
  sha256sum) found=`sha256sum <&4`;;
  shasum) found=`shasum -a 256 <&4`;;
  openssl) found=`openssl dgst -sha256 -r <&4`;;
  *) found=$sum;;
esac;
case $found in $sum*) ;; *) say ALTERED; exit 94;; esac;
trap - EXIT;
exec "$file" ROLE $token ASKED 4<&4;
