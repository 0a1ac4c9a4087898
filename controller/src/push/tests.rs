//! Peers that are not what they should be, at the other end of a channel without a process.

use super::*;
use crate::{exit, reporter::Silent};
use protocol::message::Receipt;
use tokio::io::{AsyncWriteExt as _, DuplexStream, duplex, split};

const PATIENCE: Duration = Duration::from_secs(5);

fn token() -> Token {
    Token::new([0xcd; 16])
}

fn digest() -> Sha256 {
    Sha256([7; 32])
}

/// A folder with an agent that is only a name.
fn agents() -> (tempfile::TempDir, Agents) {
    let folder = tempfile::tempdir().unwrap();
    let manifest = serde_json::json!({
        "arch": "x86_64", "sha256": digest().to_string(), "bytes": 4, "wire_id": WIRE_ID,
    });
    std::fs::write(folder.path().join("x86_64.json"), manifest.to_string()).unwrap();
    std::fs::write(folder.path().join("x86_64.gz"), "pack").unwrap();
    let agents = Agents::Folder(folder.path().to_owned());
    (folder, agents)
}

fn hello() -> FromAgent {
    FromAgent::Hello(Hello {
        host_name: HostText::new(b"web"),
        kernel_release: HostText::new(b"6"),
        uid: 0,
        worker_pid: 2,
        supervisor_pid: 1,
        is_unlinked: true,
    })
}

fn agent_mark(token: Token, wire_id: &str, sha256: Sha256) -> Vec<u8> {
    let mark = protocol::handshake::AgentMark { token, wire_id: wire_id.to_owned(), sha256 };
    mark.to_bytes()
}

/// What the peer says first, and what it says once the agent has arrived; then it closes.
async fn attempt(first: Vec<u8>, then: Option<Vec<u8>>) -> Result<Pushed, PushError> {
    let (ours, theirs) = duplex(1 << 20);
    let peer = tokio::spawn(peer(theirs, first, then));
    let result = attempt_over(ours).await;
    peer.abort();
    result
}

async fn attempt_over(channel: DuplexStream) -> Result<Pushed, PushError> {
    let (reader, writer) = split(channel);
    let channel = Channel::new(reader, writer, None);
    let (_folder, agents) = agents();
    let settings = Settings {
        agents,
        patience: PATIENCE,
        silence_limit: PATIENCE,
        login: Login::without_questions(None),
        in_memory: false,
    };
    let target = Target::Local;
    Attempt {
        target: &target,
        settings: &settings,
        token: token(),
        channel,
        rise: None,
        largest: 4,
        timings: Timings::start(),
        until: Instant::now() + PATIENCE,
    }
    .finish(&Silent)
    .await
}

async fn peer(mut channel: DuplexStream, first: Vec<u8>, then: Option<Vec<u8>>) {
    channel.write_all(&first).await.unwrap();
    let Some(then) = then else {
        // It stays, and says nothing more.
        return std::future::pending().await;
    };
    // The controller's mark ends what it sends before it waits.
    let mut scanner = MarkScanner::for_controller(&token());
    let mut bytes = vec![0; 4096];
    loop {
        let read = channel.read(&mut bytes).await.unwrap();
        if read == 0 || scanner.push(&bytes[..read]).unwrap().is_some() {
            break;
        }
    }
    let _ = channel.write_all(&then).await;
}

fn ready() -> Vec<u8> {
    let line = format!("Welcome to web!\n{} READY x86_64 gzip 16\n", script::mark(&token()));
    [line.as_bytes(), &program(62)].concat()
}

