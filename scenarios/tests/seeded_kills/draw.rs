//! What is drawn for each kill: all of it follows from the seed and the kill's own number, so that
//! one can be done again alone.

use scenarios::split_mix::SplitMix;

/// How sysmcp gets to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    Local,
    OwnSsh,
    UsersSsh,
    /// By a connection that the user keeps open.
    SharedConnection,
    OwnSshByJump,
    UsersSshByJump,
    /// As an ordinary user who becomes root.
    Sudo,
    Docker,
    DockerWithoutShell,
    Podman,
    /// By a stand-in for `wsl.exe`.
    Wsl,
}

impl Transport {
    pub const ALL: [Self; 11] = [
        Self::Local,
        Self::OwnSsh,
        Self::UsersSsh,
        Self::SharedConnection,
        Self::OwnSshByJump,
        Self::UsersSshByJump,
        Self::Sudo,
        Self::Docker,
        Self::DockerWithoutShell,
        Self::Podman,
        Self::Wsl,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::OwnSsh => "russh",
            Self::UsersSsh => "openssh",
            Self::SharedConnection => "shared connection",
            Self::OwnSshByJump => "russh by a jump host",
            Self::UsersSshByJump => "openssh by a jump host",
            Self::Sudo => "russh, then sudo",
            Self::Docker => "docker",
            Self::DockerWithoutShell => "docker, no shell",
            Self::Podman => "podman",
            Self::Wsl => "wsl (stand-in)",
        }
    }

    /// What can be killed of it, as often as it is to be drawn.
    const fn victims(self) -> &'static [Victim] {
        use Victim::{Client, Controller, Jump, Master, Session};
        match self {
            Self::Local => &[Controller],
            Self::OwnSsh | Self::Sudo => &[Controller, Session, Session],
            Self::UsersSsh => &[Controller, Client, Session],
            Self::SharedConnection => &[Controller, Client, Master, Session],
            Self::OwnSshByJump => &[Controller, Session, Jump, Jump],
            Self::UsersSshByJump => &[Controller, Client, Client, Session, Jump],
            Self::Docker | Self::DockerWithoutShell | Self::Podman | Self::Wsl => {
                &[Controller, Client]
            }
        }
    }
}

/// What sysmcp is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// `call`: it connects, sends the agent, and asks.
    Call,
    /// `serve`, with a call that runs.
    Busy,
    /// `serve`, and nobody asks anything.
    Idle,
}

/// What the agent started, in a session of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    Nothing,
    Child,
    /// Of a child that has ended.
    Grandchild,
}

impl Planted {
    /// As `self_test` is told.
    pub const fn fault(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Child => "plant_child",
            Self::Grandchild => "plant_grandchild",
        }
    }
}

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// sysmcp.
    Controller,
    /// sysmcp and what it started, as Ctrl-C or a closed terminal does.
    ControllersGroup,
    /// A program that sysmcp started: `ssh`, `docker`, `podman`, `wsl.exe`.
    Client,
    /// The `ssh` that keeps the user's connection open.
    Master,
    /// A process of the server that carries the session, with or without rights.
    Session,
    /// The same at the jump host.
    Jump,
    /// The start-up script's shell.
    Script,
    Supervisor,
    Worker,
    Spawner,
    /// The agent's process group.
    AgentsGroup,
}

impl Victim {
    /// Whether `SIGKILL` of it leaves nothing. What was planted stays without its supervisor, which
    /// the script becomes; `docs/safety.md` says so.
    pub fn may_be_killed(self, planted: Planted) -> bool {
        let owns = matches!(self, Self::Supervisor | Self::AgentsGroup | Self::Script);
        !owns || planted == Planted::Nothing
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sent {
    Kill,
    Term,
    Int,
    Hup,
}

impl Sent {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Hup => "HUP",
        }
    }
}

/// One kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub index: u64,
    pub transport: Transport,
    pub usage: Usage,
    pub planted: Planted,
    /// When, as a part of the whole in thousandths: of what connecting takes, or of a moment in a
    /// session.
    pub moment: u64,
    pub victim: Victim,
    /// Which, where there are several.
    pub which: usize,
    pub kill: Sent,
}

/// Numbers of a case.
struct Numbers(SplitMix);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.following() % limit
    }

    fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }
}

impl Case {
    /// Draws what follows from a seed and the number of a kill. Each transport has its turn.
    pub fn draw(seed: u64, index: u64) -> Self {
        let own_seed = SplitMix::new(seed).following() ^ SplitMix::new(index).following();
        let mut numbers = Numbers(SplitMix::new(own_seed));
        let transport = Transport::ALL[usize::try_from(index).unwrap() % Transport::ALL.len()];
        let usage = match numbers.below(10) {
            0..5 => Usage::Call,
            5..8 => Usage::Busy,
            _ => Usage::Idle,
        };
        let planted = numbers.one_of(&[Planted::Nothing, Planted::Child, Planted::Grandchild]);
        let moment = numbers.below(1000);
        let mut victims = transport.victims().to_vec();
        victims.extend([Victim::ControllersGroup, Victim::Supervisor, Victim::Worker]);
        victims.extend([Victim::Spawner, Victim::AgentsGroup]);
        // It is there as long as it takes to connect.
        if usage == Usage::Call {
            victims.extend([Victim::Script, Victim::Script]);
        }
        let victim = numbers.one_of(&victims);
        let which = usize::try_from(numbers.below(100)).unwrap();
        let mut kill = match numbers.below(10) {
            0..6 => Sent::Kill,
            _ => numbers.one_of(&[Sent::Term, Sent::Int, Sent::Hup]),
        };
        if kill == Sent::Kill && !victim.may_be_killed(planted) {
            kill = Sent::Term;
        }
        Self { index, transport, usage, planted, moment, victim, which, kill }
    }
}

#[test]
fn each_follows_from_its_seed_and_number() {
    let draw = |seed| (0..200).map(|index| Case::draw(seed, index)).collect::<Vec<_>>();
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    let all = draw(7);
    for transport in Transport::ALL {
        let count = all.iter().filter(|case| case.transport == transport).count();
        assert!((18..=19).contains(&count), "{}: {count}", transport.name());
    }
    for kill in [Sent::Kill, Sent::Term, Sent::Int, Sent::Hup] {
        assert!(all.iter().any(|case| case.kill == kill), "no {}", kill.name());
    }
    for usage in [Usage::Call, Usage::Busy, Usage::Idle] {
        assert!(all.iter().any(|case| case.usage == usage), "no {usage:?}");
    }
}
