//! Where settings come from: flags before variables, variables before the file, the file before the
//! defaults.

mod places;

pub use places::{is_root, servers};

use crate::{
    agents::Agents,
    target::Target,
    targets::{self, BadTargets, Targets},
    tools::{Selection, Toolset},
};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// What a flag, a variable or the file may say. Every field may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The machines to look at.
    #[serde(default, deserialize_with = "targets::one_or_several")]
    pub target: Option<Vec<String>>,
    /// Sets of tools to offer.
    pub toolsets: Option<Vec<String>>,
    /// Further tools to offer.
    pub tools: Option<Vec<String>>,
    /// Tools not to offer.
    pub disable_tools: Option<Vec<String>>,
    /// The audit log.
    pub audit_log: Option<PathBuf>,
    /// Seconds that logging in may take, and then sending the agent.
    pub connect_timeout_s: Option<u64>,
    /// Seconds without a sign of life after which agent and controller give each other up.
    pub silence_limit_s: Option<u64>,
    /// Calls that may run at the same time on one machine.
    pub max_calls: Option<usize>,
    /// A configuration for ssh, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// A folder with agents, instead of the embedded ones.
    pub agents: Option<PathBuf>,
    /// Whether the agent is to be root's.
    pub sudo: Option<bool>,
    /// Whether the agent may start from memory where no folder lets files run.
    pub in_memory: Option<bool>,
    /// Whether to believe a host whose key is not known. Only a flag says so: for every time there
    /// is the SSH configuration.
    #[serde(skip)]
    pub accept_new: bool,
}

/// The variables, each with the setting it sets.
pub const VARIABLES: [(&str, &str); 13] = [
    ("SYSMCP_CONFIG", "the configuration file"),
    ("SYSMCP_TARGET", "the machine to look at, or several, separated by commas"),
    ("SYSMCP_TOOLSETS", "sets of tools to offer, separated by commas"),
    ("SYSMCP_TOOLS", "further tools to offer, separated by commas"),
    ("SYSMCP_DISABLE_TOOLS", "tools not to offer, separated by commas"),
    ("SYSMCP_AUDIT_LOG", "the audit log"),
    ("SYSMCP_CONNECT_TIMEOUT_S", "seconds that logging in may take, and then sending the agent"),
    ("SYSMCP_SILENCE_LIMIT_S", "seconds of silence after which agent and controller give up"),
    ("SYSMCP_MAX_CALLS", "calls that may run at the same time on one machine"),
    ("SYSMCP_SSH_CONFIG", "a configuration for ssh, instead of the user's own"),
    ("SYSMCP_SUDO", "whether the agent is to be root's there: true or false"),
    (
        "SYSMCP_IN_MEMORY",
        "whether the agent may start from memory where no folder lets files run: true or false",
    ),
    ("SYSMCP_AGENTS", "a folder with agents, instead of the embedded ones"),
];

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// The machines to look at; `local` unless one is named.
    pub targets: Targets,
    /// The tools to offer.
    pub selection: Selection,
    /// The audit log.
    pub audit_log: PathBuf,
    /// How long logging in may take, and then sending the agent.
    pub connect_timeout: Duration,
    /// How long both sides wait for a sign of life.
    pub silence_limit: Duration,
    /// Calls that may run at the same time on one machine.
    pub max_calls: usize,
    /// A configuration for ssh, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Where agents come from.
    pub agents: Agents,
    /// Whether to believe a host whose key is not known, and to write its key down.
    pub accept_new: bool,
    /// Whether the agent is to be root's whoever logs in.
    pub as_root: bool,
    /// Whether the agent may start from memory where no folder lets files run.
    pub in_memory: bool,
}

/// The environment, as far as it matters.
pub type Environment = BTreeMap<String, String>;

/// Brings together flags, variables, the file and the defaults.
///
/// # Errors
///
/// The first setting that cannot be used, and where it came from.
pub fn load(
    flags: Settings,
    config_flag: Option<PathBuf>,
    environment: &Environment,
    is_root: bool,
) -> Result<Config, ConfigError> {
    complete(merged(flags, config_flag, environment)?, environment, is_root)
}

