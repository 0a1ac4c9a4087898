//! Hosts that break the protocol before it is encrypted. No secret is needed for that.

use super::{ANSWER, Before, Client, SECOND, sentence};
use russh::keys::{
    HashAlg, PrivateKey, decode_secret_key, signature::Signer as _, ssh_encoding::Encode as _,
    ssh_key::private::KeypairData,
};
use sha2::{Digest as _, Sha256};
use std::{
    process::{Command, Stdio},
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const VERSION: &str = "SSH-2.0-Evil";
/// What would clear a screen, set a title and turn text around.
const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{202e}\r\nsecond line";

const DISCONNECT: u8 = 1;
const IGNORE: u8 = 2;
const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;
const KEX_GROUP: u8 = 31;
const KEX_REPLY: u8 = 31;
const USERAUTH_SUCCESS: u8 = 52;

/// What a host does to whoever connects.
#[derive(Clone, Copy, Debug)]
enum Evil {
    Closes,
    LineWithoutEnd,
    LinesWithoutEnd,
    EscapesBeforeVersion,
    EscapesInVersion,
    SlowVersion,
    SlowPacket,
    HugePacket,
    ShortPacket,
    PaddingOnly,
    Zeros,
    HugeNames,
    ManyNames,
    OddNames,
    Ignores,
    DisconnectsWithEscapes,
    SuccessBeforeKeys,
    KeysOutOfTurn,
    TinyGroup,
    EvenGroup,
    NoGenerator,
    ClosesAfterNames,
    Noise(u64),
}

use Evil::*;

/// What each comes to: a part of the sentence.
const CASES: &[(Evil, &str)] = &[
    (Closes, "does not answer: it closed the connection before it said what it is"),
    (LineWithoutEnd, "does not answer: the key exchange failed"),
    (LinesWithoutEnd, "does not answer: the key exchange failed"),
    (EscapesBeforeVersion, "does not answer: it closed the connection before it said what it is"),
    (EscapesInVersion, "does not answer: the key exchange failed"),
    (SlowVersion, "the key exchange took longer than 2 s"),
    (SlowPacket, "the key exchange took longer than 2 s"),
    (HugePacket, "does not answer: the key exchange failed"),
    (ShortPacket, "does not answer: the key exchange failed"),
    (PaddingOnly, "does not answer: the key exchange failed"),
    (Zeros, "does not answer: the key exchange failed"),
    (HugeNames, "does not answer: the key exchange failed"),
    (ManyNames, "offers no key exchange"),
    (OddNames, "key exchange"),
    (Ignores, "it sent more than 4 MiB before it let anybody in"),
    (DisconnectsWithEscapes, "it said: \\x1b[2J\\x1b]0;evil"),
    (SuccessBeforeKeys, "the key exchange took longer than 2 s"),
    (KeysOutOfTurn, "does not answer: the key exchange failed"),
    (TinyGroup, "does not answer: the key exchange failed"),
    (EvenGroup, "the key exchange took longer than 2 s"),
    (NoGenerator, "does not answer: the key exchange failed"),
    (ClosesAfterNames, "does not answer: the key exchange failed"),
    (Noise(1), "key exchange"),
    (Noise(2), "key exchange"),
    (Noise(3), "key exchange"),
    (Noise(4), "key exchange"),
];

fn string(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    bytes.encode(&mut encoded).unwrap();
    encoded
}

/// A packet without encryption (RFC 4253, section 6).
fn packet(payload: &[u8]) -> Vec<u8> {
    let padding = 16 - (payload.len() + 5) % 8 - 4;
    let length = u32::try_from(payload.len() + padding + 1).unwrap();
    let mut packet = length.to_be_bytes().to_vec();
    packet.push(u8::try_from(padding).unwrap());
    packet.extend_from_slice(payload);
    packet.resize(packet.len() + padding, 0);
    packet
}

/// What a host offers (RFC 4253, section 7.1).
fn names(key_exchange: &str, key: &str) -> Vec<u8> {
    let mut payload = vec![KEXINIT];
    payload.extend_from_slice(&[7; 16]);
    let (cipher, mac) = ("aes256-ctr", "hmac-sha2-256");
    for list in [key_exchange, key, cipher, cipher, mac, mac, "none", "none", "", ""] {
        payload.extend(string(list.as_bytes()));
    }
    payload.extend_from_slice(&[0; 5]);
    payload
}

/// Sends until the other side has enough.
async fn send_for_ever(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}

async fn send_slowly(stream: &mut TcpStream, bytes: &[u8]) {
    for byte in bytes {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        tokio::time::sleep(SECOND / 4).await;
    }
}

/// Waits until the other side hangs up.
async fn wait(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}

/// A host that chooses a group for Diffie and Hellman (RFC 4419).
fn with_group(prime: &[u8], generator: &[u8]) -> Vec<u8> {
    let names = names("diffie-hellman-group-exchange-sha256", "ssh-ed25519");
    let group = [&[KEX_GROUP][..], &string(prime), &string(generator)].concat();
    [packet(&names), packet(&group)].concat()
}

impl Evil {
    /// Whether it begins as any host does.
    const fn has_version(self) -> bool {
        !matches!(
            self,
            Closes
                | LineWithoutEnd
                | LinesWithoutEnd
                | EscapesBeforeVersion
                | SlowVersion
                | EscapesInVersion
        )
    }

    async fn act(self, mut stream: TcpStream) {
        let version = format!("{VERSION}\r\n");
        let mut say = Vec::new();
        if self.has_version() {
            stream.write_all(version.as_bytes()).await.unwrap();
        }
        match self {
            Closes => return,
            LineWithoutEnd => return send_for_ever(&mut stream, &[b'x'; 4096]).await,
            LinesWithoutEnd => return send_for_ever(&mut stream, b"welcome\r\n").await,
            EscapesBeforeVersion => {
                say = ESCAPES.as_bytes().to_vec();
                say.push(b'\n');
            }
            EscapesInVersion => say = format!("SSH-2.0-{ESCAPES}\r\n").into_bytes(),
            SlowVersion => return send_slowly(&mut stream, version.as_bytes()).await,
            SlowPacket => {
                let packet = packet(&names("curve25519-sha256", "ssh-ed25519"));
                return send_slowly(&mut stream, &packet).await;
            }
            HugePacket => say = vec![0xff; 64],
            ShortPacket => say = [&[0, 0, 0, 1][..], &[0; 64]].concat(),
            PaddingOnly => say = [&[0, 0, 0, 12, 255][..], &[0; 64]].concat(),
            Zeros => return send_for_ever(&mut stream, &[0; 4096]).await,
            HugeNames => say = packet(&names(&"name,".repeat(40_000), "ssh-ed25519")),
            ManyNames => say = packet(&names(&"name,".repeat(600), "ssh-ed25519")),
            OddNames => say = packet(&names(ESCAPES, "ssh-ed25519")),
            Ignores => {
                let ignored = packet(&[&[IGNORE][..], &string(&[0; 200_000])].concat());
                return send_for_ever(&mut stream, &ignored).await;
            }
            DisconnectsWithEscapes => {
                let why = string(ESCAPES.as_bytes());
                say = packet(&[&[DISCONNECT, 0, 0, 0, 11][..], &why, &string(b"")].concat());
            }
            SuccessBeforeKeys => {
                say.extend(packet(&[USERAUTH_SUCCESS]));
                say.extend(packet(&names("curve25519-sha256", "ssh-ed25519")));
                say.extend(packet(&[USERAUTH_SUCCESS]));
            }
            KeysOutOfTurn => {
                say = packet(&names("curve25519-sha256", "ssh-ed25519"));
                say.extend(packet(&[NEWKEYS]));
            }
            TinyGroup => say = with_group(&[23], &[5]),
            EvenGroup => say = with_group(&[&[0, 0x80][..], &[0; 511]].concat(), &[3]),
            NoGenerator => say = with_group(&[&[0][..], &[0xff; 512]].concat(), &[]),
            ClosesAfterNames => {
                let names = packet(&names("curve25519-sha256", "ssh-ed25519"));
                stream.write_all(&names).await.unwrap();
                return;
            }
            Noise(mut seed) => {
                for _ in 0..20_000 {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    say.push((seed >> 56) as u8);
                }
            }
        }
        // The other side may have had enough already.
        let _ = stream.write_all(&say).await;
        if matches!(self, EscapesBeforeVersion | EscapesInVersion) {
            return;
        }
        wait(&mut stream).await;
    }
}

#[tokio::test]
async fn whatever_a_host_sends_before_it_is_known_ends_in_one_harmless_sentence() {
    // What is loaded once is not counted.
    for round in 0..2 {
        for (evil, part) in CASES {
            let case = format!("{evil:?}");
            let before = Before::now().await;
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let evil = *evil;
            let host = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.unwrap();
                evil.act(stream).await;
            });
            let client = Client::new(port, ED25519, "");
            let started = Instant::now();
            let result = client.open(port, "true").await;
            let took = started.elapsed();
            let said = sentence(&case, result);
            assert!(said.contains(part), "{case}: {said}");
            assert!(took < ANSWER + 2 * SECOND, "{case}: {took:?}");
            host.abort();
            let _ = host.await;
            let growth = if round == 0 { usize::MAX } else { 16 << 20 };
            before.assert_nothing_left(&case, growth).await;
        }
    }
}

