//! What a server sees as its files: those of a release, with accounts and a configuration of ours.

use super::{Kind, USER};
use anyhow::{Context as _, Result};
use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
};

/// Where the server sees its folder.
pub const INSIDE: &str = "/mnt";

/// The user's password, of which a digest is kept.
pub const PASSWORD: &str = "correct horse";

/// What `openssl passwd -6 -salt scenario` makes of [`PASSWORD`].
const HASH: &str = "$6$scenario$56oKP9GP0jAdxj5xjQWwRNedhTUk2/h1rm7/.e5071zOHZxOIucHCVxr8.\
                    6xoFLLt1bLy6hMPwOLwr9.MUWCW0";

/// The user's number, which is an ordinary one.
const UID: u32 = 1000;

/// Enters the root `$TOP`, which is empty for the machine's own, with the accounts of `$FOLDER`, and
/// becomes a command. It runs as the first process of namespaces of its own.
pub const ENTER: &str = r#"
set -e
for file in passwd group shadow shells pam.d/sshd pam.d/other $FURTHER; do
    mkdir -p "$(dirname "$TOP/etc/$file")"
    test -e "$TOP/etc/$file" || : > "$TOP/etc/$file"
done
for place in proc dev tmp var/tmp run mnt; do mkdir -p "$TOP/$place"; done
mount --bind "$FOLDER" "$TOP/mnt"
test -z "$TOP" || mount --rbind /dev "$TOP/dev"
mount -t proc proc "$TOP/proc"
for place in dev/shm tmp var/tmp run; do mount -t tmpfs -o mode=1777 tmpfs "$TOP/$place"; done
mkdir "$TOP/run/sshd"
for file in passwd group shadow shells pam.d/sshd pam.d/other $FURTHER; do
    mount --bind "$TOP/mnt/etc/$file" "$TOP/etc/$file"
done
for program in $WITHOUT; do
    test ! -e "$TOP$program" || mount --bind /dev/null "$TOP$program"
done
eval "$FIRST"
cd /
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$TOP/" /bin/sh -c "$1"
"#;

/// The user's entry says other things than usual.
pub fn write_passwd(folder: &Path, shell: Option<&str>, home: Option<&str>) -> Result<()> {
    Ok(fs::write(folder.join("etc/passwd"), passwd(shell, home))?)
}

fn passwd(shell: Option<&str>, home: Option<&str>) -> String {
    let usual = format!("{INSIDE}/home");
    let (shell, home) = (shell.unwrap_or("/bin/bash"), home.unwrap_or(&usual));
    format!(
        "root:x:0:0::/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n\
         {USER}:x:{UID}:{UID}::{home}:{shell}\n\
         nobody:x:65534:65534::/:/usr/sbin/nologin\n"
    )
}

/// Who there is on a server, in a folder.
pub fn write_accounts(folder: &Path) -> Result<()> {
    let files = [
        ("passwd", passwd(None, None)),
        ("group", format!("root:x:0:\ntty:x:5:\n{USER}:x:{UID}:\nnogroup:x:65534:\n")),
        // The third number is a day; none of them matters.
        (
            "shadow",
            format!(
                "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n\
                 {USER}:{HASH}:19000:0:99999:7:::\n"
            ),
        ),
        ("shells", "/bin/sh\n/bin/bash\n".to_owned()),
    ];
    fs::create_dir_all(folder.join("etc/pam.d"))?;
    fs::create_dir_all(folder.join("home/.ssh"))?;
    for (name, text) in files {
        let path = folder.join("etc").join(name);
        fs::write(&path, text)?;
        let mode = if name == "shadow" { 0o600 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    }
    // The user has to get through to the home, whose modes Dropbear looks at.
    for (name, mode) in [("", 0o755), ("home", 0o755), ("home/.ssh", 0o700)] {
        let path = folder.join(name);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if !name.is_empty() {
            chown(&path, Some(UID), Some(UID))?;
        }
    }
    Ok(())
}

/// What PAM asks: the password, and a one-time password behind it.
pub fn write_pam(folder: &Path, wants_code: bool) -> Result<()> {
    let code = if wants_code {
        // The key of RFC 4226's examples, so that the codes are known.
        let keys = format!("HOTP {USER} - 3132333435363738393031323334353637383930\n");
        fs::write(folder.join("codes"), keys)?;
        fs::set_permissions(folder.join("codes"), fs::Permissions::from_mode(0o600))?;
        format!("auth required pam_oath.so usersfile={INSIDE}/codes window=10\n")
    } else {
        String::new()
    };
    let rest = "account required pam_permit.so\nsession required pam_permit.so\n";
    let sshd = format!("auth required pam_unix.so nodelay\n{code}{rest}");
    fs::write(folder.join("etc/pam.d/sshd"), sshd)?;
    let nobody = "auth required pam_deny.so\naccount required pam_deny.so\n\
                  session required pam_deny.so\n";
    fs::write(folder.join("etc/pam.d/other"), nobody)?;
    Ok(())
}

/// Further files of `/etc`, with the mode that sudo wants for its own.
pub fn write_further(folder: &Path, files: &[(&str, String)]) -> Result<()> {
    for (name, text) in files {
        let path = folder.join("etc").join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o440))?;
    }
    Ok(())
}

/// Writes a file of the user's, in a folder that is there or not.
pub fn write_owned(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file of the user's is in a folder")?;
    if !folder.is_dir() {
        fs::create_dir_all(folder)?;
        chown(folder, Some(UID), Some(UID))?;
    }
    fs::write(path, bytes)?;
    Ok(chown(path, Some(UID), Some(UID))?)
}

/// Adds text to a file of the user's.
pub fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("could not open {}", path.display()))?;
    file.write_all(text.as_bytes())?;
    chown(path, Some(UID), Some(UID))?;
    Ok(())
}

/// The configuration of an OpenSSH.
pub fn sshd_config(kind: Kind, port: u16, further: &[String]) -> String {
    // The first line of a keyword counts, so what differs comes first.
    let mut config: String = further.iter().map(|line| format!("{line}\n")).collect();
    config.push_str(&format!(
        "AuthorizedKeysFile {INSIDE}/home/.ssh/authorized_keys\nPort {port}\nListenAddress 127.0.0.1\nHostKey {INSIDE}/host\nPidFile none\nUsePAM yes\n\
         StrictModes no\nPasswordAuthentication no\nChallengeResponseAuthentication no\n\
         UseDNS no\nPrintMotd no\nMaxStartups 100\nLogLevel DEBUG1\n"
    ));
    if kind == Kind::OpenSsh10 {
        // Since 9.8, who knocks and goes away again is kept out for a while.
        config.push_str("PerSourcePenalties no\n");
    }
    config
}

/// What makes Dropbear's key, and becomes Dropbear.
pub fn dropbear_command(port: u16, words: &str) -> String {
    format!(
        "dropbearkey -t ed25519 -f {INSIDE}/host > {INSIDE}/host.said; \
         exec dropbear -F -E -p 127.0.0.1:{port} -r {INSIDE}/host {words}"
    )
}
