//! Networks: what is between here and a host. Each is made of namespaces and a link of our own.

use super::{Attempt, Host, Outcome};
use crate::{
    delayed_link::{Chain, Conditions, DelayedLink, Lack, NOBODY, SERVER},
    second_way::{Server, left_on},
    sshd::{self, Sshd, user_name},
    sysmcp::Sysmcp,
};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    net::{Shutdown, TcpListener},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host {
        name: "a round trip takes 300 ms",
        in_sample: true,
        attempt: || over(Conditions::delayed(ms(300)), &["russh", "openssh"]),
    },
    Host {
        name: "10 Mbit/s",
        in_sample: false,
        attempt: || over(Conditions::delayed(ms(20)).at_rate(TEN_MBIT), &["russh", "openssh"]),
    },
    Host {
        name: "1 % of all packets is lost",
        in_sample: false,
        attempt: || over(Conditions::delayed(ms(20)).losing(10), &["russh", "openssh"]),
    },
    Host {
        name: "300 ms, 10 Mbit/s and 1 % of all packets lost",
        in_sample: true,
        attempt: || {
            let conditions = Conditions::delayed(ms(300)).at_rate(TEN_MBIT).losing(10);
            over(conditions, &["russh", "openssh"])
        },
    },
    Host {
        name: "20 kB/s",
        in_sample: false,
        attempt: || over(Conditions::delayed(ms(100)).at_rate(20_000), &["russh"]),
    },
    Host {
        name: "behind two jump hosts, each in a network of its own",
        in_sample: true,
        attempt: behind_jumps,
    },
    Host { name: "too many logins at once (MaxStartups)", in_sample: true, attempt: crowded },
    Host { name: "what listens says nothing", in_sample: true, attempt: silent },
    Host {
        name: "no route leads there",
        in_sample: true,
        attempt: || from_a_link("192.0.2.1", &["russh", "openssh"]),
    },
    Host {
        name: "every packet vanishes on the way",
        in_sample: true,
        attempt: || from_a_link(&NOBODY.to_string(), &["russh"]),
    },
    Host {
        name: "its name is not known",
        in_sample: true,
        attempt: || from_a_link("no-such-host.invalid", &["russh", "openssh"]),
    },
    Host {
        name: "the connection is cut while the agent is sent",
        in_sample: true,
        attempt: cut_in_the_push,
    },
];

/// 10 Mbit/s, in bytes.
const TEN_MBIT: u64 = 1_250_000;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server at the other end of a link, which is looked at from its own end.
struct Behind {
    link: DelayedLink,
    sshd: Sshd,
}

impl Behind {
    fn start(conditions: Conditions) -> Result<Self> {
        let link = DelayedLink::under(conditions)?;
        let network = sshd::Network { address: SERVER, enter: link.server_words() };
        let settings = sshd::Settings { network: Some(network), ..sshd::Settings::default() };
        Ok(Self { sshd: Sshd::start(&settings)?, link })
    }

    /// What is asked for from the client's end.
    fn sysmcp(&self, way: &str) -> Result<Sysmcp> {
        let sysmcp = Sysmcp::over(&self.sshd)?.at(&self.sshd.target_by(way));
        Ok(sysmcp.in_network(self.link.client_words()))
    }
}

impl Server for Behind {
    fn pid(&self) -> u32 {
        self.sshd.pid()
    }

    fn ssh(&self) -> Command {
        self.link.server_side(&self.sshd.ssh())
    }
}

/// Whether there can be no link here, and what is lacking.
fn lacks() -> Option<Outcome> {
    DelayedLink::lacks().map(|lack| match lack {
        Lack::Root => Outcome::NotRun(lack.name().to_owned()),
        Lack::Device => Outcome::NotHere(lack.name().to_owned()),
    })
}

