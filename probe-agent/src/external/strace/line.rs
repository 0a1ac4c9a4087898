//! One line of `strace -f -ttt -T -y`, as strace 4.20 and later write it.
//!
//! ```text
//! 25332 1796056975.587509 openat(AT_FDCWD</srv>, "a) = 0", O_RDONLY) = 3</srv/a) = 0> <0.000154>
//! [pid 25332] 1796056975.587509 read(3,  <unfinished ...>
//! 25332 1796056975.587609 <... read resumed>"", 4) = 0 <0.000100>
//! ```
//!
//! What a process names its files is in it. strace escapes quotes and backslashes, and angle brackets in
//! the paths behind descriptors; parentheses and all else it leaves as they are. So a line is read from
//! its start, and what is between quotes or angle brackets is passed over as a whole.
//!
//! Reference: `src/strace.c` (`printleader`, `maybe_switch_current_tcp`), `src/syscall.c`
//! (`print_syscall_resume`, `syscall_exiting_trace`) and `src/util.c` (`print_quoted_string_ex`,
//! `printfd_pid`) of strace.

use std::time::Duration;

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'l> {
    /// The thread; none where strace watches one only and writes no number.
    pub tid: Option<u32>,
    /// When, since 1970; none where strace writes no time.
    pub at: Option<Duration>,
    /// What happened.
    pub event: Event<'l>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'l> {
    /// A call from its start to its end.
    Whole(Call<'l>, Returned<'l>),
    /// A call's start; its end comes in a later line, or never.
    Started(Call<'l>, Option<u64>),
    /// A call's end, whose start came in an earlier line, or before strace looked.
    Resumed(Call<'l>, Option<u64>, Returned<'l>),
    /// A signal was delivered, or stopped the thread.
    Signal,
    /// The thread is gone: nothing that it began will end.
    Gone,
    /// Another thread of the process has executed a program, and goes on under this one's number.
    Superseded(u32),
    /// strace has let the thread go in the middle of a call, or before one.
    Detached,
    /// From here on the process makes calls of another width, whose numbers mean others.
    Width(Width),
    /// What strace says about itself.
    Remark,
}

/// A call's name and arguments, as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'l> {
    /// Its name.
    pub name: &'l [u8],
    /// What is between the parentheses, without them.
    pub arguments: &'l [u8],
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned<'l> {
    /// With what.
    pub value: Value<'l>,
    /// Time between start and end; none where strace does not know it.
    pub took: Option<Duration>,
}

/// What a call returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'l> {
    /// A number or an address, and the path behind it where it is a descriptor with one.
    Success(Option<&'l [u8]>),
    /// An error, by its name: `ENOENT`.
    Failure(&'l [u8]),
    /// A signal came; the kernel makes the call again, or `EINTR` of it: `ERESTARTSYS` and its kin.
    Interrupted(&'l [u8]),
    /// The call does not return, or what it returned could not be read: `?`.
    Unknown,
}

/// Width of a process's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// 32-bit calls on a 64-bit processor.
    Bits32,
    /// The processor's own.
    Bits64,
    /// 64-bit calls with 32-bit pointers.
    X32,
}

/// Why a line is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Its time is of the clock on the wall, which begins anew at midnight (`-t`, `-tt`).
    ClockTime,
    /// It is cut, or strace wrote of another thread into it.
    Cut,
    /// It is nothing that strace writes.
    Foreign,
}

/// Reads a line, which is without its newline.
///
/// # Errors
///
/// Why it is passed over.
pub fn parse(line: &[u8]) -> Result<Line<'_>, Unread> {
    let line = line.trim_ascii();
    if line.starts_with(b"strace: ") {
        return Ok(Line { tid: None, at: None, event: Event::Remark });
    }
    let (tid, rest) = thread(line);
    // Written before any time: `[ Process PID=42 runs in 32 bit mode. ]`.
    if let Some((pid, width)) = width(rest) {
        return Ok(Line { tid: pid.or(tid), at: None, event: Event::Width(width) });
    }
    let (at, rest) = stamp(rest)?;
    let at = Some(at);
    if let Some((pid, width)) = width(rest) {
        return Ok(Line { tid: pid.or(tid), at, event: Event::Width(width) });
    }
    Ok(Line { tid, at, event: event(rest)? })
}

fn event(rest: &[u8]) -> Result<Event<'_>, Unread> {
    match rest {
        [b'+', b'+', b'+', b' ', ..] => between(rest, b"+++").map(gone),
        [b'-', b'-', b'-', b' ', ..] => between(rest, b"---").map(|_| Event::Signal),
        [b'<', b'd', b'e', b't', b'a', b'c', b'h', b'e', b'd', ..] => Ok(Event::Detached),
        [b'<', ..] => resumed(rest),
        _ => started(rest),
    }
}

/// What is between two such marks.
fn between<'l>(rest: &'l [u8], mark: &[u8]) -> Result<&'l [u8], Unread> {
    let inside = rest.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    inside.map(<[u8]>::trim_ascii).ok_or(Unread::Cut)
}