/// The audit log in use, for which no other setting has to be right.
///
/// # Errors
///
/// When the settings cannot be read, or there is nowhere to keep a log.
pub fn audit_log(
    flags: Settings,
    config_flag: Option<PathBuf>,
    environment: &Environment,
    is_root: bool,
) -> Result<PathBuf, ConfigError> {
    match merged(flags, config_flag, environment)?.audit_log {
        Some(path) => Ok(path),
        None => default_audit_log(environment, is_root),
    }
}

/// What flags, variables and the file say together.
fn merged(
    flags: Settings,
    config_flag: Option<PathBuf>,
    environment: &Environment,
) -> Result<Settings, ConfigError> {
    let variables = from_variables(environment)?;
    let named = config_flag.or_else(|| variable(environment, "SYSMCP_CONFIG").map(PathBuf::from));
    let file = match named {
        Some(path) => read(&at_home(path, environment)?)?,
        None => match default_file(environment).filter(|path| path.exists()) {
            Some(path) => read(&path)?,
            None => Settings::default(),
        },
    };
    let mut settings = flags.over(variables).over(file);
    for path in [&mut settings.audit_log, &mut settings.ssh_config, &mut settings.agents] {
        *path = path.take().map(|path| at_home(path, environment)).transpose()?;
    }
    Ok(settings)
}

/// The value of a variable. An empty one counts as not set: some clients cannot leave one out.
fn variable<'e>(environment: &'e Environment, name: &str) -> Option<&'e String> {
    environment.get(name).filter(|value| !value.is_empty())
}

/// A path in which `~/` is the home folder. A shell would have put it there, but none reads the
/// file or a client's configuration.
fn at_home(path: PathBuf, environment: &Environment) -> Result<PathBuf, ConfigError> {
    let Ok(below) = path.strip_prefix("~") else { return Ok(path) };
    match places::home(environment) {
        Some(home) => Ok(home.join(below)),
        None => Err(ConfigError::NoHomeFor { path: path.display().to_string() }),
    }
}

impl Settings {
    /// These settings, and those of `weaker` where these say nothing.
    fn over(self, weaker: Self) -> Self {
        Self {
            target: self.target.or(weaker.target),
            toolsets: self.toolsets.or(weaker.toolsets),
            tools: self.tools.or(weaker.tools),
            disable_tools: self.disable_tools.or(weaker.disable_tools),
            audit_log: self.audit_log.or(weaker.audit_log),
            connect_timeout_s: self.connect_timeout_s.or(weaker.connect_timeout_s),
            silence_limit_s: self.silence_limit_s.or(weaker.silence_limit_s),
            max_calls: self.max_calls.or(weaker.max_calls),
            ssh_config: self.ssh_config.or(weaker.ssh_config),
            agents: self.agents.or(weaker.agents),
            sudo: self.sudo.or(weaker.sudo),
            in_memory: self.in_memory.or(weaker.in_memory),
            accept_new: self.accept_new || weaker.accept_new,
        }
    }
}

fn from_variables(environment: &Environment) -> Result<Settings, ConfigError> {
    let text = |name: &str| variable(environment, name).cloned();
    let list = |name: &str| text(name).map(|value| value.split(',').map(str::to_owned).collect());
    let number = |name: &'static str| {
        let parse = |value: String| {
            value.parse::<u64>().map_err(|_| ConfigError::NotANumber { name, value })
        };
        text(name).map(parse).transpose()
    };
    let max_calls = number("SYSMCP_MAX_CALLS")?;
    let claim = |name: &'static str| {
        let parse = |value: String| {
            value.parse::<bool>().map_err(|_| ConfigError::NotAClaim { name, value })
        };
        text(name).map(parse).transpose()
    };
    Ok(Settings {
        target: list("SYSMCP_TARGET"),
        toolsets: list("SYSMCP_TOOLSETS"),
        tools: list("SYSMCP_TOOLS"),
        disable_tools: list("SYSMCP_DISABLE_TOOLS"),
        audit_log: text("SYSMCP_AUDIT_LOG").map(PathBuf::from),
        connect_timeout_s: number("SYSMCP_CONNECT_TIMEOUT_S")?,
        silence_limit_s: number("SYSMCP_SILENCE_LIMIT_S")?,
        max_calls: max_calls.map(|calls| usize::try_from(calls).unwrap_or(usize::MAX)),
        ssh_config: text("SYSMCP_SSH_CONFIG").map(PathBuf::from),
        agents: text("SYSMCP_AGENTS").map(PathBuf::from),
        sudo: claim("SYSMCP_SUDO")?,
        in_memory: claim("SYSMCP_IN_MEMORY")?,
        accept_new: false,
    })
}

