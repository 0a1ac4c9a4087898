//! From nothing to a user who is let in: the route, the key exchange, the login. Each step has a
//! limit of its own, because the library has none.

use super::{
    Beyond, Limits, Place, Problem, algorithms,
    handler::{Checker, Refused, Told},
    list, login,
    onward::onward,
    stream::{self, Allowance, Bytes, FirstWords, Prompt, Severable},
};
use crate::transport::{
    Admitted, Carrier, Failure, Login, Outgoing, Prompts, Step, Timings, Traffic,
    known_hosts::{KnownHosts, Name},
    meaning::{Addresses, Meaning, Rekey, Route},
    process,
};
use protocol::host_text::{HostText, printable};
use russh::{AlgorithmKind, client};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpStream, time::timeout};
use tokio_util::sync::CancellationToken;

/// How we say who we are (RFC 4253, section 4.2), so that a server's log tells our own SSH from any
/// other.
const VERSION: &str = concat!("SSH-2.0-sysmcp_", env!("CARGO_PKG_VERSION"));

/// A host that has let us in, and what the way there is made of.
pub struct Connected {
    /// The session with the host.
    pub handle: client::Handle<Checker>,
    /// Sessions with the hosts on the way, which end after it.
    pub jumps: Vec<client::Handle<Checker>>,
    /// The command in the place of TCP.
    pub command: Option<Carrier>,
    /// Cuts everything off.
    pub sever: CancellationToken,
    /// What went through below.
    pub traffic: Arc<Traffic>,
    /// What is known of the session with the host.
    pub told: Told,
    /// What carries bytes away from this machine.
    pub outgoing: Outgoing,
}

/// The way to a host, with nothing said yet.
struct Laid {
    stream: Box<dyn Bytes>,
    /// The address, where it is known.
    address: Option<IpAddr>,
    jumps: Vec<client::Handle<Checker>>,
    command: Option<Carrier>,
    outgoing: Ways,
    /// Given back when the user is in.
    admitted: Admitted,
}

/// What carries bytes away from this machine.
enum Ways {
    /// This socket, by its inode.
    Socket(Option<u64>),
    /// A connection that there was before, or a command.
    Other(Outgoing),
}

impl Limits {
    /// `ConnectTimeout` is for both, as for ssh (ssh_config(5)).
    fn of(meaning: &Meaning, answer: Duration) -> Self {
        const CONNECTION: Duration = Duration::from_secs(20);
        let connection = meaning.connect_timeout.unwrap_or(CONNECTION);
        Self { connection, exchange: meaning.connect_timeout.unwrap_or(answer), answer }
    }
}

/// Connects and logs in, through all hosts on the way.
pub(super) async fn connect(
    place: Place<'_>,
    login: &Login,
    timings: &mut Timings,
) -> Result<Connected, Problem> {
    let sever = CancellationToken::new();
    // Whatever goes wrong, nothing of it goes on in the background.
    let guard = sever.clone().drop_guard();
    let connected = hop(place, None, login, timings, sever).await?;
    guard.disarm();
    Ok(connected)
}

/// Connects to one host and logs in. `via` names it for the timings, where it is on the way only.
async fn hop(
    place: Place<'_>,
    via: Option<&str>,
    login: &Login,
    timings: &mut Timings,
    sever: CancellationToken,
) -> Result<Connected, Problem> {
    let limits = Limits::of(place.meaning, login.answer_limit);
    let traffic = Arc::new(Traffic::default());
    let laid = lay(place, limits, login, timings, &sever).await?;
    timings.mark_at(via, Step::Connection);
    let allowance = Allowance::default();
    let words = FirstWords::default();
    let stream = stream::under(
        laid.stream,
        Arc::clone(&traffic),
        sever.clone(),
        allowance.clone(),
        words.clone(),
    );
    let name = known_as(place.meaning, laid.address);
    let known = KnownHosts::read(&files(place.meaning));
    let config = config(place.meaning, &known, &name)?;
    let checker = Checker::new(place, name, known, login.accepts_new_hosts);
    let told = checker.told();
    let exchanging = client::connect_stream(Arc::new(config), stream, checker);
    let mut handle = match timeout(limits.exchange, exchanging).await {
        Ok(Ok(handle)) => handle,
        Ok(Err(refused)) => {
            return Err(explained(place, refused, (&told, &words), laid.command).await);
        }
        Err(_) => return Err(place.timed_out("the key exchange", limits.exchange).into()),
    };
    timings.mark_at(via, Step::KeyExchange);
    timings.algorithms = told.agreed();
    if let Some(binding) = handle.agent_session_binding()
        && let Err(why) = told.check_signature(binding.signature())
    {
        let why = HostText::capped(why.as_bytes(), 200).to_string();
        return Err(Failure::HostCertificate { host: place.host(), why }.into());
    }
    login::log_in(place, &mut handle, &told, limits, login.prompts).await?;
    allowance.lift();
    drop(laid.admitted);
    timings.mark_at(via, Step::Login);
    let outgoing = match laid.outgoing {
        Ways::Socket(Some(socket)) => {
            Outgoing::Connection { traffic: Arc::clone(&traffic), socket }
        }
        Ways::Socket(None) => Outgoing::Unknown,
        Ways::Other(outgoing) => outgoing,
    };
    let (jumps, command) = (laid.jumps, laid.command);
    Ok(Connected { handle, jumps, command, sever, traffic, told, outgoing })
}

