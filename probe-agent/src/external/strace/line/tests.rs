//! Lines, one by one.

use super::*;

fn event(line: &str) -> Result<Event<'_>, Unread> {
    parse(line.as_bytes()).map(|line| line.event)
}

/// Name, arguments, value and time of a whole or resumed call.
fn ended(line: &str) -> (&str, &str, Value<'_>, Option<Duration>) {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    match event(line) {
        Ok(Event::Whole(call, end) | Event::Resumed(call, _, end)) => {
            (text(call.name), text(call.arguments), end.value, end.took)
        }
        other => panic!("{line}: {other:?}"),
    }
}

const fn us(micros: u64) -> Option<Duration> {
    Some(Duration::from_micros(micros))
}

const fn path(path: &'static str) -> Value<'static> {
    Value::Success(Some(path.as_bytes()))
}

/// A line, and the name, arguments, value and time in it.
type Case = (&'static str, &'static str, &'static str, Value<'static>, Option<Duration>);

const WHOLE: [Case; 17] = [
    (r#"7 1.000001 close(3) = 0 <0.000002>"#, "close", "3", Value::Success(None), us(2)),
    (
        r#"7 1.0 openat(AT_FDCWD</t>, "a) = 0 <9.9>", O_RDONLY) = 3</t/a) = 0 \749.9\76> <0.000007>"#,
        "openat",
        r#"AT_FDCWD</t>, "a) = 0 <9.9>", O_RDONLY"#,
        path(r"/t/a) = 0 \749.9\76"),
        us(7),
    ),
    (
        r#"7 1.0 read(3</t/a) = 0 \749.9\76>, "", 4) = 0 <0.000004>"#,
        "read",
        r#"3</t/a) = 0 \749.9\76>, "", 4"#,
        Value::Success(None),
        us(4),
    ),
    (
        r#"7 1.0 close(3</t/dash->) = 0 <0.000001>"#,
        "close",
        "3</t/dash->",
        Value::Success(None),
        us(1),
    ),
    (
        r#"7 1.0 read(3</t/q\"uo\\te>, "", 4) = 0 <0.000001>"#,
        "read",
        r#"3</t/q\"uo\\te>, "", 4"#,
        Value::Success(None),
        us(1),
    ),
    (
        r#"7 1.0 write(9</dev/null<char 1:3>>, ""..., 3) = 3 <0.000003>"#,
        "write",
        r#"9</dev/null<char 1:3>>, ""..., 3"#,
        Value::Success(None),
        us(3),
    ),
    (
        "7 1.0 accept4(4<TCP:[127.0.0.1:1]>, {sa_family=AF_INET}, [16], 0) = 6<TCP:[127.0.0.1:1->127.0.0.1:2]> <0.000009>",
        "accept4",
        "4<TCP:[127.0.0.1:1]>, {sa_family=AF_INET}, [16], 0",
        path("TCP:[127.0.0.1:1->127.0.0.1:2]"),
        us(9),
    ),
    (
        r#"7 1.0 sendto(7<UNIX-STREAM:[1->2,"/run/a>b) = 1"]>, "", 0) = 0 <0.000005>"#,
        "sendto",
        r#"7<UNIX-STREAM:[1->2,"/run/a>b) = 1"]>, "", 0"#,
        Value::Success(None),
        us(5),
    ),
    (
        "7 1.0 futex(0x7f, FUTEX_WAKE_OP, 1, 1, 0x7f, FUTEX_OP_ADD<<28|1<<12|FUTEX_OP_CMP_EQ<<24|0) = 1 <0.000005>",
        "futex",
        "0x7f, FUTEX_WAKE_OP, 1, 1, 0x7f, FUTEX_OP_ADD<<28|1<<12|FUTEX_OP_CMP_EQ<<24|0",
        Value::Success(None),
        us(5),
    ),
    (
        "7 1.0 openat(AT_FDCWD, \"/no\", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000013>",
        "openat",
        "AT_FDCWD, \"/no\", O_RDONLY",
        Value::Failure(b"ENOENT"),
        us(13),
    ),
    ("7 1.0 ioctl(3) = -1 (errno 524) <0.000013>", "ioctl", "3", Value::Failure(b"524"), us(13)),
    (
        "7 1.0 poll(NULL, 0, 300) = 0 (Timeout) <0.300001>",
        "poll",
        "NULL, 0, 300",
        Value::Success(None),
        us(300_001),
    ),
    (
        "7 1.0 pause() = ? ERESTARTNOHAND (To be restarted if no handler) <0.1>",
        "pause",
        "",
        Value::Interrupted(b"ERESTARTNOHAND"),
        us(100_000),
    ),
    ("7 1.0 exit_group(0)   = ?", "exit_group", "0", Value::Unknown, None),
    ("7 1.0 read(3) = ? <unavailable>", "read", "3", Value::Unknown, None),
    ("7 1.0 read(3) = 5 <unavailable>", "read", "3", Value::Success(None), None),
    (
        "1796056821.427397 restart_syscall(<... resuming interrupted read ...>) = 0 <0.788503>",
        "restart_syscall",
        "<... resuming interrupted read ...>",
        Value::Success(None),
        us(788_503),
    ),
];

#[test]
fn a_call_is_read_whatever_its_paths_are_named() {
    for (line, name, arguments, value, took) in WHOLE {
        assert_eq!(ended(line), (name, arguments, value, took), "{line}");
    }
}

#[test]
fn a_call_in_two_lines_is_known_by_its_thread_and_by_its_number_where_it_has_one() {
    let id = |line| match event(line) {
        Ok(Event::Started(call, id) | Event::Resumed(call, id, _)) => {
            (std::str::from_utf8(call.name).unwrap(), call.arguments, id)
        }
        other => panic!("{line}: {other:?}"),
    };
    let cases: [(&str, &str, &[u8], Option<u64>); 7] = [
        ("[pid 9] 1.0 wait4(-1,  <unfinished ...>", "wait4", b"-1,", None),
        ("9 1.0 wait4(-1,  <unfinished #89567 ...>", "wait4", b"-1,", Some(89_567)),
        ("9 1.0 epoll_wait(20,  <unfinished #89568...>", "epoll_wait", b"20,", Some(89_568)),
        ("9 1.0 exit_group(0) = ? <unfinished ...>", "exit_group", b"0", None),
        ("9 1.0 read(0,  <detached ...>", "read", b"0,", None),
        ("9 1.0 <... wait4 resumed>NULL, 0, NULL) = 8 <0.000155>", "wait4", b"NULL, 0, NULL", None),
        ("9 1.0 <... select resumed #7> )      = 0 (Timeout)", "select", b" ", Some(7)),
    ];
    for (line, name, arguments, number) in cases {
        assert_eq!(id(line), (name, arguments, number), "{line}");
        assert_eq!(parse(line.as_bytes()).unwrap().tid, Some(9), "{line}");
    }
}

#[test]
fn what_is_no_call_is_told_apart() {
    let cases = [
        ("9 1.0 --- SIGCHLD {si_signo=SIGCHLD, si_pid=8} ---", Ok(Event::Signal)),
        ("9 1.0 --- stopped by SIGSTOP ---", Ok(Event::Signal)),
        ("9 1.0 +++ exited with 0 +++", Ok(Event::Gone)),
        ("9 1.0 +++ killed by SIGKILL (core dumped) +++", Ok(Event::Gone)),
        ("9 1.0 +++ superseded by execve in pid 8 +++", Ok(Event::Superseded(8))),
        ("9 1.0  <detached ...>", Ok(Event::Detached)),
        ("strace: Process 9 attached", Ok(Event::Remark)),
        ("9 1.0 [ Process PID=9 runs in 32 bit mode. ]", Ok(Event::Width(Width::Bits32))),
        ("[ Process PID=9 runs in x32 mode. ]", Ok(Event::Width(Width::X32))),
        ("9 [ Process PID=9 runs in 64 bit mode. ]", Ok(Event::Width(Width::Bits64))),
        ("9 23:59:59 close(3) = 0", Err(Unread::ClockTime)),
        ("00:00:00.000001 close(3) = 0 <0.1>", Err(Unread::ClockTime)),
        ("9 1.0 clone(flags=SIGCHLDstrace: Process 8 attached", Err(Unread::Cut)),
        (", child_tidptr=0x7f) = 8 <0.000156>", Err(Unread::Foreign)),
        (" <unfinished ...>", Err(Unread::Foreign)),
        ("9 1.0 openat(AT_FDCWD, \"/etc/ho", Err(Unread::Cut)),
        ("9 1.0 close(3", Err(Unread::Cut)),
        ("9 1.0 close(3) ", Err(Unread::Cut)),
        ("9 1.0 close(3) =", Err(Unread::Cut)),
        ("9 1.0 +++ exi", Err(Unread::Cut)),
        ("9 1.0", Err(Unread::Cut)),
        ("", Err(Unread::Foreign)),
        ("rm: cannot remove", Err(Unread::Foreign)),
    ];
    for (line, want) in cases {
        assert_eq!(event(line), want, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
        let _ = parse(&[b"7 1.0 openat(".as_slice(), &bytes].concat());
    }

    /// As strace escapes it, with what it leaves as it is.
    #[test]
    fn no_name_of_a_file_ends_a_call(name in "[ -~]{1,40}") {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        let behind = quoted.replace('<', "\\74").replace('>', "\\76");
        let line = format!("7 1.0 openat(5</{behind}>, \"{quoted}\", O_RDONLY) = 3</{behind}> <0.000154>");
        let (name, _, value, took) = ended(&line);
        assert_eq!(name, "openat");
        assert_eq!(value, Value::Success(Some(format!("/{behind}").as_bytes())));
        assert_eq!(took, us(154));
    }
}