/// Variables that look like settings and are none, each in a sentence.
pub fn unknown_variables(environment: &Environment) -> Vec<String> {
    let is_known = |name: &str| VARIABLES.iter().any(|(known, _)| *known == name);
    environment
        .keys()
        .filter(|name| name.starts_with("SYSMCP_") && !is_known(name))
        .map(|name| format!("the variable {name} is not one of sysmcp's; it was passed over"))
        .collect()
}

fn default_file(environment: &Environment) -> Option<PathBuf> {
    places::configuration(environment).map(|folder| folder.join("config.toml"))
}

fn read(path: &Path) -> Result<Settings, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: shown.clone(),
        reason: error.to_string(),
    })?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line_number = before.matches('\n').count() + 1;
        let reason = format!("line {line_number}: {}", error.message());
        ConfigError::NotUnderstood { path: shown, reason }
    })
}

fn complete(
    settings: Settings,
    environment: &Environment,
    is_root: bool,
) -> Result<Config, ConfigError> {
    let written = trimmed(settings.target.as_deref().unwrap_or_default());
    let as_root = settings.sudo.unwrap_or(false);
    let targets = Targets::read(&written, |target| match target {
        Target::Snapshot(_) if as_root => Err(ConfigError::RootOfSnapshot),
        Target::Snapshot(folder) => at_home(folder, environment).map(Target::Snapshot),
        other @ (Target::Local | Target::Ssh(_) | Target::Container(_) | Target::Wsl(_)) => {
            Ok(other)
        }
    })?;
    let seconds = |value: Option<u64>, default: u64, name, range: std::ops::RangeInclusive<u64>| {
        let value = value.unwrap_or(default);
        if range.contains(&value) {
            return Ok(Duration::from_secs(value));
        }
        Err(ConfigError::OutOfRange { name, value, low: *range.start(), high: *range.end() })
    };
    let max_calls = settings.max_calls.unwrap_or(4);
    if !(1..=8).contains(&max_calls) {
        let value = u64::try_from(max_calls).unwrap_or(u64::MAX);
        return Err(ConfigError::OutOfRange { name: "max_calls", value, low: 1, high: 8 });
    }
    Ok(Config {
        targets,
        selection: selection(&settings)?,
        audit_log: match settings.audit_log {
            Some(path) => path,
            None => default_audit_log(environment, is_root)?,
        },
        connect_timeout: seconds(settings.connect_timeout_s, 60, "connect_timeout_s", 1..=600)?,
        silence_limit: seconds(settings.silence_limit_s, 30, "silence_limit_s", 3..=600)?,
        max_calls,
        ssh_config: settings.ssh_config,
        agents: settings.agents.map_or(Agents::Embedded, Agents::Folder),
        accept_new: settings.accept_new,
        as_root,
        in_memory: settings.in_memory.unwrap_or(false),
    })
}

fn selection(settings: &Settings) -> Result<Selection, ConfigError> {
    let toolsets = match &settings.toolsets {
        None => vec![Toolset::Diagnose],
        Some(names) => trimmed(names)
            .into_iter()
            .map(|name| Toolset::named(&name).ok_or(ConfigError::NoToolset { name }))
            .collect::<Result<_, _>>()?,
    };
    let tools = trimmed(settings.tools.as_deref().unwrap_or_default());
    let without = trimmed(settings.disable_tools.as_deref().unwrap_or_default());
    Selection::new(&toolsets, &tools, &without).map_err(|name| ConfigError::NoTool { name })
}

/// The names of a list, without the blanks that people write behind a comma.
fn trimmed(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).collect()
}

