//! Hosts that speak the protocol and mean harm behind it: while they let somebody in, and after.

use super::{ANSWER, Before, Client, SECOND, open, sentence};
use controller::transport::{Failure, Prompts};
use russh::{
    ChannelId, Disconnect, MethodKind, MethodSet,
    keys::{PrivateKey, decode_secret_key},
    server::{self, Auth, ChannelOpenHandle, Handle, Msg, Response, Session},
};
use std::{
    borrow::Cow,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
    time::Instant,
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{202e}\r\nsecond line";

/// What a host does to a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evil {
    /// Asks nothing, again and again.
    Rounds,
    /// Asks everything at once.
    Questions,
    /// Ends the connection at the first try, with words.
    Disconnects,
    /// The same without a word.
    Drops,
    /// Takes each method in part, for ever.
    InPart,
    /// Never answers a password or a key.
    Hangs,
    /// Lets anybody in, and opens channels of every kind here.
    Opens,
    /// Writes errors without end.
    Errors,
    /// Ends the connection under a command, with words.
    Ends,
    /// Lets a command end with 255.
    Code255,
    /// Leads on to another host, takes next to nothing for it, and goes.
    Narrow,
}

use Evil::*;

struct Host {
    evil: Evil,
    handle: Arc<Mutex<Option<Handle>>>,
    /// How many channels were opened here, of how many.
    opened: Arc<Mutex<Option<(usize, usize)>>>,
}

impl Host {
    async fn first(&mut self) -> Result<Auth, russh::Error> {
        match self.evil {
            Disconnects => {
                let handle = self.handle.lock().unwrap().clone().unwrap();
                tokio::spawn(async move {
                    let said = ESCAPES.to_owned();
                    let _ = handle.disconnect(Disconnect::ByApplication, said, "en".into()).await;
                });
                Ok(refusal(false))
            }
            Drops => Err(russh::Error::Disconnect),
            InPart => Ok(refusal(true)),
            Hangs => {
                tokio::time::sleep(2 * ANSWER).await;
                Err(russh::Error::Disconnect)
            }
            Opens | Errors | Ends | Code255 | Narrow => Ok(Auth::Accept),
            Rounds | Questions => Ok(refusal(false)),
        }
    }
}

fn refusal(partial_success: bool) -> Auth {
    let methods = [MethodKind::PublicKey, MethodKind::KeyboardInteractive, MethodKind::Password];
    Auth::Reject { proceed_with_methods: Some(MethodSet::from(&methods[..])), partial_success }
}

impl server::Handler for Host {
    type Error = russh::Error;

    async fn authentication_banner(&mut self) -> Result<Option<String>, russh::Error> {
        Ok(Some(ESCAPES.repeat(5_000)))
    }

    async fn auth_none(&mut self, _: &str) -> Result<Auth, russh::Error> {
        self.first().await
    }

    async fn auth_publickey_offered(
        &mut self,
        _: &str,
        _: server::PublicKeyOffer<'_>,
    ) -> Result<Auth, russh::Error> {
        self.first().await
    }

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: server::VerifiedPublicKey<'_>,
    ) -> Result<Auth, russh::Error> {
        self.first().await
    }

    async fn auth_keyboard_interactive<'a>(
        &'a mut self,
        _: &str,
        _: &str,
        _: Option<Response<'a>>,
    ) -> Result<Auth, russh::Error> {
        let questions = if self.evil == Questions { 10_000 } else { 0 };
        match self.evil {
            Rounds | Questions => Ok(Auth::Partial {
                name: ESCAPES.into(),
                instructions: ESCAPES.into(),
                prompts: Cow::Owned(vec![("?".into(), false); questions]),
            }),
            Disconnects | Drops | InPart | Hangs | Opens | Errors | Ends | Code255 | Narrow => {
                self.first().await
            }
        }
    }

    async fn channel_open_session(
        &mut self,
        _: russh::Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: russh::Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        tokio::spawn(async move { channel.data_bytes("SSH-2.0-Evil\r\n").await });
        Ok(())
    }

    async fn data(
        &mut self,
        _: ChannelId,
        bytes: &[u8],
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        if bytes.starts_with(b"SSH-") {
            return Ok(());
        }
        // No room is made while this waits.
        tokio::time::sleep(SECOND / 2).await;
        Err(russh::Error::Disconnect)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), russh::Error> {
        let handle = session.handle();
        session.channel_success(id)?;
        let (evil, opened) = (self.evil, Arc::clone(&self.opened));
        tokio::spawn(async move {
            match evil {
                Opens => {
                    let result = open_all(&handle).await;
                    *opened.lock().unwrap() = Some(result);
                    let _ = handle.data(id, "still here\n").await;
                    let _ = handle.exit_status_request(id, 0).await;
                }
                Errors => {
                    let piece = vec![b'e'; 32 << 10];
                    while handle.extended_data(id, 1, piece.clone()).await.is_ok() {}
                }
                Ends => {
                    let said = ESCAPES.to_owned();
                    let _ = handle.disconnect(Disconnect::ByApplication, said, "en".into()).await;
                    return;
                }
                Rounds | Questions | Disconnects | Drops | InPart | Hangs | Code255 | Narrow => {
                    let _ = handle.exit_status_request(id, 255).await;
                }
            }
            let _ = handle.eof(id).await;
            let _ = handle.close(id).await;
        });
        Ok(())
    }
}

