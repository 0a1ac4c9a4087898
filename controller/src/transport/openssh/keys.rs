//! Which key would have been tried and wants a passphrase: asked only after a login was refused.

use crate::{
    target::SshTarget,
    transport::{meaning, process::printed},
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::process::Command;

/// The first key that ssh would try for this target, that is encrypted, and that no ssh-agent
/// holds.
pub async fn encrypted_key(target: &SshTarget, config: Option<&Path>) -> Option<String> {
    /// It only helps to explain.
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut list = Command::new("ssh-add");
    list.arg("-L");
    let held = printed(list, PATIENCE).await.unwrap_or_default();
    let held = String::from_utf8_lossy(&held);
    let is_missing = |path: &PathBuf| {
        let private = std::fs::read_to_string(path).unwrap_or_default();
        let public = std::fs::read_to_string(public_of(path)).unwrap_or_default();
        let is_held = public.split_whitespace().nth(1).is_some_and(|key| held.contains(key));
        is_encrypted(&private) && !is_held
    };
    let files = identity_files(target, config).await?;
    files.into_iter().find(is_missing).map(|path| path.display().to_string())
}

/// Where the public half of a key is kept: `.pub` behind the whole name, whatever that ends in.
fn public_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// The files that the user's configuration means for this target.
async fn identity_files(target: &SshTarget, config: Option<&Path>) -> Option<Vec<PathBuf>> {
    let settings = meaning::settings(target, config).await.ok()??;
    let home = std::env::home_dir()?;
    let files = settings.iter().filter(|(name, _)| name == "identityfile").map(|(_, file)| file);
    let expand = |file: &String| match file.strip_prefix("~/").or(file.strip_prefix("%d/")) {
        Some(below) => home.join(below),
        None => PathBuf::from(file),
    };
    Some(files.map(expand).collect())
}

/// Whether the text of a private key says that it is encrypted.
fn is_encrypted(text: &str) -> bool {
    // OpenSSH's own format names the cipher in its first bytes. Of a key that is not encrypted,
    // their base64 is always this.
    const UNENCRYPTED: &str = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ";
    text.contains("BEGIN ENCRYPTED PRIVATE KEY")
        || text.contains("Proc-Type: 4,ENCRYPTED")
        || (text.contains("BEGIN OPENSSH PRIVATE KEY") && !text.contains(UNENCRYPTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_half_has_the_whole_name() {
        for (key, public) in [("/k/id_rsa", "/k/id_rsa.pub"), ("/k/web.pem", "/k/web.pem.pub")] {
            assert_eq!(public_of(Path::new(key)), Path::new(public));
        }
    }

    #[test]
    fn formats() {
        let begin = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
        let cases = [
            (format!("{begin}b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAAB"), false),
            (format!("{begin}b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0"), true),
            ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n".to_owned(), true),
            ("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n".to_owned(), true),
            ("-----BEGIN RSA PRIVATE KEY-----\nMIIE".to_owned(), false),
            ("ssh-ed25519 AAAA".to_owned(), false),
        ];
        for (text, want) in cases {
            assert_eq!(is_encrypted(&text), want, "{text}");
        }
    }
}