/// Asks a server at the other end of a link, by each way.
fn over(conditions: Conditions, ways: &[&str]) -> Result<Outcome> {
    if let Some(lacking) = lacks() {
        return Ok(lacking);
    }
    let behind = Behind::start(conditions)?;
    for way in ways {
        let sysmcp = behind.sysmcp(way)?;
        let left = || left_on(&behind);
        let attempt = Attempt { sysmcp: &sysmcp, left: &left, placeholders: &[] };
        match attempt.outcome().with_context(|| format!("by {way}"))? {
            Outcome::Answers(_) => {}
            other @ (Outcome::Refuses { .. } | Outcome::NotRun(_) | Outcome::NotHere(_)) => {
                bail!("by {way} there is no answer: {other:?}")
            }
        }
    }
    // Where packets are to be lost, some were.
    let dropped = behind.link.dropped();
    ensure!(conditions.lost_per_mille == 0 || dropped > 0, "no packet was lost");
    Ok(Outcome::Answers(String::new()))
}

/// One that has to be refused.
fn refusal(
    sysmcp: &Sysmcp,
    placeholders: &[(String, &'static str)],
    left: impl Fn() -> Result<Vec<String>>,
) -> Result<Outcome> {
    match (Attempt { sysmcp, left: &left, placeholders }).outcome()? {
        refused @ Outcome::Refuses { .. } => Ok(refused),
        other @ (Outcome::Answers(_) | Outcome::NotRun(_) | Outcome::NotHere(_)) => {
            bail!("it is not refused: {other:?}")
        }
    }
}

/// Asks, from one end of a link, for a host that is not at its other end. The sentence is that of the
/// first way; by the others there has to be one with the same exit code.
fn from_a_link(host: &str, ways: &[&str]) -> Result<Outcome> {
    if let Some(lacking) = lacks() {
        return Ok(lacking);
    }
    let behind = Behind::start(Conditions::delayed(ms(20)))?;
    let config = behind.sshd.file("hasty_config");
    fs::write(&config, "Host *\n  ConnectTimeout 3\n")?;
    let placeholders = [
        // A system that asks another for names says it in another way.
        ("Temporary failure in name resolution".to_owned(), "Name or service not known"),
        ("the spelling and the DNS of this machine".to_owned(), "the spelling"),
    ];
    let mut outcomes = Vec::new();
    for way in ways {
        let sysmcp = behind.sysmcp(way)?.at(&format!("{way}:{}@{host}", user_name()));
        let sysmcp = sysmcp.with_ssh_config(config.clone());
        outcomes.push(refusal(&sysmcp, &placeholders, || left_on(&behind))?);
    }
    let codes = outcomes.iter().map(|outcome| match outcome {
        Outcome::Refuses { code, .. } => Some(*code),
        Outcome::Answers(_) | Outcome::NotRun(_) | Outcome::NotHere(_) => None,
    });
    ensure!(codes.clone().all(|code| code == Some(11)), "{outcomes:?}");
    outcomes.into_iter().next().context("by no way")
}

/// A server with room for one login, and somebody who takes it and says nothing.
fn crowded() -> Result<Outcome> {
    let server = vec!["MaxStartups 1".to_owned()];
    let sshd = Sshd::start(&sshd::Settings { server, ..sshd::Settings::default() })?;
    let somebody = sshd.take_place()?;
    let sysmcp = Sysmcp::over(&sshd)?;
    refusal(&sysmcp, &[(sshd.port.to_string(), "PORT")], || {
        // The second way needs the place too, and the server a moment to know that it is free.
        let _ = somebody.shutdown(Shutdown::Both);
        let mut left = left_on(&sshd);
        for _ in 0..50 {
            if left.is_ok() {
                break;
            }
            thread::sleep(ms(200));
            left = left_on(&sshd);
        }
        left
    })
}

fn nobody_was_there() -> Result<Vec<String>> {
    Ok(Vec::new())
}

fn silent() -> Result<Outcome> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config");
    fs::write(&config, "Host *\n  ConnectTimeout 3\n")?;
    let sysmcp = Sysmcp::local()?.at(&format!("ssh:me@127.0.0.1:{port}"));
    let sysmcp = sysmcp.with_ssh_config(config);
    refusal(&sysmcp, &[(port.to_string(), "PORT")], nobody_was_there)
}

/// Three links in a row: from here to the first jump host, to the second, to the target.
fn behind_jumps() -> Result<Outcome> {
    const NETWORKS: u8 = 4;
    if let Some(lacking) = lacks() {
        return Ok(lacking);
    }
    let chain = Chain::start(NETWORKS, Conditions::delayed(ms(20)))?;
    let mut servers = Vec::new();
    for index in 1..NETWORKS {
        let network = sshd::Network { address: Chain::address(index), enter: chain.words(index)? };
        let settings = sshd::Settings { network: Some(network), ..sshd::Settings::default() };
        servers.push(Sshd::start(&settings)?);
    }
    let [first, second, target] = servers.as_slice() else { bail!("there are no three servers") };
    let (first_at, second_at) = (Chain::address(1), Chain::address(2));
    let user = user_name();
    fs::copy(target.client_config(), target.file("direct_config"))?;
    second.write_client_config(&[format!("ProxyJump {user}@{first_at}:{}", first.port)])?;
    target.write_client_config(&[format!("ProxyJump {user}@{second_at}:{}", second.port)])?;
    let config = target.file("chain_config");
    let mut text = String::new();
    for server in [first, second, target] {
        text.push_str(&fs::read_to_string(server.client_config())?);
    }
    fs::write(&config, text)?;
    let at_target = AtTarget { chain: &chain, sshd: target, network: NETWORKS - 1 };
    for way in ["russh", "openssh"] {
        let sysmcp = Sysmcp::over(target)?.at(&target.target_by(way));
        let sysmcp = sysmcp.with_ssh_config(config.clone()).in_network(chain.words(0)?);
        let left = || left_on(&at_target);
        let attempt = Attempt { sysmcp: &sysmcp, left: &left, placeholders: &[] };
        let outcome = attempt.outcome().with_context(|| format!("by {way}"))?;
        ensure!(matches!(outcome, Outcome::Answers(_)), "by {way}: {outcome:?}");
        let passed = [first, second].iter().all(|jump| jump.log().contains("Accepted publickey"));
        ensure!(passed, "by {way}: not through both jump hosts");
    }
    Ok(Outcome::Answers(String::new()))
}

/// The end of a chain, looked at from its own network.
struct AtTarget<'a> {
    chain: &'a Chain,
    sshd: &'a Sshd,
    network: u8,
}