/// Tries every kind of channel, and asks for what only a client may ask for. Returns how many of how
/// many were opened.
async fn open_all(handle: &Handle) -> (usize, usize) {
    const ROUNDS: usize = 100;
    let mut opened = 0;
    for _ in 0..ROUNDS {
        let results = [
            handle.channel_open_agent().await.is_ok(),
            handle.channel_open_session().await.is_ok(),
            handle.channel_open_direct_tcpip("127.0.0.1", 22, "127.0.0.1", 1).await.is_ok(),
            handle.channel_open_direct_streamlocal("/run/docker.sock").await.is_ok(),
            handle.channel_open_forwarded_tcpip("127.0.0.1", 22, "127.0.0.1", 1).await.is_ok(),
            handle.channel_open_forwarded_streamlocal("/run/docker.sock").await.is_ok(),
            handle.channel_open_x11("127.0.0.1", 1).await.is_ok(),
            handle.forward_tcpip("127.0.0.1".into(), 0).await.is_ok(),
        ];
        opened += results.iter().filter(|is_open| **is_open).count();
    }
    (opened, ROUNDS * 8)
}

/// A host, and a client that knows it.
struct Place {
    client: Client,
    port: u16,
    opened: Arc<Mutex<Option<(usize, usize)>>>,
    host: tokio::task::JoinHandle<()>,
}

fn make_key(file: &Path) -> PrivateKey {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(file);
    assert!(keygen.stdin(Stdio::null()).status().unwrap().success());
    decode_secret_key(&std::fs::read_to_string(file).unwrap(), None).unwrap()
}

async fn place(evil: Evil) -> Place {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(&folder.path().join("host"));
    let client = Client::new(port, &key.public_key().to_openssh().unwrap(), "");
    make_key(&client.folder.path().join("id"));
    let config = Arc::new(server::Config {
        keys: vec![key],
        window_size: if evil == Narrow { 100 } else { 2 << 20 },
        auth_rejection_time: SECOND / 100,
        auth_rejection_time_initial: Some(SECOND / 100),
        ..server::Config::default()
    });
    let opened = Arc::new(Mutex::new(None));
    let counted = Arc::clone(&opened);
    let host = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let handle = Arc::new(Mutex::new(None));
        let host = Host { evil, handle: Arc::clone(&handle), opened: counted };
        let running = server::run_stream(config, stream, host).await.unwrap();
        *handle.lock().unwrap() = Some(running.handle());
        let _ = running.await;
    });
    Place { client, port, opened, host }
}

