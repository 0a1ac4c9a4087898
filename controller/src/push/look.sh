# Runs on the target when a session is over, over a channel of its own, and says what is there of it.
# The same rules hold as for the start-up script. FIRST and REST are the two halves of the token,
# INITIAL and OTHERS its first digit and all others, SUPERVISOR and WORKER are pids, PLACES folders.
# Nothing here holds the whole token as one word, because that is what is looked for.

token=FIRST; token=${token}REST; mark=sysmcp-; mark=${mark}$token; how=folders;
say() { echo "$mark $*"; };
for place in "$XDG_RUNTIME_DIR" "$HOME" PLACES; do
  case $place in /*) ;; *) continue;; esac;
  at=${place%/}/.sysmcp-$token;
  # Where others may write, one of that name may be theirs: put there to be found, or to mislead.
  test -h "$at" || { test -O "$at" && say FOLDER "$at"; };
done;
# What holds the lock of its own memory lets no reader go.
limit="timeout 4"; timeout 4 true >/dev/null 2>&1 || limit=;
if test -r /proc/self/cmdline && cd /proc; then
  how=pids;
  if command -v grep >/dev/null 2>&1; then
    found=`$limit grep -l "[INITIAL]OTHERS" [0-9]*/cmdline [0-9]*/environ 2>/dev/null`;
    # 124 and more: it took too long, or there are too many to name. What cannot be read gives 2.
    test $? -lt 124 && how=all;
    for file in $found; do say PROCESS ${file%%/*}; done;
  fi;
  # By a name that the number would hardly come back with; the worker has that of its file.
  for pid in SUPERVISOR WORKER; do
    name=; { read name <$pid/comm; } 2>/dev/null;
    case $how$pid$name in pidsSUPERVISORsysmcp-super|pidsWORKER4) say PROCESS $pid;; esac;
  done;
fi;
say LOOKED $how;
