//! What settings mean, and which are left to `ssh`.

use super::*;
use crate::{
    target::{SshTarget, Way},
    transport::meaning::{jumps::Leads, tokens::tests::account},
};
use std::{path::Path, time::Duration};

/// OpenSSH 9.2 with Debian's own configuration, its lists of algorithms cut short.
const DEBIAN_12: &str = "\
host web
user me
hostname web.example
port 2222
addressfamily any
batchmode no
canonicalizefallbacklocal yes
canonicalizehostname false
checkhostip no
compression no
controlmaster false
enablesshkeysign no
clearallforwardings no
exitonforwardfailure no
fingerprinthash SHA256
forwardx11 no
forwardx11trusted yes
gatewayports no
gssapiauthentication yes
gssapikeyexchange no
gssapidelegatecredentials no
gssapitrustdns no
gssapirenewalforcesrekey no
gssapikexalgorithms gss-group14-sha256-,gss-gex-sha1-
hashknownhosts yes
hostbasedauthentication no
identitiesonly no
kbdinteractiveauthentication yes
nohostauthenticationforlocalhost no
passwordauthentication yes
permitlocalcommand no
proxyusefdpass no
pubkeyauthentication true
requesttty auto
sessiontype default
stdinnull no
forkafterauthentication no
streamlocalbindunlink no
stricthostkeychecking ask
tcpkeepalive yes
tunnel false
verifyhostkeydns false
visualhostkey no
updatehostkeys true
enableescapecommandline no
canonicalizemaxdots 1
connectionattempts 1
forwardx11timeout 1200
numberofpasswordprompts 3
serveralivecountmax 3
serveraliveinterval 0
requiredrsasize 1024
ciphers chacha20-poly1305@openssh.com,aes128-ctr
hostkeyalgorithms ssh-ed25519-cert-v01@openssh.com,ssh-ed25519
hostbasedacceptedalgorithms ssh-ed25519
kexalgorithms sntrup761x25519-sha512,curve25519-sha256
casignaturealgorithms ssh-ed25519,rsa-sha2-512
loglevel INFO
macs umac-64-etm@openssh.com
securitykeyprovider internal
pubkeyacceptedalgorithms ssh-ed25519,rsa-sha2-256
xauthlocation /usr/bin/xauth
identityfile ~/.ssh/id_rsa
identityfile ~/.ssh/id_ed25519
canonicaldomains none
globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2
userknownhostsfile /home/me/.ssh/known_hosts /home/me/.ssh/known_hosts2
sendenv LANG
sendenv LC_*
logverbose none
permitremoteopen any
addkeystoagent false
forwardagent no
connecttimeout none
tunneldevice any:any
canonicalizepermittedcnames none
controlpersist no
escapechar ~
ipqos lowdelay throughput
rekeylimit 0 0
streamlocalbindmask 0177
syslogfacility USER
";

/// What other versions say beside it, or instead.
const OPENSSH_8_4: &str = "\
challengeresponseauthentication yes
hostbasedkeytypes ssh-ed25519
pubkeyacceptedkeytypes ssh-ed25519
userknownhostsfile /home/me/.ssh/known_hosts /home/me/.ssh/known_hosts2
checkhostip yes
verifyhostkeydns false
stricthostkeychecking ask
";
const OPENSSH_10_5: &str = "\
warnweakcrypto yes
obscurekeystroketiming 20
channeltimeout none
revokedhostkeys none
tag production
ignoreunknown UseKeychain
sendenv COLORTERM
sendenv NO_COLOR
ipqos ef none
";

