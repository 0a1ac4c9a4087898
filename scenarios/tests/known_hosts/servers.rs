//! Servers with one set of keys, and certificates that are good or not.

use russh::keys::{Algorithm, Certificate, PublicKey, PublicKeyOrCertificate};
use scenarios::sshd::{Settings, Sshd};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The server that has no certificate.
pub const PLAIN: usize = 0;
/// The server with a certificate that is good.
pub const CERTIFIED: usize = 1;
/// The server that has a known key of one type only.
pub const ONE_KEY: usize = 3;

/// Keys of hosts and authorities, and one of somebody else for each type.
pub struct Keys {
    folder: tempfile::TempDir,
}

/// Names of keys and their types; those that begin with `host` are the servers'.
const KEYS: [(&str, &[&str]); 10] = [
    ("host-ed25519", &["-t", "ed25519"]),
    ("host-rsa", &["-t", "rsa", "-b", "2048"]),
    ("host-ecdsa", &["-t", "ecdsa"]),
    ("other-ed25519", &["-t", "ed25519"]),
    ("other-rsa", &["-t", "rsa", "-b", "2048"]),
    ("other-ecdsa", &["-t", "ecdsa"]),
    ("ca", &["-t", "ed25519"]),
    ("ca-rsa", &["-t", "rsa", "-b", "2048"]),
    ("ca-ecdsa", &["-t", "ecdsa", "-b", "384"]),
    ("other-ca", &["-t", "ed25519"]),
];

impl Keys {
    /// Makes them all.
    pub fn make() -> Self {
        let keys = Self { folder: tempfile::tempdir().unwrap() };
        for (name, kind) in KEYS {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-N", "", "-C", ""]).args(kind).arg("-f").arg(keys.file(name));
            run(&mut keygen);
        }
        keys
    }

