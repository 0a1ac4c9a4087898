//! A Unix socket in a folder of this user alone, named for the server's pid.

mod answering;
mod asking;

pub use asking::ask;

use super::{NoDoor, server_of};
use crate::{gate::Gate, private};
use answering::visit;
use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use std::{
    convert::Infallible,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    panic::AssertUnwindSafe,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};
use tokio::net::{UnixListener, UnixStream};

/// A socket that is listened at. It is removed with this.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    socket: PathBuf,
}

/// How sockets end that can be asked at.
const ENDING: &str = "sock";

/// How one ends that is not listened at yet.
const ENDING_BEFORE: &str = "new";

/// After which one that is not listened at never will be.
const LONGEST_BEFORE: Duration = Duration::from_secs(60);

/// Visitors at the same time. Others wait.
const MOST_VISITS: usize = 4;

/// A rest where no visitor can be let in, as without a free descriptor.
const REST: Duration = Duration::from_millis(200);

impl Door {
    /// Opens a door in the first of some folders that can have one. Sockets of servers that are gone
    /// are removed there.
    ///
    /// # Errors
    ///
    /// Why there is none: of the last folder.
    pub async fn open(folders: &[PathBuf]) -> Result<Self, NoDoor> {
        let mut problem = NoDoor::NoFolder;
        for folder in folders {
            match open_in(folder) {
                Ok(door) => {
                    sockets(folder, &door.socket).await;
                    return Ok(door);
                }
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// Answers whoever comes, as long as it is waited for.
    pub async fn serve(&self, gate: &Gate) -> Infallible {
        let mut visits = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if visits.len() < MOST_VISITS => match accepted {
                    // A defect in here ends the visit and not the server.
                    Ok((stream, _)) => {
                        visits.push(AssertUnwindSafe(visit(stream, gate)).catch_unwind());
                    }
                    Err(_) => tokio::time::sleep(REST).await,
                },
                Some(_) = visits.next(), if !visits.is_empty() => {}
            }
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn open_in(folder: &Path) -> Result<Door, NoDoor> {
    let failed = |error: io::Error| NoDoor::Listen { folder: folder.to_owned(), error };
    private::make_folder(folder).map_err(failed)?;
    if let Some(why) = private::why_not_alone(&fs::symlink_metadata(folder).map_err(failed)?) {
        return Err(NoDoor::NotAlone { folder: folder.to_owned(), why });
    }
    // The same pid is another process's where two containers share the folder.
    let name = format!("{}-{:08x}", std::process::id(), getrandom::u32().unwrap_or_default());
    let before = folder.join(format!(".{name}.{ENDING_BEFORE}"));
    let socket = folder.join(format!("{name}.{ENDING}"));
    let listener = UnixListener::bind(&before).map_err(failed)?;
    // One that has its name is listened at: who finds it deaf may remove it.
    fs::set_permissions(&before, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&before, &socket))
        .inspect_err(|_| {
            let _ = fs::remove_file(&before);
        })
        .map_err(failed)?;
    Ok(Door { listener, socket })
}

/// The servers of a folder, connected to, in the order of their names. Sockets that nobody listens at
/// any more are removed, as their servers were killed.
async fn sockets(folder: &Path, but: &Path) -> Vec<(String, Option<UnixStream>)> {
    let mut found = Vec::new();
    let is_ours = fs::symlink_metadata(folder)
        .is_ok_and(|metadata| private::why_not_alone(&metadata).is_none());
    let Some(entries) = is_ours.then(|| fs::read_dir(folder).ok()).flatten() else { return found };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|path| path != but) {
        let ending = path.extension().unwrap_or_default();
        if ending == ENDING_BEFORE && is_older(&path, LONGEST_BEFORE) {
            let _ = fs::remove_file(&path);
        }
        if ending != ENDING {
            continue;
        }
        match UnixStream::connect(&path).await {
            Ok(stream) => found.push((server_of(&path), Some(stream))),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => found.push((server_of(&path), None)),
        }
    }
    found
}

fn is_older(path: &Path, than: Duration) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    changed
        .is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|passed| passed > than))
}

#[cfg(test)]
mod tests;
