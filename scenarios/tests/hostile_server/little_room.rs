//! A host on the way that means no harm, and makes room for little at a time, as Dropbear does.

use super::{Before, SECOND, open};
use controller::transport::Prompts;
use russh::{
    keys::decode_secret_key,
    server::{self, Auth, ChannelOpenHandle, Msg, Session},
};
use scenarios::{
    servers::login::make_key,
    sshd::{Settings, Sshd},
};
use std::{fs, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// Leads anybody on.
struct Jump;

impl server::Handler for Jump {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: server::VerifiedPublicKey<'_>,
    ) -> Result<Auth, russh::Error> {
        Ok(Auth::Accept)
    }

    async fn auth_publickey_offered(
        &mut self,
        _: &str,
        _: server::PublicKeyOffer<'_>,
    ) -> Result<Auth, russh::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: russh::Channel<Msg>,
        host: &str,
        port: u32,
        _: &str,
        _: u32,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), russh::Error> {
        let port = u16::try_from(port).unwrap();
        let mut onward = TcpStream::connect((host, port)).await?;
        reply.accept().await;
        tokio::spawn(async move {
            let mut channel = channel.into_stream();
            let _ = tokio::io::copy_bidirectional(&mut channel, &mut onward).await;
        });
        Ok(())
    }
}

/// Each time it makes room, that is a message: a session that writes takes none, and the one under it
/// must go on all the same.
#[tokio::test]
async fn much_is_sent_through_a_host_that_makes_room_for_little_at_a_time() {
    /// Far more than the windows of both sessions.
    const MUCH: usize = 6 << 20;
    let before = Before::now().await;
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    make_key(&sshd.file("jump"), &["ed25519"], "").unwrap();
    let key = decode_secret_key(&fs::read_to_string(sshd.file("jump")).unwrap(), None).unwrap();
    let known = format!("[127.0.0.1]:{port} {}\n", key.public_key().to_openssh().unwrap());
    let config = server::Config { keys: vec![key], window_size: 8 << 10, ..Default::default() };
    let jump = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = server::run_stream(Arc::new(config), stream, Jump).await.unwrap().await;
    });
    fs::write(sshd.file("jump_known"), known).unwrap();
    sshd.write_client_config(&["ProxyJump jump".to_owned()]).unwrap();
    let config = format!(
        "{}Host jump\n  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {}\n  IdentityAgent none\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
        fs::read_to_string(sshd.client_config()).unwrap(),
        sshd.file("id").display(),
        sshd.file("jump_known").display(),
    );
    fs::write(sshd.client_config(), config).unwrap();
    let (target, config) = (sshd.target_by("russh"), sshd.client_config());
    let opening = open(&target, &config, Prompts::Forbidden, "wc -c");
    let mut channel = opening.await.unwrap();
    let sending = async {
        channel.writer.write_all(&vec![b'x'; MUCH]).await.unwrap();
        channel.writer.shutdown().await.unwrap();
        let mut counted = String::new();
        channel.reader.read_to_string(&mut counted).await.unwrap();
        counted
    };
    let counted = tokio::time::timeout(60 * SECOND, sending).await.expect("it does not end");
    assert_eq!(counted.trim(), MUCH.to_string());
    let ended = channel.carrier.unwrap().end(5 * SECOND).await;
    assert_eq!((ended.code, ended.lost), (Some(0), None));
    jump.await.unwrap();
    before.assert_nothing_left("little room", 64 << 20).await;
}