/// The line with the start of a program, for the processor with this number.
fn program(number: u8) -> Vec<u8> {
    [b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".as_slice(), &[number, 0, b'\n']].concat()
}

fn started(frames: &[FromAgent]) -> Vec<u8> {
    let mut bytes = agent_mark(token(), WIRE_ID, digest());
    for frame in frames {
        bytes.extend(frame::encode(frame).unwrap());
    }
    bytes
}

#[tokio::test]
async fn an_agent_that_says_who_it_is_is_taken() {
    let pushed = attempt(ready(), Some(started(&[hello()]))).await.unwrap();
    assert_eq!((pushed.hello.host_name.as_str(), pushed.sha256), ("web", digest()));
}

#[tokio::test]
async fn an_agent_that_is_not_the_one_that_was_sent_is_refused() {
    let receipt = FromAgent::Receipt(Receipt {
        worker_pid: 1,
        supervisor_pid: 1,
        descendants_ended: 0,
        descendants_left: 0,
        files_left: 0,
    });
    let mut cut_off = started(&[]);
    cut_off.extend([0xff; 16]);
    let cases = [
        ("another file", agent_mark(token(), WIRE_ID, Sha256([8; 32])), "another file runs"),
        ("another build", agent_mark(token(), "0123456789abcdef", digest()), "another build"),
        ("no greeting", started(&[receipt]), "malformed"),
        ("no frame", cut_off, "exceeds the limit"),
    ];
    for (name, bytes, words) in cases {
        let error = attempt(ready(), Some(bytes)).await.err().unwrap();
        assert_eq!(error.exit_code(), exit::ALTERED, "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_peer_that_runs_no_script_is_no_shell() {
    let old = Token::new([1; 16]);
    let cases = [
        ("closed at once", Vec::new()),
        ("a notice", b"This account is not available.\n".to_vec()),
        (
            "a mark of another session",
            format!("{} READY x86_64 gzip 16\n", script::mark(&old)).into(),
        ),
        ("endless noise", vec![b'x'; 200_000]),
        ("a line without end", format!("{} {}", script::mark(&token()), "x".repeat(500)).into()),
    ];
    for (name, bytes) in cases {
        // The peer closes as soon as it has spoken.
        let (ours, mut theirs) = duplex(1 << 20);
        theirs.write_all(&bytes).await.unwrap();
        drop(theirs);
        let error = attempt_over(ours).await.err().unwrap();
        assert_eq!(error.exit_code(), exit::NO_SHELL, "{name}: {error}");
        assert!(error.to_string().len() < 700, "{name}: {}", error.to_string().len());
    }
}

#[tokio::test]
async fn refusals_of_the_script_are_told() {
    let line = |words: &str| format!("{} {words}\n", script::mark(&token())).into_bytes();
    let cases = [
        (line("NOPLACE|full=/tmp|noexec=/run"), None, exit::NO_ROOM),
        (line("NOPLACE|noexec=/tmp"), None, exit::CANNOT_RUN),
        (line("NOPROC"), None, exit::CANNOT_RUN),
        (line("NOCHECK"), None, exit::CANNOT_RUN),
        ([line("READY riscv64 gzip 16"), program(243)].concat(), None, exit::CANNOT_RUN),
        ([line("READY x86_64 gzip 16"), program(243)].concat(), None, exit::CANNOT_RUN),
        ([line("READY x86_64 gzip 16"), vec![b'x'; 1000]].concat(), None, exit::CANNOT_RUN),
        (line("READY"), None, exit::NO_SHELL),
        (ready(), Some(line("ALTERED")), exit::ALTERED),
        (ready(), Some(line("NOPLACE|full=/tmp")), exit::NO_ROOM),
    ];
    for (first, then, code) in cases {
        let error = attempt(first.clone(), then).await.err().unwrap();
        assert_eq!(error.exit_code(), code, "{}: {error}", String::from_utf8_lossy(&first));
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_given_up() {
    let error = attempt(Vec::new(), None).await.err().unwrap();
    assert!(error.to_string().starts_with("connecting took longer than 5 s"), "{error}");
    let error = attempt(ready(), None).await.err().unwrap();
    assert!(error.to_string().starts_with("sending and starting the agent"), "{error}");
}
