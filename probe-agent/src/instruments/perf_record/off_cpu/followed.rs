//! Which engine follows waits: programs in the kernel, or the next best that this login may use.

use super::Seen;
use crate::{
    call::Context,
    instruments::{
        capabilities::refusals,
        sampling::{Passing, Subject},
    },
    stack::{
        recording::Limits,
        waits::{
            followed::{self, NotFollowed, STACK_EACH, Settings},
            looked::{self, NotLooked},
        },
    },
};
use protocol::{
    error::AgentError,
    instruments::{
        capabilities::{CheckId, Refusal},
        perf_record::Request,
    },
    message::Engine,
};
use std::time::Duration;

/// Follows waits by the best engine there is.
///
/// # Errors
///
/// Why there is none, or when the call reached a limit.
pub(super) fn follow(
    request: &Request,
    subject: &Subject,
    context: &Context<'_>,
) -> Result<Seen, AgentError> {
    let settings = Settings {
        scope: subject.sampled.clone(),
        dump_bytes: request.dump_kib.saturating_mul(1024),
    };
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    match followed::follow(context.root, &settings, Limits::default(), &mut window) {
        Ok(waits) => Ok(Seen {
            waits,
            took: window.passed(),
            engine: Engine::Ebpf,
            refused: Vec::new(),
            stack_each_us: u32::try_from(STACK_EACH.as_micros()).unwrap_or(u32::MAX),
            sees_wakings: true,
        }),
        Err(NotFollowed::Window(error)) => Err(error),
        Err(NotFollowed::Bpf(why)) => {
            let refused = refusals::of_bpf(context.root, CheckId::BpfTpBtf, &why);
            look(request, &settings, refused, context)
        }
    }
}

/// Looks at threads, where nothing better may be used.
fn look(
    request: &Request,
    settings: &Settings,
    refused: Refusal,
    context: &Context<'_>,
) -> Result<Seen, AgentError> {
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    let how = (settings.dump_bytes, Limits::default());
    match looked::look(context.root, &settings.scope, how, &mut window) {
        Ok(looked) => Ok(Seen {
            waits: looked.waits,
            took: window.passed(),
            engine: Engine::Looks,
            refused: vec![refused],
            stack_each_us: 0,
            sees_wakings: false,
        }),
        Err(NotLooked::Window(error)) => Err(error),
        Err(NotLooked::NoSuchProcess) => Err(match request.pid {
            Some(pid) => {
                AgentError::NoSuchProcess { pid, agent_uid: rustix::process::geteuid().as_raw() }
            }
            // Of a machine without a process nobody could tell.
            None => AgentError::NotSampled(refused),
        }),
    }
}