impl Server for AtTarget<'_> {
    fn pid(&self) -> u32 {
        self.sshd.pid()
    }

    fn ssh(&self) -> Command {
        // Past the jump hosts: it is in the same network.
        let direct = self.sshd.ssh_by(&self.sshd.file("direct_config"));
        self.chain.inside(self.network, &direct).unwrap_or(direct)
    }
}

/// The line goes dead when some of the agent is on its way.
fn cut_in_the_push() -> Result<Outcome> {
    /// More than a login takes, and less than the agent.
    const SOME: usize = 200_000;
    if let Some(lacking) = lacks() {
        return Ok(lacking);
    }
    let behind = Behind::start(Conditions::delayed(ms(20)).at_rate(100_000))?;
    let sysmcp = behind.sysmcp("russh")?.with(&["--silence-limit", "3"]);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut carried = 0;
            while carried < SOME && !is_over.load(Ordering::Relaxed) {
                carried +=
                    behind.link.take_carried().iter().map(|packet| packet.bytes).sum::<usize>();
                thread::sleep(ms(5));
            }
            behind.link.cut();
        });
        let outcome = refusal(&sysmcp, &[], || {
            // The target learns that nobody is there any more.
            behind.link.heal();
            left_on(&behind)
        });
        is_over.store(true, Ordering::Relaxed);
        outcome
    })
}
