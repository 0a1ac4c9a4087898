//! Words that are let through, and those that are not.

use super::*;
use crate::external::bpftrace;

fn judged(words: &[&str]) -> Result<(), String> {
    judge(words).map(|_| ()).map_err(|refused| refused.to_string())
}

#[test]
fn what_the_agent_itself_starts_is_admitted() {
    let admitted: [&[&str]; 12] = [
        &["strace", "-V"],
        &["perf", "--version"],
        &["bpftrace", "--version"],
        &["perf", "stat", "-x", ",", "-e", "task-clock", "true"],
        &["strace", "-o", "/dev/null", "-e", "trace=exit_group", "true"],
        &["bpftrace", "-e", bpftrace::NOTHING],
        &["strace", "-f", "-ttt", "-T", "-s", "0", "-q", "-o", "/dev/stdout", "-p", "7", "-p", "8"],
        &["strace", "-f", "-yy", "-e", "trace=openat,close", "-p", "7"],
        &["perf", "trace", "-s", "--errno-summary", "-p", "7,8"],
        &["perf", "trace", "-s", "-a", "--filter-pids", "7", "-e", "openat"],
        &["bpftrace", "-f", "json", "-e", bpftrace::OF_PROCESSES, "7", "8", "0", "3000"],
        // Around a program on the list, what changes nothing about it.
        &["timeout", "-k", "5", "5", "nice", "-n5", "stdbuf", "-oL", "strace", "-V"],
    ];
    for words in admitted {
        assert_eq!(judged(words), Ok(()), "{words:?}");
    }
}

#[test]
fn wrappers_are_unwrapped_and_what_is_inside_is_judged() {
    let of = "sh is not on the list of programs";
    let refused: [(&[&str], &str); 32] = [
        (&["timeout", "5", "sh"], of),
        (&["timeout", "5", "sh", "-c", "id"], of),
        (&["timeout", "-k", "1", "-s", "KILL", "5", "sh"], of),
        (&["timeout", "--kill-after=1", "--", "5", "sh"], of),
        (&["nice", "sh"], of),
        (&["nice", "-n", "5", "sh"], of),
        (&["nice", "-n5", "timeout", "5", "sh"], of),
        (&["ionice", "-c", "3", "sh"], of),
        (&["ionice", "-c3", "-n7", "sh"], of),
        (&["env", "sh"], of),
        (&["env", "-i", "sh"], of),
        (&["stdbuf", "-oL", "sh"], of),
        (&["stdbuf", "--output=L", "sh"], of),
        (&["sudo", "sh"], of),
        (&["sudo", "-n", "-u", "root", "--", "sh"], of),
        (&["doas", "sh"], of),
        (&["setsid", "-w", "sh"], of),
        (&["nohup", "sh"], of),
        (&["time", "-p", "sh"], of),
        (&["busybox", "sh"], of),
        (&["busybox", "timeout", "5", "busybox", "sh", "-c", "id"], of),
        (&["taskset", "3", "sh"], of),
        (&["chrt", "-i", "0", "sh"], of),
        (&["command", "sh"], of),
        (&["unshare", "sh"], of),
        (&["sudo", "timeout", "5", "env", "nice", "sh"], of),
        // A program that observes what it starts is one that starts another.
        (&["strace", "-f", "sh", "-c", "id"], of),
        (&["strace", "-o", "/dev/null", "--", "sh"], of),
        (&["perf", "stat", "-e", "task-clock", "sh"], of),
        (&["timeout", "5", "strace", "timeout", "5", "sh"], of),
        (&["xargs", "sh"], "xargs is not on the list of programs"),
        (&["ld.so", "strace"], "ld.so is not on the list of programs"),
    ];
    for (words, want) in refused {
        assert_eq!(judged(words), Err(want.to_owned()), "{words:?}");
    }
}