/// A key of some host that is never seen.
const ED25519: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE9ZQmLdMH5f4MaQ0cDQ9Zb7w8qBPhGzCVYqgXWXcmTm";

/// How a host proves who it is.
#[derive(Clone, Copy, Debug)]
struct Proof {
    /// What it agrees on.
    agreed: &'static str,
    /// The hash that it signs with, where it has an RSA key.
    hash: Option<HashAlg>,
    /// Whether its signature is for this exchange.
    is_for_this: bool,
    /// What comes of it.
    part: &'static str,
}

/// The host has an RSA key, which is known. The first is honest, and goes no further for want of
/// encryption.
const PROOFS: [Proof; 5] = [
    Proof {
        agreed: "rsa-sha2-512",
        hash: Some(HashAlg::Sha512),
        is_for_this: true,
        part: "logging in took longer",
    },
    Proof {
        agreed: "rsa-sha2-512",
        hash: None,
        is_for_this: true,
        part: "it agreed to sign with rsa-sha2-512 and signed with ssh-rsa",
    },
    Proof {
        agreed: "rsa-sha2-512",
        hash: Some(HashAlg::Sha256),
        is_for_this: true,
        part: "it agreed to sign with rsa-sha2-512 and signed with rsa-sha2-256",
    },
    Proof {
        agreed: "ssh-ed25519",
        hash: Some(HashAlg::Sha512),
        is_for_this: true,
        part: "it agreed to show a key for ssh-ed25519 and showed one for",
    },
    Proof {
        agreed: "rsa-sha2-512",
        hash: Some(HashAlg::Sha512),
        is_for_this: false,
        part: "the key exchange failed",
    },
];

