//! The side of whoever asks.

use super::{
    super::{
        NoRecording,
        words::{MOST_BYTES, MOST_LINE_BYTES, Part, Question, Reply, line},
    },
    sockets,
};
use crate::profile::{Arriving, Profile};
use protocol::{WIRE_ID, artifact::ArtifactId, frame::FrameBuffer};
use serde_json::Value;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::timeout,
};

/// What a server has to say whether it has the recording.
const PATIENCE: Duration = Duration::from_secs(5);

/// What it has to get it: longer than its own limit.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(330);

/// Asks the servers of some folders for a recording, one after another. Tells which one has it.
///
/// # Errors
///
/// Why there is none.
pub async fn ask(
    folders: &[PathBuf],
    id: ArtifactId,
    tell: &dyn Fn(&str),
) -> Result<Profile, NoRecording> {
    let mut asked = Vec::new();
    for folder in folders {
        for (server, stream) in sockets(folder, Path::new("")).await {
            let said = match stream {
                Some(stream) => one(stream, &server, id, tell).await?,
                None => Said::Nothing,
            };
            asked.push(match said {
                Said::Recording(profile) => return Ok(*profile),
                Said::NotHere(targets) => format!("pid {server} ({})", targets.join(", ")),
                Said::OtherBuild(version) => format!(
                    "pid {server} is of another build of sysmcp ({version}): restart the client \
                     that started it, or ask with its own sysmcp"
                ),
                Said::Nothing => format!("pid {server} does not answer"),
            });
        }
    }
    if asked.is_empty() {
        return Err(NoRecording::NoServer { id });
    }
    Err(NoRecording::NotThere { id, asked })
}

/// What a server said.
enum Said {
    Recording(Box<Profile>),
    NotHere(Vec<String>),
    OtherBuild(String),
    Nothing,
}

async fn one(
    stream: UnixStream,
    server: &str,
    id: ArtifactId,
    tell: &dyn Fn(&str),
) -> Result<Said, NoRecording> {
    // It is in a folder of ours, but who listens there is known from the kernel only.
    let theirs = stream.peer_cred().map(|credentials| credentials.uid());
    if !theirs.is_ok_and(|uid| uid == rustix::process::geteuid().as_raw()) {
        return Ok(Said::Nothing);
    }
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let question = Question { build: WIRE_ID.to_owned(), artifact: id };
    let asking = async {
        writer.write_all(&line(&question)).await?;
        reply(&mut reader).await
    };
    let Ok(Ok(first)) = timeout(PATIENCE, asking).await else { return Ok(Said::Nothing) };
    let target = match first {
        Reply::NotHere { targets } => return Ok(Said::NotHere(targets)),
        Reply::OtherBuild { version } => return Ok(Said::OtherBuild(version)),
        Reply::Refused { reason, exit_code } => {
            return Err(NoRecording::Refused { reason, exit_code });
        }
        Reply::Recording { .. } => return Ok(Said::Nothing),
        Reply::Asking { target } => target,
    };
    tell(&format!("{id} is at {target}, in a session of the server with pid {server}"));
    let broken = || NoRecording::Broken { server: server.to_owned() };
    let answer = timeout(PATIENCE_FOR_ALL, reply(&mut reader)).await;
    match answer.map_err(|_| broken())?.map_err(|_| broken())? {
        Reply::Refused { reason, exit_code } => Err(NoRecording::Refused { reason, exit_code }),
        Reply::Recording { bytes } => {
            let reading = timeout(PATIENCE_FOR_ALL, recording(&mut reader, bytes)).await;
            let arrived = reading.map_err(|_| broken())?.map_err(|_| broken())?;
            arrived.map(|profile| Said::Recording(Box::new(profile)))
        }
        Reply::OtherBuild { .. } | Reply::NotHere { .. } | Reply::Asking { .. } => Err(broken()),
    }
}

async fn reply(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> io::Result<Reply> {
    let mut bytes = Vec::new();
    reader.take(MOST_LINE_BYTES).read_until(b'\n', &mut bytes).await?;
    let reply: Value = serde_json::from_slice(&bytes)?;
    Ok(serde_json::from_value(reply)?)
}

/// Reads a recording of so many bytes.
async fn recording(
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
    bytes: u64,
) -> io::Result<Result<Profile, NoRecording>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    if usize::try_from(bytes).map_or(true, |bytes| bytes > MOST_BYTES) {
        return Err(malformed());
    }
    let mut reader = reader.take(bytes);
    let mut frames = FrameBuffer::default();
    let mut arriving = Arriving::default();
    let mut chunk = vec![0; 64 << 10];
    loop {
        while let Some(part) = frames.take::<Part>().map_err(|_| malformed())? {
            match part {
                Part::Piece(piece) => arriving.accept(piece),
                Part::Whole(report) => return Ok(arriving.finish(*report).map_err(Into::into)),
            }
        }
        match reader.read(&mut chunk).await? {
            0 => return Err(malformed()),
            read => frames.push(chunk.get(..read).unwrap_or_default()),
        }
    }
}