#[test]
fn what_is_not_on_a_list_is_refused_with_its_word() {
    let refused: [(&[&str], &str); 36] = [
        (&[], "no program is named"),
        (&[""], " is not on the list of programs"),
        (&["timeout", "5"], "no program is named"),
        (&["timeout"], "no program is named"),
        (&["env", "-i"], "no program is named"),
        (&["sh", "-c", "strace -V"], "sh is not on the list of programs"),
        (&["/usr/bin/strace", "-V"], "/usr/bin/strace is a path, and programs are called by name"),
        (&["timeout", "5", "./strace"], "./strace is a path, and programs are called by name"),
        (&["strace", "-V", "x"], "strace does not take x"),
        (&["strace", "-o", "|sh"], "strace is not called with -o of |sh"),
        (&["strace", "-o", "!sh"], "strace is not called with -o of !sh"),
        (&["strace", "-o|sh"], "strace is not called with -o of |sh"),
        (&["strace", "-o", "/etc/passwd"], "strace is not called with -o of /etc/passwd"),
        (&["strace", "-o"], "strace is not called with -o"),
        (&["strace", "-D", "-p", "1"], "strace is not called with -D"),
        (
            &["strace", "-e", "inject=all:error=EIO"],
            "strace is not called with -e of inject=all:error=EIO",
        ),
        (&["strace", "-e", "trace=/x"], "strace is not called with -e of trace=/x"),
        (&["strace", "-e", "trace=a b"], "strace is not called with -e of trace=a b"),
        (&["strace", "-e", "trace="], "strace is not called with -e of trace="),
        (&["strace", "-e", "trace=a;id"], "strace is not called with -e of trace=a;id"),
        (&["strace", "-p", "0"], "strace is not called with -p of 0"),
        (&["strace", "-p", "-1"], "strace is not called with -p of -1"),
        (&["strace", "-p", "7 8"], "strace is not called with -p of 7 8"),
        (&["strace", "-p", "$(id)"], "strace is not called with -p of $(id)"),
        (&["strace", "-s", "4096"], "strace is not called with -s of 4096"),
        (&["perf", "record", "-a"], "perf does not take record"),
        (&["perf"], "perf is not called without a word"),
        (&["perf", "trace", "-s", "--", "sh"], "perf does not take sh"),
        (&["perf", "trace", "-o", "/etc/x"], "perf is not called with -o"),
        (&["perf", "trace", "--call-graph=dwarf"], "perf is not called with --call-graph=dwarf"),
        (
            &["bpftrace", "-e", "BEGIN { system(\"id\"); }"],
            "bpftrace is not called with -e of BEGIN { system(\"id\"); }",
        ),
        (&["bpftrace", "--unsafe"], "bpftrace is not called with --unsafe"),
        (&["bpftrace", "-c", "sh"], "bpftrace is not called with -c"),
        (&["bpftrace", "x.bt"], "bpftrace does not take x.bt"),
        (
            &["env", "LD_PRELOAD=/tmp/x.so", "strace", "-V"],
            "LD_PRELOAD=/tmp/x.so is a path, and programs are called by name",
        ),
        (&["env", "-S", "sh -c id"], "env is not called with -S"),
    ];
    for (words, want) in refused {
        assert_eq!(judged(words), Err(want.to_owned()), "{words:?}");
    }
    assert_eq!(
        judged(&["strace\0", "-V"]),
        Err("a word has a byte that no argument has".to_owned())
    );
}

#[test]
fn who_runs_a_program_is_not_changed_and_wrappers_end() {
    let refused = judged(&["sudo", "-n", "strace", "-V"]);
    assert_eq!(refused, Err("sudo changes who runs a program, or where".to_owned()));
    let many: Vec<&str> = std::iter::repeat_n("nice", 50).chain(["strace", "-V"]).collect();
    assert_eq!(judge(&many), Err(Refused::TooMany));
    assert_eq!(judge(&vec!["nice"; 5000]), Err(Refused::TooMany));
}

#[test]
fn programs_within_are_known_by_their_place() {
    let admitted = judge(&["timeout", "5", "nice", "-n", "5", "strace", "-V"]).unwrap();
    let programs: Vec<usize> = (0..7).filter(|place| admitted.is_program(*place)).collect();
    assert_eq!(programs, [0, 2, 5]);
}

proptest::proptest! {
    /// Whatever is around it and whatever comes behind it, a shell is never admitted.
    #[test]
    fn no_words_admit_a_shell(
        around in proptest::collection::vec(proptest::sample::select(vec![
            "timeout", "5", "nice", "-n", "env", "-i", "stdbuf", "-oL", "busybox", "--", "strace", "-f",
            "perf", "stat", "trace", "-e", "task-clock", "sudo", "setsid", "true", "-s", "-p", "1",
        ]), 0..6),
        behind in proptest::collection::vec("[ -~]{0,8}", 0..3),
    ) {
        let words: Vec<String> =
            around.iter().map(|word| (*word).to_owned()).chain(["sh".to_owned()]).chain(behind).collect();
        proptest::prop_assert!(judge(&words).is_err(), "{words:?}");
    }
}
