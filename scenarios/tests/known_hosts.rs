//! Which host keys are accepted, beside what `ssh` itself accepts: the same files, the same servers,
//! strict checking. Never may more be accepted than by `ssh`; where less is, the reason is one of
//! those that `controller/src/transport/known_hosts.rs` lists.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "known_hosts/addresses.rs"]
mod addresses;
#[path = "known_hosts/cases.rs"]
mod cases;
#[path = "known_hosts/generated.rs"]
mod generated;
#[path = "known_hosts/real.rs"]
mod real;
#[path = "known_hosts/servers.rs"]
mod servers;

use cases::{Case, named};
use controller::transport::known_hosts::{Finding, KnownHosts, Name, is_allowed};
use generated::Numbers;
use servers::{Keys, Server};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// How many cases are made up beside the named ones.
const GENERATED: usize = 240;
/// Where they begin, unless `SYSMCP_TEST_SEED` says otherwise.
const SEED: u64 = 20_261_129;

/// What the configuration of `ssh` without any files allows.
struct Allowed {
    host_keys: Vec<String>,
    authority_signatures: Vec<String>,
}

impl Allowed {
    fn read() -> Self {
        let said = Command::new("ssh").args(["-G", "-F", "none", "localhost"]).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        let list = |keyword: &str| -> Vec<String> {
            let line = said.lines().find_map(|line| line.strip_prefix(keyword)).unwrap();
            line.trim().split(',').map(str::to_owned).collect()
        };
        Self {
            host_keys: list("hostkeyalgorithms "),
            authority_signatures: list("casignaturealgorithms "),
        }
    }
}

/// Whether `ssh` takes the host for the one that the files mean.
fn ssh_accepts(server: &Server, case: &Case, files: &[PathBuf]) -> bool {
    let (user, global) = files.split_at(files.len().saturating_sub(1).max(1));
    let list = |files: &[PathBuf]| {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        if files.is_empty() { "/dev/null".to_owned() } else { files.join(" ") }
    };
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", "none", "-oBatchMode=yes", "-oStrictHostKeyChecking=yes", "-n"])
        .args(["-oIdentitiesOnly=yes", "-oIdentityAgent=none", "-oUpdateHostKeys=no"])
        .args(["-oKexAlgorithms=curve25519-sha256", "-oAddressFamily=inet", "-oLogLevel=INFO"])
        .arg(format!("-oUserKnownHostsFile={}", list(user)))
        .arg(format!("-oGlobalKnownHostsFile={}", list(global)))
        .arg("-i")
        .arg(server.sshd.file("id"))
        .args(["-p", &server.sshd.port.to_string()]);
    if case.is_alias {
        ssh.arg(format!("-oHostKeyAlias={}", case.host)).arg("-oHostName=127.0.0.1");
    }
    let user = scenarios::sshd::user_name();
    ssh.arg(format!("{user}@{}", case.host)).arg("true").stdin(Stdio::null());
    let output = ssh.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // Whatever else could go wrong would make this test say nothing.
    let is_refused = said.contains("Host key verification failed");
    assert!(output.status.success() != is_refused, "{}: {}: {said}", case.what, output.status);
    !is_refused
}

/// How a case is looked up.
fn name_of(server: &Server, case: &Case) -> Name {
    let port = (!case.is_alias).then_some(server.sshd.port);
    Name { host: case.host.clone(), port, address: None }
}

/// What the files say about the key that the server shows to a client of ours.
fn finding(
    server: &Server,
    case: &Case,
    files: &[PathBuf],
    allowed: &Allowed,
) -> (Finding, bool, KnownHosts) {
    let hosts = KnownHosts::read(files);
    let name = name_of(server, case);
    let (keys, certificates) = hosts.preferred(&name, &allowed.host_keys);
    let shown = server.shows(&keys, &certificates).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let finding = hosts.check(&name, &shown, now, &allowed.authority_signatures);
    let is_accepted = match &finding {
        Finding::Known => is_allowed(&shown.public_key(), &allowed.host_keys),
        Finding::Vouched => true,
        Finding::Unknown
        | Finding::Changed { .. }
        | Finding::Revoked { .. }
        | Finding::BadCertificate { .. }
        | Finding::TooSmall { .. }
        | Finding::Undecided { .. } => false,
    };
    (finding, is_accepted, hosts)
}

/// The same files, without revocations whose marker ends with a tab before any space: `ssh` overlooks
/// those.
fn without_tabs(files: &[PathBuf]) -> Vec<PathBuf> {
    let without = |file: &PathBuf| {
        let text = fs::read(file).unwrap();
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let kept: Vec<&[u8]> =
            lines.filter(|line| !line.trim_ascii_start().starts_with(b"@revoked\t")).collect();
        let into = file.with_extension("without");
        fs::write(&into, kept.concat()).unwrap();
        into
    };
    files.iter().map(without).collect()
}