#[tokio::test]
async fn whatever_a_host_does_during_a_login_ends_in_one_harmless_sentence() {
    let cases = [
        (Rounds, "it went on asking after 32 rounds of questions"),
        (Questions, "it asks 10000 questions at once"),
        (Disconnects, " \\x1b[2J\\x1b]0;evil"),
        (Drops, "does not let me in: it closed the connection during the login"),
        (InPart, "wants a password, and there is no terminal to ask at"),
        (Hangs, "logging in took longer than 2 s"),
    ];
    for (evil, part) in cases {
        let case = format!("{evil:?}");
        let before = Before::now().await;
        let Place { client, port, host, .. } = place(evil).await;
        let started = Instant::now();
        // Somebody could be asked; but there is no terminal, or nothing to be asked at it.
        let target = format!("russh:me@127.0.0.1:{port}");
        let prompts = if evil == InPart { Prompts::Forbidden } else { Prompts::Allowed };
        let result = open(&target, &client.config(), prompts, "true").await;
        let took = started.elapsed();
        let said = sentence(&case, result);
        assert!(said.contains(part), "{case}: {said}");
        assert!(took < ANSWER + 2 * SECOND, "{case}: {took:?}");
        host.abort();
        let _ = host.await;
        before.assert_nothing_left(&case, 64 << 20).await;
    }
}

#[tokio::test]
async fn a_host_can_open_nothing_here() {
    let before = Before::now().await;
    let Place { client, port, opened, host } = place(Opens).await;
    let mut channel = client.open(port, "true").await.unwrap();
    let mut said = String::new();
    channel.reader.read_to_string(&mut said).await.unwrap();
    assert_eq!(said, "still here\n");
    let opened = opened.lock().unwrap().take();
    assert_eq!(opened, Some((0, 800)));
    let ended = channel.carrier.unwrap().end(5 * SECOND).await;
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.lost, None);
    host.abort();
    let _ = host.await;
    before.assert_nothing_left("opens", 64 << 20).await;
}

#[tokio::test]
async fn errors_without_end_are_kept_in_part() {
    let before = Before::now().await;
    let Place { client, port, host, .. } = place(Errors).await;
    let channel = client.open(port, "true").await.unwrap();
    tokio::time::sleep(2 * SECOND).await;
    assert!(channel.traffic.received() == 0, "errors are no output");
    let started = Instant::now();
    let ended = channel.carrier.unwrap().end(SECOND / 10).await;
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    assert!(ended.stderr.len() <= 8192 && ended.stderr.ends_with(b"eee"));
    assert!(ended.under.unwrap().received() > 1 << 20, "too little came to tell");
    host.abort();
    let _ = host.await;
    before.assert_nothing_left("errors", 64 << 20).await;
}

#[tokio::test]
async fn a_connection_that_is_lost_under_a_command_is_told_from_a_command_that_failed() {
    let before = Before::now().await;
    let Place { client, port, host, .. } = place(Ends).await;
    let mut channel = client.open(port, "true").await.unwrap();
    let mut said = Vec::new();
    let reading = tokio::time::timeout(5 * SECOND, channel.reader.read_to_end(&mut said)).await;
    reading.unwrap().unwrap();
    let ended = channel.carrier.unwrap().end(SECOND).await;
    let Some(failure @ Failure::Unreachable { .. }) = ended.lost else { panic!("{ended:?}") };
    let failure = failure.to_string();
    assert!(failure.contains("the connection was lost: \\x1b[2J"), "{failure}");
    assert!(!failure.chars().any(char::is_control), "{failure:?}");
    host.abort();
    let _ = host.await;
    before.assert_nothing_left("ends", 64 << 20).await;

    let Place { client, port, host, .. } = place(Code255).await;
    let channel = client.open(port, "true").await.unwrap();
    let ended = channel.carrier.unwrap().end(5 * SECOND).await;
    assert_eq!((ended.code, ended.lost), (Some(255), None));
    host.abort();
    let _ = host.await;
    before.assert_nothing_left("255", 64 << 20).await;
}

#[tokio::test]
async fn what_waits_for_a_host_on_the_way_ends_with_it() {
    let before = Before::now().await;
    let Place { client, port, host, .. } = place(Narrow).await;
    let config = std::fs::read_to_string(client.config()).unwrap();
    let behind = format!("Host behind\n  ProxyJump me@127.0.0.1:{port}\n");
    std::fs::write(client.config(), format!("{config}{behind}")).unwrap();
    let started = Instant::now();
    // The names of what we can do do not go through.
    let result = open("russh:me@behind", &client.config(), Prompts::Forbidden, "true").await;
    let said = sentence("narrow", result);
    assert!(said.contains("behind does not answer: the key exchange failed"), "{said}");
    assert!(started.elapsed() < ANSWER, "{:?}", started.elapsed());
    host.abort();
    let _ = host.await;
    before.assert_nothing_left("narrow", 64 << 20).await;
}
