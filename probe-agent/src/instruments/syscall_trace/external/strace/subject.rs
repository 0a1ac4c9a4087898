//! What a call is about, by the arguments that strace wrote of it.

use protocol::{
    host_text::HostText,
    instruments::syscall_trace::{Subject, SubjectKind},
};

/// What a call is about; none where its arguments do not tell.
pub(super) fn of(name: &[u8], arguments: &[u8]) -> Option<Subject> {
    if name.starts_with(b"futex") {
        let word = arguments.split(|byte| *byte == b',').next()?;
        return word.starts_with(b"0x").then(|| subject(SubjectKind::Futex, word, false));
    }
    if name == b"connect"
        && let Some(peer) = peer(arguments)
    {
        return Some(subject(SubjectKind::Socket, &peer, false));
    }
    if matches!(name, b"wait4" | b"waitid") {
        let child = arguments.split(|byte| *byte == b',').next()?;
        return Some(subject(SubjectKind::Child, child, false));
    }
    if let Some(path) = quoted(arguments) {
        return Some(path_from(None, &path));
    }
    let (behind, rest) = annotation(arguments)?;
    // A path that begins at the descriptor's folder.
    let rest = rest.strip_prefix(b", ").unwrap_or_default();
    match quoted(rest).filter(|path| !path.is_empty() && takes_path(name)) {
        Some(path) => Some(path_from(Some(&unescaped(behind)), &path)),
        None => Some(descriptor(behind)),
    }
}

fn subject(kind: SubjectKind, name: &[u8], is_partial: bool) -> Subject {
    Subject { kind, name: HostText::new(name), is_partial, other_end: Vec::new() }
}

/// Whether the text behind a descriptor is a path: of a call with `at` in its name, not of `write`.
fn takes_path(name: &[u8]) -> bool {
    name.windows(2).any(|part| part == b"at") || matches!(name, b"statx" | b"openat2")
}

/// A path as it was given, from the folder where it is not absolute.
fn path_from(folder: Option<&[u8]>, path: &[u8]) -> Subject {
    if path.starts_with(b"/") {
        return subject(SubjectKind::Path, path, false);
    }
    match folder.filter(|folder| folder.starts_with(b"/")) {
        Some(b"/") => subject(SubjectKind::Path, &[b"/", path].concat(), false),
        Some(folder) => subject(SubjectKind::Path, &[folder, b"/", path].concat(), false),
        None => subject(SubjectKind::Path, path, true),
    }
}

/// What is behind a descriptor, as strace names it, escaped.
fn descriptor(behind: &[u8]) -> Subject {
    use SubjectKind as Kind;
    if let Some(socket) = socket(behind) {
        return socket;
    }
    // A device has its numbers behind its path, whose own brackets are escaped.
    let plain = unescaped(behind.split(|byte| *byte == b'<').next().unwrap_or(behind));
    let plain = plain.as_slice();
    if plain.starts_with(b"/") {
        let is_terminal = plain.starts_with(b"/dev/pts/") || plain.starts_with(b"/dev/tty");
        let kind = if is_terminal { Kind::Terminal } else { Kind::Path };
        return subject(kind, plain, false);
    }
    for (prefix, kind) in [
        (&b"pipe:["[..], Kind::Pipe),
        (b"anon_inode:[eventfd]", Kind::Eventfd),
        (b"anon_inode:[eventpoll]", Kind::Poll),
        (b"anon_inode:[timerfd]", Kind::Timer),
        (b"anon_inode:[signalfd]", Kind::Signal),
        (b"anon_inode:inotify", Kind::Inotify),
        (b"anon_inode:[io_uring]", Kind::Completions),
        (b"socket:[", Kind::Socket),
    ] {
        if plain.starts_with(prefix) {
            return subject(kind, plain, false);
        }
    }
    subject(Kind::Other, plain, false)
}

