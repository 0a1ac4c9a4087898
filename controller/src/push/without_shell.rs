//! The push into a container without a shell: the agent is copied there whole and started by its path.
//!
//! Nobody checks it there before it runs, so what it says of itself is all the more looked at.

use super::{
    Attempt, Interruption, PushError, Pushed, Settings, transfer_patience, unpacked,
    wait_for_start, within,
};
use crate::{
    reporter::{Reporter, Sending, Stage},
    target::{Container, Target},
    transport::{
        Step, Timings,
        container::{self, Start},
    },
};
use tokio::{io::AsyncWriteExt as _, time::Instant};

/// Pushes the agent into a container that has no shell.
///
/// # Errors
///
/// Why there is no agent at the other end.
pub(super) async fn push(
    target: &Target,
    container: &Container,
    settings: &Settings,
    mut timings: Timings,
    reporter: &dyn Reporter,
) -> Result<Pushed, PushError> {
    let token = super::new_token()?;
    let machine = container::machine(container).await?;
    let agent = settings.agents.for_machine(&machine).map_err(PushError::NoAgent)?;
    let start = Start { container, token: &token, as_root: settings.login.as_root };
    let archive = container::archive(&start.folder(), &unpacked(&agent)?);
    timings.mark(Step::Ready);
    reporter.stage(&Stage::Sending(Sending::begins(archive.len())));
    let channel = container::start(start, &archive)?;
    let patience = settings.patience.max(transfer_patience(archive.len()));
    let until = Instant::now() + patience;
    let token = token.clone();
    let mut attempt = Attempt {
        target,
        settings,
        token,
        channel,
        rise: None,
        largest: agent.bytes,
        timings,
        until,
    };
    let opening = settings.opening(&attempt.token)?;
    let started = within(patience, PushError::late(Stage::NAME_SENDING, patience), async {
        // It is short, and waits in the pipe until the agent reads it.
        let written = attempt.channel.writer.write_all(&opening).await;
        written.map_err(|_| Interruption::Ended { noise: Vec::new() })?;
        wait_for_start(&mut attempt.channel.reader, &attempt.token, &agent).await
    });
    match started.await {
        Ok((buffer, mut hello)) => {
            attempt.timings.mark(Step::Started);
            if !hello.is_unlinked {
                let start = Start { token: &attempt.token, ..start };
                hello.is_unlinked = container::remove(start).await;
            }
            let Attempt { channel, timings, .. } = attempt;
            Ok(Pushed { channel, buffer, hello, sha256: agent.sha256, timings })
        }
        Err(Interruption::Error(error)) => Err(*error),
        Err(Interruption::Ended { noise }) => Err(attempt.explain_end(&noise).await),
    }
}