fn default_audit_log(environment: &Environment, is_root: bool) -> Result<PathBuf, ConfigError> {
    let folder = places::log(environment, is_root).ok_or(ConfigError::NoHome)?;
    Ok(folder.join("audit.jsonl"))
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A target is not one.
    #[error("{0}")]
    Targets(#[from] BadTargets),
    /// No such set of tools.
    #[error("there is no toolset `{name}`; there are diagnose, selftest, capture and export")]
    NoToolset {
        /// The name.
        name: String,
    },
    /// No such tool.
    #[error("there is no tool `{name}`; `sysmcp tools --all` lists them")]
    NoTool {
        /// The name.
        name: String,
    },
    /// A number is out of its range.
    #[error("{name} is {value}: expected {low} to {high}")]
    OutOfRange {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The smallest that is accepted.
        low: u64,
        /// The largest.
        high: u64,
    },
    /// A variable is not a number.
    #[error("{name} is `{value}`: expected a whole number")]
    NotANumber {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A variable is neither true nor false.
    #[error("{name} is `{value}`: expected true or false")]
    NotAClaim {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// Root is asked for where only files are read.
    #[error("--sudo is for machines; leave it out, and let this user read the snapshot's folder")]
    RootOfSnapshot,
    /// The file cannot be read.
    #[error("could not read the configuration file {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The file is not understood.
    #[error("the configuration file {path} was not understood: {reason}")]
    NotUnderstood {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A path is below the home folder, and there is none.
    #[error("`{path}` is in the home folder, and the variable {} does not name one", places::HOME)]
    NoHomeFor {
        /// The path.
        path: String,
    },
    /// There is nowhere to keep the audit log.
    #[error(
        "there is no home folder to keep the audit log in; name one with --audit-log or \
         SYSMCP_AUDIT_LOG"
    )]
    NoHome,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(ToString::to_string).collect())
    }

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn flags_beat_variables_and_variables_beat_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "target = \"ssh:file\"\nmax_calls = 2\nconnect_timeout_s = 5\n")
            .unwrap();
        let environment = environment(&[
            ("HOME", "/home/me"),
            ("SYSMCP_CONFIG", file.to_str().unwrap()),
            ("SYSMCP_TARGET", "ssh:variable"),
            ("SYSMCP_MAX_CALLS", "3"),
        ]);
        let flags = Settings { target: names(&["ssh:flag"]), ..Settings::default() };
        let config = load(flags, None, &environment, false).unwrap();
        assert_eq!(config.targets.listed(100), "ssh:flag");
        assert_eq!((config.max_calls, config.connect_timeout), (3, Duration::from_secs(5)));
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let mut all = vec![("HOME", "/home/me")];
        all.extend(VARIABLES.map(|(name, _)| (name, "")));
        let loaded = load(Settings::default(), None, &environment(&all), false).unwrap();
        assert_eq!(loaded.targets.listed(100), "local");
    }

    #[test]
    fn several_machines_can_be_named_in_every_place() {
        let folder = tempfile::tempdir().unwrap();
        let listed = |flags: &[&str], variable: &str, file: &str| {
            let path = folder.path().join("config.toml");
            std::fs::write(&path, file).unwrap();
            let flags = names(flags).filter(|names| !names.is_empty());
            let flags = Settings { target: flags, ..Settings::default() };
            let environment = environment(&[("HOME", "/h"), ("SYSMCP_TARGET", variable)]);
            let loaded = load(flags, Some(path), &environment, false);
            loaded.map(|config| config.targets.listed(200)).map_err(|error| error.to_string())
        };
        let cases: [(&[&str], &str, &str, &str); 6] = [
            (&["ssh:a", "ssh:b"], "ssh:c", "target = \"ssh:d\"", "ssh:a, ssh:b"),
            (&[], "ssh:a, ssh:b", "target = \"ssh:d\"", "ssh:a, ssh:b"),
            (&[], "", "target = [\"ssh:a\", \"local\"]", "ssh:a, local"),
            (&[], "", "target = \"ssh:a\"", "ssh:a"),
            (&[], "", "target = []", "local"),
            // A comma may be in the name of a folder.
            (&["snapshot:/x,y", "snapshot:~/z"], "", "", "snapshot:/x,y, snapshot:/h/z"),
        ];
        for (flags, variable, file, want) in cases {
            assert_eq!(listed(flags, variable, file).unwrap(), want, "{flags:?} {variable} {file}");
        }
        let twice = listed(&["snapshot:~/z", "snapshot:/h/z"], "", "").unwrap_err();
        assert!(twice.contains("snapshot:/h/z is there twice"), "{twice}");
        let neither = listed(&[], "", "target = 5").unwrap_err();
        assert!(neither.contains("expected a target, or a list of targets"), "{neither}");
    }

    #[test]
    fn blanks_around_names_do_not_count() {
        let list = |text: &str| Some(text.split(',').map(str::to_owned).collect());
        let flags = Settings {
            toolsets: list("capture, selftest"),
            tools: list(" process_list, capabilities"),
            disable_tools: list("self_test , capture,capabilities "),
            ..Settings::default()
        };
        let environment = environment(&[("HOME", "/home/me")]);
        let config = load(flags, None, &environment, false).unwrap();
        assert_eq!(config.selection.names(), "process_list");
    }

    #[test]
    fn paths_may_begin_at_home() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        std::fs::write(folder.path().join("c.toml"), "audit_log = \"~/a/log\"\n").unwrap();
        let variables = |more: &[(&str, &str)]| environment(&[&[("HOME", home)], more].concat());
        let environment = variables(&[("SYSMCP_CONFIG", "~/c.toml"), ("SYSMCP_AGENTS", "~/b")]);
        let flags = Settings { ssh_config: Some("~other/c".into()), ..Settings::default() };
        let config = load(flags, None, &environment, false).unwrap();
        assert_eq!(config.audit_log, folder.path().join("a/log"));
        assert!(matches!(config.agents, Agents::Folder(path) if path == folder.path().join("b")));
        // Whose home that is, only a shell knows.
        assert_eq!(config.ssh_config, Some("~other/c".into()));
        let flags = Settings { audit_log: Some("~/log".into()), ..Settings::default() };
        let error = load(flags, None, &Environment::new(), false).unwrap_err();
        assert_eq!(error, ConfigError::NoHomeFor { path: "~/log".to_owned() });
    }

    #[test]
    fn where_the_log_is_does_not_depend_on_the_target() {
        let environment =
            environment(&[("SYSMCP_TARGET", "web"), ("SYSMCP_MAX_CALLS", "99"), ("HOME", "/h")]);
        let path = audit_log(Settings::default(), None, &environment, false).unwrap();
        assert_eq!(path, Path::new("/h/.local/state/sysmcp/audit.jsonl"));
    }

    #[test]
    fn an_ordinary_users_audit_goes_to_their_state_folder() {
        let log = |pairs: &[(&str, &str)], is_root| {
            let loaded = load(Settings::default(), None, &environment(pairs), is_root);
            loaded.map(|config| config.audit_log.display().to_string())
        };
        let home = ("HOME", "/home/me");
        assert_eq!(log(&[home], false).unwrap(), "/home/me/.local/state/sysmcp/audit.jsonl");
        assert_eq!(log(&[home, ("XDG_STATE_HOME", "/s")], false).unwrap(), "/s/sysmcp/audit.jsonl");
        assert_eq!(log(&[home], true).unwrap(), "/var/log/sysmcp/audit.jsonl");
        assert_eq!(log(&[("SYSMCP_AUDIT_LOG", "/x")], false).unwrap(), "/x");
        assert_eq!(log(&[], false).unwrap_err(), ConfigError::NoHome);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let home = ("HOME", "/home/me");
        let cases = [
            (("SYSMCP_MAX_CALLS", "many"), "SYSMCP_MAX_CALLS is `many`"),
            (("SYSMCP_MAX_CALLS", "9"), "max_calls is 9: expected 1 to 8"),
            (("SYSMCP_TARGET", "web"), "`local`, `ssh:"),
            (("SYSMCP_TOOLSETS", "diagnose,all"), "no toolset `all`"),
            (("SYSMCP_DISABLE_TOOLS", "proces_list"), "no tool `proces_list`"),
            (("SYSMCP_CONFIG", "/nowhere.toml"), "/nowhere.toml"),
        ];
        for (pair, want) in cases {
            let error = load(Settings::default(), None, &environment(&[home, pair]), false)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            assert!(error.contains(want), "{pair:?}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "# Mine.\ntargt = \"local\"\n").unwrap();
        let error = load(Settings::default(), Some(file), &environment(&[home]), false);
        let text = error.unwrap_err().to_string();
        assert!(text.contains("line 2: unknown field `targt`"), "{text}");
    }

    #[test]
    fn a_variable_that_means_nothing_is_told() {
        let environment = environment(&[("HOME", "/h"), ("SYSMCP_TARGT", "x")]);
        assert!(unknown_variables(&environment)[0].contains("SYSMCP_TARGT"));
    }
}