/// `TCP:[1.2.3.4:5->6.7.8.9:10]` by its peer, `UNIX-STREAM:[1->2,"/run/x"]` by its path.
fn socket(behind: &[u8]) -> Option<Subject> {
    let colon = behind.iter().position(|byte| *byte == b':')?;
    let (family, rest) = behind.split_at_checked(colon)?;
    let inside = rest.strip_prefix(b":[")?.strip_suffix(b"]")?;
    let is_family = family.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let is_address = family.first().is_some_and(u8::is_ascii_uppercase);
    if !is_family || !is_address {
        return None;
    }
    let quote = inside.iter().position(|byte| *byte == b'"');
    if let Some(path) = quote.and_then(|at| quoted(inside.get(at..)?)) {
        return Some(subject(SubjectKind::Socket, &[b"unix ", &*path].concat(), false));
    }
    let arrow = inside.windows(2).rposition(|part| part == b"->");
    let peer = arrow.and_then(|at| inside.get(at + 2..)).unwrap_or(inside);
    let family =
        if family.starts_with(b"UNIX") { b"unix".to_vec() } else { family.to_ascii_lowercase() };
    Some(subject(SubjectKind::Socket, &[&*family, b" ", peer].concat(), false))
}

/// The address in `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("1.2.3.4")}`.
fn peer(arguments: &[u8]) -> Option<Vec<u8>> {
    let after = |mark: &[u8]| {
        let at = arguments.windows(mark.len()).position(|part| part == mark)?;
        arguments.get(at + mark.len()..)
    };
    if let Some(path) =
        after(b"sun_path=").and_then(|text| quoted(text.strip_prefix(b"@").unwrap_or(text)))
    {
        return Some([b"unix ", &*path].concat());
    }
    let port = after(b"_port=htons(")?;
    let digits = port.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let port = port.get(..digits)?;
    if let Some(address) = after(b"inet_addr(").and_then(quoted) {
        return Some([b"tcp ", &*address, b":", port].concat());
    }
    let address = after(b"inet_pton(AF_INET6, ").and_then(quoted)?;
    Some([b"tcp [", &*address, b"]:", port].concat())
}

/// What is behind the descriptor that text begins with, escaped, and what follows: `3</etc/hosts>, ...`.
fn annotation(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let open = text.iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')?;
    let inside = text.get(open..)?.strip_prefix(b"<")?;
    if open == 0 {
        return None;
    }
    let is_socket = inside.first().is_some_and(u8::is_ascii_alphabetic);
    let (mut depth, mut at) = (1_u32, 0);
    while let Some(byte) = inside.get(at) {
        match byte {
            b'\\' => at += 1,
            b'<' => depth = depth.saturating_add(1),
            b'>' if is_socket && at > 0 && inside.get(at - 1) == Some(&b'-') => {}
            b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let rest = inside.get(at + 1..)?;
            let rest = rest.strip_prefix(b"(deleted)").unwrap_or(rest);
            return Some((inside.get(..at)?, rest));
        }
        at += 1;
    }
    None
}