    /// Where a private key is; its public half has `.pub` at the end.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A public key as a known_hosts file has it: type, blank, base64.
    pub fn line(&self, name: &str) -> String {
        let path = self.file(&format!("{name}.pub"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    /// A name as a hashed file has it.
    pub fn hashed(&self, name: &str) -> String {
        let folder = tempfile::tempdir_in(self.folder.path()).unwrap();
        let file = folder.path().join("known");
        fs::write(&file, format!("{name} {}\n", self.line("host-ed25519"))).unwrap();
        run(Command::new("ssh-keygen").arg("-H").arg("-f").arg(&file));
        let text = fs::read_to_string(&file).unwrap();
        let hashed = text.split(' ').next().unwrap();
        assert!(hashed.starts_with("|1|"), "{text}");
        hashed.to_owned()
    }

    /// Signs a host's key, with what differs from a good certificate for `localhost`, `127.0.0.1` and
    /// `cluster` in `change`: of two options the later counts.
    fn sign(&self, into: &Path, key: &str, authority: &str, change: &[&str]) -> PathBuf {
        let copy = into.join(format!("{key}.pub"));
        fs::copy(self.file(&format!("{key}.pub")), &copy).unwrap();
        let mut keygen = Command::new("ssh-keygen");
        keygen.arg("-q").arg("-s").arg(self.file(authority)).args(["-I", "a host", "-h"]);
        keygen.args(["-V", "-1d:+1d"]);
        match change {
            ["-n", ""] => {}
            ["-n", ..] => _ = keygen.args(change),
            [..] => _ = keygen.args(["-n", "localhost,127.0.0.1,cluster"]).args(change),
        }
        run(keygen.arg(&copy));
        into.join(format!("{key}-cert.pub"))
    }
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A server, and what it can show.
pub struct Server {
    /// What it is.
    pub what: &'static str,
    /// The server itself.
    pub sshd: Sshd,
    keys: Vec<PublicKey>,
    certificates: Vec<Certificate>,
}

impl Server {
    /// What it shows to a client with these preferences: the first that it has (RFC 4253, section
    /// 7.1). The library names all certificates before all keys.
    pub fn shows(
        &self,
        keys: &[Algorithm],
        certificates: &[Algorithm],
    ) -> Option<PublicKeyOrCertificate> {
        let certificate = certificates.iter().find_map(|wanted| {
            self.certificates.iter().find(|own| is_for(wanted, &own.algorithm()))
        });
        if let Some(certificate) = certificate {
            return Some(certificate.clone().into());
        }
        let key = keys
            .iter()
            .find_map(|wanted| self.keys.iter().find(|own| is_for(wanted, &own.algorithm())));
        key.map(|key| key.clone().into())
    }
}

fn is_for(wanted: &Algorithm, own: &Algorithm) -> bool {
    let are_rsa = wanted.as_str().starts_with("rsa-sha2-") && own.as_str() == "ssh-rsa";
    are_rsa || wanted == own
}

/// What a server is, the keys it has, and those of them that are certified: by whom, and how the
/// certificate differs from a good one.
type Kind = (&'static str, &'static [&'static str], &'static [Certified]);
type Certified = (&'static str, &'static str, &'static [&'static str]);

const ALL: &[&str] = &["host-ed25519", "host-rsa", "host-ecdsa"];

const KINDS: &[Kind] = &[
    ("no certificate", ALL, &[]),
    ("a good certificate", ALL, &[("host-ed25519", "ca", &[])]),
    ("a certificate for its RSA key", ALL, &[("host-rsa", "ca", &[])]),
    ("an RSA key, and one that nobody knows", &["host-rsa"], &[]),
    ("certificates for two keys", ALL, &[("host-rsa", "ca", &[]), ("host-ecdsa", "ca", &[])]),
    ("one expired", ALL, &[("host-ed25519", "ca", &["-V", "-2d:-1d"])]),
    ("one not valid yet", ALL, &[("host-ed25519", "ca", &["-V", "+1d:+2d"])]),
    ("one for another name", ALL, &[("host-ed25519", "ca", &["-n", "db.example"])]),
    ("one in upper case", ALL, &[("host-ed25519", "ca", &["-n", "LOCALHOST,Cluster"])]),
    ("one for a wildcard", ALL, &[("host-ed25519", "ca", &["-n", "*,local*,127.*"])]),
    ("one with a port", ALL, &[("host-ed25519", "ca", &["-n", "[localhost]:22"])]),
    ("one for no name", ALL, &[("host-ed25519", "ca", &["-n", ""])]),
    ("one with an option", ALL, &[("host-ed25519", "ca", &["-O", "critical:colour=red"])]),
    ("one by RSA", ALL, &[("host-ed25519", "ca-rsa", &["-t", "rsa-sha2-512"])]),
    ("one by RSA with SHA-1", ALL, &[("host-ed25519", "ca-rsa", &["-t", "ssh-rsa"])]),
    ("one by ECDSA", ALL, &[("host-ed25519", "ca-ecdsa", &[])]),
];

/// Starts one of each kind.
pub fn start(keys: &Keys) -> Vec<Server> {
    KINDS.iter().map(|kind| start_one(keys, kind)).collect()
}

fn start_one(keys: &Keys, (what, own, certified): &Kind) -> Server {
    let folder = keys.file(&what.replace(' ', "-"));
    fs::create_dir(&folder).unwrap();
    let mut lines = Vec::new();
    let mut public = Vec::new();
    for key in *own {
        lines.push(format!("HostKey {}", keys.file(key).display()));
        public.push(keys.line(key).parse().unwrap());
    }
    let mut certificates = Vec::new();
    for (key, authority, change) in *certified {
        let file = keys.sign(&folder, key, authority, change);
        lines.push(format!("HostCertificate {}", file.display()));
        certificates.push(Certificate::read_file(&file).unwrap());
    }
    let sshd = Sshd::start(&Settings { server: lines, ..Settings::default() }).unwrap();
    // It always has this one too. Of two keys of one type the first is shown.
    public.push(fs::read_to_string(sshd.file("host.pub")).unwrap().trim().parse().unwrap());
    Server { what, sshd, keys: public, certificates }
}
