//! What our own SSH makes of the files when it really connects: the decision of the check by itself is
//! worth nothing if a connection does not keep to it.

use super::{cases::Case, servers::Server};
use controller::{
    reporter::Silent,
    target::Target,
    transport::{self, Failure, Login, NotOpened, Timings},
};
use scenarios::sshd::user_name;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Whether it takes the host for the one that the files mean.
pub fn accepts(folder: &Path, server: &Server, case: &Case, files: &[PathBuf]) -> bool {
    let (user, global) = files.split_at(files.len().saturating_sub(1).max(1));
    let list = |files: &[PathBuf]| {
        let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
        if files.is_empty() { "/dev/null".to_owned() } else { files.join(" ") }
    };
    let mut config = format!(
        "IdentityFile {}\nIdentitiesOnly yes\nIdentityAgent none\nAddressFamily inet\n\
         UserKnownHostsFile {}\nGlobalKnownHostsFile {}\n",
        server.sshd.file("id").display(),
        list(user),
        list(global)
    );
    if case.is_alias {
        config.push_str(&format!("HostKeyAlias {}\nHostName 127.0.0.1\n", case.host));
    }
    let path = folder.join(format!("{}-config", case.number));
    fs::write(&path, config).unwrap();
    let target = format!("russh:{}@{}:{}", user_name(), case.host, server.sshd.port);
    let opened = open(&target.parse().unwrap(), path);
    let is_refused = matches!(
        opened,
        Err(NotOpened::Login(
            Failure::HostKeyChanged { .. }
                | Failure::HostKeyRevoked { .. }
                | Failure::HostKeyUnknown { .. }
                | Failure::HostCertificate { .. }
                | Failure::HostKeyTooSmall { .. }
        ))
    );
    // Whatever else could go wrong would make this say nothing.
    assert!(opened.is_ok() != is_refused, "{}: {:?}", case.what, opened.err());
    !is_refused
}

fn open(target: &Target, config: PathBuf) -> Result<(), NotOpened> {
    let login =
        Login { answer_limit: Duration::from_secs(20), ..Login::without_questions(Some(config)) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut timings = Timings::start();
        let opening = transport::open(target, "true", &login, &mut timings, &Silent);
        let channel = opening.await?;
        channel.carrier.unwrap().end(Duration::from_secs(5)).await;
        Ok(())
    })
}