fn settings(text: &str) -> Settings {
    let split = |line: &str| {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(split).collect()
}

fn place() -> Place {
    let host = "web".to_owned();
    Place::of(&SshTarget { way: Way::Fitting, user: None, host, port: None })
}

/// Debian's settings, with each of these instead of those of the same name. A name alone is left
/// out.
fn with(lines: &str) -> Settings {
    let lines = settings(lines);
    let mut with = settings(DEBIAN_12);
    with.retain(|(name, _)| lines.iter().all(|(other, _)| other != name));
    with.extend(lines.into_iter().filter(|(_, value)| !value.is_empty()));
    with
}

fn judged(lines: &str) -> Result<Meaning, Outside> {
    judge(&with(lines), &place(), &account()).map(|(meaning, _)| meaning)
}

/// The setting that is to blame.
fn outside(lines: &str) -> String {
    match judged(lines) {
        Err(Outside::Setting { setting, .. }) => setting,
        other => panic!("{lines}: {other:?}"),
    }
}

fn paths(names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(PathBuf::from).collect()
}

#[test]
fn a_usual_configuration_is_understood_whole() {
    let meaning = judged("").unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let want = Meaning {
        host: "web.example".to_owned(),
        port: 2222,
        user: "me".to_owned(),
        host_key_alias: None,
        identity_files: paths(&["/home/me/.ssh/id_rsa", "/home/me/.ssh/id_ed25519"]),
        certificate_files: Vec::new(),
        identities_only: false,
        agent_socket: None,
        methods: vec![Method::PublicKey, Method::KeyboardInteractive, Method::Password],
        methods_of_ssh_alone: names(&["gssapi-with-mic"]),
        user_known_hosts: paths(&["/home/me/.ssh/known_hosts", "/home/me/.ssh/known_hosts2"]),
        global_known_hosts: paths(&["/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"]),
        unknown_host_key: UnknownHostKey::Refuse,
        checks_address: false,
        hashes_known_hosts: true,
        route: Route::Direct,
        addresses: Addresses::Any,
        connect_timeout: None,
        alive_interval: None,
        alive_count: 3,
        algorithms: Algorithms {
            key_exchange: names(&["sntrup761x25519-sha512", "curve25519-sha256"]),
            ciphers: names(&["chacha20-poly1305@openssh.com", "aes128-ctr"]),
            macs: names(&["umac-64-etm@openssh.com"]),
            host_keys: names(&["ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519"]),
            user_keys: names(&["ssh-ed25519", "rsa-sha2-256"]),
            authority_signatures: names(&["ssh-ed25519", "rsa-sha2-512"]),
        },
        rsa_bits: 1024,
        rekey: Rekey::default(),
        password_prompts: 3,
        is_batch: false,
        control_path: None,
    };
    assert_eq!(meaning, want);
}

#[test]
fn what_other_versions_say_is_understood_too() {
    assert!(judged(&format!("{OPENSSH_8_4}pubkeyacceptedalgorithms")).unwrap().checks_address);
    judged(OPENSSH_10_5).unwrap();
}

#[test]
fn what_we_cannot_be_true_to_is_left_to_ssh() {
    for line in [
        "knownhostscommand /bin/keys %H",
        "verifyhostkeydns true",
        "verifyhostkeydns ask",
        "nohostauthenticationforlocalhost yes",
        "revokedhostkeys /etc/ssh/revoked",
        "pkcs11provider /usr/lib/p11.so",
        "bindaddress 10.0.0.1",
        "bindinterface eth1",
        "tunnel point-to-point",
        "canonicalizehostname true",
        "canonicalizehostname always",
        "canonicalizepermittedcnames *.a:*.b",
        "setenv A=b",
        "sendenv SECRET",
        "sendenv -LC_*",
        "stricthostkeychecking false",
        "stricthostkeychecking no",
        "stricthostkeychecking off",
        "connectionattempts 2",
        "channeltimeout session=5m",
        "versionaddendum me",
        "refuseconnection maintenance",
        "gssapikeyexchange yes",
        "kbdinteractivedevices pam",
        "sessiontype none",
        "sessiontype subsystem",
        "addressfamily ipx",
        "batchmode perhaps",
        "rekeylimit 1G 1h",
        "port 0",
        "port 65536",
        "identityagent relative/socket",
        "identityagent $not-a-name",
        "identityagent $",
        "identityfile %C",
        "certificatefile ~nobody/c",
        "userknownhostsfile known_hosts",
        "userknownhostsfile /with a/space",
        "userknownhostsfile none /a",
        "globalknownhostsfile /a  /b",
        "ciphers +aes128-cbc",
        "macs a,,b",
        "pubkeyauthentication UNKNOWN",
        "hostname $(id)",
        "hostname -oProxyCommand=x",
        "connecttimeout 1m",
        "askpassgui yes",
    ] {
        let name = line.split_once(' ').unwrap().0;
        assert_eq!(outside(line), name, "{line}");
    }
}

#[test]
fn a_setting_that_has_one_value_has_one() {
    for line in ["user a", "hostname b", "port 23", "proxyjump a"] {
        let twice = format!("{line}\n{line}");
        assert_eq!(outside(&twice), line.split_once(' ').unwrap().0);
    }
    for missing in ["user", "hostname", "port"] {
        assert_eq!(outside(missing), missing);
    }
}

#[test]
fn a_value_in_a_message_is_escaped_and_short() {
    let line = format!("setenv A=\u{1b}[0m{}", "x".repeat(10_000));
    let Err(Outside::Setting { value, .. }) = judged(&line) else { panic!() };
    assert!(value.starts_with("A=\\x1b[0mxx") && value.len() < 300, "{value}");
}

#[test]
fn no_setting_is_in_two_lists() {
    let with = harmless::WITH.iter().map(|(name, _)| name);
    let always = harmless::ALWAYS.iter().map(|(name, _)| name);
    let mut all: Vec<&str> = HONOURED.iter().chain(always).chain(with).copied().collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}

#[test]
fn methods_are_those_switched_on_in_the_order_asked_for() {
    use Method::{KeyboardInteractive, Password, PublicKey};
    let cases: [(&str, &[Method], &[&str]); 9] = [
        ("pubkeyauthentication false", &[KeyboardInteractive, Password], &["gssapi-with-mic"]),
        ("pubkeyauthentication unbound\nbatchmode yes", &[PublicKey], &["gssapi-with-mic"]),
        ("passwordauthentication no", &[PublicKey, KeyboardInteractive], &["gssapi-with-mic"]),
        ("kbdinteractiveauthentication no", &[PublicKey, Password], &["gssapi-with-mic"]),
        (
            "kbdinteractiveauthentication no\nchallengeresponseauthentication yes\n\
             gssapiauthentication no",
            &[PublicKey, KeyboardInteractive, Password],
            &[],
        ),
        (
            "hostbasedauthentication yes",
            &[PublicKey, KeyboardInteractive, Password],
            &["gssapi-with-mic", "hostbased"],
        ),
        (
            "preferredauthentications password,none,publickey,password,hostbased",
            &[Password, PublicKey],
            &[],
        ),
        ("preferredauthentications gssapi-with-mic", &[], &["gssapi-with-mic"]),
        ("preferredauthentications publickey\npubkeyauthentication no", &[], &[]),
    ];
    for (lines, ours, of_ssh_alone) in cases {
        let meaning = judged(lines).unwrap();
        assert_eq!(meaning.methods, ours, "{lines}");
        assert_eq!(meaning.methods_of_ssh_alone, of_ssh_alone, "{lines}");
    }
}

#[test]
fn only_who_asked_for_it_has_new_keys_accepted() {
    for (value, want) in [
        ("yes", UnknownHostKey::Refuse),
        ("true", UnknownHostKey::Refuse),
        ("ask", UnknownHostKey::Refuse),
        ("accept-new", UnknownHostKey::Accept),
    ] {
        let meaning = judged(&format!("stricthostkeychecking {value}")).unwrap();
        assert_eq!(meaning.unknown_host_key, want);
    }
    assert_eq!(judged("stricthostkeychecking").unwrap().unknown_host_key, UnknownHostKey::Refuse);
}

#[test]
fn the_agent_is_the_one_that_is_named() {
    let mut account = account();
    let cases = [
        ("identityagent", None, None),
        ("identityagent", Some("/default"), Some("/default")),
        ("identityagent", Some(""), None),
        ("identityagent none", Some("/default"), None),
        ("identityagent SSH_AUTH_SOCK", Some("/default"), Some("/default")),
        ("identityagent $KEYS", Some("/default"), Some("/keys")),
        ("identityagent $MISSING", Some("/default"), None),
        ("identityagent /a b", Some("/default"), Some("/a b")),
    ];
    for (line, default, want) in cases {
        account.environment.remove("SSH_AUTH_SOCK");
        let default = default.map(|value| ("SSH_AUTH_SOCK".to_owned(), value.to_owned()));
        account.environment.extend(default);
        let (meaning, _) = judge(&with(line), &place(), &account).unwrap();
        assert_eq!(meaning.agent_socket.as_deref(), want.map(Path::new), "{line}");
    }
}

#[test]
fn numbers_and_times() {
    let meaning = judged(
        "serveraliveinterval 15\nserveralivecountmax 2\nconnecttimeout 7\nrequiredrsasize 2048\n\
         rekeylimit 1000 60\nnumberofpasswordprompts 1",
    )
    .unwrap();
    assert_eq!(meaning.alive_interval, Some(Duration::from_secs(15)));
    assert_eq!((meaning.alive_count, meaning.rsa_bits, meaning.password_prompts), (2, 2048, 1));
    assert_eq!(meaning.connect_timeout, Some(Duration::from_secs(7)));
    let time = Some(Duration::from_secs(60));
    assert_eq!(meaning.rekey, Rekey { bytes: Some(1000), time });
    assert_eq!(judged("connecttimeout 0").unwrap().connect_timeout, None);
}

#[test]
fn files_may_be_none() {
    let meaning = judged(
        "identityfile none\nuserknownhostsfile none\nglobalknownhostsfile NONE\ncontrolpath none",
    );
    let meaning = meaning.unwrap();
    assert!(meaning.identity_files.is_empty());
    assert!(meaning.user_known_hosts.is_empty() && meaning.global_known_hosts.is_empty());
    assert_eq!(meaning.control_path, None);
    let meaning = judged("controlpath /run/m-%C\nuserknownhostsfile /a/%h ~/b").unwrap();
    // ssh has replaced what stood there; what is left is a part of the name.
    assert_eq!(meaning.control_path.as_deref(), Some(Path::new("/run/m-%C")));
    assert_eq!(meaning.user_known_hosts, paths(&["/a/%h", "/home/me/b"]));
}

#[test]
fn a_proxy_command_is_a_route_of_its_own() {
    let route = |lines: &str| judged(lines).unwrap().route;
    let command = "proxycommand exec nc -X 5 %h %p # %r";
    let want = "exec nc -X 5 web.example 2222 # me".to_owned();
    assert_eq!(route(command), Route::Command(want));
    assert_eq!(route("proxycommand none"), Route::Direct);
    assert_eq!(route("proxycommand None\nproxyjump NONE"), Route::Direct);
    assert!(!judged(&format!("{command}\ncheckhostip yes")).unwrap().checks_address);
    assert_eq!(outside("proxycommand -"), "proxycommand");
    assert_eq!(outside("proxycommand x %d"), "proxycommand");
    assert_eq!(outside("proxycommand x\nproxyusefdpass yes"), "proxyusefdpass");
    assert_eq!(outside("proxycommand x\nproxyjump a"), "proxyjump");
}

#[test]
fn no_name_reaches_a_shell_as_more_than_a_name() {
    for name in ["a;b", "a'b", "a`b", "a|b", "a b", "-a", "a\u{b}", "(a)", "a>b", "a\"b", "a\\"] {
        for setting in ["user", "hostname", "hostkeyalias"] {
            let lines = format!("proxycommand x %r %h %k\n{setting} {name}");
            assert_eq!(outside(&lines), setting, "{name}");
        }
    }
    assert_eq!(outside("proxycommand x %h\nhostname $HOME"), "hostname");
    assert_eq!(outside("proxycommand x %h\nhostname {a,b}"), "hostname");
}

#[test]
fn a_jump_host_is_the_next_to_ask_about() {
    let lines = "proxyjump first,me@[10.0.0.1]:23\ncheckhostip yes";
    let (meaning, next) = judge(&with(lines), &place(), &account()).unwrap();
    assert!(!meaning.checks_address);
    let Next::Jump(jump) = next else { panic!("{next:?}") };
    assert_eq!(jump.target.to_string(), "me@10.0.0.1:23");
    let over = Some("first".to_owned());
    let leads = Leads { over, host: "web.example".to_owned(), port: 2222 };
    assert_eq!(jump.leads, Some(leads));
    // ssh makes this of a jump host.
    judge(&with("sessiontype none\nclearallforwardings yes"), &jump, &account()).unwrap();
    assert_eq!(outside("proxyjump a,$(id)"), "proxyjump");
}