/// `exited with 0`, `killed by SIGKILL`, `superseded by execve in pid 8`.
fn gone(inside: &[u8]) -> Event<'_> {
    let other = inside.strip_prefix(b"superseded by execve in pid ").map(number);
    match other {
        Some((Some(pid), b"")) => u32::try_from(pid).map_or(Event::Gone, Event::Superseded),
        _ => Event::Gone,
    }
}

/// The thread at the start of a line: `25332 ` or `[pid 25332] `.
fn thread(line: &[u8]) -> (Option<u32>, &[u8]) {
    if let Some(rest) = line.strip_prefix(b"[pid ") {
        let (number, rest) = number(rest.trim_ascii_start());
        if let (Some(tid), Some(rest)) = (number, rest.strip_prefix(b"]")) {
            return (u32::try_from(tid).ok(), rest.trim_ascii_start());
        }
        return (None, line);
    }
    match number(line) {
        (Some(tid), rest) if rest.starts_with(b" ") => {
            (u32::try_from(tid).ok(), rest.trim_ascii_start())
        }
        _ => (None, line),
    }
}

fn number(text: &[u8]) -> (Option<u64>, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits).unwrap_or((&[], text));
    (std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()), rest)
}

/// The time, which is seconds since 1970 and microseconds, and what follows it.
fn stamp(text: &[u8]) -> Result<(Duration, &[u8]), Unread> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let (time, rest) = text.split_at_checked(length).unwrap_or((&[], text));
    match rest {
        [b':', ..] if !time.is_empty() => Err(Unread::ClockTime),
        [b' ', ..] => Ok((duration(time).ok_or(Unread::Foreign)?, rest.trim_ascii_start())),
        [] if !time.is_empty() => Err(Unread::Cut),
        _ => Err(Unread::Foreign),
    }
}

/// `[ Process PID=42 runs in 32 bit mode. ]`.
fn width(text: &[u8]) -> Option<(Option<u32>, Width)> {
    let rest = text.strip_prefix(b"[ Process PID=")?;
    let (pid, rest) = number(rest);
    let mode = rest.strip_prefix(b" runs in ")?.strip_suffix(b" mode. ]")?;
    let width = match mode {
        b"32 bit" => Width::Bits32,
        b"x32" => Width::X32,
        b"64 bit" => Width::Bits64,
        _ => return None,
    };
    Some((pid.and_then(|pid| u32::try_from(pid).ok()), width))
}

/// `read(3, "", 4) = 0 <0.000100>`, or as much of it as there is before another thread has its turn.
fn started(text: &[u8]) -> Result<Event<'_>, Unread> {
    let length = text.iter().take_while(|byte| is_of_name(**byte)).count();
    let (name, rest) = text.split_at_checked(length).ok_or(Unread::Foreign)?;
    let rest = rest.strip_prefix(b"(").filter(|_| length > 0).ok_or(Unread::Foreign)?;
    let (arguments, rest) = arguments(rest);
    let call = Call { name, arguments };
    if let Some(id) = interrupted_by_another(arguments) {
        let arguments = before_mark(arguments);
        return Ok(Event::Started(Call { name, arguments }, id));
    }
    let rest = rest.ok_or(Unread::Cut)?;
    // It has begun to end: `exit_group(0) = ? <unfinished ...>`.
    match interrupted_by_another(rest) {
        Some(id) => Ok(Event::Started(call, id)),
        None => Ok(Event::Whole(call, returned(rest)?)),
    }
}

/// `<... read resumed>"", 4) = 0 <0.000100>`, where newer ones have `resumed #7>`.
fn resumed(text: &[u8]) -> Result<Event<'_>, Unread> {
    let rest = text.strip_prefix(b"<... ").ok_or(Unread::Foreign)?;
    let length = rest.iter().take_while(|byte| is_of_name(**byte)).count();
    let (name, rest) = rest.split_at_checked(length).ok_or(Unread::Foreign)?;
    let rest = rest.strip_prefix(b" resumed").filter(|_| length > 0).ok_or(Unread::Foreign)?;
    let (id, rest) = match rest.strip_prefix(b" #") {
        Some(rest) => number(rest),
        None => (None, rest),
    };
    let rest = rest.strip_prefix(b">").ok_or(Unread::Cut)?;
    let (arguments, rest) = arguments(rest);
    let rest = rest.ok_or(Unread::Cut)?;
    Ok(Event::Resumed(Call { name, arguments }, id, returned(rest)?))
}

const fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Whether a call was left for another thread's line, and the number that newer ones give it:
/// `<unfinished ...>`, `<unfinished #7 ...>`. A call that strace was let go in ends as one without an end.
fn interrupted_by_another(text: &[u8]) -> Option<Option<u64>> {
    let inside = text.trim_ascii_end().strip_suffix(b"...>")?.trim_ascii_end();
    if inside.ends_with(b"<detached") || inside.ends_with(b"<unfinished") {
        return Some(None);
    }
    let hash = inside.iter().rposition(|byte| *byte == b'#')?;
    let (before, number_there) = inside.split_at_checked(hash)?;
    let (id, rest) = number(number_there.strip_prefix(b"#")?);
    (rest.is_empty() && before.ends_with(b"<unfinished ")).then_some(id)
}

