//! Which SSH reaches a host: sysmcp's own where it can do all that the user's configuration asks
//! for, and the user's `ssh` elsewhere.

use super::{
    Channel, Failure, Login, NotOpened, Step, Timings,
    meaning::{self, Outside},
    native::{self, Beyond, Problem},
    openssh,
};
use crate::{
    reporter::{Reporter, Stage},
    target::{SshTarget, Target, Way},
};
use std::{fmt, path::PathBuf};

/// Which SSH was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// sysmcp's own.
    Native(Reason),
    /// The user's `ssh`.
    Users(Reason),
}

/// Why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The target says so.
    Asked,
    /// The configuration asks for nothing that it cannot do.
    Fits,
    /// A connection that the user keeps open can be shared.
    Master(PathBuf),
    /// The configuration asks for what sysmcp's own cannot do.
    Configured(Outside),
    /// The host wants what sysmcp's own cannot do.
    Wanted(Beyond),
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = match self {
            Self::Native(reason) => {
                f.write_str("with sysmcp's own SSH")?;
                reason
            }
            Self::Users(reason) => {
                f.write_str("with your ssh")?;
                reason
            }
        };
        match reason {
            Reason::Asked | Reason::Fits => Ok(()),
            Reason::Master(path) => {
                let path = path.to_string_lossy();
                write!(f, ", over the connection at {}", protocol::host_text::printable(&path))
            }
            Reason::Configured(outside) => write!(f, ": {outside}"),
            Reason::Wanted(beyond) => write!(f, ": {beyond}"),
        }
    }
}

/// What helps where the user insists on sysmcp's own SSH, or has no other.
const USE_ANOTHER: &str = "Write ssh: or openssh: instead of russh:, and your own ssh is used";
const MEND: &str = "Mend that; your own ssh would say the same";
const INSTALL: &str = "Install an OpenSSH client, or leave that out of the configuration";
const INSTALL_ONE: &str = "Install an OpenSSH client; Windows has one among its optional features";

/// Starts a command on a host, over the SSH that fits.
pub(super) async fn open(
    target: &SshTarget,
    script: &str,
    login: &Login,
    timings: &mut Timings,
    reporter: &dyn Reporter,
) -> Result<Channel, NotOpened> {
    let users = Users { target, script, login, reporter };
    // What it is called on the command line is all that is known of it, where the configuration is not
    // understood.
    let named = [(target.host.as_str(), target.port.unwrap_or(22))];
    if target.way == Way::Users {
        return users.open(Reason::Asked, &named).await;
    }
    let meaning = meaning::of(target, login.ssh_config.as_deref()).await;
    let master = match &meaning {
        Ok(meaning) if target.way == Way::Fitting => openssh::master(target, meaning, login).await,
        Ok(_) | Err(_) => None,
    };
    timings.mark(Step::Configuration);
    let meaning = match meaning {
        Ok(meaning) => meaning,
        Err(outside) => {
            let reason = refuse_or(target.way, outside)?;
            return users.open(reason, &named).await;
        }
    };
    if let Some(path) = master {
        // Nobody logs in.
        return users.open(Reason::Master(path), &[]).await;
    }
    let reason = if target.way == Way::Fitting { Reason::Fits } else { Reason::Asked };
    users.tell(Taken::Native(reason));
    match native::open(target, &meaning, script, login, timings).await {
        Ok(channel) => Ok(channel),
        Err(Problem::Failure(failure)) => Err(failure.into()),
        Err(Problem::Beyond(beyond)) if target.way == Way::Fitting => {
            users.open(Reason::Wanted(beyond), &meaning.hosts()).await
        }
        Err(Problem::Beyond(beyond)) => {
            Err(Failure::Beyond { why: beyond.to_string(), remedy: USE_ANOTHER }.into())
        }
    }
}

/// The user's own `ssh`, for one command.
struct Users<'a> {
    target: &'a SshTarget,
    script: &'a str,
    login: &'a Login,
    reporter: &'a dyn Reporter,
}

impl Users<'_> {
    fn tell(&self, taken: Taken) {
        let target = Target::Ssh(self.target.clone());
        self.reporter.stage(&Stage::Connecting { target, taken: Some(taken) });
    }

    /// Starts it, once there is a place at each of the hosts that it logs in to, as far as they are
    /// known.
    async fn open(&self, reason: Reason, hosts: &[(&str, u16)]) -> Result<Channel, NotOpened> {
        self.tell(Taken::Users(reason));
        let admitted = match hosts {
            [] => None,
            hosts => Some(self.login.doors.enter(hosts).await),
        };
        let channel = openssh::open(self.target, self.script, self.login)?;
        Ok(Channel { login: admitted, ..channel })
    }
}

/// What to do where the configuration is beyond sysmcp's own SSH: why the user's is taken, or that it
/// is not.
fn refuse_or(way: Way, outside: Outside) -> Result<Reason, Failure> {
    let remedy = match (&outside, way) {
        // Without an ssh there is no other way.
        (Outside::Line { .. }, _) => INSTALL,
        (Outside::NoSsh, _) => INSTALL_ONE,
        (Outside::Refused { .. }, Way::Native) => MEND,
        (_, Way::Native) => USE_ANOTHER,
        (_, Way::Fitting | Way::Users) => return Ok(Reason::Configured(outside)),
    };
    Err(Failure::Beyond { why: outside.to_string(), remedy })
}