/// Lays the way to a host.
async fn lay(
    place: Place<'_>,
    limits: Limits,
    login: &Login,
    timings: &mut Timings,
    sever: &CancellationToken,
) -> Result<Laid, Problem> {
    let Meaning { host, port, .. } = place.meaning;
    match &place.meaning.route {
        Route::Direct => {
            let admitted = login.doors.enter(&[(host, *port)]).await;
            let (stream, address) = tcp(place, limits).await?;
            let outgoing = Ways::Socket(stream::inode(&stream));
            let stream: Box<dyn Bytes> = Box::new(Prompt(stream));
            let (address, jumps) = (Some(address), Vec::new());
            Ok(Laid { stream, address, jumps, command: None, outgoing, admitted })
        }
        Route::Command(command) => {
            let admitted = login.doors.enter(&[(host, *port)]).await;
            through_command(place, command, login.prompts, admitted)
        }
        Route::Jump(jump) => {
            let place_of_jump = Place { meaning: jump, ..place };
            let via = printable(&jump.host).into_owned();
            let connecting = hop(place_of_jump, Some(&via), login, timings, sever.clone());
            let connected = Box::pin(connecting).await.map_err(|problem| match problem {
                Problem::Beyond(wanted) => {
                    Beyond::OnTheWay { host: via.clone(), wanted: Box::new(wanted) }.into()
                }
                Problem::Failure(failure) => Problem::Failure(failure),
            });
            let Connected { handle, mut jumps, command, told, outgoing, .. } = connected?;
            let admitted = login.doors.enter(&[(host, *port)]).await;
            let opening = handle.channel_open_direct_tcpip(
                place.meaning.host.clone(),
                place.meaning.port.into(),
                "127.0.0.1",
                // What ssh says for `-W`, in channels.c.
                65535,
            );
            let channel = match timeout(limits.connection, opening).await {
                Ok(Ok(channel)) => channel,
                Ok(Err(error)) => {
                    let why = told.and_why();
                    let said = format!("{} does not reach it: {error}{why}", jump.host);
                    return Err(place.unreachable(&said).into());
                }
                Err(_) => return Err(place.timed_out("connecting", limits.connection).into()),
            };
            jumps.push(handle);
            // A write that waits for room at a host on the way is forgotten when that one is gone.
            let stream = Severable::for_writes(onward(channel), told.over().clone());
            let (stream, outgoing) = (Box::new(stream), Ways::Other(outgoing));
            Ok(Laid { stream, address: None, jumps, command, outgoing, admitted })
        }
    }
}

/// Connects by TCP to the first address that answers.
async fn tcp(place: Place<'_>, limits: Limits) -> Result<(TcpStream, IpAddr), Problem> {
    let Meaning { host, port, .. } = place.meaning;
    let looking = tokio::net::lookup_host((host.as_str(), *port));
    let addresses = match timeout(limits.connection, looking).await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(error)) => {
            let said = format!("could not resolve hostname {}: {error}", printable(host));
            return Err(place.unreachable(&said).into());
        }
        Err(_) => return Err(place.timed_out("looking its name up", limits.connection).into()),
    };
    let mut last = None;
    let wanted = |address: &SocketAddr| match place.meaning.addresses {
        Addresses::Any => true,
        Addresses::V4 => address.is_ipv4(),
        Addresses::V6 => address.is_ipv6(),
    };
    for address in addresses.filter(wanted) {
        match timeout(limits.connection, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Without it a connection is slower, and no more.
                let _ = stream.set_nodelay(true);
                return Ok((stream, address.ip()));
            }
            Ok(Err(error)) => {
                last = Some(place.unreachable(&format!("connect to {address}: {error}")));
            }
            Err(_) => last = Some(place.timed_out("connecting", limits.connection)),
        }
    }
    Err(last.unwrap_or_else(|| place.unreachable("its name has no address")).into())
}

/// Starts the command that stands in the place of TCP, as ssh does: by the user's shell, which it
/// replaces.
fn through_command(
    place: Place<'_>,
    text: &str,
    prompts: Prompts,
    admitted: Admitted,
) -> Result<Laid, Problem> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    let mut command = process::shielded(&shell, prompts);
    command.args(["-c", &format!("exec {text}")]);
    let channel = process::start(command).map_err(|error| {
        place.unreachable(&format!("could not start its ProxyCommand: {error}"))
    })?;
    let stream: Box<dyn Bytes> = Box::new(tokio::io::join(channel.reader, channel.writer));
    let (command, outgoing) = (channel.carrier, Ways::Other(Outgoing::Unknown));
    Ok(Laid { stream, address: None, jumps: Vec::new(), command, outgoing, admitted })
}

