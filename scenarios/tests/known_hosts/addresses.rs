//! `CheckHostIP`, which no address of loopback is subject to: a server in a network of its own, where
//! `web.example` is 10.77.0.1.

use super::servers::Keys;
use controller::transport::known_hosts::{Finding, KnownHosts, Name};
use russh::keys::PublicKey;
use scenarios::not_run::not_run;
use std::{
    fs,
    process::{Command, Stdio},
};

/// The only line here that is stricter than `ssh`.
const REVOKED: &str = "web.example <host>\n@revoked 10.77.0.1 <host>\n";

/// What is known, and the port.
const CASES: &[(&str, u16)] = &[
    ("web.example <host>\n", 22),
    ("web.example <host>\n10.77.0.1 <host>\n", 22),
    ("web.example <host>\n10.77.0.1 <other>\n", 22),
    ("web.example <host>\n10.77.0.1 <other>\n10.77.0.1 <host>\n", 22),
    ("web.example,10.77.0.1 <host>\n", 22),
    ("web.example <host>\n10.77.* <other>\n", 22),
    ("10.77.0.1 <host>\n", 22),
    ("10.77.0.1 <other>\n", 22),
    ("[web.example]:2222 <host>\n10.77.0.1 <other>\n", 2222),
    ("[web.example]:2222 <host>\n[10.77.0.1]:2222 <other>\n", 2222),
    ("web.example <host>\n", 2222),
    ("web.example <host>\n10.77.0.1 <other>\n", 2222),
    ("web.example <host>\n[10.77.0.1]:2222 <other>\n", 2222),
    (REVOKED, 22),
];

/// Runs in namespaces of its own; `$1` is the folder, then come a port and a file for each case. Says
/// for each how `ssh` ended.
const SCRIPT: &str = r#"
cd "$1"; shift
ip link set lo up && ip addr add 10.77.0.1/32 dev lo || exit 1
mount --bind "$PWD/hosts" /etc/hosts && mkdir -p /run/sshd || exit 1
/usr/sbin/sshd -D -e -f "$PWD/sshd_config" 2> log & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do grep -q listening log && break; sleep 0.2; done
while [ $# -gt 0 ]; do
  ssh -F none -n -oBatchMode=yes -oCheckHostIP=yes -oStrictHostKeyChecking=yes \
    -oUserKnownHostsFile="$PWD/$2" -oGlobalKnownHostsFile=/dev/null -oUpdateHostKeys=no \
    -oIdentitiesOnly=yes -oIdentityAgent=none -i "$PWD/other-ca" -p "$1" web.example true 2> said
  echo $?
  cat said >&2
  shift 2
done
kill $server
"#;

#[test]
fn an_address_counts_as_for_ssh() {
    if !rustix::process::geteuid().is_root() {
        not_run("the address of a host, beside ssh", "root");
        return;
    }
    let keys = Keys::make();
    let folder = keys.file("");
    fs::write(folder.join("hosts"), "127.0.0.1 localhost\n10.77.0.1 web.example\n").unwrap();
    let at = folder.display().to_string();
    let at = at.trim_end_matches('/');
    let config = format!(
        "Port 22\nPort 2222\nListenAddress 10.77.0.1\nHostKey {at}/host-ed25519\nPidFile none\n\
         AuthorizedKeysFile {at}/other-ca.pub\nUsePAM no\nStrictModes no\n"
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "--mount", "sh", "-c", SCRIPT, "sh", at]);
    for (number, (lines, port)) in CASES.iter().enumerate() {
        let file = number.to_string();
        let lines = lines.replace("<host>", &keys.line("host-ed25519"));
        let lines = lines.replace("<other>", &keys.line("other-ed25519"));
        fs::write(folder.join(&file), lines).unwrap();
        unshare.arg(port.to_string()).arg(file);
    }
    let output = unshare.stdin(Stdio::null()).output().unwrap();
    let (ended, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let accepted: Vec<bool> = ended.lines().map(|status| status == "0").collect();
    assert_eq!(accepted.len(), CASES.len(), "{ended}{said}");
    assert!(accepted.contains(&true) && said.contains("Host key verification failed"), "{said}");
    let shown: PublicKey = keys.line("host-ed25519").parse().unwrap();
    for (number, ((lines, port), ssh)) in CASES.iter().zip(accepted).enumerate() {
        let name = Name {
            host: "web.example".to_owned(),
            port: Some(*port),
            address: Some("10.77.0.1".parse().unwrap()),
        };
        let hosts = KnownHosts::read(&[folder.join(number.to_string())]);
        let finding = hosts.check(&name, &shown.clone().into(), 0, &[]);
        let wanted = ssh && *lines != REVOKED;
        assert_eq!(finding == Finding::Known, wanted, "{lines} at {port}: {finding:?}");
    }
}