fn before_mark(arguments: &[u8]) -> &[u8] {
    let mark = arguments.iter().rposition(|byte| *byte == b'<').unwrap_or(arguments.len());
    arguments.get(..mark).unwrap_or_default().trim_ascii_end()
}

/// What is up to the closing parenthesis, and what follows it; nothing does where it is not there.
fn arguments(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut depth = 0_u32;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => at = end_of_quoted(text, at),
            b'<' if is_annotation(text, at) => at = end_of_annotation(text, at),
            b'(' | b'[' | b'{' => depth = depth.saturating_add(1),
            b')' if depth == 0 => {
                return (text.get(..at).unwrap_or_default(), text.get(at + 1..));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    (text, None)
}

/// Where the quote ends that begins here.
fn end_of_quoted(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

/// Whether a path or socket behind a descriptor begins here: `3</etc/hostname>`, not `1<<2`, `a < b`
/// or `<unfinished ...>`.
fn is_annotation(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| text.get(before));
    before.is_some_and(|byte| is_of_name(*byte)) && text.get(at + 1) != Some(&b'<')
}

/// Where it ends. One may be within it, `</dev/null<char 1:3>>`; the arrow between two addresses,
/// `<TCP:[1.2.3.4:5->6.7.8.9:10]>`, is no end, but a path may end like one.
fn end_of_annotation(text: &[u8], start: usize) -> usize {
    let is_socket = text.get(start + 1).is_some_and(|byte| byte.is_ascii_alphabetic());
    let (mut depth, mut at) = (0_u32, start);
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 1,
            b'"' if is_socket => at = end_of_quoted(text, at),
            b'<' => depth = depth.saturating_add(1),
            b'>' if is_socket && text.get(at.saturating_sub(1)) == Some(&b'-') => {}
            b'>' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// `= -1 ENOENT (No such file or directory) <0.000002>`.
fn returned(text: &[u8]) -> Result<Returned<'_>, Unread> {
    let text = text.trim_ascii().strip_prefix(b"=").ok_or(Unread::Cut)?.trim_ascii();
    let (text, took) = without_time(text);
    Ok(Returned { value: value(text)?, took })
}

/// The time at the end is apart; `<unavailable>` there is none.
fn without_time(text: &[u8]) -> (&[u8], Option<Duration>) {
    if let Some(rest) = text.strip_suffix(b"<unavailable>") {
        return (rest.trim_ascii_end(), None);
    }
    let Some(inside) = text.strip_suffix(b">") else { return (text, None) };
    let Some(open) = inside.iter().rposition(|byte| *byte == b'<') else { return (text, None) };
    let (Some(before), Some(time)) = (inside.get(..open), inside.get(open + 1..)) else {
        return (text, None);
    };
    match duration(time) {
        Some(took) if before.ends_with(b" ") => (before.trim_ascii_end(), Some(took)),
        _ => (text, None),
    }
}

/// Seconds with up to nine decimals, of which strace writes six, or as many as it is asked for.
fn duration(text: &[u8]) -> Option<Duration> {
    let (seconds, rest) = number(text);
    let (fraction, end) = number(rest.strip_prefix(b".")?);
    let digits = u32::try_from(rest.len().checked_sub(1)?).ok().filter(|digits| *digits <= 9)?;
    let nanoseconds = u32::try_from(fraction?).ok()?.checked_mul(10_u32.pow(9 - digits))?;
    end.is_empty().then_some(())?;
    Some(Duration::new(seconds?, nanoseconds))
}

fn value(text: &[u8]) -> Result<Value<'_>, Unread> {
    let length = text.iter().take_while(|byte| !matches!(byte, b' ' | b'<')).count();
    let (first, rest) = text.split_at_checked(length).ok_or(Unread::Cut)?;
    let word = rest.trim_ascii_start();
    let length = word.iter().take_while(|byte| is_of_name(**byte)).count();
    let word = word.get(..length).unwrap_or_default();
    match first {
        b"" => Err(Unread::Cut),
        b"?" if word.starts_with(b"ERESTART") => Ok(Value::Interrupted(word)),
        b"?" => Ok(Value::Unknown),
        b"-1" if word.starts_with(b"E") => Ok(Value::Failure(word)),
        // An error that strace has no name for.
        b"-1" if rest.starts_with(b" (errno ") => {
            let number = rest.strip_prefix(b" (errno ").unwrap_or_default();
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
            Ok(Value::Failure(number.get(..digits).unwrap_or_default()))
        }
        _ if !first.iter().all(|byte| is_of_name(*byte) || *byte == b'-') => Err(Unread::Cut),
        _ => {
            let path = rest.strip_prefix(b"<").map(|inside| {
                let end = end_of_annotation(rest, 0).saturating_sub(1);
                inside.get(..end).unwrap_or(inside)
            });
            Ok(Value::Success(path))
        }
    }
}

#[cfg(test)]
mod tests;