/// Why less is accepted here than by `ssh`, where that is meant.
fn reason(
    server: &Server,
    case: &Case,
    finding: &Finding,
    hosts: &KnownHosts,
    allowed: &Allowed,
) -> Option<&'static str> {
    let name = name_of(server, case);
    let (keys, certificates) = hosts.preferred(&name, &allowed.host_keys);
    let shown = server.shows(&keys, &certificates).unwrap();
    let plain = shown.public_key().into();
    let look = |host: String, shown| {
        let name = Name { host, port: None, address: None };
        hosts.check(&name, shown, 0, &[])
    };
    let with_port = format!("[{}]:{}", case.host.to_ascii_lowercase(), server.sshd.port);
    let without_port = case.host.to_ascii_lowercase();
    let is_certificate = shown.certificate().is_some();
    // Before OpenSSH 10.3 it stands for every host.
    let names_none = shown.certificate().is_some_and(|shown| shown.valid_principals().is_empty());
    match finding {
        Finding::BadCertificate { .. } | Finding::Changed { .. } if names_none => {
            Some("a certificate that names no host")
        }
        Finding::Revoked { .. } => {
            let is_without_port = is_certificate
                && !case.is_alias
                && !matches!(look(with_port, &shown), Finding::Revoked { .. });
            is_without_port.then_some("an authority revoked without the port")
        }
        Finding::Changed { .. } if is_certificate && !case.is_alias => {
            let is_known = look(without_port, &plain) == Finding::Known;
            is_known.then_some("with its port the host is known by another key")
        }
        Finding::Known
        | Finding::Vouched
        | Finding::Unknown
        | Finding::Changed { .. }
        | Finding::BadCertificate { .. }
        | Finding::TooSmall { .. }
        | Finding::Undecided { .. } => None,
    }
}

/// What came of all cases.
#[derive(Debug, Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    /// In how many our own SSH was asked to connect.
    real: usize,
    stricter: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

fn compare(folder: &Path, server: &Server, case: &Case, allowed: &Allowed, tally: &Mutex<Tally>) {
    let files: Vec<PathBuf> = (0..case.files.len())
        .map(|number| folder.join(format!("{}-{number}", case.number)))
        .collect();
    for (file, text) in files.iter().zip(&case.files) {
        fs::write(file, text).unwrap();
    }
    let ssh = ssh_accepts(server, case, &files);
    let (finding, ours, hosts) = finding(server, case, &files, allowed);
    let real = case.is_real.then(|| real::accepts(folder, server, case, &files));
    let mut tally = tally.lock().unwrap();
    let described = || {
        let texts: Vec<_> = case.files.iter().map(|text| text.escape_ascii().to_string()).collect();
        format!(
            "{} of {} ({}): ssh {ssh}, ours {finding:?}\n    {}",
            case.what,
            case.host,
            server.what,
            texts.join("\n    -- \n    ")
        )
    };
    if let Some(wanted) = case.wanted
        && wanted != ssh
    {
        let line = format!("not what the case is for: {}", described());
        tally.wrong.push(line);
    }
    if let Some(real) = real {
        tally.real += 1;
        if real != ours {
            let line = format!("a real connection: {real}: {}", described());
            tally.wrong.push(line);
        }
    }
    match (ssh, ours) {
        (true, true) => tally.accepted += 1,
        (false, false) => tally.refused += 1,
        (false, true) => {
            let line = format!("MORE IS ACCEPTED: {}", described());
            tally.wrong.push(line);
        }
        (true, false) if self::finding(server, case, &without_tabs(&files), allowed).1 => {
            *tally.stricter.entry("a marker that ends with a tab").or_default() += 1;
        }
        (true, false) => match reason(server, case, &finding, &hosts, allowed) {
            Some(reason) => *tally.stricter.entry(reason).or_default() += 1,
            None => {
                let line = format!("less is accepted: {}", described());
                tally.wrong.push(line);
            }
        },
    }
}

/// Compares all cases, two at a time.
fn compare_all(cases: &[Case], servers: &[Server], allowed: &Allowed) -> Tally {
    let folder = tempfile::tempdir().unwrap();
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let server = servers.get(case.server).unwrap();
                    compare(folder.path(), server, case, allowed, &tally);
                }
            });
        }
    });
    tally.into_inner().unwrap()
}

#[test]
fn a_host_is_accepted_as_by_ssh_and_never_more_easily() {
    let seed = std::env::var("SYSMCP_TEST_SEED").map_or(SEED, |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let allowed = Allowed::read();
    let keys = Keys::make();
    let servers = servers::start(&keys);
    let mut cases = named(&keys, &servers);
    let mut numbers = Numbers::new(seed);
    let made = (0..GENERATED).map(|_| generated::case(&keys, &servers, &mut numbers));
    cases.extend(made);
    for (number, case) in cases.iter_mut().enumerate() {
        case.number = number;
        // A connection takes longer than a look at the files.
        case.is_real |= number % 8 == 0;
    }
    let tally = compare_all(&cases, &servers, &allowed);
    let Tally { accepted, refused, real, stricter, .. } = &tally;
    println!("{accepted} accepted, {refused} refused, {real} connected to, {stricter:?}");
    assert!(tally.wrong.is_empty(), "seed {seed}:\n{}", tally.wrong.join("\n"));
    // Otherwise the cases say too little.
    assert!(tally.accepted >= 60 && tally.refused >= 60, "seed {seed}: {tally:?}");
    assert!(tally.real >= 60, "seed {seed}: {tally:?}");
    let stricter: usize = tally.stricter.values().sum();
    assert!(stricter <= cases.len() / 10, "seed {seed}: {tally:?}");
}