/// What the host is looked up as.
fn known_as(meaning: &Meaning, address: Option<IpAddr>) -> Name {
    match &meaning.host_key_alias {
        Some(alias) => Name { host: alias.clone(), port: None, address: None },
        None => Name {
            host: meaning.host.clone(),
            port: Some(meaning.port),
            // As `check_host_key` in OpenSSH's sshconnect.c: not where there is no name beside it.
            address: address
                .filter(|_| meaning.checks_address && meaning.host.parse::<IpAddr>().is_err()),
        },
    }
}

fn files(meaning: &Meaning) -> Vec<std::path::PathBuf> {
    meaning.user_known_hosts.iter().chain(&meaning.global_known_hosts).cloned().collect()
}

fn config(meaning: &Meaning, known: &KnownHosts, name: &Name) -> Result<client::Config, Beyond> {
    let mut preferred = algorithms::preferred(&meaning.algorithms)?;
    let (keys, certificates) = known.preferred(name, &meaning.algorithms.host_keys);
    if keys.is_empty() {
        return Err(Beyond::none_allowed("host key", &meaning.algorithms.host_keys));
    }
    preferred.key = keys.into();
    preferred.host_key_certificates = certificates.into();
    Ok(client::Config {
        client_id: russh::SshId::Standard(VERSION.into()),
        preferred,
        nodelay: true,
        limits: rekeying(meaning.rekey),
        keepalive_interval: meaning.alive_interval,
        keepalive_max: meaning.alive_count,
        // Both as OpenSSH has them, and what one channel may hold here.
        window_size: 2 << 20,
        maximum_packet_size: 32 << 10,
        ..client::Config::default()
    })
}

/// When new keys are agreed on: no later than the library would by itself.
fn rekeying(rekey: Rekey) -> russh::Limits {
    let mut limits = russh::Limits::default();
    if let Some(bytes) = rekey.bytes.and_then(|bytes| usize::try_from(bytes).ok()) {
        limits.rekey_write_limit = limits.rekey_write_limit.min(bytes);
        limits.rekey_read_limit = limits.rekey_read_limit.min(bytes);
    }
    if let Some(time) = rekey.time {
        limits.rekey_time_limit = limits.rekey_time_limit.min(time);
    }
    limits
}

/// A list without what only says that its end understands an extension (RFC 8308, and strict key
/// exchange in OpenSSH's PROTOCOL).
fn algorithms_of(names: &[String]) -> Vec<String> {
    let is_sign = |name: &str| name.starts_with("ext-info-") || name.starts_with("kex-strict-");
    names.iter().filter(|name| !is_sign(name)).cloned().collect()
}

/// Why a connection did not come about, in the words of whoever knows best.
async fn explained(
    place: Place<'_>,
    refused: Refused,
    (told, words): (&Told, &FirstWords),
    command: Option<Carrier>,
) -> Problem {
    let error = match refused {
        Refused::Host(failure) => return Problem::Failure(*failure),
        Refused::Ssh(error) => error,
    };
    if let russh::Error::NoCommonAlgo { kind, ours, theirs } = &error {
        let kind = match kind {
            AlgorithmKind::Kex => "key exchange",
            AlgorithmKind::Key => "host key",
            AlgorithmKind::Cipher => "cipher",
            AlgorithmKind::Compression => "compression",
            AlgorithmKind::Mac => "message authentication code",
        };
        let (ours, offered) = (list(&algorithms_of(ours)), list(&algorithms_of(theirs)));
        return Problem::Beyond(Beyond::Algorithms { kind, offered, ours });
    }
    // A command that stands in the place of TCP knows more than that its stream ended.
    if let Some(command) = command {
        let ended = command.end(Duration::from_millis(500)).await;
        let said = String::from_utf8_lossy(&ended.stderr);
        if let Some(line) = said.lines().rev().find(|line| !line.trim().is_empty()) {
            return place.unreachable(&format!("its ProxyCommand said: {line}")).into();
        }
    }
    if let Some(version) = words.old_version() {
        return Failure::not_ssh(place.host(), &version).into();
    }
    if matches!(error, russh::Error::Disconnect | russh::Error::IO(_) | russh::Error::HUP)
        && let Some(said) = words.without_version()
    {
        return Failure::closed_early(place.host(), &said).into();
    }
    let error = match told.why_over().filter(|why| why.is_of_host) {
        Some(why) => format!("it said: {}", why.said),
        None => error.to_string(),
    };
    place.unreachable(&format!("the key exchange failed: {error}")).into()
}
