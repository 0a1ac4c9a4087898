//! The server's side.

use super::super::words::{MOST_BYTES, MOST_LINE_BYTES, Part, Question, Reply, line};
use crate::{exit, gate::Gate};
use protocol::{WIRE_ID, frame, instruments::export::Item};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::UnixStream,
    time::timeout,
};

/// What a visitor has to ask.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a visitor has to take in the answer.
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(60);

/// Answers one visitor. One who goes away meanwhile withdraws the call.
pub(super) async fn visit(stream: UnixStream, gate: &Gate) {
    // The kernel says who connected (`SO_PEERCRED`, on macOS `LOCAL_PEERCRED`).
    let visitor = stream.peer_cred().map(|credentials| credentials.uid());
    let (reader, mut writer) = stream.into_split();
    if !visitor.is_ok_and(|uid| uid == rustix::process::geteuid().as_raw()) {
        let reason = "this server answers the user who started it, and nobody else".to_owned();
        let reply = Reply::Refused { reason, exit_code: exit::NO_ANSWER };
        let _ = timeout(PATIENCE, writer.write_all(&line(&reply))).await;
        return;
    }
    let mut reader = BufReader::new(reader.take(MOST_LINE_BYTES));
    let mut asked = Vec::new();
    let read = timeout(PATIENCE, reader.read_until(b'\n', &mut asked)).await;
    let Ok(Ok(1..)) = read else { return };
    let question: Question = match serde_json::from_slice(&asked) {
        Ok(question) => question,
        Err(error) => {
            let reason = format!("the server did not understand the question: {error}");
            let reply = Reply::Refused { reason, exit_code: exit::DEFECT };
            let _ = timeout(PATIENCE, writer.write_all(&line(&reply))).await;
            return;
        }
    };
    let first = begin(&question, gate);
    if timeout(PATIENCE, writer.write_all(&line(&first))).await.is_err() {
        return;
    }
    if !matches!(first, Reply::Asking { .. }) {
        return;
    }
    let answer = tokio::select! {
        answer = get(&question, gate) => answer,
        // Nothing more is said, so what can be read is the end.
        _ = reader.read_u8() => return,
    };
    let all = async {
        match answer {
            Ok(bytes) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                writer.write_all(&line(&Reply::Recording { bytes: length })).await?;
                writer.write_all(&bytes).await
            }
            Err(refused) => writer.write_all(&line(&refused)).await,
        }
    };
    let _ = timeout(PATIENCE_FOR_ALL, all).await;
}

/// What is known at once.
fn begin(question: &Question, gate: &Gate) -> Reply {
    if question.build != WIRE_ID {
        return Reply::OtherBuild { version: env!("CARGO_PKG_VERSION").to_owned() };
    }
    match gate.stores(question.artifact) {
        Some(target) => Reply::Asking { target },
        None => {
            Reply::NotHere { targets: gate.targets().iter().map(ToString::to_string).collect() }
        }
    }
}

/// The recording, in frames.
async fn get(question: &Question, gate: &Gate) -> Result<Vec<u8>, Reply> {
    let mut bytes = Vec::new();
    let mut is_whole = true;
    let mut add = |part: &Part| {
        let frame = frame::encode(part).unwrap_or_default();
        is_whole &= !frame.is_empty() && bytes.len() + frame.len() <= MOST_BYTES;
        if is_whole {
            bytes.extend(frame);
        }
    };
    let answered =
        gate.export(question.artifact, &mut |piece: Item| add(&Part::Piece(piece))).await;
    let report = answered
        .map_err(|error| Reply::Refused { reason: error.text(), exit_code: error.exit_code() })?;
    add(&Part::Whole(Box::new(report)));
    if is_whole {
        return Ok(bytes);
    }
    let reason = format!("the target sent more than {MOST_BYTES} bytes; nothing is made of it");
    Err(Reply::Refused { reason, exit_code: exit::NO_ANSWER })
}