/// The text of the quotes that it begins with, as it was before strace escaped it.
fn quoted(text: &[u8]) -> Option<Vec<u8>> {
    let inside = text.strip_prefix(b"\"")?;
    let mut at = 0;
    while let Some(byte) = inside.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return Some(unescaped(inside.get(..at)?)),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Takes back what strace does with bytes that it does not print: `\n`, `\"`, `\74`, `\x3c`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let Some((byte, after)) = rest.split_first() else { break };
        rest = after;
        let (base, most) = match byte {
            b'n' => (b'\n', 0),
            b't' => (b'\t', 0),
            b'r' => (b'\r', 0),
            b'v' => (0x0b, 0),
            b'f' => (0x0c, 0),
            b'x' => (16, 2),
            b'0'..=b'7' => (8, 2),
            other => (*other, 0),
        };
        if most == 0 {
            plain.push(base);
            continue;
        }
        let mut value = if base == 8 { u32::from(*byte - b'0') } else { 0 };
        for _ in 0..most {
            let digit = rest.first().and_then(|byte| char::from(*byte).to_digit(base.into()));
            let Some(digit) = digit else { break };
            value = value * u32::from(base) + digit;
            rest = rest.get(1..).unwrap_or_default();
        }
        plain.push(u8::try_from(value & 0xff).unwrap_or_default());
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_is_about_is_read_from_its_arguments() {
        use SubjectKind as Kind;
        let cases: [(&str, &str, Kind, &str, bool); 17] = [
            ("openat", r#"AT_FDCWD</srv>, "a\"b", O_RDONLY"#, Kind::Path, "/srv/a\"b", false),
            (
                "openat",
                r#"AT_FDCWD</srv>, "/etc/hosts", O_RDONLY"#,
                Kind::Path,
                "/etc/hosts",
                false,
            ),
            ("openat", r#"AT_FDCWD, "x", O_RDONLY"#, Kind::Nothing, "", false),
            ("open", r#""x", O_RDONLY"#, Kind::Path, "x", true),
            ("read", r#"3</t/ang\74le\76x>, "", 4"#, Kind::Path, "/t/ang<le>x", false),
            ("newfstatat", r#"3</t>, "", {}, AT_EMPTY_PATH"#, Kind::Path, "/t", false),
            ("write", r#"9</dev/null<char 1:3>>, "", 3"#, Kind::Path, "/dev/null", false),
            ("write", r#"1</dev/pts/0<char 136:0>>, "", 3"#, Kind::Terminal, "/dev/pts/0", false),
            ("write", r#"11</t/tmpx>(deleted), "", 3"#, Kind::Path, "/t/tmpx", false),
            ("read", "4<pipe:[17]>, 0x7f, 1", Kind::Pipe, "pipe:[17]", false),
            (
                "recvfrom",
                "6<TCP:[127.0.0.1:1->10.0.0.5:443]>, 3",
                Kind::Socket,
                "tcp 10.0.0.5:443",
                false,
            ),
            ("accept4", "4<TCP:[127.0.0.1:80]>, NULL", Kind::Socket, "tcp 127.0.0.1:80", false),
            ("sendto", r#"7<UNIX-STREAM:[1->2,"/run/x"]>, """#, Kind::Socket, "unix /run/x", false),
            (
                "connect",
                r#"5<TCP:[3]>, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("1.2.3.4")}, 16"#,
                Kind::Socket,
                "tcp 1.2.3.4:80",
                false,
            ),
            (
                "epoll_wait",
                "3<anon_inode:[eventpoll]>, [], 1, -1",
                Kind::Poll,
                "anon_inode:[eventpoll]",
                false,
            ),
            ("futex", "0x7f90, FUTEX_WAIT, 2, NULL", Kind::Futex, "0x7f90", false),
            ("wait4", "-1, NULL, 0, NULL", Kind::Child, "-1", false),
        ];
        for (name, arguments, kind, want, is_partial) in cases {
            let found = of(name.as_bytes(), arguments.as_bytes());
            if kind == Kind::Nothing {
                assert_eq!(found, None, "{arguments}");
                continue;
            }
            let found = found.unwrap();
            let plain = HostText::new(want.as_bytes());
            assert_eq!(
                (found.kind, found.name, found.is_partial),
                (kind, plain, is_partial),
                "{arguments}"
            );
        }
        for nothing in ["", "0", "NULL, 4096", "0x7f, 1", "<x>"] {
            assert_eq!(of(b"brk", nothing.as_bytes()), None, "{nothing}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..100)) {
            for name in [&b"openat"[..], b"futex", b"connect", b"wait4"] {
                let _ = of(name, &bytes);
                let _ = of(name, &[b"3<".as_slice(), &bytes].concat());
                let _ = of(name, &[b"\"".as_slice(), &bytes].concat());
            }
        }
    }
}