async fn read_packet(stream: &mut TcpStream) -> Vec<u8> {
    let length = usize::try_from(stream.read_u32().await.unwrap()).unwrap();
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.unwrap();
    let padding = usize::from(*bytes.first().unwrap());
    bytes.get(1..length - padding).unwrap().to_vec()
}

/// A key exchange by Diffie and Hellman (RFC 4253, section 8) whose secret of the host is 1: so its
/// public half is the generator, and what both share is the other's public half.
async fn exchange(mut stream: TcpStream, key: PrivateKey, proof: Proof) {
    stream.write_all(format!("{VERSION}\r\n").as_bytes()).await.unwrap();
    let mut version = Vec::new();
    while !version.ends_with(b"\r\n") {
        version.push(stream.read_u8().await.unwrap());
    }
    version.truncate(version.len() - 2);
    let ours = names("diffie-hellman-group14-sha256", proof.agreed);
    stream.write_all(&packet(&ours)).await.unwrap();
    let theirs = read_packet(&mut stream).await;
    let their_half = read_packet(&mut stream).await.get(1..).unwrap().to_vec();
    let our_half = string(&[2]);
    let blob = string(&key.public_key().to_bytes().unwrap());
    let mut hash = Sha256::new();
    for part in [&version[..], VERSION.as_bytes(), &theirs, &ours] {
        hash.update(string(part));
    }
    for part in [&blob, &their_half, &our_half, &their_half] {
        hash.update(part);
    }
    let mut digest = hash.finalize().to_vec();
    if !proof.is_for_this {
        digest.reverse();
    }
    let KeypairData::Rsa(rsa) = key.key_data() else { panic!("not an RSA key") };
    let signature = (rsa, proof.hash).try_sign(&digest).unwrap();
    let mut signed = Vec::new();
    signature.encode(&mut signed).unwrap();
    let reply = [&[KEX_REPLY][..], &blob, &our_half, &string(&signed)].concat();
    stream.write_all(&packet(&reply)).await.unwrap();
    stream.write_all(&packet(&[NEWKEYS])).await.unwrap();
    wait(&mut stream).await;
}

#[tokio::test]
async fn a_host_proves_who_it_is_as_agreed_and_not_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "rsa", "-b", "2048", "-N", "", "-f"]).arg(&file);
    assert!(keygen.stdin(Stdio::null()).status().unwrap().success());
    let key = decode_secret_key(&std::fs::read_to_string(&file).unwrap(), None).unwrap();
    let known = key.public_key().to_openssh().unwrap();
    for proof in PROOFS {
        let case = format!("{proof:?}");
        let before = Before::now().await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let key = key.clone();
        let host = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            exchange(stream, key, proof).await;
        });
        // Both kinds are allowed, so that only what was agreed on counts.
        let client = Client::new(port, &known, "HostKeyAlgorithms ssh-ed25519,rsa-sha2-512");
        let said = sentence(&case, client.open(port, "true").await);
        assert!(said.contains(proof.part), "{case}: {said}");
        host.abort();
        let _ = host.await;
        before.assert_nothing_left(&case, usize::MAX).await;
    }
}
