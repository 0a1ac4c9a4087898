//! A sweep of one target: what a person asks for on the command line, and no tool offers.
//!
//! It goes the way that every call goes: written down before, done by an agent that was pushed there,
//! written down after.

use super::{Gate, GateError, Measured, link::connected_event};
use crate::{
    audit::record::Event,
    push::{self, Pushed, script::Task},
    reporter::{Reporter, Stage},
    session::{CallError, Lost},
    target::Target,
    transport::Channel,
};
use protocol::{
    frame::FrameBuffer,
    message::FromAgent,
    sweep::{Order, Swept},
};
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// What a sweep may take, once its agent is there: it waits for sessions for at most 7 s, kills for 5,
/// and looks around before and after.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the process that carried the channel gets to end by itself.
const GOODBYE: Duration = Duration::from_secs(3);

/// Lines of a report that are written down.
const MOST_LINES: usize = 200;

impl Gate {
    /// Finds what sessions left on a target, and removes it as far as it may. Dropping the future
    /// ends the waiting and is audited; a sweep that was begun comes to its end there.
    ///
    /// # Errors
    ///
    /// Why it is not known what is left.
    pub async fn sweep(
        &self,
        target: &Target,
        order: Order,
        reporter: &dyn Reporter,
    ) -> Result<Swept, GateError> {
        if matches!(target, Target::Snapshot(_)) {
            return Err(GateError::NoMachine { target: target.to_string() });
        }
        let parameters = json!({ "dry_run": order.dry_run, "live": order.live });
        let mut entered = self.enter(target, "sweep", &parameters)?;
        let result = self.swept(target, order, reporter).await;
        let measured = result.as_ref().map(|_| Measured::default()).map_err(ToString::to_string);
        entered.finish_as(measured)?;
        if let Ok(swept) = &result {
            self.audit
                .write(&written_down(entered.call, target, swept))
                .map_err(|error| GateError::Unwritten { done: swept.lines().join("; "), error })?;
        }
        result
    }

    async fn swept(
        &self,
        target: &Target,
        order: Order,
        reporter: &dyn Reporter,
    ) -> Result<Swept, GateError> {
        let name = target.to_string();
        self.audit.write(&Event::Connecting { target: name.clone() })?;
        let pushed = push::push_for(target, Task::Sweep(order), &self.settings, reporter).await;
        let Pushed { channel, buffer, hello, sha256, .. } = match pushed {
            Ok(pushed) => pushed,
            Err(error) => {
                let reason = error.to_string();
                self.audit.write(&Event::NotConnected { target: name, reason })?;
                return Err(error.into());
            }
        };
        // What cannot be written down is told all the same: the sweep goes on by itself.
        let written = self.audit.write(&connected_event(target, &hello, &sha256));
        reporter.stage(&Stage::connected(&hello));
        reporter.stage(&Stage::Sweeping);
        let swept = report(channel, buffer).await?;
        written.map_err(|error| GateError::Unwritten { done: swept.lines().join("; "), error })?;
        Ok(swept)
    }
}

/// Waits for the report, and for the end of what carried it.
async fn report(channel: Channel, buffer: FrameBuffer) -> Result<Swept, CallError> {
    let Channel { mut reader, writer, carrier, .. } = channel;
    let late = CallError::Overdue { seconds: PATIENCE.as_secs() };
    let reading = tokio::time::timeout(PATIENCE, read(&mut reader, buffer)).await;
    let swept = reading.map_err(|_| late)?.map_err(CallError::Lost)?;
    drop(writer);
    if let Some(carrier) = carrier {
        carrier.end(GOODBYE).await;
    }
    Ok(swept)
}

async fn read(
    reader: &mut (impl tokio::io::AsyncRead + Unpin),
    mut buffer: FrameBuffer,
) -> Result<Swept, Lost> {
    let mut bytes = vec![0; 16 << 10];
    loop {
        match buffer.take::<FromAgent>().map_err(|error| Lost::Garbled(error.to_string()))? {
            Some(FromAgent::Swept(swept)) => return Ok(swept),
            Some(
                FromAgent::Hello(_)
                | FromAgent::Progress(_)
                | FromAgent::Streamed(_)
                | FromAgent::Answered(_)
                | FromAgent::Heartbeat { .. }
                | FromAgent::Receipt(_),
            ) => {}
            None => match reader.read(&mut bytes).await {
                Ok(0) | Err(_) => return Err(Lost::Closed),
                Ok(read) => buffer.push(bytes.get(..read).unwrap_or_default()),
            },
        }
    }
}

fn written_down(call: u64, target: &Target, swept: &Swept) -> Event {
    let mut found = swept.lines();
    // The last line sums it up.
    let sum = found.pop().unwrap_or_default();
    let surplus = found.len().saturating_sub(MOST_LINES);
    found.truncate(MOST_LINES);
    if surplus > 0 {
        found.push(format!("{surplus} more"));
    }
    found.push(sum);
    Event::Swept { call, target: target.to_string(), left: swept.left, found }
}
