//! Which engine follows waits: programs in the kernel, or the next best that this login may use.

use super::Seen;
use crate::{
    call::Context,
    instruments::{
        capabilities::refusals,
        sampling::{self, Passing, Subject},
    },
    perf::sampler::Measure,
    stack::{
        record::NoRecording,
        recording::Limits,
        waits::{
            followed::{self, NotFollowed, STACK_EACH, Settings},
            looked::{self, NotLooked},
            switched,
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
            switches(request, subject, &settings, refused, context)
        }
    }
}

/// Follows switches by records of them; looks at threads where that may not be either.
fn switches(
    request: &Request,
    subject: &Subject,
    settings: &Settings,
    refused: Refusal,
    context: &Context<'_>,
) -> Result<Seen, AgentError> {
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    let how = (settings.dump_bytes, Limits::default());
    match switched::follow(context.root, &settings.scope, how, &mut window) {
        Ok(waits) => Ok(Seen {
            waits,
            took: window.passed(),
            engine: Engine::PerfEvents,
            refused: vec![refused],
            stack_each_us: 0,
            sees_wakings: false,
        }),
        Err(NoRecording::Window(error)) => Err(error),
        Err(NoRecording::Sampler(why)) => {
            let error = sampling::error(why, (subject, Measure::Waits), context);
            let AgentError::NotSampled(second) = error else { return Err(error) };
            look(request, settings, vec![refused, second], context)
        }
    }
}

/// Looks at threads, where nothing better may be used.
fn look(
    request: &Request,
    settings: &Settings,
    refused: Vec<Refusal>,
    context: &Context<'_>,
) -> Result<Seen, AgentError> {
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    let how = (settings.dump_bytes, Limits::default());
    match looked::look(context.root, &settings.scope, how, &mut window) {
        Ok(looked) => Ok(Seen {
            waits: looked.waits,
            took: window.passed(),
            engine: Engine::Looks,
            refused,
            stack_each_us: 0,
            sees_wakings: false,
        }),
        Err(NotLooked::Window(error)) => Err(error),
        Err(NotLooked::NoSuchProcess) => Err(match request.pid {
            Some(pid) => {
                AgentError::NoSuchProcess { pid, agent_uid: rustix::process::geteuid().as_raw() }
            }
            // Of a machine without a process nobody could tell.
            None => match refused.into_iter().next() {
                Some(refused) => AgentError::NotSampled(refused),
                None => AgentError::ParametersRefused,
            },
        }),
    }
}
